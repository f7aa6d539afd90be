//! Runs whose requests come by the clock: what passes that need not look alike, and what a failed arm states.
//!
//! Not here: lies about such runs (`corpus`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use audit::{Layer, Report, audit_run};
use fixture::{Fixture, scheduled};
use serde_json::{Value, json};

fn audited(fixture: &Fixture) -> Report {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    audit_run(dir.path())
}

#[test]
fn a_drawn_time_may_be_off_by_as_many_nanoseconds_as_there_were_gaps_and_no_more() {
    for number in 1..4 {
        for (by_ns, code) in [(number, 0), (number + 1, 4)] {
            for sign in [-1, 1] {
                let mut offsets = scheduled::offsets("poisson");
                let offset_ns = &mut offsets[number as usize];
                *offset_ns = offset_ns.checked_add_signed(sign * by_ns).unwrap();
                let report = audited(&scheduled::drawn(&offsets));
                assert_eq!(report.exit_code(), code, "{number} {by_ns}");
                let clocks = report.findings.iter().all(|it| it.layer == Layer::Clock);
                assert!(clocks, "{}", report.render());
            }
        }
    }
}

#[test]
fn what_an_audit_recomputes_and_cannot_know_of_such_a_run_is_named() {
    let report = audited(&scheduled::run());
    assert_eq!(report.exit_code(), 0, "{}", report.render());
    assert_eq!(report.recomputed["due times"], 3 * 5 * 4);
    let named = |words: &String| words.contains("as soon as they might be");
    assert_eq!(report.not_checked.iter().filter(|it| named(it)).count(), 1);
    let plain = audited(&Fixture::ladder());
    assert!(!plain.not_checked.iter().any(named));
}

/// The last repetition of `fused` fails in mid-run.
fn failure() -> Fixture {
    let mut fixture = scheduled::run();
    let arm = fixture.record["arms"]["fused"].as_object_mut().unwrap();
    for optional in ["latencies", "outliers", "at_instrument_limit", "goodput"] {
        arm.remove(optional);
    }
    fixture.fail_fused();
    fixture.set("/ratios", json!([]));
    fixture
}

#[test]
fn an_arm_with_a_request_that_was_not_answered_has_no_goodput() {
    let report = audited(&failure());
    assert_eq!(report.exit_code(), 0, "{}", report.render());
    let mut null = failure();
    null.record["arms"]["fused"]["goodput"] = Value::Null;
    assert_eq!(audited(&null).exit_code(), 0);
    let mut counted = failure();
    let figures = json!({ "offered": 19, "good": 15, "good_per_s": null });
    counted.record["arms"]["fused"]["goodput"] = figures;
    assert_eq!(audited(&counted).exit_code(), 4);
}
