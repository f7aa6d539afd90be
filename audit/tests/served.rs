//! Arms that another engine answers: honest runs of every kind pass, with what they withhold and what rests on whose word.
//!
//! Not here: lies about them (`corpus`).
#![allow(clippy::unwrap_used)] // tests

mod fixture;

use audit::{Report, audit_run};
use fixture::{Fixture, served, shorter};

fn audited(fixture: &Fixture) -> Report {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    audit_run(dir.path())
}

#[test]
fn honest_runs_pass_whatever_the_server_tells_and_however_its_answers_score() {
    for (name, honest) in [
        ("scored", served::run as fn() -> Fixture),
        ("outside the margin", served::outside),
        ("not scored", served::unscored),
        ("a silent server", served::silent),
        ("a failed arm", served::failed),
        ("fewer turns", shorter::first_turn_only),
    ] {
        let report = audited(&honest());
        assert_eq!(report.exit_code(), 0, "{name}: {}", report.render());
    }
}
