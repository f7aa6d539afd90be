//! Documents of another version, told to the program as a user would: refused by name, with what to type.
//!
//! Not here: tags that no version has (the unit test of `schema`).

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::fixture::{Fixture, cells, served};

/// What the program prints of a run whose evidence is broken.
fn audited(dir: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_audit"))
        .arg(dir)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(4), "{text}");
    text
}

/// Versions as they may come, with what the program must advise.
fn versions(kind: &str) -> [(String, &'static str); 2] {
    [
        (
            format!("fak.{kind}/0"),
            "build.commit, or run the envelope again",
        ),
        (format!("fak.{kind}/2"), "`cargo build -p audit`"),
    ]
}

/// Gives a document another version, with fields as they were and with others.
fn retagged(document: &Value, tag: &str) -> [Value; 2] {
    let mut same = document.clone();
    same["schema"] = json!(tag);
    let mut other = same.clone();
    other["fresh"] = json!({ "field": 1 });
    [same, other]
}

fn says(text: &str, file: &str, (tag, advice): &(String, &str)) {
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(file)).collect();
    let named = lines
        .iter()
        .any(|it| it.contains(tag.as_str()) && it.contains(advice));
    assert!(
        named,
        "no line of {file} says {tag:?} and {advice:?} in\n{text}"
    );
    assert!(!text.contains("unknown field"), "{text}");
}

#[test]
fn records_and_envelopes_of_another_version_are_refused_by_name() {
    for fixture in [Fixture::new(&["fused"], 1), cells::run()] {
        for version in versions("run") {
            for record in retagged(&fixture.record, &version.0) {
                let dir = tempfile::tempdir().unwrap();
                let forged = Fixture {
                    record,
                    ..copy(&fixture)
                };
                forged.write(dir.path());
                says(&audited(dir.path()), "run.json line ", &version);
            }
        }
        for version in versions("envelope") {
            for envelope in retagged(&fixture.envelope, &version.0) {
                let dir = tempfile::tempdir().unwrap();
                let forged = Fixture {
                    envelope,
                    ..copy(&fixture)
                };
                forged.write(dir.path());
                says(&audited(dir.path()), "envelope.json line ", &version);
            }
        }
    }
}

#[test]
fn traces_of_another_version_are_refused_by_name() {
    for (fixture, trace) in [
        (Fixture::new(&["fused"], 1), "fused-0"),
        (cells::run(), "fleet.fak-0"),
        (cells::run(), "prompt.llama-bench.fa0-0"),
        (served::run(), "llama-server.agent-0"),
        (served::run(), "llama-server.agent-0.score"),
    ] {
        for version in versions("trace") {
            for begin in retagged(&fixture.traces[trace][0], &version.0) {
                let dir = tempfile::tempdir().unwrap();
                let mut forged = copy(&fixture);
                forged.traces.get_mut(trace).unwrap()[0] = begin;
                forged.write(dir.path());
                says(&audited(dir.path()), "jsonl line 1 ", &version);
            }
        }
    }
}

fn copy(fixture: &Fixture) -> Fixture {
    Fixture {
        written: fixture.written.clone(),
        envelope: fixture.envelope.clone(),
        record: fixture.record.clone(),
        traces: fixture.traces.clone(),
    }
}
