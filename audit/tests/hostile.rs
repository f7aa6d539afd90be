//! Damaged, hostile and missing files: every one is refused with 4 and a word that says why, none brings us down.
//!
//! Not here: figures that lie (`forgeries`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use std::fs;
use std::path::Path;
use std::process::Command;

use audit::{audit_index, audit_run};
use fixture::{Fixture, chained, ids_sha256, seal, sha256};
use serde_json::json;

const SUMS: &str = "SHA256SUMS";

/// A valid small run.
fn small(dir: &Path) {
    Fixture::new(&["fused"], 1).write(dir);
}

fn refused(dir: &Path, word: &str) {
    let report = audit_run(dir);
    assert_eq!(report.exit_code(), 4, "{word}: {}", report.render());
    let said = report
        .findings
        .iter()
        .any(|finding| finding.to_string().contains(word));
    assert!(said, "no finding says {word:?} in\n{}", report.render());
}

fn edit_sums(dir: &Path, edit: impl Fn(&str) -> String) {
    let text = fs::read_to_string(dir.join(SUMS)).unwrap();
    fs::write(dir.join(SUMS), edit(&text)).unwrap();
}

#[test]
fn refuses_what_is_not_a_sealed_run() {
    let dir = tempfile::tempdir().unwrap();
    refused(dir.path(), "not sealed");
    refused(&dir.path().join("nowhere"), "cannot be read");
    small(dir.path());
    fs::remove_file(dir.path().join(SUMS)).unwrap();
    refused(dir.path(), "not sealed");
}

#[test]
fn refuses_sums_that_are_not_canonical() {
    type Edit = fn(&str) -> String;
    let edits: [(&str, Edit); 9] = [
        ("unsorted", |text| {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.swap(0, 1);
            lines.join("\n") + "\n"
        }),
        ("repeated", |text| {
            format!("{}\n{text}", text.lines().next().unwrap())
        }),
        ("end with a newline", |text| text.trim_end().to_owned()),
        ("64 hex digits", |text| text.replace("  ", " ")),
        ("64 hex digits", |text| {
            text[..64].to_uppercase() + &text[64..]
        }),
        ("not listed", |text| {
            text.lines()
                .skip(1)
                .map(|line| line.to_owned() + "\n")
                .collect()
        }),
        ("listed in SHA256SUMS but missing", |text| {
            text.replace("trace/", "trace/x")
        }),
        ("may not be listed", |text| {
            text.replace("trace/", "trace/../trace/")
        }),
        ("not listed", |_| String::new()),
    ];
    for (word, edit) in edits {
        let dir = tempfile::tempdir().unwrap();
        small(dir.path());
        edit_sums(dir.path(), edit);
        refused(dir.path(), word);
    }
}

#[test]
fn refuses_files_that_do_not_belong() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path());
    fs::write(dir.path().join("trace/notes.txt"), "").unwrap();
    refused(dir.path(), "not listed");
    seal(dir.path());
    refused(dir.path(), "does not belong");
    fs::remove_file(dir.path().join("trace/notes.txt")).unwrap();
    fs::create_dir(dir.path().join("trace/more")).unwrap();
    refused(dir.path(), "regular files only");
}

#[cfg(unix)]
#[test]
fn refuses_symbolic_links_even_to_the_right_contents() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    small(dir.path());
    let (here, there) = (
        dir.path().join("run.json"),
        elsewhere.path().join("run.json"),
    );
    fs::rename(&here, &there).unwrap();
    std::os::unix::fs::symlink(&there, &here).unwrap();
    refused(dir.path(), "symbolic link");
}

#[test]
fn refuses_hostile_json_and_traces() {
    let deep = "[".repeat(100_000);
    let cases: [(&str, &[u8], &str); 14] = [
        ("run.json", b"", "EOF"),
        ("run.json", deep.as_bytes(), "invalid type"),
        ("run.json", b"{\"schema\": \"\xff\"}", "run.json"),
        ("run.json", b"{\"\x1b[31m\": 1}", "control character"),
        ("run.json", b"{\"\\u001b[31m\": 1}", "unknown field"),
        ("envelope.json", b"null", "invalid type"),
        ("envelope.json", b"{\"schema\": 1e999}", "envelope.json"),
        ("trace/fused-0.jsonl", b"", "truncated"),
        ("trace/fused-0.jsonl", b"\n", "not a trace line"),
        ("trace/fused-0.jsonl", b"\xff\xfe\n", "not a trace line"),
        (
            "trace/fused-0.jsonl",
            b"{\"kind\":\"begin\"}\n",
            "field \"seq\" expected",
        ),
        (
            "trace/fused-0.jsonl",
            b"{\"seq\":99999999999999999999}\n",
            "expected u64",
        ),
        ("trace/fused-0.jsonl", b"{\"seq\":0", "cut off"),
        ("trace/fused-0.jsonl", deep.as_bytes(), "cut off"),
    ];
    for (path, contents, word) in cases {
        let dir = tempfile::tempdir().unwrap();
        small(dir.path());
        fs::write(dir.path().join(path), contents).unwrap();
        seal(dir.path());
        refused(dir.path(), word);
        assert!(!audit_run(dir.path()).render().contains('\x1b'), "{word}");
    }
}

