//! Rows of every table, as objects whose keys are columns; a key that is absent or null is a null.
//!
//! Not here: which columns there are (`columns`), or how they become a frame (`frame`).

use serde_json::{Map, Value, json};
use workloads::record::{ArmRecord, CellArmRecord};
use workloads::statistics::round6;

use super::Source;
use crate::error::Error;
use crate::{files, requests, sealed};

/// One row.
pub(super) type Row = Map<String, Value>;

/// Counters that an arm's repetitions have in common.
const COUNTERS: [&str; 8] = [
    "requests",
    "prefill_tokens_computed",
    "prefill_tokens_logical",
    "prefix_tokens_hit",
    "decode_tokens",
    "carried_tokens",
    "replayed_tokens",
    "reuse_rate",
];

/// The columns that every table has.
fn common(source: &Source) -> Row {
    let record = &source.record;
    row(json!({
        "run": source.run,
        "envelope": record.envelope,
        "date": source.date(),
        "machine_class": record.machine.class,
        "speaks": source.silent.is_none(),
        "model": record.model.name,
        "mode": record.effective.mode,
    }))
}

/// An object as a row; anything else has no columns.
fn row(value: Value) -> Row {
    match value {
        Value::Object(row) => row,
        _ => Row::new(),
    }
}

/// `common` with more columns.
fn with(mut common: Row, more: Value) -> Row {
    common.extend(row(more));
    common
}

/// The row of a run.
pub(super) fn run(source: &Source) -> Row {
    let record = &source.record;
    let (build, machine) = (&record.build, &record.machine);
    let sittings = record.sittings.iter();
    let sitting = sittings.max_by_key(|it| it.started_unix_s);
    with(
        common(source),
        json!({
            "kind": if record.cells.is_some() { "engine" } else { "session" },
            "anchored": source.anchored,
            "silent": source.silent,
            "sums_sha256": source.sums_sha256,
            "envelope_sha256": record.envelope_sha256,
            "complete": record.complete,
            "identity_equal": record.identity.equal,
            "verdict": record.verdict,
            "model_label": record.model.label,
            "model_sha256": record.model.sha256,
            "kernels": record.effective.kernels,
            "threads": record.effective.threads,
            "kv_dtype": record.effective.kv_dtype,
            "version": build.version,
            "commit": build.commit,
            "dirty": build.dirty,
            "debug_assertions": build.debug_assertions,
            "cpu": machine.cpu,
            "cores": machine.cores,
            "memory_bytes": (machine.memory_bytes > 0).then_some(machine.memory_bytes),
            "os": machine.os,
            "started_unix_s": source.started_unix_s(),
            "load1_before": sitting.and_then(|it| it.load1_before),
            "noise_spread": sitting.and_then(|it| it.noise.as_ref()).map(|it| it.spread),
        }),
    )
}

/// Rows of the repetitions of a run.
pub(super) fn samples(source: &Source) -> Vec<Row> {
    let common = common(source);
    let mut rows = Vec::new();
    for (name, arm) in &source.record.arms {
        rows.extend(session_samples(&common, name, arm, source.turns(name)));
    }
    for cell in source.record.cells.iter().flatten() {
        for (name, arm) in &cell.arms {
            rows.extend(cell_samples(&common, &cell.name, name, arm));
        }
    }
    rows
}

fn session_samples(common: &Row, name: &str, arm: &ArmRecord, turns: Option<u64>) -> Vec<Row> {
    let stated = json!(arm);
    let mut counters: Row = COUNTERS
        .iter()
        .map(|&it| (it.to_owned(), stated[it].clone()))
        .collect();
    counters.extend(row(json!({
        "arm": name,
        "turns": turns,
        "provenance": arm.provenance,
        "cache": arm.cache,
        "batched": arm.batched,
        "beyond_margin": arm.score.as_ref().map(|it| it.beyond_margin.is_some()),
    })));
    let of = |sample: &workloads::record::Sample| {
        let mut cells = with(common.clone(), json!(sample));
        cells.extend(counters.clone());
        cells.insert("outlier".into(), outlier(arm.outliers.as_ref(), sample.rep));
        cells
    };
    arm.samples.iter().map(of).collect()
}

fn cell_samples(common: &Row, cell: &str, name: &str, arm: &CellArmRecord) -> Vec<Row> {
    let of = |sample: &workloads::record::CellSample| {
        let mut cells = with(common.clone(), json!(sample));
        let rate = sample.tokens as f64 * 1e9 / sample.timed_ns as f64;
        cells.extend(row(json!({
            "cell": cell,
            "arm": name,
            "provenance": arm.provenance,
            "tokens_per_s": (sample.timed_ns > 0).then(|| round6(rate)),
            "outlier": outlier(arm.outliers.as_ref(), sample.rep),
        })));
        cells
    };
    arm.samples.iter().map(of).collect()
}

fn outlier(outliers: Option<&Vec<usize>>, rep: usize) -> Value {
    outliers.map_or(Value::Null, |them| them.contains(&rep).into())
}

/// Rows of the ratios of a run.
pub(super) fn ratios(source: &Source) -> Vec<Row> {
    let common = common(source);
    let of_session = source.record.ratios.iter().map(|ratio| {
        let ends = json!({ "low": ratio.wall_low, "high": ratio.wall_high });
        let mut cells = with(common.clone(), json!(ratio));
        for name in ["wall_low", "wall_high", "outliers"] {
            cells.remove(name); // the ends stand under one name in sessions and cells
        }
        with(cells, ends)
    });
    let cells = source.record.cells.iter().flatten();
    let of_cells = cells.flat_map(|cell| {
        let common = with(common.clone(), json!({ "cell": cell.name }));
        cell.ratios.iter().map(move |ratio| {
            let mut cells = with(common.clone(), json!(ratio));
            cells.remove("outliers");
            cells
        })
    });
    of_session.chain(of_cells).collect()
}

/// Hands the rows of all requests of a run to `take`, one trace after the other.
pub(super) fn requests(
    source: &Source,
    take: &mut dyn FnMut(Row) -> Result<(), Error>,
) -> Result<(), Error> {
    let common = common(source);
    for path in files::files_below(&source.directory)? {
        if !path.starts_with("trace/") {
            continue;
        }
        let Some(trace) = sealed::read_trace(&source.directory, path)? else {
            continue; // what another program said in one piece, or a score: no requests
        };
        if !source.has_arm(&trace.arm) {
            continue; // left out by whoever asked
        }
        for it in requests::of(&trace.lines) {
            take(with(
                common.clone(),
                json!({
                    "cell": trace.cell,
                    "arm": trace.arm,
                    "rep": trace.rep,
                    "request": it.id,
                    "session": it.session,
                    "agent": it.agent,
                    "turn": it.turn,
                    "worker": it.worker,
                    "prompt_len": it.prompt_len,
                    "matched": it.matched,
                    "computed": it.computed,
                    "carried": it.carried,
                    "replayed": it.replayed,
                    "chunks": it.chunks,
                    "output_tokens": it.output_tokens,
                    "reason": it.reason,
                    "due_ns": it.due_ns,
                    "submit_ns": it.submit_ns,
                    "finish_ns": it.finish_ns,
                    "ttft_ns": it.ttft_ns,
                    "tpot_ns": it.tpot_ns,
                    "e2e_ns": it.e2e_ns,
                }),
            ))?;
        }
    }
    Ok(())
}
