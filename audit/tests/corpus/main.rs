//! The corpus of forged runs: lies told to an honest run by code, each with the family of checks that must catch it.
//!
//! Every lie is sealed and chained again unless it is about seal or chain, so that nothing outside the family it aims at
//! gives it away first. The table is `rows`: name, who catches it, exit code, the file and line the finding must name, a
//! fragment of its message. Not here: damage without intent (`runs`, `hostile`, `committed`), or which check
//! misses which lie (the example `mutants`).
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod attested;
#[path = "../fixture/mod.rs"]
mod fixture;
mod judge;
mod replaced;
mod rows;
mod tell;

use audit::{Checks, Layer, audit_index_with, audit_run, audit_run_with};
use fixture::Fixture;
use judge::{given_away, index_given_away, make};
use rows::{CATCHER_OF_REPLAY, Catcher, Forgery, rows};

#[test]
fn every_forgery_gets_its_code_and_a_message_that_names_the_lie_and_its_line() {
    let mut missed = Vec::new();
    for forgery in rows() {
        let Catcher::Layer(layer) = forgery.catcher else {
            continue;
        };
        let dir = tempfile::tempdir().unwrap();
        make(forgery, dir.path());
        let report = audit_run(dir.path());
        if !given_away(forgery, dir.path(), &report) {
            let Forgery {
                name,
                file,
                line,
                word,
                ..
            } = forgery;
            let said = report.render();
            missed.push(format!(
                "{name}: {layer:?}, {file} {line:?}, {word:?}, not in\n{said}"
            ));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn what_only_a_replay_can_catch_passes_and_is_named_as_replayable() {
    let mut seen = 0;
    for forgery in rows() {
        if forgery.catcher != Catcher::Replay {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        make(forgery, dir.path());
        let report = audit_run(dir.path());
        let (name, said) = (forgery.name, report.render());
        assert_eq!(report.exit_code(), forgery.code, "{name}: {said}");
        assert!(report.replayable[forgery.word] > 0, "{name}: {said}");
        assert!(said.contains(CATCHER_OF_REPLAY), "{name}: {said}");
        seen += 1;
    }
    assert!(seen >= 3);
}

#[test]
fn what_only_the_anchor_can_catch_passes_alone_and_breaks_the_index() {
    let mut seen = 0;
    for forgery in replaced::ROWS {
        let results = tempfile::tempdir().unwrap();
        replaced::publish(results.path());
        let honest = audit_index_with(results.path(), Checks::default());
        assert_eq!(honest.exit_code(), 0, "{}", honest.render());
        (forgery.tell)(results.path());
        let name = forgery.name;
        for run in ["tiny/one", "tiny/two"] {
            let run = results.path().join(run);
            assert!(
                !run.exists() || audit_run(&run).exit_code() == 0,
                "{name}: {run:?}"
            );
        }
        let report = audit_index_with(results.path(), Checks::default());
        assert!(
            index_given_away(forgery, &report),
            "{name}: {:?} on line {:?}, not in\n{}",
            forgery.word,
            forgery.line,
            report.render()
        );
        let blind = audit_index_with(results.path(), Checks::without(Layer::Anchor));
        assert_eq!(blind.exit_code(), 0, "{name}: {}", blind.render());
        seen += 1;
    }
    assert!(seen >= 3);
}

#[test]
fn a_forged_attestation_is_named_and_passes_only_without_the_checks_of_attestations() {
    let honest = tempfile::tempdir().unwrap();
    let place = fixture::attested::Place::with_run(honest.path());
    place.attest();
    let report = attested::audited(honest.path(), Checks::default());
    assert_eq!(report.exit_code(), 0, "{}", report.render());
    for row in attested::ROWS {
        let root = tempfile::tempdir().unwrap();
        attested::make(row, root.path());
        let report = attested::audited(root.path(), Checks::default());
        let (name, said) = (row.name, report.render());
        assert!(
            attested::given_away(row, &report),
            "{name}: {:?}, not in\n{said}",
            row.word
        );
        assert!(report.attestation.is_some_and(|it| !it.holds), "{name}");
        let blind = attested::audited(root.path(), Checks::without(Layer::Attestation));
        assert_eq!(blind.exit_code(), 0, "{name}: {}", blind.render());
        assert_eq!(
            audit_run(&place.run).exit_code(),
            0,
            "{name}: the run alone is whole"
        );
    }
}

#[test]
fn without_any_one_family_of_checks_some_forgery_gets_through() {
    let rows = rows();
    let of_runs = |it: &Layer| !matches!(it, Layer::Anchor | Layer::Attestation);
    for layer in Layer::ALL.into_iter().filter(of_runs) {
        let through = rows.iter().find(|forgery| {
            let dir = tempfile::tempdir().unwrap();
            let aimed = forgery.catcher == Catcher::Layer(layer);
            aimed && {
                make(forgery, dir.path());
                audit_run_with(dir.path(), Checks::without(layer)).exit_code() == 0
            }
        });
        let through = through.map(|forgery| forgery.name);
        eprintln!("without {layer:?}: {through:?} passes");
        assert!(through.is_some(), "{layer:?} is not needed for any forgery");
    }
}

#[test]
fn the_table_is_of_different_lies_about_honest_runs() {
    let rows = rows();
    let mut names: Vec<&str> = rows.iter().map(|it| it.name).collect();
    names.extend(replaced::ROWS.iter().map(|it| it.name));
    names.extend(attested::ROWS.iter().map(|it| it.name));
    eprintln!("{} forged runs", names.len());
    assert!(names.len() >= 200);
    names.sort_unstable();
    names.dedup();
    assert!(
        names.len() == rows.len() + replaced::ROWS.len() + attested::ROWS.len(),
        "a name is used twice"
    );
    for honest in [
        Fixture::ladder as fn() -> Fixture,
        fixture::cells::run,
        fixture::scripted::beside_naive,
        fixture::measured::run,
        fixture::quarantined::run,
        fixture::quarantined::one_by_one,
        fixture::quarantined::evicting,
        fixture::quarantined::branches,
        fixture::admitted::run,
        fixture::served::run,
        fixture::served::outside,
        fixture::served::unscored,
        fixture::served::silent,
        fixture::served::failed,
        fixture::shorter::first_turn_only,
        fixture::scheduled::run,
        fixture::scheduled::poisson,
        fixture::scheduled::beside_servers,
        fixture::scheduled::single,
        fixture::counted::sessions,
        fixture::counted::streams,
        fixture::counted::tasks,
        fixture::counted::fleet,
    ] {
        let dir = tempfile::tempdir().unwrap();
        honest().write(dir.path());
        let report = audit_run(dir.path());
        assert_eq!(report.exit_code(), 0, "{}", report.render());
    }
}