#[test]
fn refuses_a_key_stated_twice() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path());
    let path = dir.path().join("run.json");
    let text = fs::read_to_string(&path).unwrap();
    let start = text.find("\"fused\": {").unwrap();
    let end = start + text[start..].find("\n    }").unwrap() + 6;
    let twice = format!("{},\n    {}", &text[..end], &text[start..]);
    fs::write(&path, twice).unwrap();
    seal(dir.path());
    refused(dir.path(), "stated twice");
}

#[test]
fn refuses_a_line_beyond_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path());
    fs::write(
        dir.path().join("trace/fused-0.jsonl"),
        vec![b' '; (64 << 20) + 2],
    )
    .unwrap();
    seal(dir.path());
    refused(dir.path(), "longer than the limit");
}

#[test]
fn refuses_a_trace_cut_anywhere() {
    let fixture = Fixture::new(&["fused"], 1);
    let whole = chained(&fixture.traces["fused-0"]);
    let dir = tempfile::tempdir().unwrap();
    for length in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        small(dir.path());
        fs::write(dir.path().join("trace/fused-0.jsonl"), &whole[..length]).unwrap();
        seal(dir.path());
        assert_eq!(audit_run(dir.path()).exit_code(), 4, "cut at byte {length}");
    }
}

#[test]
fn the_chain_catches_an_edit_that_only_the_seal_was_renewed_for() {
    let fixture = Fixture::new(&["fused"], 1);
    let whole = chained(&fixture.traces["fused-0"]);
    let last_line = whole[..whole.len() - 1].rfind('\n').unwrap() + 1;
    let dir = tempfile::tempdir().unwrap();
    small(dir.path());
    for place in (0..last_line).step_by(61) {
        let mut bytes = whole.clone().into_bytes();
        bytes[place] ^= 1;
        fs::write(dir.path().join("trace/fused-0.jsonl"), bytes).unwrap();
        seal(dir.path());
        assert_eq!(audit_run(dir.path()).exit_code(), 4, "byte {place}");
    }
}

#[test]
fn a_flood_of_faults_is_counted_and_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::ladder();
    for lines in fixture.traces.values_mut() {
        lines[0]["settings"]["page_positions"] = json!(65);
        lines[0]["schema"] = json!("x".repeat(10_000));
    }
    fixture.write(dir.path());
    let report = audit_run(dir.path());
    assert_eq!((report.exit_code(), report.findings.len()), (4, 20));
    assert_eq!(report.findings_left_out, 55); // three faults in each of 25 traces
    assert!(report.render().len() < 20_000);
}

/// A run of `arm` whose trace states one text and this many prompts that are that text, each followed by lines of these
/// kinds. All of it fits together but that it is cut off, and that the ids are not the seed's.
fn swollen(arm: &str, text: u64, prompts: u64, kinds: &[&str]) -> Fixture {
    let mut fixture = Fixture::new(&[arm], 1);
    let (agents, name) = (json!(prompts), format!("{arm}-0"));
    let honest = &fixture.traces[&name];
    let find = |kind: &str| honest.iter().find(|it| it["kind"] == kind).unwrap().clone();
    let ids = vec![7; text as usize];
    let digest = ids_sha256(&ids);
    let mut lines = vec![find("begin"), find("text")];
    lines[1]["ids"] = ids.into();
    for agent in 0..prompts {
        for kind in kinds {
            let mut line = find(kind);
            let fields = match *kind {
                "request" => json!({
                    "id": format!("a{agent}"), "session": format!("s{agent}"), "agent": agent,
                    "keep": text, "prompt_len": text, "prompt_sha256": digest,
                }),
                "prefill" => json!({ "computed": text, "chunks": text / 256 }),
                "finish" => json!({ "token_t_ns": [0, 0], "batch": [1, 1] }),
                _ => json!({}),
            };
            if *kind != "request" {
                line["request"] = json!(format!("a{agent}"));
            }
            let line_fields = line.as_object_mut().unwrap();
            line_fields.extend(fields.as_object().unwrap().clone());
            lines.push(line);
        }
    }
    for line in &mut lines[1..] {
        line["t_ns"] = json!(1_000_000);
    }
    fixture.traces.insert(name, lines);
    let work = &mut fixture.envelope["workload"];
    (work["agents"], work["prefix"]) = (agents, json!(text));
    fixture.redeclare();
    fixture
}

