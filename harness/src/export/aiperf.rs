//! A layout like AIPerf's `profile_export_aiperf.json`: an object for each metric, with its unit.
//!
//! Like it, and not it: what only AIPerf knows is not made up. Not here: what is measured (`measured`).

use serde_json::{Map, Value, json};

use super::Exported;
use super::measured::{Lie, Measured};
use super::origin;

const LAYOUT: &str = "AIPerf profile export (schema 1.4)";

/// One repetition.
pub(super) fn document(it: &Measured<'_>, exported: &Exported) -> Value {
    let (input, output) = (it.input_tokens(), it.output_tokens());
    let offered = it.requests.len() as u64;
    let answered = it.answered();
    let mut file = Map::new();
    let rate = |count: u64| it.per_second(count);
    for (name, unit, value) in [
        ("request_count", "requests", Some(answered as f64)),
        (
            "error_request_count",
            "requests",
            Some((offered - answered) as f64),
        ),
        ("total_isl", "tokens", Some(input as f64)),
        ("total_osl", "tokens", Some(output as f64)),
        ("benchmark_duration", "sec", it.duration_s()),
        ("request_throughput", "requests/sec", rate(answered)),
        ("output_token_throughput", "tokens/sec", rate(output)),
        ("total_token_throughput", "tokens/sec", rate(input + output)),
    ] {
        if let Some(value) = value {
            file.insert(name.to_owned(), json!({ "unit": unit, "avg": value }));
        }
    }
    for (name, lie) in [
        ("time_to_first_token", it.ttft()),
        ("inter_token_latency", it.tpot()),
        ("request_latency", it.e2e()),
    ] {
        if let Some(lie) = lie {
            file.insert(name.to_owned(), metric(&lie));
        }
    }
    file.insert("input_config".to_owned(), config(it, exported));
    file.insert("was_cancelled".to_owned(), false.into());
    file.insert("is_complete".to_owned(), true.into());
    let said = origin::of_repetition(it, exported, LAYOUT);
    file.insert("fak".to_owned(), said.into());
    file.into()
}

fn config(it: &Measured<'_>, exported: &Exported) -> Value {
    let arrivals = &exported.run.asked["workload"]["arrivals"];
    let mut phase = json!({
        "name": "profiling",
        "type": arrivals["process"].as_str().unwrap_or("concurrency"),
        "concurrency": it.concurrency,
        "requests": it.requests.len(),
    });
    if let Some(interval_us) = arrivals["interval_us"].as_u64().filter(|us| *us > 0) {
        phase["rate"] = json!(1e6 / interval_us as f64);
    }
    json!({
        "models": { "items": [{ "name": exported.run.record.model.name }] },
        "endpoint": { "type": it.engine(), "streaming": it.ttft().is_some() },
        "phases": [phase],
    })
}

/// A latency in milliseconds; only the percentiles that so many values allow.
fn metric(lie: &Lie) -> Value {
    let mut file = json!({
        "unit": "ms",
        "avg": lie.mean() / 1e6,
        "std": lie.deviation / 1e6,
        "min": lie.least as f64 / 1e6,
        "max": lie.most as f64 / 1e6,
        "sum": lie.sum as f64 / 1e6,
        "count": lie.count,
    });
    for (name, value_ns) in lie.percentiles() {
        file[name] = json!(value_ns / 1e6);
    }
    file
}
