//! `describe` as a stranger would use it: the published counts, a report to read, and what is refused.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::Place;
use super::robust::skip;

/// A file of other people's data, which is not ours to commit; none, said out loud, where it is not.
pub(crate) fn shared(name: &str) -> Option<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../shared/traces/fak-testdata").join(name);
    if !path.is_file() {
        skip(&format!("{name} is absent"));
        return None;
    }
    Some(path.to_str().unwrap().to_owned())
}

/// Computed prompt tokens of a row: naive, each keeps, shared.
fn computed(row: &Value) -> [u64; 3] {
    ["naive", "agent_kv", "shared"].map(|arm| row[arm]["computed_tokens"].as_u64().unwrap())
}

#[test]
fn sets_of_tasks_give_the_published_counts_as_json() {
    let place = Place::new();
    let Some(smoke) = shared("swebench_smoke.json") else {
        return;
    };
    let found = place
        .run(&["describe", "swebench", &smoke, "--workers", "1,8", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&found["provenance"], &found["turns"]["total"]),
        (&"MODELED".into(), &106.into())
    );
    assert_eq!(computed(&found["costs"][1]), [8_345_600, 423_200, 335_700]);
    // An instance for each worker shares nothing with the others.
    let arm = |name: &str| found["arms"][name]["prefill_tokens_computed"].as_u64();
    let arms = ["naive", "agent-kv", "instance-shared", "fused"].map(arm);
    assert_eq!(arms, [1_043_200, 52_900, 52_900, 52_900].map(Some));
    let Some(sample) = shared("sample-tasks.jsonl") else {
        return;
    };
    let found = place.run(&["describe", "webbench", &sample, "--workers", "4", "--json"]);
    assert_eq!(
        computed(&found.expect(0).json()["costs"][0]),
        [13_525_516, 869_528, 823_682]
    );
}

#[test]
fn a_set_with_labels_of_its_own_is_taken_once_they_are_declared() {
    let place = Place::new();
    let Some(twenty) = shared("swebench_verified_20_difficulty.json") else {
        return;
    };
    let refused = place
        .run(&["describe", "swebench", &twenty])
        .expect(2)
        .stderr();
    assert!(
        refused.contains("row 1") && refused.contains("--turns"),
        "{refused}"
    );
    let mut arguments = vec!["describe", "swebench", &twenty, "--json"];
    for label in ["<15 min fix=12", "15 min - 1 hour=22", "1-4 hours=38"] {
        arguments.extend(["--turns", label]);
    }
    let found = place.run(&arguments).expect(0).json();
    assert_eq!(
        (&found["tasks"], &found["turns"]["total"]),
        (&20.into(), &448.into())
    );
}

#[test]
fn a_description_is_a_report_of_tables_that_says_what_it_does_not_show() {
    let place = Place::new();
    let Some(smoke) = shared("swebench_smoke.json") else {
        return;
    };
    for (arguments, words) in [
        (
            vec!["swebench", &*smoke],
            [
                "5 tasks, 106 turns",
                "15min-1hr",
                "What this does not show",
                "QUOTED",
            ],
        ),
        (
            vec!["compare"],
            ["one account", "tree-of-thought", "first come", "MODELED"],
        ),
        (
            vec!["fanout"],
            ["One goal, many agents", "4 149", "SIMULATED", "2 095 104"],
        ),
        (
            "session --turns 4 --agents 3 --prefix 100 --decode 8 --result 12"
                .split(' ')
                .collect(),
            ["3 agents x 4 turns", "MODELED", "vs naive", "fused"],
        ),
    ] {
        let arguments = [vec!["describe"], arguments, vec!["--md", "page.md"]].concat();
        let text = place.run(&arguments).expect(0).stdout();
        let page = fs::read_to_string(place.work().join("page.md")).unwrap();
        for word in words {
            assert!(text.contains(word), "no {word:?} in:\n{text}");
            assert!(page.contains(word), "no {word:?} in:\n{page}");
        }
        assert!(page.starts_with("# ") && page.contains("| ---"), "{page}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 150),
            "{text}"
        );
    }
}

#[test]
fn kinds_of_work_stand_side_by_side_under_one_account() {
    let place = Place::new();
    let Some(sample) = shared("sample-tasks.jsonl") else {
        return;
    };
    let arguments = ["describe", "compare", "--webbench", &sample, "--json"];
    let found = place.run(&arguments).expect(0).json();
    let works = found["works"].as_array().unwrap();
    assert_eq!(works.len(), 6);
    assert_eq!(works[0]["shared"]["computed_tokens"], 17_728);
    assert_eq!(works[5]["shared"]["computed_tokens"], 823_682);
    for row in found["little_room"].as_array().unwrap() {
        let reused = ["first_come", "bounded", "unbounded", "best"]
            .map(|it| row[it]["reused_tokens"].as_u64());
        assert!(reused.is_sorted(), "{row}");
    }
}

#[test]
fn the_controls_of_a_fan_out_are_exactly_nothing() {
    let place = Place::new();
    let found = place
        .run(&["describe", "fanout", "--json"])
        .expect(0)
        .json();
    let rows = found["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["calls"]["control_uplift"] == 0));
    assert_eq!(rows[0]["calls"]["uplift"], 0);
    assert!(rows[5]["calls"]["uplift"].as_u64().unwrap() > 0);
    assert_eq!(rows[5]["path"]["turns"]["critical_turns"], 57);
    let arguments = ["describe", "fanout", "--profile", "no-share", "--json"];
    let found = place.run(&arguments).expect(0).json();
    let rows = found["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["calls"]["uplift"] == 0));
}

#[test]
fn what_cannot_be_described_is_refused_with_the_place_and_a_remedy() {
    let place = Place::new();
    fs::write(place.work().join("empty.jsonl"), "").unwrap();
    fs::write(
        place.work().join("odd.jsonl"),
        "{\"task_id\":\"a\",\"difficulty\":\"easy\",\"lvl\":1}\n",
    )
    .unwrap();
    for (arguments, words) in [
        (
            ["describe", "webbench", "empty.jsonl"],
            "there is no task in it",
        ),
        (
            ["describe", "webbench", "odd.jsonl"],
            "row 1: unknown field `lvl`",
        ),
        (["describe", "swebench", "nowhere.json"], "cannot read"),
        (["describe", "fanout", "--agents=0"], "--agents"),
    ] {
        let said = place.run(&arguments).expect(2).stderr();
        assert!(said.contains(words), "{said}");
    }
    let Some(smoke) = shared("swebench_smoke.json") else {
        return;
    };
    for flag in [
        "--workers=0",
        "--workers=1025",
        "--turns=hard",
        "--turns==3",
    ] {
        place.run(&["describe", "swebench", &smoke, flag]).expect(2);
    }
}
