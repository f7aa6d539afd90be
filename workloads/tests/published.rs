//! What the reference system publishes, held against our own account: reports/REFERENCE-CLAIMS.md says nothing else.
//!
//! Its result files are other people's data and are read where they lie; the figures of the page are computed here, each from
//! a published file or from the account, and must stand in it word for word.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;

use common::reference;
use serde_json::Value;
use workloads::accounting::streams::{Radix, session};
use workloads::accounting::{CacheModel, Scope, replay};
use workloads::datasets::{declared, swebench, webbench};
use workloads::fanout::Fanout;
use workloads::oracle::Shape;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A result file as published; none where it is absent.
fn published(name: &str) -> Option<Value> {
    let text = reference(&format!("published/{name}.json"))?;
    Some(serde_json::from_str(&text).unwrap())
}

/// The page's line of a claim, in its cells.
fn row(claim: &str) -> Vec<String> {
    let page = std::fs::read_to_string(root().join("reports/REFERENCE-CLAIMS.md")).unwrap();
    let line = page
        .lines()
        .find(|line| line.starts_with(&format!("| {claim} |")));
    let line = line.unwrap_or_else(|| panic!("no row {claim:?}"));
    line.trim_matches('|')
        .split('|')
        .map(|cell| cell.trim().to_owned())
        .collect()
}

/// Holds a row to what is published and to what we get.
fn holds(claim: &str, published: &str, here: &str) {
    let cells = row(claim);
    assert_eq!(
        (cells[1].as_str(), cells[2].as_str()),
        (published, here),
        "{claim}"
    );
}

/// One count over another.
fn counts(over: u64, under: u64) -> String {
    times(over as f64, under as f64)
}

