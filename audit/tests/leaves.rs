//! Every single value of a record and of a trace, changed one at a time and sealed again: caught, or named as asserted.
//!
//! Not here: lies told in several places at once (`forgeries`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use audit::audit_run;
use fixture::{Fixture, leaves, lie, scheduled, served};
use serde_json::{Value, json};

/// Fields of run.json that rest on the writer's word.
const ASSERTED: [&str; 5] = [
    "/build/",
    "/machine/",
    "/sittings/",
    "/model/label",
    "/note",
];
/// Figures that are null where another engine answers, and would be numbers.
const NUMBERS: [&str; 6] = [
    "_tokens",
    "prefill_ns",
    "decode_ns",
    "kv_bytes_peak",
    "beyond_margin/rep",
    "slot_positions",
];
/// Fields of a trace that do; how pages were attended shows in no bit, and only repetitions must agree on it.
const UNSEEN: [&str; 3] = ["/t_ns", "/token_t_ns/", "/settings/shared_attention"];

/// Of a server's trace and score: when things happened, and how it is called, connected to and spoken to.
const TOLD: [&str; 10] = [
    "/t_ns",
    "/load_ns",
    "/wall_ns",
    "/chunk_t_ns/",
    "/connect_ns",
    "/program/name",
    "/prompt_tokens",
    "/barred/",
    "/sent/path",
    "/usage", // whose lie is no JSON, and then no counts are read from it
];

fn audited(fixture: &Fixture) -> audit::Report {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    audit_run(dir.path())
}

#[test]
fn every_figure_of_the_record_is_recomputed_or_named_as_asserted() {
    let (caught, asserted) = record_leaves(Fixture::ladder, "");
    assert!(caught > 300 && asserted > 0);
}

#[test]
fn every_figure_of_another_engine_is_recomputed_or_named_as_asserted() {
    let (caught, asserted) = record_leaves(served::outside, "llama-server:");
    assert_eq!(asserted, 2, "a note each");
    assert!(caught > 150, "{caught}");
}

#[test]
fn every_figure_of_requests_that_come_by_the_clock_is_recomputed() {
    for honest in [scheduled::run, scheduled::beside_servers] {
        for (part, least) in [("/goodput/", 9), ("/scheduled_", 18), ("/ratios/", 20)] {
            let (caught, asserted) = record_leaves(honest, part);
            assert_eq!(asserted, 0);
            assert!(caught >= least, "{part} {caught}");
        }
    }
}

/// Changes every value of a record whose pointer has `part` in it; how many were caught, and how many are asserted.
fn record_leaves(honest: fn() -> Fixture, part: &str) -> (usize, usize) {
    let fixture = honest();
    let mut pointers = Vec::new();
    leaves(&fixture.record, "", &mut pointers);
    pointers.retain(|pointer| pointer.contains(part));
    let mut asserted = 0;
    for pointer in &pointers {
        let mut forged = honest();
        let lie = match fixture.record.pointer(pointer).unwrap() {
            Value::Null if pointer.ends_with("_unix_s") => json!(1),
            Value::Null if pointer.contains("load1") || pointer.ends_with("position") => json!(1),
            Value::Null if NUMBERS.iter().any(|name| pointer.ends_with(name)) => json!(1),
            Value::Null if pointer.ends_with("_sha256") => json!("0".repeat(64)),
            Value::Null if pointer.ends_with("first_divergence") => json!({
                "rep": 0, "agent": 0, "turn": 0, "position": 0, "micronats": 1,
            }),
            Value::Null if pointer.ends_with("dirty") => json!(true),
            Value::Null if pointer.ends_with("trees") => json!({
                "engine": "e", "workloads": "w", "baselines": "b", "harness": "h",
            }),
            value => lie(value),
        };
        forged.set(pointer, lie);
        let report = audited(&forged);
        let free = ASSERTED.iter().any(|name| pointer.contains(name));
        asserted += usize::from(free);
        let expected = if free { 0 } else { 4 };
        assert_eq!(
            report.exit_code(),
            expected,
            "{pointer}: {}",
            report.render()
        );
    }
    (pointers.len() - asserted, asserted)
}

#[test]
fn every_figure_of_a_trace_is_recomputed_or_named_as_asserted() {
    let honest = || Fixture::new(&["instance-shared", "fused"], 1);
    assert!(trace_leaves(honest, "fused-0", &UNSEEN) > 200);
    assert!(trace_leaves(scheduled::run, "fused-0", &UNSEEN) > 200);
}

#[test]
fn every_figure_of_a_servers_trace_and_its_score_is_recomputed_or_named_as_asserted() {
    let caught = trace_leaves(served::run, "llama-server.shared-0", &TOLD);
    assert!(caught > 130, "{caught}");
    let caught = trace_leaves(scheduled::beside_servers, "llama-server.shared-0", &TOLD);
    assert!(caught > 130, "{caught}");
    let caught = trace_leaves(served::run, "llama-server.shared-0.score", &TOLD);
    assert!(caught > 30, "{caught}");
}

/// Changes every value of a trace that is not among `free`; how many were caught.
fn trace_leaves(honest: fn() -> Fixture, name: &str, free: &[&str]) -> usize {
    let fixture = honest();
    let lines = &fixture.traces[name];
    let mut caught = 0;
    for (number, line) in lines.iter().enumerate() {
        let mut pointers = Vec::new();
        leaves(line, "", &mut pointers);
        for pointer in pointers {
            let mut forged = honest();
            let place = &mut forged.traces.get_mut(name).unwrap()[number];
            let value = place.pointer_mut(&pointer).unwrap();
            *value = lie(value);
            if free.iter().any(|name| pointer.starts_with(name)) {
                continue;
            }
            if pointer != "/trace_sha256" {
                forged.score_again();
            }
            let report = audited(&forged);
            let said = report.render();
            assert_eq!(report.exit_code(), 4, "line {number} {pointer}: {said}");
            caught += 1;
        }
    }
    caught
}
