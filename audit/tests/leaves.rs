//! Every single value of a record and of a trace, changed one at a time and sealed again: caught, or named as asserted.
//!
//! Not here: lies told in several places at once (`forgeries`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use audit::audit_run;
use fixture::Fixture;
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

/// Pointers to every leaf of a document.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            object
                .iter()
                .for_each(|(key, value)| leaves(value, &format!("{path}/{key}"), found));
        }
        Value::Array(array) => array
            .iter()
            .enumerate()
            .for_each(|(place, value)| leaves(value, &format!("{path}/{place}"), found)),
        _ => found.push(path.to_owned()),
    }
}

/// Another value of the same type, as near as it gets.
fn lie(value: &Value) -> Value {
    match value {
        Value::Null => json!("a"),
        Value::Bool(value) => json!(!value),
        Value::Number(number) if number.is_f64() => json!(number.as_f64().unwrap() + 1e-6),
        Value::Number(number) => json!(number.as_u64().unwrap() + 1),
        Value::String(text) => match text.strip_suffix('0') {
            Some(head) => json!(format!("{head}1")),
            None => json!(format!("{}0", &text[..text.len() - 1])),
        },
        Value::Array(_) | Value::Object(_) => unreachable!("not a leaf"),
    }
}

#[test]
fn every_figure_of_the_record_is_recomputed_or_named_as_asserted() {
    let fixture = Fixture::ladder();
    let mut pointers = Vec::new();
    leaves(&fixture.record, "", &mut pointers);
    let mut asserted = 0;
    for pointer in &pointers {
        let mut forged = Fixture {
            ..Fixture::ladder()
        };
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