fn times(over: f64, under: f64) -> String {
    format!("{:.3}x", over / under)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn counted(workload: &Shape) -> [u64; 3] {
    [Scope::None, Scope::Session, Scope::Fleet].map(|scope| {
        let account = replay(&CacheModel::unbounded(scope), session(workload, 0));
        account.computed_tokens
    })
}

#[test]
fn token_counts_of_the_session_are_reproduced() {
    let Some(published) = published("headline-qwen-50x5") else {
        return;
    };
    let cell = &published["cells"][0];
    let shape = Shape {
        agents: 5,
        turns: 50,
        prefix: 2048,
        decode: 32,
        result: 64,
        workers: 1,
        ..Shape::default()
    };
    let [naive, kept, shared] = counted(&shape);
    let tokens = &cell["prefill_tokens"];
    assert_eq!(
        [naive, kept, shared],
        ["a", "b", "c"].map(|arm| tokens[arm].as_u64().unwrap())
    );
    let said = |name: &str| format!("{:.3}x", number(&tokens[name]));
    holds(
        "session, tokens, naive over shared",
        &said("a_over_c"),
        &counts(naive, shared),
    );
    holds(
        "session, tokens, each keeps over shared",
        &said("b_over_c"),
        &counts(kept, shared),
    );
}

#[test]
fn wall_times_of_the_session_are_a_model_and_a_blend() {
    let Some(published) = published("headline-qwen-50x5") else {
        return;
    };
    let cell = &published["cells"][0];
    let arm = |name: &str, field: &str| number(&cell[name][field]);
    let (naive, kept, shared) = (
        "arm_A_naive_stateless",
        "arm_B_per_agent_kv",
        "arm_C_fak_fused",
    );
    assert_eq!(cell[naive]["live"], false);
    let unanchored = number(&cell["arm_A_prefill_raw_ms"]) + arm(naive, "decode_ms");
    holds(
        "session, time, naive over shared",
        &format!("{:.3}x", number(&cell["net_value_add_vs_naive"])),
        &times(unanchored, arm(shared, "total_ms")),
    );
    let saved = arm(kept, "total_ms") - arm(shared, "total_ms");
    let decode = arm(kept, "decode_ms") - arm(shared, "decode_ms");
    let lengths = published["prefill_model"]["lens"].as_array().unwrap();
    let at_prefix = lengths.iter().position(|it| it == 2048).unwrap();
    let of_prefix = number(&published["prefill_model"]["ms"][at_prefix]);
    let sharing = 4.0 * of_prefix * number(&cell["prefill_anchor"]);
    let share = |part: f64| format!("{:.1} %", part / saved * 100.0);
    let increments = saved - decode - sharing;
    holds(
        "session, time, each keeps over shared",
        &format!("{:.3}x", number(&cell["net_value_add_vs_tuned"])),
        &format!(
            "batched decoding {}, batched increments {}, sharing {}",
            share(decode),
            share(increments),
            share(sharing)
        ),
    );
}

#[test]
fn the_hit_rate_is_what_any_tree_without_a_limit_gives() {
    let Some(published) = published("radixbench-synthetic") else {
        return;
    };
    let workloads = published["workloads"].as_array().unwrap();
    let agents = workloads.iter().find(|it| it["name"] == "agents").unwrap();
    let free = replay(
        &CacheModel::unbounded(Scope::Fleet),
        Radix::Agents.requests(),
    );
    let percent = |rate: f64| format!("{:.2} %", rate * 100.0);
    holds(
        "agents, hit rate without a limit",
        &percent(number(&agents["cache_hit_rate"])),
        &percent(free.hit_rate()),
    );
    holds(
        "agents, tokens, naive over computed",
        &format!("{:.3}x", number(&agents["prefill_token_speedup"])),
        &counts(free.prompt_tokens, free.computed_tokens),
    );
    let budget = agents["bounded_budget_tokens"].as_u64();
    let model = CacheModel {
        scope: Scope::Fleet,
        capacity_tokens: budget,
    };
    holds(
        "agents, hit rate in 408 tokens, first come first served",
        &percent(number(&agents["bounded_fcfs_hit_rate"])),
        &percent(replay(&model, Radix::Agents.requests()).hit_rate()),
    );
}

#[test]
fn the_fan_out_is_arithmetic() {
    let Some(published) = published("fanbench-research") else {
        return;
    };
    let cells = published["cells"].as_array().unwrap();
    let cell = cells.iter().find(|it| it["agents"] == 1024).unwrap();
    let ours = Fanout {
        agents: 1024,
        turns: 4,
        prefix: 2048,
    };
    let path = ours.path().unwrap();
    assert_eq!(cell["total_work_turns"], path.total_turns);
    assert_eq!(cell["critical_path_turns"], path.critical_turns);
    assert_eq!(
        cell["prefix_tokens_saved"],
        ours.prefix_tokens_saved().unwrap()
    );
    holds(
        "fan-out of 1024, turns in all over turns in a row",
        &format!("{:.3}x", number(&cell["parallel_speedup"])),
        &counts(path.total_turns, path.critical_turns),
    );
}

#[test]
fn web_agents_gain_from_keeping_and_hardly_from_sharing() {
    let Some(published) = published("webvoyager-fleet-scale-20260626") else {
        return;
    };
    let rows = published["prefill"].as_array().unwrap();
    let Some(text) = reference("webvoyager-converted.jsonl") else {
        return;
    };
    let set = webbench::read(&text, "webvoyager", &declared(&webbench::TURNS, &[])).unwrap();
    for (workers, naive, sharing) in [
        (
            8,
            "WebVoyager, 8 workers, tokens, naive over shared",
            "WebVoyager, 8 workers, tokens, each keeps over shared",
        ),
        (
            100,
            "WebVoyager, 100 workers, tokens, naive over shared",
            "WebVoyager, 100 workers, tokens, each keeps over shared",
        ),
    ] {
        let row = rows.iter().find(|it| it["workers"] == workers).unwrap();
        let [a, b, c] = set.closed_forms(workers).unwrap();
        assert_eq!(
            [a, b, c],
            ["a_naive", "b_agent", "c_fak"].map(|arm| row[arm].as_u64().unwrap())
        );
        holds(
            naive,
            &format!("{:.3}x", number(&row["a_over_c"])),
            &counts(a, c),
        );
        holds(
            sharing,
            &format!("{:.3}x", number(&row["b_over_c"])),
            &counts(b, c),
        );
    }
}

#[test]
fn sums_of_pages_that_are_wrong_are_worked_out_again() {
    let dollars = |tokens: u64| format!("$ {:.4}", tokens as f64 * 3e-6);
    let kept = dollars(5000 + 600 * 19);
    holds("20 turns on 5000 tokens, kept", "$ 0.04", &kept);
    let Some(text) = reference("swebench_smoke.json") else {
        return;
    };
    let set = swebench::read(&text, "smoke", &declared(&swebench::TURNS, &[])).unwrap();
    let saved = [1, 8].map(|workers| {
        let costs = set.costs(workers, false).unwrap();
        let left = costs.shared.computed_tokens as f64 / costs.naive.computed_tokens as f64;
        format!("{:.1} %", (1.0 - left) * 100.0)
    });
    holds(
        "saved over naive on SWE-bench",
        "95 %+",
        &saved.join(" to "),
    );
}
