//! Counted envelopes as a stranger would use them: the published counts out of `run`, evidence that is audited and anchored,
//! and what is refused.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::describe::shared;
use super::{Place, forge, read_json};

/// Counts an envelope; its directory and what was said.
fn counted(place: &Place, arguments: &[&str]) -> (PathBuf, Value) {
    let arguments = [&["run"], arguments, &["--json"]].concat();
    let said = place.run(&arguments).expect(0).json();
    (PathBuf::from(said["dir"].as_str().unwrap()), said)
}

/// Prompt tokens computed in a row: naive, agent-kv, fused.
fn computed(row: &Value) -> [u64; 3] {
    let arms = ["naive", "agent-kv", "fused"];
    arms.map(|arm| {
        row["arms"][arm]["prefill_tokens_computed"]
            .as_u64()
            .unwrap()
    })
}

/// The same of the row of so many workers.
fn with_workers(said: &Value, workers: u64) -> [u64; 3] {
    let rows = said["rows"].as_array().unwrap();
    computed(rows.iter().find(|row| row["workers"] == workers).unwrap())
}

#[test]
fn a_ladder_of_sessions_is_counted_by_arithmetic_that_anyone_can_do() {
    let place = Place::new();
    let (_, said) = counted(&place, &["session-ladder"]);
    let rows = said["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &said["provenance"]), (7, &"MODELED".into()));
    for (row, turns) in rows.iter().zip([8, 16, 32, 64, 128, 256, 512]) {
        let naive = 5 * (turns * 2048 + 96 * turns * (turns - 1) / 2);
        let results = 5 * (turns - 1) * 64;
        assert_eq!(computed(row), [naive, 5 * 2048 + results, 2048 + results]);
        assert_eq!(row["name"], format!("t{turns}"));
    }
    let (_, said) = counted(&place, &["long-context-floor"]);
    assert_eq!(computed(&said["rows"][1]), [5_157_500, 522_500, 122_500]);
}

/// fak-facts 1.5.
#[test]
fn four_streams_find_what_is_published_of_them() {
    let place = Place::new();
    let (_, said) = counted(&place, &["radix-cache-only"]);
    let rows = said["rows"].as_array().unwrap();
    for (row, (name, naive, fused)) in rows.iter().zip([
        ("few-shot", 4352, 512),
        ("chat", 1408, 288),
        ("tree-of-thought", 3024, 688),
        ("agents", 6360, 848),
    ]) {
        let [of_naive, _, of_fused] = computed(row);
        assert_eq!(
            (row["name"].as_str().unwrap(), of_naive, of_fused),
            (name, naive, fused)
        );
    }
    let rate = |row: usize| rows[row]["cache"]["hit_rate_millionths"].as_u64().unwrap();
    assert_eq!(
        (rate(3), rate(4), &rows[4]["cache"]["evictions"]),
        (866_666, 621_383, &29.into())
    );
    assert!(
        rate(4) < rate(5) && rate(5) < rate(6) && rate(6) < rate(3),
        "{said:#}"
    );
}

#[test]
fn sets_of_tasks_give_the_published_counts_and_evidence_without_a_word_of_theirs() {
    let place = Place::new();
    let (Some(smoke), Some(twenty)) = (
        shared("swebench_smoke.json"),
        shared("swebench_verified_20_difficulty.json"),
    ) else {
        return;
    };
    let (directory, said) = counted(&place, &["swebench-smoke", "--dataset", &smoke]);
    for (workers, expected) in [
        (1, [1_043_200, 52_900, 52_900]),
        (2, [2_086_400, 105_800, 93_300]),
        (4, [4_172_800, 211_600, 174_100]),
        (8, [8_345_600, 423_200, 335_700]),
    ] {
        assert_eq!(with_workers(&said, workers), expected, "{workers} workers");
    }
    let envelope = fs::read_to_string(directory.join("envelope.json")).unwrap();
    assert!(!envelope.contains("django"), "{envelope}");
    let tasks = &read_json(&directory.join("envelope.json"))["workload"]["tasks"];
    let turns: Vec<u64> = tasks
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["turns"].as_u64().unwrap())
        .collect();
    assert_eq!(turns, [12, 22, 38]);
    let (_, said) = counted(&place, &["swebench-20", "--dataset", &twenty]);
    // 20 prompts of 2500 tokens, 448 turns.
    assert_eq!(with_workers(&said, 1)[2], 20 * 2500 + 400 * (448 - 20));
    assert_eq!(with_workers(&said, 4)[2], 20 * 2500 + 4 * 400 * (448 - 20));
}

#[test]
fn sets_of_web_tasks_give_the_published_counts() {
    let place = Place::new();
    let (Some(sample), Some(voyager)) = (
        shared("sample-tasks.jsonl"),
        shared("webvoyager-converted.jsonl"),
    ) else {
        return;
    };
    let (_, said) = counted(&place, &["webbench-sample", "--dataset", &sample]);
    assert_eq!(with_workers(&said, 1), [3_381_379, 217_382, 217_382]);
    assert_eq!(with_workers(&said, 4), [13_525_516, 869_528, 823_682]);
    let (_, said) = counted(&place, &["webvoyager-643", "--dataset", &voyager]);
    assert_eq!(
        with_workers(&said, 1),
        [170_930_292, 19_386_804, 19_386_804]
    );
    assert_eq!(
        with_workers(&said, 8),
        [1_367_442_336, 155_094_432, 141_321_904]
    );
    let floor_of_100 = [17_093_029_200, 1_938_680_400, 1_743_897_504];
    assert_eq!(with_workers(&said, 100), floor_of_100);
}

