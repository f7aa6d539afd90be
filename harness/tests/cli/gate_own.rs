//! Gates of a user's own envelopes, of scripted arms, and against runs that are not what they were.

use std::fs;
use std::path::{Path, PathBuf};

use super::gate::gated;
use super::{Place, forge, read_json};

const SMOKE: &str = include_str!("../../../workloads/envelopes/smoke.toml");

/// The committed baseline of `smoke`.
fn committed() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/gate/smoke.json");
    fs::read_to_string(path).unwrap()
}

#[test]
fn an_envelope_of_ones_own_is_found_again_by_its_baseline_and_by_its_run() {
    let place = Place::new();
    fs::create_dir(place.work().join("envelopes")).unwrap();
    let mine = SMOKE.replace("name = \"smoke\"", "name = \"mine\"");
    fs::write(place.work().join("envelopes/mine.toml"), mine).unwrap();
    place
        .run(&["gate", "envelopes/mine.toml", "--accept"])
        .expect(0);
    let path = place.work().join("results/gate/mine.json");
    assert_eq!(read_json(&path)["file"], "envelopes/mine.toml");
    let shown = place.run(&["gate"]).expect(0).stdout();
    assert!(shown.contains("gate mine: PASS"), "{shown}");
    let arguments = ["run", "envelopes/mine.toml", "--reps", "1", "--json"];
    let outcome = place.run(&arguments).expect(0).json();
    let shown = place.run(&["gate", "--against", outcome["dir"].as_str().unwrap()]);
    let shown = shown.expect(0).stdout();
    assert!(shown.contains("gate mine: PASS"), "{shown}");
    let lie = fs::read_to_string(&path).unwrap();
    fs::write(&path, lie.replacen("\"requests\":12", "\"requests\":13", 1)).unwrap();
    let shown = place.run(&["gate"]).expect(1).stdout();
    assert!(
        shown.contains("gate envelopes/mine.toml --accept"),
        "{shown}"
    );
}

#[test]
fn a_run_is_never_accepted_in_place_of_a_baseline_it_was_not_held_against() {
    let (place, path) = gated();
    let run = place.sealed_run();
    place
        .run(&["gate", "--against", run.to_str().unwrap(), "--accept"])
        .expect(2)
        .complains(&["--accept", "--against"]);
    assert_eq!(fs::read_to_string(path).unwrap(), committed());
}

#[test]
fn a_baseline_that_cannot_be_read_is_replaced_when_a_new_one_is_accepted() {
    let (place, path) = gated();
    let newer = committed().replace("fak.gate/1", "fak.gate/9");
    for unreadable in [&b""[..], b"{ \"schema\"", &[0xff, 0xfe], newer.as_bytes()] {
        fs::write(&path, unreadable).unwrap();
        let refused = place.run(&["gate", "smoke"]).output.status.code();
        assert!(matches!(refused, Some(4 | 5)), "{refused:?}");
        place
            .run(&["gate", "smoke", "--accept"])
            .expect(0)
            .complains(&["replaced without a comparison", "smoke.json"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), committed());
    }
}

#[test]
fn a_scripted_arm_is_no_part_of_a_gate_and_alone_is_none() {
    let place = Place::new();
    let mixed = SMOKE.replace("\"instance-shared\", \"fused\"", "\"fused\", \"mock\"")
        + "\n[mock]\nstep_ns = 30000\nprefill_ns_per_token = 0\ndecode_ns_per_token = 0\njitter_thousandths = 0\n";
    fs::write(place.work().join("mixed.toml"), mixed).unwrap();
    place.run(&["gate", "mixed.toml", "--accept"]).expect(0);
    let shown = place.run(&["gate", "mixed.toml"]).expect(0).stdout();
    assert!(shown.contains("6 lies"), "{shown}");
    let baseline = read_json(&place.work().join("results/gate/smoke.json"));
    let arms: Vec<&String> = baseline["arms"].as_object().unwrap().keys().collect();
    assert_eq!(arms, ["agent-kv", "agent-kv-batched", "fused", "naive"]);
    let honest: serde_json::Value = serde_json::from_str(&committed()).unwrap();
    assert_eq!(
        baseline["answers"], honest["answers"],
        "not the made-up ids"
    );
    let refused = place.run(&["gate", "instrument", "--accept"]).expect(2);
    assert!(
        refused.stdout().contains("only the scripted arm"),
        "{}",
        refused.stdout()
    );
}

#[test]
fn a_run_whose_arms_answered_differently_fails_the_gate_with_the_first_divergence() {
    let place = Place::new();
    let run = forge::disagreement(&place);
    let shown = place.run(&["gate", "smoke", "--against", run.to_str().unwrap()]);
    let shown = shown.expect(1).stdout();
    for words in [
        "gate smoke",
        "FAILED",
        "fused repetition 0 departs at agent 2 turn 3, in the logits",
    ] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
}

#[test]
fn answers_that_no_arm_gives_and_another_name_are_differences_too() {
    let (place, path) = gated();
    let mut more = read_json(&path);
    more["answers"]["a9-t9"] = more["answers"]["a0-t0"].clone();
    fs::write(&path, more.to_string()).unwrap();
    let shown = place.run(&["gate", "smoke"]).expect(1).stdout();
    for words in ["FAILED, 1 difference", "every arm, a9-t9, answer"] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
    let named = committed().replace("\"envelope\": \"smoke\"", "\"envelope\": \"smoky\"");
    fs::write(&path, named).unwrap();
    let shown = place.run(&["gate", "smoke"]).expect(2).stdout();
    let words = "envelope: the baseline has smoky, this run smoke";
    assert!(shown.contains(words), "{shown}");
}

/// Anchors a run and returns where it is then.
fn anchored(place: &Place, run: &Path) -> PathBuf {
    place.run(&["anchor", run.to_str().unwrap()]).expect(0);
    let index = fs::read_to_string(place.work().join("results/INDEX")).unwrap();
    let name = index.trim_end().split_once("  ").unwrap().1.to_owned();
    place.work().join("results").join(name)
}

#[test]
fn times_are_judged_only_against_an_anchored_run_as_it_was_anchored() {
    let (place, _) = gated();
    let anchored = anchored(&place, &place.sealed_run());
    let timed = |code: i32| place.run(&["gate", "smoke", "--timing"]).expect(code);
    let shown = timed(3).stdout();
    assert!(
        shown.contains("PASS; no verdict on the times") && shown.contains("not pairs"),
        "{shown}"
    );
    forge::edit_record(&anchored, |record| {
        record["sittings"][0]["started_unix_s"] = 1.into();
    });
    let shown = timed(4).stdout();
    assert!(shown.contains("anchored was"), "{shown}");
    fs::remove_dir_all(anchored).unwrap();
    let shown = timed(4).stdout();
    assert!(shown.contains("no directory"), "{shown}");
}

#[test]
fn times_of_an_anchored_run_that_was_asked_something_else_are_not_judged() {
    let (place, _) = gated();
    fs::write(
        place.work().join("other.toml"),
        SMOKE.replace("turns = 4", "turns = 3"),
    )
    .unwrap();
    let outcome = place.run(&["run", "other.toml", "--reps", "1", "--json"]);
    let outcome = outcome.expect(0).json();
    anchored(&place, Path::new(outcome["dir"].as_str().unwrap()));
    let shown = place.run(&["gate", "smoke", "--timing"]).expect(3).stdout();
    assert!(shown.contains("asked the same"), "{shown}");
}
