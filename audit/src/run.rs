//! One run directory, examined from the seal inwards; each layer is read only where the one outside it holds.
//!
//! Not here: whether the run is anchored (`index`).

use std::path::Path;

use crate::envelope::Envelope;
use crate::figures::{self, Traces};
use crate::format;
use crate::notebook::{Layer, Notebook};
use crate::record::{Identity, Record};
use crate::report::Report;
use crate::seal::{self, Sums};
use crate::trace::{self, Asked};

/// Audits one run directory.
pub fn audit_run(dir: &Path) -> Report {
    let mut notes = Notebook::default();
    let identity = examine(dir, &mut notes);
    Report::new(dir, identity, notes)
}

/// The recomputed identity, where the evidence could be followed that far; every other way out leaves a finding.
fn examine(dir: &Path, notes: &mut Notebook) -> Option<Identity> {
    let sums = seal::check(dir, notes)?;
    let envelope: Envelope = format::read(dir, "envelope.json", notes)?;
    if !envelope.check(notes) {
        return None;
    }
    check_files(&envelope, &sums, notes);
    let envelope_sha256 = sums.get("envelope.json")?;
    let record: Record = format::read(dir, "run.json", notes)?;
    let mut traces = Traces::new();
    let mut required = 0;
    for (arm, rep) in envelope.required() {
        required += 1;
        let asked = Asked {
            envelope: &envelope,
            envelope_sha256,
            arm,
            rep,
        };
        if let Some(trace) = trace::read(dir, &trace_path(arm, rep), &asked, notes) {
            traces.insert(format!("{arm}-{rep}"), trace);
        }
    }
    if traces.len() < required {
        return None; // the trace that could not be followed is the finding
    }
    figures::check(&record, &envelope, envelope_sha256, &traces, notes)
}

/// A run holds the traces its envelope asks for, and nothing else.
fn check_files(envelope: &Envelope, sums: &Sums, notes: &mut Notebook) {
    let traces = envelope.required().map(|(arm, rep)| trace_path(arm, rep));
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

fn trace_path(arm: &str, rep: u64) -> String {
    format!("trace/{arm}-{rep}.jsonl")
}