#[test]
fn what_was_counted_is_explained_audited_and_anchored_as_any_run_is() {
    let place = Place::new();
    let (directory, _) = counted(&place, &["radix-cache-only"]);
    let mut files: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(
        files,
        ["SHA256SUMS", "envelope.json", "envelope.toml", "run.json"]
    );
    let run = directory.to_str().unwrap().to_owned();
    let told = place.run(&["explain", &run]).expect(0).stdout();
    for words in [
        "does not show",
        "MODELED",
        "tree-of-thought",
        "62.14 %",
        "overtaken 8 times",
    ] {
        assert!(told.contains(words), "no {words:?} in:\n{told}");
    }
    assert!(
        told.lines().all(|line| line.chars().count() <= 150),
        "{told}"
    );
    let audit = place.run(&["audit", &run]).expect(0).stdout();
    assert!(audit.contains("nothing ran"), "{audit}");
    let anchored = place.run(&["anchor", &run]).expect(0).stdout();
    assert!(
        anchored.contains("results/radix-cache-only/") && anchored.contains("-counted-1"),
        "{anchored}"
    );
    place.run(&["audit", "--all"]).expect(0);
    let homes = fs::read_dir(place.work().join("results/radix-cache-only")).unwrap();
    let home = homes.map(|it| it.unwrap().path()).next().unwrap();
    forge::edit_record(&home, |record| {
        record["rows"][4]["cache"]["evictions"] = 30.into();
    });
    let broken = place
        .run(&["audit", home.to_str().unwrap()])
        .expect(4)
        .stdout();
    assert!(
        broken.contains("evictions is 30, the envelope gives 29"),
        "{broken}"
    );
    place.run(&["explain", home.to_str().unwrap()]).expect(4);
    place.run(&["audit", "--all"]).expect(4);
}

#[test]
fn who_needs_a_run_of_arms_refuses_one_that_was_counted() {
    let place = Place::new();
    let (directory, _) = counted(&place, &["session-ladder"]);
    let run = directory.to_str().unwrap();
    for arguments in [
        &["compare", run, run][..],
        &["kv", run],
        &["audit", run, "--replay", "10%"],
        &["gate", "smoke", "--against", run],
        &["gate", "session-ladder"],
    ] {
        let refused = place.run(arguments).expect(2);
        let said = refused.stdout() + &refused.stderr(); // a gate tells of each envelope where it tells of all
        assert!(
            said.contains("counted and not run"),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn what_makes_no_sense_where_nothing_runs_is_refused_by_name() {
    let place = Place::new();
    for (flags, named) in [
        (&["--arm", "fused"][..], "--arm"),
        (&["--reps", "3", "--threads", "2"], "--reps and --threads"),
        (&["--model", "smollm2-135m"], "--model"),
        (&["--kernels", "scalar"], "--kernels"),
        (&["--mode", "fast"], "--mode"),
        (&["--pull"], "--pull"),
        (&["--resume", "results"], "--resume"),
        (&["--wait-quiet", "3"], "--wait-quiet"),
        (&["--dataset", "x.json"], "--dataset"),
    ] {
        let arguments = [&["run", "session-ladder"], flags].concat();
        place.run(&arguments).expect(2).complains(&[named]);
    }
    let without = place.run(&["run", "swebench-smoke"]).expect(2);
    without.complains(&[
        "run swebench-smoke --dataset PATH/swebench_smoke.json",
        "f30410fe",
    ]);
    fs::write(place.work().join("other.json"), "{}").unwrap();
    let other = place.run(&["run", "swebench-smoke", "--dataset", "other.json"]);
    other
        .expect(2)
        .complains(&["other.json is not the data set", "f30410fe"]);
    let nowhere = place.run(&["run", "swebench-smoke", "--dataset", "nowhere.json"]);
    nowhere.expect(2).complains(&["cannot read nowhere.json"]);
    let smoke = place
        .run(&["run", "smoke", "--dataset", "other.json"])
        .expect(2);
    smoke.complains(&["--dataset is for envelopes that count"]);
    assert!(
        !place.work().join("results").exists(),
        "a refused command leaves nothing behind"
    );
}

#[test]
fn the_list_says_of_what_is_counted_that_it_needs_no_model() {
    let place = Place::new();
    let listed = place.run(&["list", "--json"]).expect(0).json();
    let rows = listed["envelopes"].as_array().unwrap();
    let named = |name: &str| rows.iter().find(|it| it["name"] == name).unwrap();
    assert!(named("session-ladder")["model"].is_null());
    assert_eq!(
        named("swebench-smoke")["workload"]["dataset"]["kind"],
        "swebench"
    );
    let text = place.run(&["list", "webvoyager-643"]).expect(0).stdout();
    for words in [
        "webvoyager-converted.jsonl, which is not ours",
        "run webvoyager-643 --dataset FILE",
        "nothing is run",
    ] {
        assert!(text.contains(words), "{words:?} not in\n{text}");
    }
    assert!(!text.contains("repetition"), "{text}");
}

/// fak-facts 1.6: its order of requests is not published; asked in rounds, both published counts come out.
#[test]
fn a_made_up_fleet_finds_what_is_published_of_it_and_is_labelled_as_made_up() {
    let place = Place::new();
    let (_, said) = counted(&place, &["fleet-routing"]);
    assert_eq!(said["provenance"], "SIMULATED");
    let hits: Vec<(&str, u64)> = said["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            assert_eq!(row["routed"]["requests"], 464);
            (
                row["name"].as_str().unwrap(),
                row["routed"]["hits"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        hits,
        [("kv-aware", 436), ("by-prefix", 436), ("round-robin", 395)]
    );
}
