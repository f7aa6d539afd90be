//! Whole runs through `audit_run`: valid ones pass, failures honestly recorded keep their record, any bit flip breaks.
//!
//! Not here: lies that are sealed correctly (`forgeries`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use std::collections::BTreeSet;
use std::fs;

use audit::audit_run;
use fixture::{AGENTS, Fixture, answers, paths, simulate};
use serde_json::{Value, json};

#[test]
fn a_valid_ladder_passes_and_says_what_it_could_not_know() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::ladder().write(dir.path());
    let report = audit_run(dir.path());
    assert_eq!(report.exit_code(), 0, "{}", report.render());
    let text = report.render();
    for word in [
        "PASS",
        "4 requests answered alike by naive",
        "recomputed",
        "100 prompts",
    ] {
        assert!(text.contains(word), "{word:?} is missing in\n{text}");
    }
    for word in [
        "replayable",
        "200 output ids",
        "asserted",
        "replay with the engine",
        "anchored",
    ] {
        assert!(text.contains(word), "{word:?} is missing in\n{text}");
    }
}

#[test]
fn what_was_not_checked_is_said_once() {
    for fixture in [Fixture::ladder(), fixture::cells::run()] {
        let dir = tempfile::tempdir().unwrap();
        fixture.write(dir.path());
        let report = audit_run(dir.path());
        let unique: BTreeSet<&String> = report.not_checked.iter().collect();
        assert_eq!(
            unique.len(),
            report.not_checked.len(),
            "{:?}",
            report.not_checked
        );
        let once = |words: &str| report.render().matches(words).count() == 1;
        assert!(once("whether machine and build are those named"));
        assert!(once("whether the named model gives"));
    }
}

#[test]
fn a_subset_of_arms_and_fewer_pairs_pass() {
    for (arms, reps) in [(&["fused", "agent-kv"][..], 3), (&["naive"][..], 1)] {
        let dir = tempfile::tempdir().unwrap();
        Fixture::new(arms, reps).write(dir.path());
        let report = audit_run(dir.path());
        assert_eq!(report.exit_code(), 0, "{}", report.render());
    }
}

#[test]
fn what_was_not_checked_is_named_and_no_fault() {
    type Typed = fn(&str) -> String;
    let cases: [(&str, Typed); 5] = [
        ("run.json states no `instrument`", str::to_owned),
        ("the command line replaced run.arm_reps.fused:", |written| {
            written.replace("\"fused\" = 5", "\"fused\" = 9")
        }),
        ("the command line replaced run.reps:", |written| {
            let all = written.replace("\nreps = 5", "\nreps = 9");
            all.replace("arm_reps = {", "# arm_reps = {")
        }),
        ("the command line replaced mock:", |written| {
            format!("{written}[mock]\nstep_ns = 1\n")
        }),
        ("line 9 has a string of several lines", |written| {
            let text = "\"\"\"what does sharing buy?\"\"\"";
            let question = written.replace("\"what does sharing buy?\"", text);
            format!("\n\n\n\n{question}")
        }),
    ];
    for (words, typed) in cases {
        let dir = tempfile::tempdir().unwrap();
        let mut fixture = Fixture::ladder();
        fixture.written = typed(&fixture.written);
        fixture.write(dir.path());
        let report = audit_run(dir.path());
        assert_eq!(report.exit_code(), 0, "{words}: {}", report.render());
        let named = report.not_checked.iter().any(|it| it.contains(words));
        assert!(named, "{words}: {}", report.render());
    }
}

