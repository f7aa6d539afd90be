//! Cells of engine work on the synthetic model: timed rows, equal answers, room, and refusals that reach the trace.
//!
//! Not here: other programs (`harness`, whole-program tests) and the figures of a run (`workloads`).
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::cell::Cell as Counter;

use baselines::{CellJob, Error, Programs, run_cell};
use workloads::cells::{Cell, CellTrace, CellWorkload, Grounds, summarise};
use workloads::envelope::{CellEnvelope, Overrides, ResolvedCells};
use workloads::record::ModelNumbers;
use workloads::trace::{Body, Line};

fn cell(prompt: usize, depth: usize, decode: usize, agents: usize, shared: usize) -> Cell {
    Cell {
        name: "c".to_owned(),
        prompt,
        depth,
        decode,
        agents,
        shared,
    }
}

/// Sizes around the page of 64 positions.
fn cells() -> Vec<Cell> {
    vec![
        cell(1, 0, 0, 1, 0),
        cell(70, 0, 0, 3, 0),
        cell(1, 64, 0, 2, 64),
        cell(9, 65, 0, 3, 64),
        cell(130, 63, 0, 2, 0),
        cell(0, 0, 1, 1, 0),
        cell(0, 64, 5, 4, 64),
        cell(0, 130, 3, 3, 64),
        cell(0, 63, 3, 2, 10),
    ]
}

fn envelope(cell: &Cell) -> ResolvedCells {
    let overrides = Overrides {
        arms: vec!["fak".to_owned(), "fak-unshared".to_owned()],
        reps: Some(1),
        model: Some("synthetic-tiny".to_owned()),
        ..Overrides::default()
    };
    let envelope = CellEnvelope::named("engine-decode").unwrap();
    let mut resolved = envelope.resolve(&overrides, 1).unwrap();
    resolved.workload = CellWorkload {
        cells: vec![cell.clone()],
        ..resolved.workload
    };
    resolved
}

fn run(envelope: &ResolvedCells, arm: &str) -> (Result<(), Error>, Vec<Line>) {
    let job = CellJob {
        envelope: envelope.clone(),
        cell: envelope.workload.cells[0].clone(),
        arm: arm.to_owned(),
        rep: 0,
        model_path: None,
        programs: Programs::default(),
    };
    let (now, mut out) = (Counter::new(0), Vec::new());
    let clock = || now.replace(now.get() + 1);
    let outcome = run_cell(&job, &clock, &|| Some(1), &|| false, &mut out);
    let text = String::from_utf8(out).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (outcome, lines.collect())
}

const NUMBERS: ModelNumbers = ModelNumbers {
    layers: 1,
    hidden: 1,
    feed_forward: 1,
    heads: 1,
    kv_heads: 1,
    head_dim: 1,
    vocab: 1,
    weight_bytes: 1,
    quantized: false,
};

#[test]
fn every_cell_times_exactly_the_rows_it_declares_and_our_arms_answer_alike() {
    for cell in cells() {
        let envelope = envelope(&cell);
        let traces = ["fak", "fak-unshared"].map(|arm| (arm, run(&envelope, arm)));
        let traces = traces.map(|(arm, (outcome, lines))| outcome.map(|()| (arm, lines)).unwrap());
        let traces: Vec<CellTrace<'_>> = traces
            .iter()
            .map(|(arm, lines)| CellTrace {
                cell: &cell,
                arm,
                rep: 0,
                lines,
            })
            .collect();
        let grounds = Grounds {
            numbers: &NUMBERS,
            ceilings: None,
        };
        // The summary refuses a trace whose timed rows are not those declared.
        let summary = summarise(&envelope, &traces, grounds).unwrap();
        assert!(summary.complete && summary.identity.equal, "{cell:?}");
        let sample = &summary.cells[0].arms["fak"].samples[0];
        assert_eq!(
            sample.tokens as usize,
            cell.agents * (cell.prompt + cell.decode)
        );
    }
}

#[test]
fn the_fewest_pages_that_are_accepted_suffice() {
    for cell in cells() {
        let mut envelope = envelope(&cell);
        envelope.run.kv_pages = 0;
        loop {
            envelope.run.kv_pages += 1;
            match run(&envelope, "fak").0 {
                Err(Error::Cell {
                    what: "KV pages", ..
                }) => {}
                outcome => break outcome.unwrap(),
            }
        }
    }
}

#[test]
fn a_cell_that_cannot_be_run_says_so_in_its_last_line() {
    let (outcome, lines) = run(&envelope(&cell(9000, 0, 0, 1, 0)), "fak");
    let message = outcome.unwrap_err().to_string();
    assert!(
        message.contains("9002 positions and 8192 are there"),
        "{message}"
    );
    assert!(matches!(lines[0].body, Body::Begin { .. }));
    assert_eq!(lines.last().unwrap().body, Body::Error { message });

    let (outcome, lines) = run(&envelope(&cell(9, 0, 0, 1, 0)), "llama-bench:fa0");
    let message = outcome.unwrap_err().to_string();
    assert!(
        message.starts_with("no llama-bench; give --bin"),
        "{message}"
    );
    let Body::BeginExternal { program, .. } = &lines[0].body else {
        panic!("{:?}", lines[0]);
    };
    assert_eq!(
        (program.name.as_str(), &program.sha256),
        ("llama-bench", &None)
    );
    assert_eq!(lines.last().unwrap().body, Body::Error { message });
}
