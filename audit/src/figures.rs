//! Every figure of run.json that follows from the envelope and the traces, recomputed and compared leaf by leaf.
//!
//! What is not in the expected document is asserted: it is counted, and nothing more. Not here: how a single ratio
//! (`ratios`) or the identity (`identity`) comes about.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::arms::{Arms, stem};
use crate::arrivals;
use crate::envelope::Plan;
use crate::hash;
use crate::identity;
use crate::latencies;
use crate::line::{End, Settings};
use crate::notebook::{Layer, Notebook, brief, quote};
use crate::oracle::{Cache, MOCK, is_served};
use crate::possible;
use crate::ratios;
use crate::record::{Identity, Record, Sample};
use crate::schema;
use crate::server;
use crate::statistics::{median_integer, rounded};
use crate::trace::Trace;

/// Compares the record with the traces and gives the recomputed identity.
pub(crate) fn check(
    record: &Record,
    envelope_sha256: &str,
    arms: &Arms<'_>,
    notes: &mut Notebook,
) -> Option<Identity> {
    let first = arms.traces.values().next()?;
    check_traces(arms, first, notes);
    possible::check(record, arms.traces, notes);
    server::figures::check_traces(arms, first, &record.machine, notes);
    notes.open("run.json");
    let rounds = arms.envelope.run.rounds().into_iter();
    let order: Vec<String> = rounds.map(|(arm, rep)| stem(arm, rep)).collect();
    check_order(record, &order, notes);
    let stray = record.cells.is_some() || record.model.numbers.is_some();
    notes.check(Layer::Record, !stray, || {
        "cells and model.numbers belong to runs of cells".to_owned()
    });
    if record.sittings.is_empty() {
        notes.broken_at(Layer::Record, "sittings", "sittings is empty");
    }
    if let Some(ceilings) = &record.machine.ceilings {
        ceilings.check(notes);
    }
    if arms.envelope.workload.arrivals.is_some() {
        notes.not_checked.push(arrivals::UNSEEN.to_owned());
    }
    let identity = identity::recompute(arms, &record.order, arms.envelope.requests());
    let ratios = ratios::recompute(arms, &identity, &record.ratios);
    let mut expected = run_figures(arms, first, notes);
    expected["envelope_sha256"] = json!(envelope_sha256);
    expected["verdict"] = json!(ratios::headline(&ratios));
    expected["ratios"] = json!(ratios);
    expected["identity"] = json!(identity);
    let found = serde_json::to_value(record).unwrap_or_default(); // null equals no figure
    latencies::check(record, &found, notes);
    latencies::expect(
        &mut expected,
        &found,
        arms,
        record.instrument.as_ref(),
        notes,
    );
    server::figures::check_strays(arms, &found, notes);
    let same_arms = keys(&found["arms"]) == keys(&expected["arms"]);
    if !same_arms {
        let (found, expected) = (quote(&keys(&found["arms"])), quote(&arms.envelope.run.arms));
        let message = format!("arms are {found}, expected {expected}");
        notes.broken_at(Layer::Record, "arms", message);
    }
    compare(TRACES, "", &found, &expected, notes);
    let compared = leaves(&expected);
    notes.recomputed("figures of run.json", compared);
    let rest = leaves(&found).saturating_sub(compared);
    *notes.asserted.entry("figures of run.json").or_default() += rest;
    Some(identity)
}

/// Traces of ours have one setting, the one asked for, and ask one question.
fn check_traces(arms: &Arms<'_>, first: &Trace, notes: &mut Notebook) {
    let longest = arms.longest_inputs();
    for (name, trace) in arms.traces {
        notes.open(&format!("trace/{name}.jsonl"));
        notes.turn_to(Some(1)); // `begin`
        let mut others = arms.traces.values();
        let of_arm = others.find(|it| it.begin.arm == trace.begin.arm);
        alike(trace, first, of_arm.unwrap_or(first), notes);
        as_asked(trace, &arms.envelope.run, notes);
        notes.turn_to(None);
        if trace.end.is_some() {
            asks_alike(&trace.inputs_sha256, &longest, notes);
        }
    }
}

/// What run.json must say of the run as a whole and of each arm.
fn run_figures(arms: &Arms<'_>, first: &Trace, notes: &mut Notebook) -> Value {
    let (run, settings) = (&arms.envelope.run, &first.begin.settings);
    let obeyed = run.kernels == "auto" || run.kernels == settings.kernels;
    notes.check(Layer::Settings, obeyed, || {
        let (asked, effective) = (quote(&run.kernels), quote(&settings.kernels));
        format!("requested kernels {asked}, but the traces ran {effective}")
    });
    let by_arm = run
        .arms
        .iter()
        .map(|arm| (arm.clone(), arm_figures(arm, arms, notes)));
    let by_arm: Map<String, Value> = by_arm.collect();
    json!({
        "schema": schema::RUN,
        "envelope": arms.envelope.name,
        "complete": arms.completed().count() == run.arms.len(),
        "model": {
            "name": arms.envelope.model,
            "sha256": first.begin.model_sha256,
            "tokenizer_sha256": first.begin.tokenizer_sha256,
        },
        "requested": {
            "mode": arms.envelope.mode, "kernels": run.kernels, "threads": run.threads,
        },
        "effective": {
            "mode": settings.mode, "kernels": settings.kernels,
            "threads": settings.threads, "kv_dtype": settings.kv_dtype,
        },
        "arms": by_arm,
    })
}

