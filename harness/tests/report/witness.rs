//! `harness claims`, as a program in a repository of its own: what keeps a claim from standing is named.
//!
//! Not here: what a claim may say (`claims`).

use std::process::{Command, Output};

use crate::fixture::{Repository, Run};

fn git(repository: &Repository, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(arguments)
        .current_dir(repository.path(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(repository: &Repository) -> String {
    git(repository, &["add", "--all"]);
    git(repository, &["commit", "--quiet", "--message", "m"]);
    git(repository, &["rev-parse", "HEAD"])
}

fn claims(repository: &Repository, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_harness"))
        .arg("claims")
        .args(arguments)
        .current_dir(repository.path(""))
        .output()
        .unwrap()
}

/// What it printed, once its exit code is the expected one.
fn said(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}\n{output:?}");
    text
}

fn claim(id: &str, tag: &str, witness: &str, rest: &str) -> String {
    format!(
        "[[claim]]\nid = \"{id}\"\ntag = \"{tag}\"\nprovenance = \"WITNESSED\"\nwitness = \"{witness}\"\nfence = \"f\"\n{rest}\n"
    )
}

#[test]
fn a_claim_fails_by_name_when_its_evidence_is_untracked_or_older_than_its_source() {
    let repository = Repository::published();
    repository.write("engine/src/kv.rs", "// one\n");
    repository.write("engine/src/other.rs", "// one\n");
    let bound =
        "sentence = \"{x}\"\nsources = [\"engine/src/kv.rs\"]\nbind = { x = \"smoke:verdict\" }";
    repository.claims(&[&claim("bound", "SHIPPED", "cargo test", bound)]);
    git(&repository, &["init", "--quiet"]);
    let head = commit(&repository);
    let run = Run::new("smoke", "second").on_day(101);
    repository.anchor(&run.with("/build/commit", head));
    commit(&repository);
    assert!(said(&claims(&repository, &[]), 0).contains("yes"));

    repository.write("engine/src/other.rs", "// two\n");
    said(&claims(&repository, &[]), 0);
    repository.write("engine/src/kv.rs", "// two\n");
    let text = said(&claims(&repository, &[]), 1);
    let older =
        "bound: results/smoke/second is older than the source it speaks of (engine/src/kv.rs)";
    assert!(text.contains(older), "{text}");
    repository.write("engine/src/kv.rs", "// one\n");

    let record = "results/smoke/second/SHA256SUMS";
    git(&repository, &["rm", "--quiet", "--cached", record]);
    let text = said(&claims(&repository, &[]), 1);
    assert!(
        text.contains(&format!("bound: {record} is not tracked")),
        "{text}"
    );
}

#[test]
fn a_claim_that_waits_for_a_run_fails_and_one_that_is_no_claim_of_today_does_not() {
    let repository = Repository::published();
    let waiting = "sentence = \"{x}\"\nsources = [\"reports\"]\nbind = { x = \"fleet-8:verdict\" }";
    let stub = "sentence = \"some day\"";
    repository.claims(&[
        &claim("waits", "SHIPPED", "cargo test", waiting),
        &claim("later", "STUB", "cargo test", stub),
    ]);
    let text = said(&claims(&repository, &[]), 1);
    assert!(
        text.contains("waits: no anchored run speaks for `fleet-8`"),
        "{text}"
    );
    assert!(text.contains("not claimed of today's program"), "{text}");
    let document: serde_json::Value =
        serde_json::from_str(&said(&claims(&repository, &["--json"]), 1)).unwrap();
    assert_eq!(document["failed"], serde_json::json!(["waits"]));
    let output = claims(&repository, &["wait"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("did you mean waits?"), "{error}");
}

#[cfg(unix)]
#[test]
fn witnesses_are_run_and_what_a_failing_one_said_is_shown() {
    use std::os::unix::fs::PermissionsExt;
    let repository = Repository::published();
    for (file, code) in [("yes.sh", 0), ("no.sh", 3)] {
        repository.write(
            file,
            &format!("#!/bin/sh\necho it was tried\nexit {code}\n"),
        );
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(repository.path(file), mode).unwrap();
    }
    let words = "sentence = \"words\"";
    repository.claims(&[
        &claim("right", "SHIPPED", "./yes.sh", words),
        &claim("wrong", "SHIPPED", "./no.sh", words),
        &claim("later", "STUB", "./no.sh", words),
    ]);
    said(&claims(&repository, &[]), 0);
    assert!(said(&claims(&repository, &["right", "--run"]), 0).contains("passed now"));
    let text = said(&claims(&repository, &["--run"]), 1);
    assert!(
        text.contains("wrong: its witness `./no.sh` does not pass"),
        "{text}"
    );
    assert!(text.contains("it was tried"), "{text}");
    assert!(!text.contains("later:"), "{text}");
}
