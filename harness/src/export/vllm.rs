//! The layout of `vllm bench serve --save-result`: one flat object, seconds and milliseconds.
//!
//! Not here: what is measured (`measured`).

use serde_json::{Map, Value, json};

use super::Exported;
use super::measured::{Lie, Measured};
use super::origin;
use crate::calendar::compact;

const LAYOUT: &str = "vllm bench serve --save-result";

/// One repetition.
pub(super) fn document(it: &Measured<'_>, exported: &Exported) -> Value {
    let (input, output) = (it.input_tokens(), it.output_tokens());
    let offered = it.requests.len() as u64;
    let answered = it.answered();
    let facts = [
        ("date", exported.source.started_unix_s().map(compact).into()),
        ("backend", it.engine().into()),
        ("label", it.arm.into()),
        ("model_id", exported.run.record.model.name.clone().into()),
        ("gpu", origin::machine_words(exported).into()),
        ("num_prompts", offered.into()),
        ("max_concurrency", it.concurrency.into()),
        ("duration", it.duration_s().into()),
        ("completed", answered.into()),
        ("failed", (offered - answered).into()),
        ("total_input_tokens", input.into()),
        ("total_output_tokens", output.into()),
        ("request_throughput", it.per_second(answered).into()),
        ("output_throughput", it.per_second(output).into()),
        (
            "total_token_throughput",
            it.per_second(input + output).into(),
        ),
    ];
    let mut file: Map<String, Value> = facts
        .into_iter()
        .filter(|(_, value): &(_, Value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    file.extend(arrivals(exported));
    for (family, lie) in [
        ("ttft", it.ttft()),
        ("tpot", it.tpot()),
        ("itl", it.itl()),
        ("e2el", it.e2e()),
    ] {
        if let Some(lie) = lie {
            file.extend(latency(family, &lie));
        }
    }
    let said = origin::of_repetition(it, exported, LAYOUT);
    file.insert("fak".to_owned(), said.into());
    file.into()
}

/// How requests come, where they do so by the clock. Of a closed loop this layout has no word: its `inf` is all at once.
fn arrivals(exported: &Exported) -> Map<String, Value> {
    let arrivals = &exported.run.asked["workload"]["arrivals"];
    let mut file = Map::new();
    if let Some(interval_us) = arrivals["interval_us"].as_u64().filter(|it| *it > 0) {
        file.insert("request_rate".to_owned(), json!(1e6 / interval_us as f64));
        if arrivals["process"] == "poisson" {
            file.insert("burstiness".to_owned(), json!(1.0));
        }
    }
    file
}

/// `mean_ttft_ms` and so on; only the percentiles that so many values allow.
fn latency(family: &str, lie: &Lie) -> Map<String, Value> {
    let key = |name: &str| format!("{name}_{family}_ms");
    let mut file = Map::new();
    file.insert(key("mean"), json!(lie.mean() / 1e6));
    file.insert(key("std"), json!(lie.deviation / 1e6));
    for (name, value_ns) in lie.percentiles() {
        let name = if name == "p50" { "median" } else { name };
        file.insert(key(name), json!(value_ns / 1e6));
    }
    file
}
