//! Runs of cells: a true one passes, every figure of one is recomputed or asserted, no value at its edge stops the audit.
//!
//! Not here: sessions (`runs`, `leaves`), or lies about cells (`corpus`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use audit::audit_run;
use fixture::cells::{REPS, run, stem};
use fixture::{Fixture, leaves, lie};
use serde_json::{Value, json};

fn audited(fixture: &Fixture) -> audit::Report {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    audit_run(dir.path())
}

#[test]
fn a_true_run_of_cells_passes() {
    let report = audited(&run());
    assert_eq!(report.exit_code(), 0, "{}", report.render());
    assert_eq!(report.recomputed["external measurements"], 2 * 2 * REPS);
    let arms = report.identity.unwrap().arms;
    assert_eq!(arms, ["fak", "fak-unshared"]);
}

fn external<'a>(fixture: &'a mut Fixture, cell: &str, kind: &str) -> &'a mut Value {
    let name = stem(cell, "llama-bench:fa1", 0);
    fixture.lines(&name, kind).remove(0)
}

#[test]
fn every_figure_of_the_record_is_recomputed_or_named_as_asserted() {
    let asserted = [
        "/build/",
        "/sittings/",
        "/model/label",
        "/machine/class",
        "/machine/cpu",
        "/machine/isa",
        "/machine/cores",
        "/machine/memory_bytes",
        "/machine/os",
        "/machine/ceilings/int8", // no product of this run is of integers
        "/model/numbers/quantized",
    ];
    let fixture = run();
    let mut pointers = Vec::new();
    leaves(&fixture.record, "", &mut pointers);
    let mut caught = 0;
    for pointer in &pointers {
        let value = fixture.record.pointer(pointer).unwrap();
        let lie = match value {
            Value::Null if pointer.contains("load1") => json!(1),
            Value::Null if pointer.ends_with("dirty") => json!(true),
            Value::Null if pointer.ends_with("trees") => json!({
                "engine": "e", "workloads": "w", "baselines": "b", "harness": "h",
            }),
            // Rounding to whole nanoseconds hides the last digits of a ceiling; half of one bounds every cell.
            Value::Number(number) if pointer.contains("/ceilings/") => {
                json!(number.as_u64().unwrap() / 2)
            }
            value => lie(value),
        };
        let mut forged = run();
        forged.set(pointer, lie);
        let other_threads = pointer.contains("/ceilings/") && pointer.ends_with("/1");
        let free = other_threads || asserted.iter().any(|name| pointer.contains(name));
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
    assert!(caught > 250, "{caught}");
}

#[test]
fn a_divergence_withholds_the_ratios_of_its_cell_and_exits_1() {
    let mut forged = run();
    forged.lines(&stem("fleet", "fak-unshared", 4), "finish")[1]["ids"][2] = json!(99);
    forged.set("/identity/equal", json!(false));
    let at = json!({
        "cell": "fleet", "arm": "fak-unshared", "rep": 4, "agent": 1, "turn": 0, "position": 2,
    });
    forged.set("/identity/first_divergence", at);
    for ratio in 0..2 {
        for field in ["speed", "low", "high", "verdict"] {
            forged.set(&format!("/cells/0/ratios/{ratio}/{field}"), Value::Null);
        }
        forged.set(
            &format!("/cells/0/ratios/{ratio}/withheld"),
            json!("answers differ"),
        );
    }
    let report = audited(&forged);
    assert_eq!(report.exit_code(), 1, "{}", report.render());
}

/// Audits the run with every leaf below `pointer`s in turn set to values at the edges; only a panic fails.
fn survives(place: fn(&mut Fixture) -> &mut Value, wanted: fn(&str) -> bool) -> usize {
    let mut pointers = Vec::new();
    leaves(place(&mut run()), "", &mut pointers);
    pointers.retain(|pointer| wanted(pointer));
    for pointer in &pointers {
        for edge in [
            json!(0),
            json!(1 << 20),
            json!(u64::MAX),
            json!(1e308),
            json!(""),
            Value::Null,
        ] {
            let mut forged = run();
            *place(&mut forged).pointer_mut(pointer).unwrap() = edge;
            forged.redeclare();
            assert!([0, 1, 4].contains(&audited(&forged).exit_code()));
        }
    }
    pointers.len()
}

#[test]
fn no_value_at_the_edge_of_its_type_stops_the_audit() {
    let envelope = survives(
        |it| &mut it.envelope,
        |pointer| pointer.starts_with("/workload"),
    );
    let numbers = survives(
        |it| &mut it.record,
        |pointer| pointer.starts_with("/model/numbers") || pointer.contains("/ceilings/"),
    );
    let theirs = survives(|it| external(it, "fleet", "external"), |_| true);
    let steps = survives(|it| it.lines("fleet.fak-0", "step").remove(2), |_| true);
    assert_eq!((envelope, numbers), (15, 15));
    assert!(theirs > 2 && steps > 3);
}
