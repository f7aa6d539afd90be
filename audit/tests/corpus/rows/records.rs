//! Lies in run.json.
//!
//! Not here: how a lie is told consistently (`tell`).

use audit::Layer::{self, Format, Identity, Record};
use serde_json::{Value, json};

use super::{Forgery, told, written};
use crate::fixture::{answers, sha256, simulate};
use crate::tell::{edit, everywhere};
pub(crate) static RECORDS: &[Forgery] = &[
    told(
        "an interval too narrow",
        Record,
        ("run.json", "\"wall_low\": 1.799999"),
        "ratios[0].wall_low",
        |it| {
            it.set("/ratios/0/wall_low", json!(1.799_999));
        },
    ),
    told(
        "a verdict",
        Record,
        ("run.json", "\"verdict\": \"FASTER\""),
        "the traces give",
        |it| {
            it.set("/ratios/3/verdict", json!("FASTER"));
        },
    ),
    told(
        "a headline",
        Record,
        ("run.json", "\"verdict\": \"SLOWER\""),
        "the traces give",
        |it| {
            it.set("/verdict", json!("SLOWER"));
        },
    ),
    told(
        "a ratio left out",
        Record,
        ("run.json", "\"ratios\""),
        "the number of ratios",
        |it| {
            it.record["ratios"].as_array_mut().unwrap().remove(3);
        },
    ),
    told(
        "a ratio against a weaker arm",
        Record,
        ("run.json", "\"denominator\": \"agent-kv-batched\""),
        "ratios[0].denominator",
        |it| {
            it.set("/ratios/0/denominator", json!("agent-kv-batched"));
        },
    ),
    told(
        "a floor that hides its name",
        Record,
        ("run.json", "\"label\": null"),
        "ratios[0].label",
        |it| {
            it.set("/ratios/0/label", Value::Null);
        },
    ),
    told(
        "an arm invented",
        Record,
        ("run.json", "\"arms\": {"),
        "arms are",
        |it| {
            it.record["arms"]["mock"] = it.record["arms"]["fused"].clone();
        },
    ),
    told(
        "a process run twice",
        Record,
        ("run.json", "\"order\""),
        "order is",
        |it| {
            let again = it.record["order"][0].clone();
            it.record["order"].as_array_mut().unwrap().push(again);
        },
    ),
    told(
        "arms that always ran in the same order",
        Record,
        ("run.json", "\"order\""),
        "odd repetitions run backwards: expected \"fused-1\"",
        |it| {
            let order = it.record["order"].as_array_mut().unwrap();
            for round in order.chunks_mut(5).skip(1).step_by(2) {
                round.reverse();
            }
        },
    ),
    told(
        "a run without a sitting",
        Record,
        ("run.json", "\"sittings\": []"),
        "sittings is empty",
        |it| {
            it.set("/sittings", json!([]));
        },
    ),
    told(
        "the hash of another envelope",
        Record,
        ("run.json", "\"envelope_sha256\""),
        "envelope_sha256 is",
        |it| {
            it.set("/envelope_sha256", json!(sha256("another")));
        },
    ),
    told(
        "a failure reported as complete",
        Record,
        ("run.json", "\"complete\": false"),
        "complete is false",
        |it| {
            it.set("/complete", json!(false));
        },
    ),
    told(
        "a reuse rate of one digit more",
        Record,
        ("run.json", "0.571429"),
        "reuse_rate",
        |it| {
            it.set("/arms/fused/reuse_rate", json!(0.571_429));
        },
    ),
    told(
        "answers of one arm said to be another's",
        Record,
        ("run.json", "\"output_sha256\": \"0"),
        "output_sha256",
        |it| {
            it.set("/arms/agent-kv/output_sha256", json!("0".repeat(64)));
        },
    ),
    told(
        "identity claimed",
        Identity,
        ("run.json", "\"equal\": true"),
        "identity.equal",
        |it| {
            everywhere(it, "finish", 3, |line| line["ids"][1] = json!(77));
            let changed = |agent, turn| match (agent, turn) {
                (1, 1) => vec![simulate::output(1, 1)[0], 77],
                _ => simulate::output(agent, turn),
            };
            it.set("/arms/fused/output_sha256", json!(answers(changed).0));
        },
    ),
    told(
        "more requests compared than were made",
        Identity,
        ("run.json", "\"requests\": 5"),
        "identity.requests",
        |it| {
            it.set("/identity/requests", json!(5));
        },
    ),
    told(
        "an arm left out of the comparison",
        Identity,
        ("run.json", "\"arms\": ["),
        "identity.arms",
        |it| {
            it.record["identity"]["arms"].as_array_mut().unwrap().pop();
        },
    ),
    told(
        "a p99 of five samples",
        Format,
        ("run.json", "wall_p99_ns"),
        "unknown field",
        |it| {
            it.record["arms"]["fused"]["wall_p99_ns"] = json!(420);
        },
    ),
    told(
        "a medal",
        Format,
        ("run.json", "medal"),
        "unknown field",
        |it| {
            it.record["medal"] = json!("gold");
        },
    ),
    told(
        "a null left out",
        Format,
        ("run.json", "}"),
        "missing field",
        |it| {
            it.record.as_object_mut().unwrap().remove("verdict");
        },
    ),
    written(
        "a figure that is no number",
        Format,
        ("run.json", "NaN"),
        "FORMAT.md",
        |dir| {
            edit(
                dir,
                "run.json",
                ("\"prefill\": 1.8", "\"prefill\": NaN"),
                true,
            );
        },
    ),
];

pub(crate) static SAMPLES: &[Forgery] = &[
    told(
        "slow samples dropped",
        Record,
        ("run.json", "\"samples\""),
        "arms.fused.samples",
        |it| {
            it.record["arms"]["fused"]["samples"]
                .as_array_mut()
                .unwrap()
                .pop();
        },
    ),
    told(
        "fast samples duplicated",
        Record,
        ("run.json", "\"samples\""),
        "arms.agent-kv.samples",
        |it| {
            let samples = it.record["arms"]["agent-kv"]["samples"]
                .as_array_mut()
                .unwrap();
            samples.push(samples[0].clone());
        },
    ),
    told(
        "a slow sample replaced by a fast one",
        Record,
        ("run.json", "\"wall_ns\": 3000"),
        "samples[4]",
        |it| {
            let samples = it.record["arms"]["fused"]["samples"]
                .as_array_mut()
                .unwrap();
            samples[4] = samples[0].clone();
        },
    ),
    told(
        "no samples at all",
        Record,
        ("run.json", "\"samples\": []"),
        "arms.naive.samples is 0",
        |it| {
            it.set("/arms/naive/samples", json!([]));
        },
    ),
    told(
        "a median that is a minimum",
        Record,
        ("run.json", "\"wall_ns\": 3000"),
        "arms.fused.wall_ns",
        |it| {
            it.set("/arms/fused/wall_ns", json!(3000));
        },
    ),
    told(
        "a fast repetition copied over a slow one",
        Layer::Format,
        ("trace/fused-4.jsonl", "\"kind\":\"begin\""),
        "rep is 0",
        |it| {
            let fast = it.traces["fused-0"].clone();
            it.traces.insert("fused-4".to_owned(), fast);
        },
    ),
    told(
        "a repetition copied and renumbered",
        Record,
        ("run.json", "\"wall_ns\": 4200"),
        "samples[4]",
        |it| {
            let mut fast = it.traces["fused-0"].clone();
            fast[0]["rep"] = json!(4);
            it.traces.insert("fused-4".to_owned(), fast);
        },
    ),
];
