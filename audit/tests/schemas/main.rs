//! The schemas of the formats: valid themselves, kept by everything committed, and neither looser nor stricter than the
//! auditor that reads the same files.
//!
//! They are written by hand, for readers; what holds them to the structs is that a document told wrongly in any one place
//! is refused by both. Not here: baselines of gates and runs of today's program (`harness`).
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod checker;
#[path = "../fixture/mod.rs"]
mod fixture;
mod versions;
mod wrong;

use std::fs;
use std::path::{Path, PathBuf};

use audit::{Report, audit_index, audit_run};
use checker::Schema;
use fixture::{Fixture, chained, pretty, seal, sha256};
use serde_json::{Value, json};

const TAGS: [&str; 6] = [
    "fak.envelope/1",
    "fak.run/1",
    "fak.trace/1",
    "fak.gate/1",
    "fak.audit/1",
    "fak.counts/1",
];
/// How a finding says that the strict reading failed.
const UNREAD: [&str; 2] = ["is not what FORMAT.md describes", "is not a trace line"];

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../results")
}

fn parsed(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort_unstable();
    paths
}

#[test]
fn every_schema_names_its_format_and_its_version_and_every_object_is_closed() {
    fn closed(schema: &Value, place: &str) {
        let Some(rules) = schema.as_object() else {
            return;
        };
        // The root of a format of several kinds leaves closing to the kinds.
        let open = rules.contains_key("properties") && !rules.contains_key("oneOf");
        assert!(
            !open || rules.contains_key("additionalProperties"),
            "{place} is open"
        );
        for (name, below) in rules {
            closed(below, &format!("{place}/{name}"));
        }
    }
    for tag in TAGS {
        let root = Schema::of(tag).root;
        assert_eq!(root["$id"], json!(format!("urn:fak:schema:{tag}")));
        assert_eq!(
            root["$schema"],
            json!("https://json-schema.org/draft/2020-12/schema")
        );
        closed(&root, tag);
    }
    assert_eq!(
        entries(&checker::directory()).len(),
        TAGS.len(),
        "a schema nobody tests"
    );
}

#[test]
fn everything_committed_keeps_its_schema() {
    let [envelope, run, line, gate, _, counts] = TAGS.map(Schema::of);
    let (mut runs, mut lines) = (0, 0);
    let index = fs::read_to_string(results().join("INDEX")).unwrap();
    for (_, name) in index.lines().map(|line| line.split_once("  ").unwrap()) {
        let directory = results().join(name);
        envelope.accepts(&parsed(&directory.join("envelope.json")), name);
        let record = parsed(&directory.join("run.json"));
        runs += 1;
        if record["schema"] == "fak.counts/1" {
            counts.accepts(&record, name); // nothing ran, so there is no trace
            continue;
        }
        run.accepts(&record, name);
        for trace in entries(&directory.join("trace")) {
            for text in fs::read_to_string(&trace).unwrap().lines() {
                line.accepts(
                    &serde_json::from_str(text).unwrap(),
                    &trace.display().to_string(),
                );
                lines += 1;
            }
        }
    }
    let gates = entries(&results().join("gate"));
    for path in &gates {
        gate.accepts(&parsed(path), &path.display().to_string());
    }
    eprintln!(
        "{runs} runs, {lines} lines of traces, {} baselines",
        gates.len()
    );
    assert!(runs >= 10 && lines > 10_000 && gates.len() >= 2);
}

