//! The rows of a comparison that are the same on every machine: counters, hit rates, answers.
//!
//! Not here: times (`times`).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::json;
use workloads::arm::is_server;

use crate::gate::{around, first_difference};
use crate::sealed::SealedRun;

/// What an arm's record says that no machine may change.
const FIELDS: [&str; 10] = [
    "requests",
    "prefill_tokens_computed",
    "prefill_tokens_logical",
    "prefix_tokens_hit",
    "decode_tokens",
    "carried_tokens",
    "replayed_tokens",
    "reuse_rate",
    "output_sha256",
    "logits_sha256",
];
const CELL_FIELDS: [&str; 2] = ["output_sha256", "logits_sha256"];

/// One value in both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    pub(super) arm: String,
    pub(super) field: String,
    pub(super) first: String,
    pub(super) second: String,
    pub(super) equal: bool,
}

/// Every row that both runs have; an arm only one of them asked is left out.
pub(super) fn of(first: &SealedRun, second: &SealedRun) -> Vec<Row> {
    let (before, after) = (values(first), values(second));
    let mut rows: Vec<Row> = before
        .into_iter()
        .filter_map(|((arm, field), first)| {
            let second = after.get(&(arm.clone(), field.clone()))?.clone();
            Some(Row {
                equal: first == second,
                arm,
                field,
                first,
                second,
            })
        })
        .collect();
    rows.extend(departure(first, second));
    rows
}

/// Arms that only one of the runs asked, with their cells.
pub(super) fn arms_of_one_run(first: &SealedRun, second: &SealedRun) -> Vec<String> {
    let [before, after] = [first, second].map(|run| {
        let sessions = run.record.arms.keys().cloned();
        let cells = run.record.cells.iter().flatten();
        let cells =
            cells.flat_map(|cell| cell.arms.keys().map(move |arm| of_cell(&cell.name, arm)));
        sessions.chain(cells).collect::<BTreeSet<String>>()
    });
    before.symmetric_difference(&after).cloned().collect()
}

/// How rows call an arm in a cell.
fn of_cell(cell: &str, arm: &str) -> String {
    format!("{cell}, {arm}")
}

/// By (arm, field), the arm with its cell where there is one.
fn values(run: &SealedRun) -> BTreeMap<(String, String), String> {
    let mut values = BTreeMap::new();
    let mut take = |arm: String, record: serde_json::Value, fields: &[&str]| {
        for &field in fields.iter().filter(|field| !record[**field].is_null()) {
            let text = record[field].to_string();
            let text = text.trim_matches('"').to_owned();
            values.insert((arm.clone(), field.to_owned()), text);
        }
    };
    // What another engine counts and answers need not be the same twice.
    let ours = run.record.arms.iter().filter(|(name, _)| !is_server(name));
    for (name, arm) in ours {
        take(name.clone(), json!(arm), &FIELDS);
    }
    for cell in run.record.cells.iter().flatten() {
        for (name, arm) in &cell.arms {
            take(of_cell(&cell.name, name), json!(arm), &CELL_FIELDS);
        }
    }
    values
}

/// Where the answers of two runs first part, request by request, so that a differing digest has a place.
fn departure(first: &SealedRun, second: &SealedRun) -> Option<Row> {
    first.traces.iter().find_map(|trace| {
        let other = second
            .traces
            .iter()
            .find(|other| other.path == trace.path)?;
        let (before, after) = (answers(trace), answers(other));
        before.iter().find_map(|(request, ids)| {
            let other = after.get(request).filter(|other| *other != ids)?;
            Some(Row {
                arm: trace.whose(),
                field: format!("{request}, output id {}", first_difference(ids, other)),
                first: around(ids, other),
                second: around(other, ids),
                equal: false,
            })
        })
    })
}

fn answers(trace: &crate::sealed::Trace) -> BTreeMap<&str, &[u32]> {
    let bodies = trace.lines.iter().map(|line| &line.body);
    let answers = bodies.filter_map(|body| match body {
        workloads::trace::Body::Finish { request, ids, .. } => Some((request.as_str(), &ids[..])),
        _ => None,
    });
    answers.collect()
}
