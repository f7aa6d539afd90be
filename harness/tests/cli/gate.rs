//! The gate: passes what this build computes, names what does not agree, and is tried with lies.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Place, forge, read_json};

/// A place with the committed baseline of `smoke`, and its path.
pub(super) fn gated() -> (Place, PathBuf) {
    let place = Place::new();
    let path = place.work().join("results/gate/smoke.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/gate/smoke.json");
    fs::copy(committed, &path).unwrap();
    (place, path)
}

#[test]
fn the_committed_baseline_holds_on_every_kernel_set_and_thread_count() {
    let (place, _) = gated();
    for arguments in [
        &["gate"][..],
        &["gate", "smoke", "--kernels", "scalar", "--threads", "1"],
        &["gate", "smoke", "--threads", "3"],
    ] {
        let shown = place.run(arguments).expect(0).stdout();
        assert!(shown.contains("gate smoke: PASS"), "{shown}");
        assert!(
            shown.contains("6 lies told to the gate itself, all noticed"),
            "{shown}"
        );
    }
}

/// What is done to a baseline, and words the gate must then say.
type Lie = (fn(&mut Value), [&'static str; 3]);

#[test]
fn every_lie_in_a_baseline_fails_the_gate_and_is_named() {
    let (place, path) = gated();
    let honest = read_json(&path);
    let lies: [Lie; 7] = [
        // The answer that the negative controls forge as well.
        (
            |it| it["answers"]["a2-t3"]["ids"][7] = 7.into(),
            ["a2-t3", "ids, from token 7", "[7]"],
        ),
        (
            |it| it["answers"]["a1-t2"]["ids"][3] = 7.into(),
            ["a1-t2", "ids, from token 3", "[7]"],
        ),
        (
            |it| it["answers"]["a0-t0"]["logits_sha256"] = "ff".into(),
            ["a0-t0", "logits_sha256", "ff"],
        ),
        (
            |it| it["arms"]["fused"]["counters"]["prefill_tokens_computed"] = 209.into(),
            [
                "fused, prefill_tokens_computed",
                "expected  209",
                "got       208",
            ],
        ),
        (
            |it| it["arms"]["fused"]["requests"]["a2-t3"][0] = 146.into(),
            ["fused, a2-t3, matched", "expected  146", "got       147"],
        ),
        (
            |it| it["arms"]["naive"]["reuse_rate"] = 0.1.into(),
            ["naive, reuse_rate", "expected  0.1", "got       0"],
        ),
        (
            |it| it["arms"]["mystery"] = it["arms"]["naive"].clone(),
            ["mystery, arm", "it ran", "it did not run"],
        ),
    ];
    for (lie, words) in lies {
        let mut forged = honest.clone();
        lie(&mut forged);
        assert_ne!(forged, honest);
        fs::write(&path, serde_json::to_string(&forged).unwrap()).unwrap();
        let shown = place.run(&["gate", "smoke"]).expect(1).stdout();
        for word in words.iter().chain(&["FAILED", "gate smoke --accept"]) {
            assert!(shown.contains(word), "no {word:?} in:\n{shown}");
        }
    }
}

#[test]
fn a_failure_is_a_junit_failure_an_annotation_and_json() {
    let (place, path) = gated();
    let committed = fs::read_to_string(&path).unwrap();
    let line = committed
        .lines()
        .position(|line| line.starts_with("    \"a0-t1\": "))
        .unwrap();
    let mut lines: Vec<String> = committed.lines().map(str::to_owned).collect();
    lines[line] = lines[line].replacen("\"ids\":[", "\"ids\":[1", 1);
    fs::write(&path, lines.join("\n")).unwrap();
    let failed = place.run(&["gate", "smoke", "--annotations", "--junit", "gate.xml"]);
    let shown = failed.expect(1).stdout();
    let annotation = format!(
        "::error file=results/gate/smoke.json,line={},title=gate smoke::naive, a0-t1, ids, from token 0%0A",
        line + 1
    );
    assert!(shown.contains(&annotation), "no {annotation} in:\n{shown}");
    let xml = fs::read_to_string(place.work().join("gate.xml")).unwrap();
    for words in [
        "<testsuite name=\"gate smoke\" tests=\"6\" failures=\"5\" errors=\"0\"",
        "<testcase classname=\"gate.smoke\" name=\"fused\">",
        "<failure message=\"fused, a0-t1, ids, from token 0\">",
        "<testcase classname=\"gate.smoke\" name=\"negative control\"/>",
    ] {
        assert!(xml.contains(words), "no {words} in:\n{xml}");
    }
    let document = place.run(&["gate", "smoke", "--json"]).expect(1).json();
    let differences = &document["gates"][0]["outcome"]["differences"];
    assert_eq!(differences.as_array().unwrap().len(), 5, "one for each arm");
    assert_eq!(differences[0]["request"], "a0-t1");
}

#[test]
fn a_baseline_is_accepted_whole_and_the_second_time_unchanged() {
    let place = Place::new();
    let refused = place.run(&["gate"]).expect(2);
    refused.complains(&["no baseline", "gate smoke --accept"]);
    let refused = place.run(&["gate", "smoke"]).expect(2).stdout();
    assert!(refused.contains("gate smoke --accept"), "{refused}");
    let shown = place.run(&["gate", "smoke", "--accept"]).expect(0).stdout();
    assert!(shown.contains("ACCEPTED as the first baseline"), "{shown}");
    let path = place.work().join("results/gate/smoke.json");
    let text = fs::read_to_string(&path).unwrap();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/gate/smoke.json");
    assert_eq!(text, fs::read_to_string(committed).unwrap());
    fs::write(
        &path,
        text.replacen("\"requests\":12", "\"requests\":13", 1),
    )
    .unwrap();
    let shown = place.run(&["gate", "smoke", "--accept"]).expect(0).stdout();
    for words in ["ACCEPTED, 1 difference", "expected  13", "got       12"] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_baseline_of_another_question_or_of_nothing_gates_nothing() {
    let (place, path) = gated();
    let honest = fs::read_to_string(&path).unwrap();
    for (from, to, code, words) in [
        (
            "\"turns\":4",
            "\"turns\":5",
            2,
            "workload.turns: the baseline has 5, this run 4",
        ),
        (
            "\"model_sha256\":\"6",
            "\"model_sha256\":\"7",
            2,
            "model_sha256",
        ),
        ("fak.gate/1", "fak.gate/9", 4, "fak.gate/9"),
        ("\"answers\"", "\"replies\"", 4, "replies"),
    ] {
        assert!(honest.contains(from), "{from}");
        fs::write(&path, honest.replacen(from, to, 1)).unwrap();
        let shown = place.run(&["gate", "smoke"]).expect(code).stdout();
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
    let mut empty: Value = serde_json::from_str(&honest).unwrap();
    empty["answers"] = serde_json::json!({});
    fs::write(&path, empty.to_string()).unwrap();
    let shown = place.run(&["gate", "smoke"]).expect(4).stdout();
    assert!(shown.contains("nothing could fail"), "{shown}");
}

#[test]
fn a_sealed_run_is_a_baseline_too_and_times_of_one_repetition_decide_nothing() {
    let place = Place::new();
    let run = place.sealed_run();
    let directory = run.to_str().unwrap();
    place.run(&["gate", "--against", directory]).expect(0);
    forge::noise(&run, 2000);
    let timed = place.run(&["gate", "smoke", "--against", directory, "--timing"]);
    let shown = timed.expect(3).stdout();
    for words in [
        "gate smoke: PASS",
        "INCONCLUSIVE",
        "not pairs",
        "warning: the machine was not quiet before the first run",
    ] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
    let other = place.run(&["gate", "session-small", "--against", directory]);
    assert!(
        matches!(other.output.status.code(), Some(2 | 5)),
        "another question or no model"
    );
}