#[test]
fn what_an_audit_answers_keeps_its_schema_whatever_it_found() {
    let schema = Schema::of("fak.audit/1");
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::ladder();
    fixture.write(dir.path());
    let mut reports = vec![audit_run(dir.path())];
    fixture.set("/arms/fused/wall_ns", json!(1));
    fixture.write(dir.path());
    reports.push(audit_run(dir.path()));
    fs::remove_file(dir.path().join("SHA256SUMS")).unwrap();
    reports.push(audit_run(dir.path()));
    reports.push(audit_run(dir.path()).replayed(1, 2));
    let codes: Vec<u8> = reports.iter().map(Report::exit_code).collect();
    assert_eq!(codes, [0, 4, 4, 4]);
    for report in &reports {
        schema.accepts(&json!(report), "a report");
    }
    schema.accepts(&json!(audit_index(&results())), "the report on everything");
    schema.accepts(&json!(audit_index(dir.path())), "the report on no index");
    let mut more = json!(reports[1]);
    more["findings"][0]["colour"] = json!("red");
    assert!(!schema.faults(&more).is_empty());
}

/// A run in a directory, one file of which is told wrongly again and again.
struct Forged<'a> {
    schema: &'a Schema,
    dir: tempfile::TempDir,
    file: &'a str,
    /// How often the auditor could not even read it.
    unread: usize,
}

impl<'a> Forged<'a> {
    fn new(schema: &'a Schema, fixture: &Fixture, file: &'a str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fixture.write(dir.path());
        Self {
            schema,
            dir,
            file,
            unread: 0,
        }
    }

    /// Puts `text`, which holds the wrong `document`, in place of the file: what the auditor cannot read, the schema
    /// refuses, and what the schema refuses, the auditor finds fault with.
    fn is_refused_by_both(&mut self, what: &str, document: &Value, text: &str) {
        let faults = self.schema.faults(document);
        fs::write(self.dir.path().join(self.file), text).unwrap();
        seal(self.dir.path());
        let report = audit_run(self.dir.path());
        let found = || report.findings.iter().filter(|it| it.file == self.file);
        let unread = found().any(|it| UNREAD.iter().any(|words| it.message.contains(words)));
        let (file, said) = (self.file, report.render());
        assert!(
            !unread || !faults.is_empty(),
            "{file}, {what}: the schema has no fault, but\n{said}"
        );
        assert!(
            faults.is_empty() || found().count() > 0,
            "{file}, {what}: {faults:?}, but\n{said}"
        );
        self.unread += usize::from(unread);
    }
}

/// Runs of both kinds that are quick to audit.
fn runs() -> [Fixture; 2] {
    let mut session = Fixture::new(&["instance-shared", "fused"], 1);
    session.record["machine"]["ceilings"] = json!({
        "read_bytes_per_s": { "1": 9 }, "f32_flop_per_s": { "1": 9 }, "int8_op_per_s": { "1": 9 },
    });
    [session, fixture::cells::run()]
}

/// Tells record and envelope of a run wrongly in each place; each schema comes with a number of ways that make its file unreadable.
fn both_refuse_what_is_told_wrongly(
    fixture: &Fixture,
    (record, record_least): (&Schema, usize),
    (envelope, envelope_least): (&Schema, usize),
) {
    for (schema, document, file, least) in [
        (record, &fixture.record, "run.json", record_least),
        (envelope, &fixture.envelope, "envelope.json", envelope_least),
    ] {
        schema.accepts(document, file);
        let mut forged = Forged::new(schema, fixture, file);
        for (what, wrong) in wrong::told_wrongly(document) {
            forged.is_refused_by_both(&what, &wrong, &pretty(&wrong));
        }
        eprintln!("{} ways to make {file} unreadable", forged.unread);
        assert!(forged.unread > least);
    }
}

#[test]
fn a_record_or_envelope_told_wrongly_anywhere_is_refused_by_schema_and_auditor_alike() {
    let (run, envelope) = (Schema::of("fak.run/1"), Schema::of("fak.envelope/1"));
    let [session, cells] = runs();
    for fixture in [
        session,
        cells,
        fixture::quarantined::run(),
        fixture::quarantined::evicting(),
        fixture::quarantined::branches(),
        fixture::admitted::run(),
        fixture::served::outside(),
        fixture::scheduled::run(),
    ] {
        both_refuse_what_is_told_wrongly(&fixture, (&run, 400), (&envelope, 100));
    }
}