/// Two traces of one run share model and settings; only policy and repetition differ, and policy not
/// between the traces of an arm, the first of which is `of_arm`.
pub(crate) fn alike(trace: &Trace, first: &Trace, of_arm: &Trace, notes: &mut Notebook) {
    let (begin, other) = (&trace.begin, &first.begin);
    notes.same(
        Layer::Settings,
        "model_sha256",
        &begin.model_sha256,
        &other.model_sha256,
    );
    let (ours, theirs) = (&begin.tokenizer_sha256, &other.tokenizer_sha256);
    notes.same(Layer::Settings, "tokenizer_sha256", ours, theirs);
    let policy = begin.settings.clone();
    let expected = Settings {
        cache: policy.cache,
        batched: policy.batched,
        shared_attention: of_arm.begin.settings.shared_attention,
        ..other.settings.clone()
    };
    notes.same(Layer::Settings, "settings", &begin.settings, &expected);
}

/// A trace of ours ran with what the envelope gives every arm.
pub(crate) fn as_asked(trace: &Trace, run: &Plan, notes: &mut Notebook) {
    let settings = &trace.begin.settings;
    for (what, found, asked) in [
        ("settings.threads", settings.threads, run.threads),
        (
            "settings.chunk_tokens",
            settings.chunk_tokens,
            run.chunk_tokens,
        ),
        ("settings.kv_pages", settings.kv_pages, run.kv_pages),
    ] {
        notes.same(Layer::Settings, what, &found, &asked);
    }
    let of_mode = if settings.mode == "exact" {
        "f32"
    } else {
        "f16"
    };
    let kv_dtype = run.kv_dtype.as_deref().unwrap_or(of_mode);
    for (what, found, asked) in [
        ("settings.eviction", &settings.eviction, &*run.eviction),
        ("settings.kv_dtype", &settings.kv_dtype, kv_dtype),
    ] {
        notes.same(Layer::Settings, what, found.as_str(), asked);
    }
    let (found, asked) = (&settings.admission, &run.admission);
    notes.same(Layer::Settings, "settings.admission", found, asked);
}

/// Turn by turn, as far as it goes, a trace that ended has the client say what the longest one has it say.
pub(crate) fn asks_alike(
    inputs: &BTreeMap<u64, String>,
    longest: &BTreeMap<u64, String>,
    notes: &mut Notebook,
) {
    for (turn, ours) in inputs {
        let what = format!("the hash of all client-supplied ids of turn {turn}");
        let theirs = longest.get(turn);
        notes.same(Layer::Prompt, &what, &Some(ours), &theirs);
    }
}

/// `order` names every trace once, in the order their processes run.
pub(crate) fn check_order(record: &Record, expected: &[String], notes: &mut Notebook) {
    if record.order == expected {
        return;
    }
    let differs = |place: &usize| record.order.get(*place) != expected.get(*place);
    let place = (0..=expected.len()).find(differs).unwrap_or_default();
    let name = |order: &[String]| quote(order.get(place).map_or("nothing", String::as_str));
    let (found, expected) = (name(&record.order), name(expected));
    let message = format!(
        "order is {found} at place {place}, but odd repetitions run backwards: expected {expected}"
    );
    notes.broken_at(Layer::Record, "order", message);
}

/// What run.json must say of one arm.
fn arm_figures(arm: &str, arms: &Arms<'_>, notes: &mut Notebook) -> Value {
    let samples: Vec<&End> = arms
        .traces(arm)
        .filter_map(|trace| trace.end.as_ref())
        .collect();
    let stated = |(trace, end): (&Trace, &End)| Sample {
        rep: trace.begin.rep,
        load_ns: end.load_ns,
        warmup_ns: end.warmup_ns,
        wall_ns: end.wall_ns,
        prefill_ns: Some(end.prefill_ns),
        decode_ns: Some(end.decode_ns),
        kv_bytes_peak: Some(end.kv_bytes_peak),
        rss_bytes_peak: end.rss_bytes_peak,
    };
    let ended = arms
        .traces(arm)
        .filter_map(|trace| Some((trace, trace.end.as_ref()?)));
    let policy = Cache::of_arm(arm);
    let mut figures = json!({
        "reps": arms.envelope.run.arm_reps.get(arm),
        "completed": samples.len(),
        "error": arms.traces(arm).find_map(|trace| trace.error.as_deref()),
        "provenance": if arm == MOCK { "SIMULATED" } else { "WITNESSED" },
        "cache": policy.map(|(cache, _)| cache.word()),
        "batched": policy.map(|(_, batched)| batched),
        "oracle_prefill_tokens":
            policy.and_then(|(cache, _)| cache.prefill_tokens(&arms.envelope.workload_of(arm))),
        "samples": ended.map(stated).collect::<Vec<_>>(),
    });
    let of_arm = match (arms.ends(arm), arms.traces(arm).next()) {
        _ if is_served(arm) => server::figures::of_arm(arm, arms),
        (Some(ends), Some(first)) => totals(arm, &ends, first, notes),
        _ => TOTALS
            .iter()
            .map(|name| ((*name).to_owned(), Value::Null))
            .collect(),
    };
    if let Some(figures) = figures.as_object_mut() {
        figures.extend(of_arm);
    }
    figures
}