#[test]
fn a_script_leaves_its_defaults_out_and_its_arm_is_compared_with_nobody() {
    for (arms, said) in [
        (&["naive", "mock"][..], "4 requests answered alike by naive"),
        (&["mock"][..], "nothing was compared"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fixture::scripted::of(arms).write(dir.path());
        let report = audit_run(dir.path());
        assert_eq!(report.exit_code(), 0, "{}", report.render());
        assert!(report.render().contains(said), "{}", report.render());
        let spread = |it: &String| it.contains("instrument");
        assert!(!report.not_checked.iter().any(spread));
    }
}

/// `fused` answers the last request otherwise, in every repetition, and the record says so.
fn divergence() -> Fixture {
    let mut fixture = Fixture::ladder();
    let (agent, turn) = (AGENTS - 1, 1);
    for rep in 0..5 {
        let finish = fixture
            .lines(&format!("fused-{rep}"), "finish")
            .pop()
            .unwrap();
        finish["ids"][1] = json!(77);
    }
    let changed = |a: u64, t: u64| match (a, t) {
        (1, 1) => vec![simulate::output(a, t)[0], 77],
        _ => simulate::output(a, t),
    };
    fixture.set("/arms/fused/output_sha256", json!(answers(changed).0));
    fixture.set("/identity/equal", json!(false));
    let first = json!({ "arm": "fused", "rep": 0, "agent": agent, "turn": turn, "position": 1 });
    fixture.set("/identity/first_divergence", first);
    for ratio in fixture.record["ratios"].as_array_mut().unwrap() {
        for field in ["wall", "wall_low", "wall_high", "prefill", "verdict"] {
            ratio[field] = Value::Null;
        }
        ratio["withheld"] = json!("answers differ");
    }
    fixture.set("/verdict", Value::Null);
    fixture
}

#[test]
fn an_identity_failure_honestly_recorded_exits_1() {
    let dir = tempfile::tempdir().unwrap();
    divergence().write(dir.path());
    let report = audit_run(dir.path());
    assert_eq!(report.exit_code(), 1, "{}", report.render());
    assert!(
        report
            .render()
            .contains("fused-0 differs at agent 1, turn 1: output token 1")
    );
}

#[test]
fn a_divergence_reported_at_another_place_or_with_times_kept_breaks_the_evidence() {
    let lies: [(&str, Value); 4] = [
        ("/identity/first_divergence/turn", json!(0)),
        ("/identity/first_divergence/position", Value::Null),
        ("/ratios/0/wall", json!(1.8)),
        ("/ratios/5/withheld", Value::Null),
    ];
    for (pointer, lie) in lies {
        let dir = tempfile::tempdir().unwrap();
        let mut fixture = divergence();
        fixture.set(pointer, lie);
        fixture.write(dir.path());
        assert_eq!(audit_run(dir.path()).exit_code(), 4, "{pointer}");
    }
}

/// The last repetition of `fused` fails in mid-run.
fn failure() -> Fixture {
    let mut fixture = Fixture::ladder();
    fixture.fail_fused();
    fixture.record["ratios"].as_array_mut().unwrap().truncate(3);
    fixture.set("/verdict", Value::Null);
    fixture
}

#[test]
fn a_failed_arm_keeps_its_record_and_loses_its_ratios() {
    let dir = tempfile::tempdir().unwrap();
    failure().write(dir.path());
    let report = audit_run(dir.path());
    assert_eq!(report.exit_code(), 0, "{}", report.render());

    for (pointer, lie) in [
        ("/complete", json!(true)),
        ("/arms/fused/wall_ns", json!(360)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut fixture = failure();
        fixture.set(pointer, lie);
        fixture.write(dir.path());
        assert_eq!(audit_run(dir.path()).exit_code(), 4, "{pointer}");
    }
}

#[test]
fn every_flipped_bit_of_every_byte_of_every_file_breaks_the_evidence() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new(&["fused"], 1).write(dir.path());
    assert_eq!(audit_run(dir.path()).exit_code(), 0);
    let mut flips = 0;
    for path in paths(dir.path()) {
        let path = dir.path().join(path);
        let bytes = fs::read(&path).unwrap();
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (place % 8);
            fs::write(&path, flipped).unwrap();
            assert_eq!(
                audit_run(dir.path()).exit_code(),
                4,
                "{} byte {place}",
                path.display()
            );
            flips += 1;
        }
        fs::write(&path, bytes).unwrap();
    }
    assert!(flips > 5_000);
    assert_eq!(audit_run(dir.path()).exit_code(), 0);
}
