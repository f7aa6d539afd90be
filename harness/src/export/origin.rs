//! The object `fak` in every file: whose figures these are, from which evidence, by which definitions, and what is left out.
//!
//! Not here: the figures.

use serde_json::{Map, Value, json};
use workloads::record::RatioRecord;

use super::Exported;
use super::measured::{Lie, Measured};
use crate::sealed::failures;

/// What is said of the run, whatever is taken from it.
pub(super) fn of_run(exported: &Exported, layout: &str) -> Map<String, Value> {
    let (source, record) = (&exported.source, &exported.run.record);
    let said = json!({
        "layout": layout,
        "note": format!(
            "Computed from evidence of fak. The tool whose layout this is had no part in it: {layout}"
        ),
        "run": source.run,
        "sums_sha256": source.sums_sha256,
        "anchored": source.anchored,
        "silent": source.silent,
        "envelope": record.envelope,
        "envelope_sha256": record.envelope_sha256,
        "date": source.date(),
        "complete": record.complete,
        "failures": failures(record),
        "identity_equal": record.identity.equal,
        "model": record.model,
        "build": record.build,
        "machine_class": record.machine.class,
        "cpu": record.machine.cpu,
        "settings": record.effective,
    });
    match said {
        Value::Object(said) => said,
        _ => Map::new(),
    }
}

/// What is said of one repetition of a session.
pub(super) fn of_repetition(
    it: &Measured<'_>,
    exported: &Exported,
    layout: &str,
) -> Map<String, Value> {
    let mut said = of_run(exported, layout);
    let ratios = exported.run.record.ratios.iter();
    let ratios: Vec<&RatioRecord> = ratios
        .filter(|ratio| ratio.arm == it.arm || ratio.denominator == it.arm)
        .collect();
    let load = if exported.run.comes_by_the_clock() {
        "each request has a time at which it is due, whatever became of those before it"
    } else {
        "closed: an agent asks again as soon as it is answered, so a slow arm is asked less often"
    };
    let more = json!({
        "engine": it.engine(),
        "arm": it.arm,
        "rep": it.sample.rep,
        "reps": it.record.reps,
        "turns": exported.source.turns(it.arm),
        "provenance": it.record.provenance,
        "cache": it.record.cache,
        "batched": it.record.batched,
        "server": it.record.server,
        "score": it.record.score,
        "at_instrument_limit": it.record.at_instrument_limit,
        "sample": it.sample,
        "prefill_tokens_computed": it.record.prefill_tokens_computed,
        "prefix_tokens_hit": it.record.prefix_tokens_hit,
        "ratios": ratios,
        "load": load,
        "definitions": definitions(),
        "left_out": left_out(it),
    });
    if let Value::Object(more) = more {
        said.extend(more);
    }
    said
}

/// What the figures mean.
fn definitions() -> Value {
    json!({
        "duration": "first request handed over, or text computed ahead for all, to last answer whole, on one monotonic clock; loading and warming up are before it",
        "ttft": "first output token less the moment the request was handed over; waiting in the engine is in it",
        "tpot": "(E2E - TTFT) / (output tokens - 1), over requests with at least two; rounded down to nanoseconds",
        "itl": "all gaps between a token and the next, of all requests",
        "e2el": "last output token less the moment the request was handed over",
        "percentiles": "linear between neighbours, as numpy's default; stated only where enough values allow it",
        "std": "squares divided by the number of values (ddof 0)",
    })
}

/// What a reader might look for in vain, and why.
fn left_out(it: &Measured<'_>) -> Value {
    let mut reasons = Map::new();
    let families = [
        ("ttft", it.ttft()),
        ("tpot", it.tpot()),
        ("itl", it.itl()),
        ("e2el", it.e2e()),
    ];
    for (name, lie) in families {
        let reason = match lie {
            None => {
                "not measured: answers of several tokens came in one piece, or had one token each"
                    .to_owned()
            }
            Some(lie) => match withheld(&lie) {
                Some(reason) => reason,
                None => continue,
            },
        };
        reasons.insert(name.to_owned(), reason.into());
    }
    Value::Object(reasons)
}

/// Which percentiles so few values do not allow.
fn withheld(lie: &Lie) -> Option<String> {
    let missing: Vec<String> = lie
        .withheld()
        .map(|(name, needed)| format!("{name} needs {needed}"))
        .collect();
    (!missing.is_empty()).then(|| format!("of {} values: {}", lie.count, missing.join(", ")))
}

/// The machine where readers look for a GPU: so that two machines are not taken for one.
pub(super) fn machine_words(exported: &Exported) -> String {
    let machine = &exported.run.record.machine;
    format!("none; CPU {}, {}", machine.cpu, machine.class)
}