/// The fields that are null for an arm that failed.
pub(crate) const TOTALS: [&str; 15] = [
    "requests",
    "prefill_tokens_computed",
    "prefill_tokens_logical",
    "prefix_tokens_hit",
    "decode_tokens",
    "carried_tokens",
    "replayed_tokens",
    "reuse_rate",
    "wall_ns",
    "prefill_ns",
    "decode_ns",
    "kv_bytes_peak",
    "rss_bytes_peak",
    "output_sha256",
    "logits_sha256",
];

fn totals(arm: &str, ends: &[&End], first: &Trace, notes: &mut Notebook) -> Map<String, Value> {
    let counters = |end: &End| {
        let (computed, logical) = (end.prefill_tokens_computed, end.prefill_tokens_logical);
        let (carried, replayed) = (end.carried_tokens, end.replayed_tokens);
        let (hit, decoded) = (end.prefix_tokens_hit, end.decode_tokens);
        [
            end.requests,
            computed,
            logical,
            hit,
            decoded,
            carried,
            replayed,
        ]
    };
    let counted = counters(ends[0]);
    for (rep, end) in ends.iter().enumerate() {
        notes.same(
            Layer::Count,
            &format!("counters of {arm}-{rep}"),
            &counters(end),
            &counted,
        );
    }
    let all = |time: fn(&End) -> u64| ends.iter().map(|end| time(end)).collect::<Vec<_>>();
    let ids = first.outputs.values().flat_map(|output| &output.ids);
    let logits: String = first
        .outputs
        .values()
        .map(|output| output.logits_sha256.as_str())
        .collect();
    let values: [Value; TOTALS.len()] = [
        json!(counted[0]),
        json!(counted[1]),
        json!(counted[2]),
        json!(counted[3]),
        json!(counted[4]),
        json!(counted[5]),
        json!(counted[6]),
        json!(rounded(counted[3] as f64 / counted[2] as f64)),
        json!(median_integer(&all(|end| end.wall_ns))),
        json!(median_integer(&all(|end| end.prefill_ns))),
        json!(median_integer(&all(|end| end.decode_ns))),
        json!(all(|end| end.kv_bytes_peak).iter().max()),
        json!(ends.iter().filter_map(|end| end.rss_bytes_peak).max()),
        json!(hash::of_ids(ids)),
        json!(hash::of_bytes(logits.as_bytes())),
    ];
    TOTALS
        .iter()
        .map(|name| (*name).to_owned())
        .zip(values)
        .collect()
}

/// Who gives the figures of a run.
pub(crate) const TRACES: &str = "the traces give";

/// Notes every leaf of `expected` that `found` does not have; `given` says in messages what it follows from.
pub(crate) fn compare(
    given: &str,
    path: &str,
    found: &Value,
    expected: &Value,
    notes: &mut Notebook,
) {
    let layer = if path.starts_with("identity") {
        Layer::Identity
    } else {
        Layer::Record
    };
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for (key, expected) in expected {
                let found = found.get(key).unwrap_or(&Value::Null);
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{key}");
                compare(given, &path, found, expected, notes);
            }
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
                compare(given, &format!("{path}[{place}]"), found, expected, notes);
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            let (found, expected) = (found.len(), expected.len());
            let message = format!("the number of {path} is {found}, expected {expected}");
            notes.broken_at(layer, path, message);
        }
        _ if found != expected => {
            let (found, expected) = (brief(found.to_string()), brief(expected.to_string()));
            let message = format!("{path} is {found}, {given} {expected}");
            notes.broken_at(layer, path, message);
        }
        _ => {}
    }
}

/// The keys of an object.
pub(crate) fn keys(value: &Value) -> Vec<&String> {
    value
        .as_object()
        .map(|object| object.keys().collect())
        .unwrap_or_default()
}

/// How many single values a document holds.
pub(crate) fn leaves(value: &Value) -> u64 {
    match value {
        Value::Object(object) => object.values().map(leaves).sum(),
        Value::Array(array) => array.iter().map(leaves).sum(),
        _ => 1,
    }
}
