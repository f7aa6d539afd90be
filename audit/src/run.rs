//! One run directory, examined from the seal inwards; each layer is read only where the one outside it holds.
//!
//! Not here: whether the run is anchored (`index`).

use std::path::Path;

use serde::Deserialize;

use crate::cell::{Cell, CellDemands, EngineWork, flash_attention};
use crate::cells::{self, CellTraces};
use crate::declared;
use crate::demands::Demands;
use crate::envelope::Envelope;
use crate::external;
use crate::figures::{self, Traces};
use crate::format;
use crate::notebook::{Checks, Layer, Notebook};
use crate::record::{Identity, Record};
use crate::report::Report;
use crate::seal::{self, Sums};
use crate::session::Session;
use crate::trace::{self, Asked};

/// Audits one run directory.
pub fn audit_run(dir: &Path) -> Report {
    audit_run_with(dir, Checks::default())
}

/// The same with these checks only.
pub fn audit_run_with(dir: &Path, checks: Checks) -> Report {
    let mut notes = Notebook::new(checks);
    let identity = examine(dir, &mut notes);
    Report::new(dir, identity, notes)
}

/// What must be known of an envelope before it can be read strictly.
#[derive(Deserialize)]
struct Peek {
    workload: Kind,
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
}

/// The recomputed identity, where the evidence could be followed that far; every other way out leaves a finding.
fn examine(dir: &Path, notes: &mut Notebook) -> Option<Identity> {
    let sums = seal::check(dir, notes)?;
    declared::check(dir, notes);
    // What cannot even be peeked into is for the strict reading to complain of.
    let peek: Option<Peek> = format::read(dir, "envelope.json", &mut Notebook::default());
    if peek.is_some_and(|peek| peek.workload.kind == "engine") {
        return examine_cells(dir, &sums, notes);
    }
    let envelope: Envelope = format::read(dir, "envelope.json", notes)?;
    if !envelope.check(notes) {
        return None;
    }
    let stems = envelope.required().map(|(arm, rep)| format!("{arm}-{rep}"));
    check_files(stems, &sums, notes);
    let envelope_sha256 = sums.get("envelope.json")?;
    let record: Record = format::read(dir, "run.json", notes)?;
    let mut traces = Traces::new();
    let mut required = 0;
    for (arm, rep) in envelope.required() {
        required += 1;
        let asked = Asked {
            envelope: &envelope.name,
            mode: &envelope.mode,
            envelope_sha256,
            cell: None,
            arm,
            rep,
            kv: envelope.evidence.kv,
        };
        let stem = format!("{arm}-{rep}");
        let demands = Demands::Session(Session::new(&envelope, arm));
        if let Some(trace) = trace::read(dir, &trace_path(&stem), &asked, demands, notes) {
            traces.insert(stem, trace);
        }
    }
    if traces.len() < required {
        return None; // the trace that could not be followed is the finding
    }
    figures::check(&record, &envelope, envelope_sha256, &traces, notes)
}

/// The same for a run of cells.
fn examine_cells(dir: &Path, sums: &Sums, notes: &mut Notebook) -> Option<Identity> {
    let envelope: Envelope<EngineWork> = format::read(dir, "envelope.json", notes)?;
    if !envelope.check(notes) {
        return None;
    }
    let cells = &envelope.workload.cells;
    let places: Vec<(&Cell, &str, u64)> = cells
        .iter()
        .flat_map(|cell| envelope.required().map(move |(arm, rep)| (cell, arm, rep)))
        .collect();
    let stem = |(cell, arm, rep): &(&Cell, &str, u64)| cells::stem(&cell.name, arm, *rep);
    check_files(places.iter().map(stem), sums, notes);
    let envelope_sha256 = sums.get("envelope.json")?;
    let record: Record = format::read(dir, "run.json", notes)?;
    let mut traces = CellTraces::default();
    for place @ (cell, arm, rep) in &places {
        let (stem, threads) = (stem(place), envelope.run.threads);
        let path = trace_path(&stem);
        let asked = Asked {
            envelope: &envelope.name,
            mode: &envelope.mode,
            envelope_sha256,
            cell: Some(&cell.name),
            arm,
            rep: *rep,
            kv: false,
        };
        if flash_attention(arm).is_some() {
            let read = external::read(dir, &path, &asked, (cell, threads), notes);
            traces.external.extend(read.map(|trace| (stem, trace)));
        } else {
            let demands = Demands::Cell(CellDemands::new(cell, envelope.workload.seed));
            let read = trace::read(dir, &path, &asked, demands, notes);
            traces.own.extend(read.map(|trace| (stem, trace)));
        }
    }
    if traces.own.len() + traces.external.len() < places.len() {
        return None; // the trace that could not be followed is the finding
    }
    cells::check(&record, &envelope, envelope_sha256, &traces, notes)
}

/// A run holds the traces its envelope asks for, and nothing else.
fn check_files(stems: impl Iterator<Item = String>, sums: &Sums, notes: &mut Notebook) {
    let traces = stems.map(|stem| trace_path(&stem));
    let fixed = ["envelope.toml", "envelope.json", "run.json"].map(str::to_owned);
    let mut required: Vec<String> = fixed.into_iter().chain(traces).collect();
    required.sort_unstable();
    for path in required.iter().filter(|path| !sums.contains_key(*path)) {
        notes.open(path);
        notes.broken(Layer::Seal, "is missing: the envelope asks for it");
    }
    for path in sums
        .keys()
        .filter(|path| required.binary_search(path).is_err())
    {
        notes.open(path);
        notes.broken(
            Layer::Seal,
            "does not belong to this run: the envelope asks for no such file",
        );
    }
}

fn trace_path(stem: &str) -> String {
    format!("trace/{stem}.jsonl")
}