#[test]
fn a_count_told_wrongly_anywhere_is_refused_by_schema_and_auditor_alike() {
    let (counts, envelope) = (Schema::of("fak.counts/1"), Schema::of("fak.envelope/1"));
    for fixture in [
        fixture::counted::sessions(),
        fixture::counted::streams(),
        fixture::counted::tasks(),
        fixture::counted::fleet(),
    ] {
        both_refuse_what_is_told_wrongly(&fixture, (&counts, 100), (&envelope, 30));
    }
}

#[test]
fn a_trace_line_told_wrongly_anywhere_is_refused_by_schema_and_auditor_alike() {
    let schema = Schema::of("fak.trace/1");
    let [mut session, cells] = runs();
    let failed = json!({ "t_ns": 9_000_000, "kind": "error", "message": "it broke" });
    let begun = session.traces["instance-shared-0"][0].clone();
    session
        .traces
        .insert("instance-shared-0".to_owned(), vec![begun, failed]);
    let strained = fixture::quarantined::run();
    let (served, scheduled) = (fixture::served::run(), fixture::scheduled::run());
    let admitted = fixture::admitted::run();
    let mut unread = 0;
    for (fixture, trace) in [
        (&session, "fused-0"),
        (&session, "instance-shared-0"),
        (&strained, "fused-0"),
        (&strained, "agent-kv-0"),
        (&scheduled, "fused-0"),
        (&admitted, "fused-0"),
        (&served, "llama-server.shared-0"),
        (&served, "llama-server.shared-0.score"),
        (&cells, "fleet.fak-0"),
        (&cells, "fleet.llama-bench.fa1-0"),
    ] {
        let file = format!("trace/{trace}.jsonl");
        let mut forged = Forged::new(&schema, fixture, &file);
        let lines = &fixture.traces[trace];
        let mut seen = Vec::new();
        for (place, line) in lines.iter().enumerate() {
            // One line of each kind, and requests of either base.
            let kind = (
                &line["kind"],
                line["base"].as_object().map(|it| it.keys().next()),
            );
            if !seen.contains(&kind) {
                seen.push(kind);
                tell_wrongly(&mut forged, lines, place);
            }
        }
        unread += forged.unread;
    }
    eprintln!("{unread} ways to make a trace line unreadable");
    assert!(unread > 500, "{unread}");
}

/// Tells one line of a trace wrongly, but for the chain, which is made to agree.
fn tell_wrongly(forged: &mut Forged, lines: &[Value], place: usize) {
    for (what, wrong) in wrong::told_wrongly(&lines[place]) {
        if wrong.get("t_ns").is_none() || wrong.get("kind").is_none() {
            continue; // `chained` puts these two at their place
        }
        let mut told = lines.to_vec();
        told[place] = wrong;
        let text = chained(&told);
        let line = serde_json::from_str(text.lines().nth(place).unwrap()).unwrap();
        forged.is_refused_by_both(&what, &line, &text);
    }
}

#[test]
fn a_line_without_its_chain_or_of_no_known_kind_is_no_trace_line() {
    let schema = Schema::of("fak.trace/1");
    let line = json!({
        "seq": 0, "prev": sha256("before"), "t_ns": 1, "kind": "error", "message": "it broke",
    });
    schema.accepts(&line, "a line");
    for (name, lie) in [
        ("seq", json!(null)),
        ("seq", json!(-1)),
        ("prev", json!("00")),
        ("t_ns", json!(0.5)),
        ("kind", json!("boast")),
        ("kind", json!("end")),
    ] {
        let mut wrong = line.clone();
        wrong[name] = lie;
        assert!(!schema.faults(&wrong).is_empty(), "{wrong}");
        wrong.as_object_mut().unwrap().remove(name);
        assert!(!schema.faults(&wrong).is_empty(), "{wrong}");
    }
}
