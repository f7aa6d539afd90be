//! One run directory, examined from the seal inwards; each layer is read only where the one outside it holds.
//!
//! Not here: whether the run is anchored (`index`).

use std::path::Path;

use serde::Deserialize;

use crate::arms::{Arms, Servers, Traces, stem};
use crate::attest::{self, Signed};
use crate::cell::{Cell, CellDemands, EngineWork, flash_attention};
use crate::cells::{self, CellTraces};
use crate::counted;
use crate::declared;
use crate::demands::Demands;
use crate::envelope::Envelope;
use crate::external;
use crate::figures;
use crate::format;
use crate::notebook::{Checks, Layer, Notebook};
use crate::oracle::is_served;
use crate::record::{Identity, Record};
use crate::report::Report;
use crate::schema;
use crate::seal::{self, Sums};
use crate::server::score::{self, Scored};
use crate::server::{self, ServerTrace};
use crate::session::Session;
use crate::trace::{self, Asked};

/// Audits one run directory.
pub fn audit_run(dir: &Path) -> Report {
    audit_run_with(dir, Checks::default())
}

/// The same with these checks only.
pub fn audit_run_with(dir: &Path, checks: Checks) -> Report {
    audited(dir, checks, None)
}

/// The same, and the attestation that the auditor has a key for.
pub(crate) fn audited(dir: &Path, checks: Checks, signed: Option<&Signed>) -> Report {
    let mut notes = Notebook::new(checks);
    let sums = seal::check(dir, &mut notes);
    let followed = sums.as_ref().and_then(|it| examine(dir, it, &mut notes));
    let attestation = signed.map(|it| attest::check(dir, sums.as_ref(), it, &mut notes));
    Report::new(dir, followed, attestation, notes)
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

/// Evidence that could be followed to its end.
pub(crate) enum Followed {
    /// Arms ran; whether they answered alike, recomputed.
    Ran(Identity),
    /// Nothing ran.
    Counted,
}

/// What the evidence is, where it could be followed that far; every other way out leaves a finding.
fn examine(dir: &Path, sums: &Sums, notes: &mut Notebook) -> Option<Followed> {
    declared::check(dir, notes);
    // What cannot even be peeked into is for the strict reading to complain of.
    let peek: Option<Peek> = format::read(dir, "envelope.json", &mut Notebook::default());
    match peek.as_ref().map(|peek| peek.workload.kind.as_str()) {
        Some("engine") => examine_cells(dir, sums, notes).map(Followed::Ran),
        Some("counts") => examine_counts(dir, sums, notes),
        _ => examine_session(dir, sums, notes).map(Followed::Ran),
    }
}

/// A counted envelope: there is nothing but it and its record.
fn examine_counts(dir: &Path, sums: &Sums, notes: &mut Notebook) -> Option<Followed> {
    let envelope: counted::Envelope = format::read(dir, "envelope.json", notes)?;
    if !envelope.check(notes) {
        return None;
    }
    check_files(std::iter::empty(), &[], sums, notes);
    let envelope_sha256 = sums.get("envelope.json")?;
    let record: counted::Record = format::read_tagged(dir, "run.json", schema::COUNTS, notes)?;
    counted::check(&record, &envelope, envelope_sha256, notes)?;
    Some(Followed::Counted)
}

/// A run of a session.
fn examine_session(dir: &Path, sums: &Sums, notes: &mut Notebook) -> Option<Identity> {
    let envelope: Envelope = format::read(dir, "envelope.json", notes)?;
    if !envelope.check(notes) {
        return None;
    }
    let stems = envelope.required().map(|(arm, rep)| stem(arm, rep));
    let served = envelope.required().filter(|(arm, _)| is_served(arm));
    let scores: Vec<String> = served.map(|(arm, rep)| score_path(arm, rep)).collect();
    check_files(stems, &scores, sums, notes);
    let envelope_sha256 = sums.get("envelope.json")?;
    let record: Record = format::read(dir, "run.json", notes)?;
    let (mut traces, mut servers) = (Traces::new(), Servers::default());
    let (mut required, mut scores) = (0, 0);
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
        let stem = stem(arm, rep);
        let path = trace_path(&stem);
        if is_served(arm) {
            let Some(trace) = server::read(dir, &path, &asked, &envelope, notes) else {
                continue;
            };
            if check_scored(&trace, sums, notes) {
                scores += 1;
                let scored = Scored {
                    trace: &trace,
                    sha256: sums.get(&path).map_or("", String::as_str),
                    run: &envelope.run,
                };
                let read = score::read(dir, &score_path(arm, rep), &asked, scored, notes);
                servers.scores.extend(read.map(|it| (stem.clone(), it)));
            }
            servers.traces.insert(stem, trace);
            continue;
        }
        let demands = Demands::Session(Box::new(Session::new(&envelope, arm)));
        let read = trace::read(dir, &path, &asked, demands, notes);
        traces.extend(read.map(|trace| (stem, trace)));
    }
    if traces.len() + servers.traces.len() < required || servers.scores.len() < scores {
        return None; // the trace that could not be followed is the finding
    }
    let arms = Arms {
        envelope: &envelope,
        traces: &traces,
        servers: &servers,
    };
    figures::check(&record, envelope_sha256, &arms, notes)
}

/// Answers are scored if and only if all of them came. Whether there is a score to read.
fn check_scored(trace: &ServerTrace, sums: &Sums, notes: &mut Notebook) -> bool {
    let path = score_path(&trace.begin.arm, trace.begin.rep);
    let (ended, scored) = (trace.end.is_some(), sums.contains_key(&path));
    notes.open(&path);
    notes.check(Layer::Seal, ended || !scored, || {
        "scores a trace that did not end in `end_server`".to_owned()
    });
    notes.check(Layer::Seal, scored || !ended, || {
        "is missing: its trace ended in `end_server`".to_owned()
    });
    ended && scored
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
    check_files(places.iter().map(stem), &[], sums, notes);
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

/// A run holds the traces its envelope asks for, and nothing else but `scores`, which there may be.
fn check_files(
    stems: impl Iterator<Item = String>,
    scores: &[String],
    sums: &Sums,
    notes: &mut Notebook,
) {
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
        .filter(|path| required.binary_search(path).is_err() && !scores.contains(path))
    {
        notes.open(path);
        notes.broken(
            Layer::Seal,
            "does not belong to this run: the envelope asks for no such file",
        );
    }
}

fn score_path(arm: &str, rep: u64) -> String {
    trace_path(&format!("{}.score", stem(arm, rep)))
}

fn trace_path(stem: &str) -> String {
    format!("trace/{stem}.jsonl")
}
