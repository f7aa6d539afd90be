//! Cells of a run that states what the harness takes itself: marks and far samples are recomputed, withheld or not.
//!
//! Not here: sessions of such a run (`corpus`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use audit::{Report, audit_run};
use fixture::Fixture;
use fixture::cells::{ARMS, run, stem};
use serde_json::{Value, json};

fn audited(fixture: &Fixture) -> Report {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    audit_run(dir.path())
}

/// Cells that are all far above the instrument, with no sample far out.
fn measured() -> Fixture {
    let mut fixture = run();
    fixture.record["instrument"] = fixture::measured::instrument();
    for cell in fixture.record["cells"].as_array_mut().unwrap() {
        for arm in ARMS {
            cell["arms"][arm]["outliers"] = json!([]);
            cell["arms"][arm]["at_instrument_limit"] = json!(false);
        }
        for place in 0..2 {
            let denominator = cell["ratios"][place]["denominator"].as_str().unwrap();
            let far = far_out(&rates(cell, "fak"), &rates(cell, denominator));
            cell["ratios"][place]["outliers"] = json!(far);
        }
    }
    fixture
}

fn rates(cell: &Value, arm: &str) -> Vec<f64> {
    let samples = cell["arms"][arm]["samples"].as_array().unwrap().iter();
    let rate = |it: &Value| 4e9 / it["timed_ns"].as_u64().unwrap() as f64;
    samples.map(rate).collect()
}

/// All pairs have one ratio but for how doubles round, and where the quartiles are equal that is far.
fn far_out(ours: &[f64], theirs: &[f64]) -> Vec<usize> {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
    let mut sorted = ratios.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    assert_eq!(sorted[1].to_bits(), sorted[3].to_bits());
    let differs = |place: &usize| ratios[*place].to_bits() != sorted[2].to_bits();
    (0..ratios.len()).filter(differs).collect()
}

#[test]
fn a_lie_about_the_spread_of_a_cell_breaks_the_evidence() {
    let report = audited(&measured());
    assert_eq!(report.exit_code(), 0, "{}", report.render());
    for (pointer, lie) in [
        ("/cells/0/arms/fak/outliers", json!([0])),
        ("/cells/1/arms/llama-bench:fa0/outliers", Value::Null),
        ("/cells/0/arms/fak/at_instrument_limit", json!(true)),
        ("/cells/1/ratios/1/outliers", json!([0, 1, 2, 3, 4])),
        ("/cells/1/ratios/1/outliers", Value::Null),
    ] {
        let mut forged = measured();
        forged.set(pointer, lie);
        assert_eq!(audited(&forged).exit_code(), 4, "{pointer}");
    }
}

#[test]
fn a_withheld_ratio_has_no_pairs_that_lie_far_out() {
    let mut diverging = measured();
    diverging.lines(&stem("fleet", "fak-unshared", 4), "finish")[1]["ids"][2] = json!(99);
    diverging.set("/identity/equal", json!(false));
    let at = json!({
        "cell": "fleet", "arm": "fak-unshared", "rep": 4, "agent": 1, "turn": 0, "position": 2,
    });
    diverging.set("/identity/first_divergence", at);
    for ratio in diverging.record["cells"][0]["ratios"]
        .as_array_mut()
        .unwrap()
    {
        for field in ["speed", "low", "high", "verdict", "outliers"] {
            ratio[field] = Value::Null;
        }
        ratio["withheld"] = json!("answers differ");
    }
    let report = audited(&diverging);
    assert_eq!(report.exit_code(), 1, "{}", report.render());
    diverging.set("/cells/0/ratios/0/outliers", json!([0]));
    let report = audited(&diverging);
    assert_eq!(report.exit_code(), 4, "{}", report.render());
    assert!(report.render().contains("cells[0].ratios[0].outliers is"));
}
