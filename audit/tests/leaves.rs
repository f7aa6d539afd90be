//! Every single value of a record and of a trace, changed one at a time and sealed again: caught, or named as asserted.
//!
//! Not here: lies told in several places at once (`forgeries`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use audit::audit_run;
use fixture::{Fixture, leaves, lie};
use serde_json::{Value, json};

/// Fields of run.json that rest on the writer's word.
const ASSERTED: [&str; 5] = [
    "/build/",
    "/machine/",
    "/sittings/",
    "/model/label",
    "/note",
];
/// Fields of a trace that do; how pages were attended shows in no bit, and only repetitions must agree on it.
const UNSEEN: [&str; 3] = ["/t_ns", "/token_t_ns/", "/settings/shared_attention"];

fn audited(fixture: &Fixture) -> audit::Report {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    audit_run(dir.path())
}

#[test]
fn every_figure_of_the_record_is_recomputed_or_named_as_asserted() {
    let fixture = Fixture::ladder();
    let mut pointers = Vec::new();
    leaves(&fixture.record, "", &mut pointers);
    let mut asserted = 0;
    for pointer in &pointers {
        let mut forged = Fixture::ladder();
        let lie = match fixture.record.pointer(pointer).unwrap() {
            Value::Null if pointer.ends_with("_unix_s") => json!(1),
            Value::Null if pointer.contains("load1") || pointer.ends_with("position") => json!(1),
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
    assert!(pointers.len() - asserted > 300);
}

#[test]
fn every_figure_of_a_trace_is_recomputed_or_named_as_asserted() {
    let arms = ["instance-shared", "fused"];
    let fixture = Fixture::new(&arms, 1);
    let lines = &fixture.traces["fused-0"];
    let mut caught = 0;
    for (number, line) in lines.iter().enumerate() {
        let mut pointers = Vec::new();
        leaves(line, "", &mut pointers);
        for pointer in pointers {
            let mut forged = Fixture::new(&arms, 1);
            let place = &mut forged.traces.get_mut("fused-0").unwrap()[number];
            let value = place.pointer_mut(&pointer).unwrap();
            *value = lie(value);
            let report = audited(&forged);
            let free = |names: &[&str]| names.iter().any(|name| pointer.starts_with(name));
            if free(&UNSEEN) {
                continue;
            }
            let said = report.render();
            assert_eq!(report.exit_code(), 4, "line {number} {pointer}: {said}");
            caught += 1;
        }
    }
    assert!(caught > 200);
}
