//! Counted runs: true ones pass, every figure is counted again or asserted, no value at its edge stops the audit.
//!
//! Not here: lies about them (`corpus`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use audit::{Report, audit_run};
use fixture::counted::{fleet, sessions, streams, tasks};
use fixture::{Fixture, leaves, lie};
use serde_json::{Value, json};

const ALL: [fn() -> Fixture; 4] = [sessions, streams, tasks, fleet];

fn audited(fixture: &Fixture) -> Report {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    audit_run(dir.path())
}

#[test]
fn what_was_counted_truly_passes_and_is_said_to_be_counted() {
    for honest in ALL {
        let report = audited(&honest());
        let text = report.render();
        assert_eq!(report.exit_code(), 0, "{text}");
        assert!(report.identity.is_none(), "nothing answered");
        assert!(report.recomputed["counts of run.json"] > 20, "{text}");
        assert!(text.contains("it was counted, and nothing ran"), "{text}");
        assert!(!text.contains("clocks"), "there are none: {text}");
    }
}

#[test]
fn of_tasks_it_is_said_that_nobody_here_saw_the_data_set() {
    let text = audited(&tasks()).render();
    assert!(
        text.contains("whether the tasks are those of \"set.json\""),
        "{text}"
    );
    assert!(!audited(&sessions()).render().contains("data set"));
}

#[test]
fn every_figure_of_a_counted_record_is_counted_again_or_named_as_asserted() {
    let asserted = ["/build/", "/counted_unix_s"];
    let mut caught = 0;
    for honest in ALL {
        let mut pointers = Vec::new();
        leaves(&honest().record, "", &mut pointers);
        for pointer in &pointers {
            let mut forged = honest();
            let told = match forged.record.pointer(pointer).unwrap() {
                Value::Null if pointer.ends_with("dirty") => json!(true),
                Value::Null if pointer.ends_with("trees") => json!({
                    "engine": "e", "workloads": "w", "baselines": "b", "harness": "h",
                }),
                Value::Null if pointer.contains("/cache/") => json!(1),
                value => lie(value),
            };
            forged.set(pointer, told);
            let free = asserted.iter().any(|name| pointer.contains(name));
            let report = audited(&forged);
            let expected = if free { 0 } else { 4 };
            assert_eq!(
                report.exit_code(),
                expected,
                "{pointer}: {}",
                report.render()
            );
            caught += usize::from(!free);
        }
    }
    assert!(caught > 150, "{caught}");
}

#[test]
fn no_value_at_the_edge_of_its_type_stops_the_count() {
    let mut edges = 0;
    for honest in ALL {
        let mut pointers = Vec::new();
        leaves(&honest().envelope["workload"], "", &mut pointers);
        for pointer in &pointers {
            for edge in [
                json!(0),
                json!(u64::MAX),
                json!(1_u64 << 40),
                json!(1e308),
                json!(""),
                Value::Null,
            ] {
                let mut forged = honest();
                *forged.envelope["workload"].pointer_mut(pointer).unwrap() = edge;
                forged.redeclare();
                assert!([0, 4].contains(&audited(&forged).exit_code()), "{pointer}");
                edges += 1;
            }
        }
    }
    assert!(edges > 150, "{edges}");
}

#[test]
fn shapes_that_no_number_holds_are_a_finding() {
    for (field, value) in [
        ("turns", u64::MAX),
        ("prefix", u64::MAX),
        ("count", u64::MAX),
    ] {
        let mut forged = tasks();
        forged.envelope["workload"]["tasks"][1][field] = json!(value);
        forged.redeclare();
        let report = audited(&forged);
        let text = report.render();
        assert_eq!(report.exit_code(), 4, "{text}");
        assert!(text.contains("more tokens than 64 bits count"), "{text}");
    }
}