const ANSWERED: [&str; 4] = ["request", "prefix", "prefill", "finish"];

#[test]
fn refuses_a_trace_of_few_ids_that_make_many() {
    let (text, prompts) = (1 << 21, 64); // as many as an auditor holds, and the text itself
    for kinds in [&ANSWERED[..1], &ANSWERED] {
        let dir = tempfile::tempdir().unwrap();
        swollen("fused", text, prompts, kinds).write(dir.path());
        refused(dir.path(), "holds more than the limit");
    }
}

#[test]
fn prompts_that_were_answered_make_room_for_others() {
    let dir = tempfile::tempdir().unwrap();
    swollen("naive", 1 << 18, 520, &ANSWERED).write(dir.path());
    refused(dir.path(), "is truncated");
}

/// A results directory with one anchored run, `tiny/one`.
fn anchored() -> tempfile::TempDir {
    let results = tempfile::tempdir().unwrap();
    let run = results.path().join("tiny/one");
    small(&run);
    let digest = sha256(fs::read(run.join(SUMS)).unwrap());
    fs::write(
        results.path().join("INDEX"),
        format!("{digest}  tiny/one\n"),
    )
    .unwrap();
    results
}

#[test]
fn an_index_passes_with_its_runs_and_names_the_unanchored() {
    let results = anchored();
    small(&results.path().join("tiny/two"));
    small(&results.path().join("local/tiny/three"));
    let report = audit_index(results.path());
    assert_eq!(report.exit_code(), 0, "{}", report.render());
    assert_eq!(report.unanchored, ["tiny/two"]);
    assert!(report.render().contains("unanchored: tiny/two"));
    assert!(!report.render().contains("INDEX was not read"));
}

#[test]
fn an_index_breaks_with_a_run_that_is_missing_or_differs() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 7] = [
        ("names no run, but sealed ones stand beside it", |results| {
            fs::write(results.join("INDEX"), "").unwrap();
        }),
        ("missing", |results| {
            fs::remove_dir_all(results.join("tiny/one")).unwrap();
        }),
        ("the SHA-256 of tiny/one", |results| {
            let mut other = Fixture::new(&["fused"], 1);
            other.set("/machine/cpu", json!("another"));
            other.write(&results.join("tiny/one"));
        }),
        ("anchored twice", |results| {
            let line = fs::read_to_string(results.join("INDEX")).unwrap();
            fs::write(results.join("INDEX"), line.repeat(2)).unwrap();
        }),
        ("two spaces", |results| {
            let line = fs::read_to_string(results.join("INDEX")).unwrap();
            fs::write(results.join("INDEX"), line.replace("tiny/one", "../one")).unwrap();
        }),
        ("newline", |results| {
            let line = fs::read_to_string(results.join("INDEX")).unwrap();
            fs::write(results.join("INDEX"), line.trim_end()).unwrap();
        }),
        ("cannot be read", |results| {
            fs::remove_file(results.join("INDEX")).unwrap();
        }),
    ];
    for (word, damage) in damages {
        let results = anchored();
        damage(results.path());
        let report = audit_index(results.path());
        assert_eq!(report.exit_code(), 4, "{word}");
        assert!(
            report.render().contains(word),
            "{word:?} is missing in\n{}",
            report.render()
        );
    }
}

#[test]
fn the_command_line_answers_with_the_documented_codes() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path());
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_audit"));
        let output = command
            .current_dir(dir.path())
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (
            output.status.code().unwrap(),
            text,
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, text, _) = run(&["."]);
    assert!(code == 0 && text.contains("PASS"), "{text}");
    let (code, text, _) = run(&[".", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(code == 0 && json["exit_code"] == 0 && json["identity"]["equal"] == true);
    assert!(json["recomputed"]["prompts"] == 4 && json["findings"] == json!([]));
    let (code, text, _) = run(&["--help"]);
    assert!(code == 0 && text.contains("examples:"));
    for wrong in [&[][..], &["a", "b"], &["--fast", "a"]] {
        let (code, text, problem) = run(wrong);
        assert!(
            code == 2 && text.is_empty() && problem.contains("--help"),
            "{wrong:?}"
        );
    }
    assert_eq!((run(&["trace"]).0, run(&["--all", "trace"]).0), (4, 4));
}
