//! Which runs the pages speak from, and what is no evidence at all.
//!
//! Not here: forged runs whose hashes agree; those are the auditor's to catch.

use std::fs;

use serde_json::json;

use crate::fixture::{LOSING, Repository, Run};

#[test]
fn changing_any_file_of_an_anchored_run_is_broken_evidence() {
    let repository = Repository::published();
    for file in [
        "run.json",
        "envelope.json",
        "trace/fused-0.jsonl",
        "SHA256SUMS",
    ] {
        let file = format!("results/smoke/first/{file}");
        let good = repository.read(&file);
        repository.write(&file, &format!("{good} "));
        let error = repository.check().unwrap_err();
        assert_eq!(error.exit_code(), 4);
        assert!(
            error.to_string().starts_with("results/smoke/first: "),
            "{error}"
        );
        fs::remove_file(repository.path(&file)).unwrap();
        assert_eq!(
            repository.check().unwrap_err().exit_code(),
            4,
            "{file} missing"
        );
        repository.write(&file, &good);
    }
    assert_eq!(repository.check().unwrap().exit_code(), 0);
}

#[test]
fn a_local_run_changes_no_page() {
    let repository = Repository::published();
    let run = Run::new("smoke", "new").on_day(900);
    repository.seal(&run, "results/local/smoke/new");
    repository.seal(&run, "results/smoke/new");
    assert_eq!(repository.check().unwrap().exit_code(), 0);
}

#[test]
fn a_counted_run_changes_no_page_but_their_list_and_is_held_to_its_hashes_all_the_same() {
    let repository = Repository::published();
    let run = Run::new("ladder", "counted").with("/schema", "fak.counts/1");
    repository.anchor(&run);
    let outcome = repository.check().unwrap();
    let mut changed = outcome
        .pages
        .iter()
        .filter(|page| page.difference.is_some());
    assert_eq!(changed.next().unwrap().name, "reports/runs/README.md");
    assert!(changed.next().is_none());
    let file = "results/ladder/counted/run.json";
    repository.write(file, &(repository.read(file) + " "));
    assert_eq!(repository.check().unwrap_err().exit_code(), 4);
}

#[test]
fn unfit_runs_do_not_speak_and_say_why() {
    for (pointer, value, reason) in [
        ("/complete", json!(false), "incomplete"),
        ("/build/dirty", json!(true), "uncommitted changes"),
        ("/build/dirty", json!(null), "unknown source"),
        ("/build/commit", json!(null), "unknown source"),
        ("/build/debug_assertions", json!(true), "debug assertions"),
        ("/identity/equal", json!(false), "identity failed"),
        ("/sittings", json!([]), "undated"),
    ] {
        let repository = Repository::published();
        repository.anchor(&Run::new("smoke", "unfit").on_day(900).with(pointer, value));
        assert_eq!(repository.report().speaking().count(), 2 + LOSING.len());
        let authority = repository.read("BENCHMARK-AUTHORITY.md");
        let line = authority
            .lines()
            .find(|line| line.contains("[smoke/unfit]"))
            .unwrap();
        assert!(line.contains(reason), "{line}");
    }
}

#[test]
fn the_newest_run_of_each_machine_class_speaks() {
    let repository = Repository::published();
    repository.anchor(&Run::new("smoke", "newest").on_day(300));
    repository.anchor(&Run::new("smoke", "middle").on_day(200));
    repository.anchor(&Run::new("smoke", "tie").on_day(300));
    repository.anchor(
        &Run::new("smoke", "else")
            .on_day(50)
            .with("/machine/class", "other"),
    );
    let outcome = repository.report();
    let speaking: Vec<&str> = outcome.speaking().collect();
    let (smoke, others): (Vec<&str>, Vec<&str>) =
        speaking.iter().partition(|run| run.starts_with("smoke/"));
    assert_eq!(smoke, ["smoke/else", "smoke/tie"]);
    assert_eq!(
        others,
        [
            "one-agent/first",
            "session-small/first",
            "single-turn/first",
            "tiny-context/first",
            "zero-shared/first"
        ]
    );
    let authority = repository.read("BENCHMARK-AUTHORITY.md");
    assert!(
        authority.contains("superseded by `smoke/tie`"),
        "{authority}"
    );
    assert!(repository.read("README.md").contains("Measured 1970-10-28"));
}

#[test]
fn a_broken_index_is_broken_evidence() {
    let repository = Repository::published();
    let good = repository.read("results/INDEX");
    let hash = "0".repeat(64);
    let (last, next) = (good.lines().count(), good.lines().count() + 1);
    for (bad, line) in [
        (good.trim_end().to_string(), last),
        (format!("{good}\n"), next),
        (format!("{good}{hash} smoke/first\n"), next),
        (format!("{good}{hash}  ../first\n"), next),
        (format!("{good}{hash}  smoke\n"), next),
        (format!("{good}{hash}  smoke/a/b\n"), next),
        (format!("{good}{}  smoke/other\n", "Z".repeat(64)), next),
        (format!("{good}{good}"), next),
    ] {
        repository.write("results/INDEX", &bad);
        let (message, code) = repository.refusal();
        assert!(
            message.starts_with(&format!("results/INDEX:{line}: ")),
            "{message}"
        );
        assert_eq!(code, 4);
    }
    for bad in [
        format!("{hash}  smoke/first\n"),
        format!("{hash}  smoke/none\n"),
    ] {
        repository.write("results/INDEX", &bad);
        let (message, code) = repository.refusal();
        assert!(message.starts_with("results/smoke/"), "{message}");
        assert_eq!(code, 4);
    }
}

#[test]
fn sealed_records_that_lie_about_themselves_are_broken_evidence() {
    for (pointer, value, expected) in [
        ("/schema", json!("fak.run/9"), "schema fak.run/9"),
        (
            "/envelope_sha256",
            json!("00"),
            "not made from this envelope.json",
        ),
        ("/arms", json!(7), "run.json: invalid type"),
    ] {
        let repository = Repository::new();
        repository.anchor(&Run::new("smoke", "first").with(pointer, value));
        let (message, code) = repository.refusal();
        assert!(message.contains(expected), "{message}");
        assert_eq!(code, 4);
    }
}
