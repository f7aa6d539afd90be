//! Streams that radix caches are shown on, answered by a model: counts are those of the published study, cold and warm, and
//! answers are those of no reuse, on the kernels that define the answer and on this machine's own.
//!
//! Not here: the real model (`test.sh full`, and results/), or the same streams counted without one (`workloads`).

use std::fs;
use std::path::Path;

use serde_json::Value;
use workloads::trace::{Body, Line};

use super::Place;

/// Envelope, prompt tokens computed or carried, and prompt tokens in all, as the study has them for one pass.
const STREAMS: [(&str, u64, u64); 4] = [
    ("radix-few-shot", 512, 4352),
    ("radix-chat", 288, 1408),
    ("radix-tree-of-thought", 688, 3024),
    ("radix-agents", 848, 6360),
];

/// One repetition on the synthetic model.
fn run(place: &Place, envelope: &str, kernels: &str) -> Value {
    let model = ["--model", "synthetic-tiny", "--mode", "exact"];
    let rest = ["--reps", "1", "--kernels", kernels, "--json"];
    let words = [&["run", envelope][..], &model, &rest].concat();
    place.run(&words).expect(0).json()
}

/// What the prompts of each pass found and computed: by pass, matched, computed and carried, and lengths in sum.
fn passes(trace: &Path, turns: usize) -> [[u64; 3]; 2] {
    let mut sums = [[0; 3]; 2];
    let pass_of = |request: &str| {
        let (_, turn) = request.rsplit_once('t').unwrap();
        turn.parse::<usize>().unwrap() / turns
    };
    for line in fs::read_to_string(trace).unwrap().lines() {
        match serde_json::from_str::<Line>(line).unwrap().body {
            Body::Prefix {
                request, matched, ..
            } => sums[pass_of(&request)][0] += matched as u64,
            Body::Prefill {
                request,
                computed,
                carried,
                ..
            } => sums[pass_of(&request)][1] += (computed + carried) as u64,
            Body::Request { id, prompt_len, .. } => sums[pass_of(&id)][2] += prompt_len as u64,
            _ => {}
        }
    }
    sums
}

#[test]
fn streams_compute_what_the_study_counts_and_answer_as_without_reuse_cold_and_warm_on_two_kernel_sets()
 {
    let place = Place::new();
    for (envelope, computed, logical) in STREAMS {
        let [defining, own] = ["scalar", "auto"].map(|kernels| run(&place, envelope, kernels));
        for run in [&defining, &own] {
            assert_eq!(run["identity"]["equal"], true, "{envelope}");
            let dir = Path::new(run["dir"].as_str().unwrap());
            let declared = super::read_json(&dir.join("envelope.json"));
            let turns = declared["workload"]["turns"].as_u64().unwrap() as usize;
            for arm in ["instance-shared", "fused"] {
                let trace = dir.join(format!("trace/{arm}-0.jsonl"));
                let [cold, warm] = passes(&trace, turns);
                assert_eq!(cold, [logical - computed, computed, logical], "{envelope}");
                assert_eq!(warm, [logical, 0, logical], "{envelope}");
            }
        }
        for arm in ["naive", "agent-kv-batched", "instance-shared", "fused"] {
            for hash in ["output_sha256", "logits_sha256"] {
                let of = |run: &Value| {
                    let dir = Path::new(run["dir"].as_str().unwrap());
                    super::read_json(&dir.join("run.json"))["arms"][arm][hash].clone()
                };
                assert!(of(&defining).is_string(), "{envelope}, {arm}");
                assert_eq!(of(&defining), of(&own), "{envelope}, {arm}, {hash}");
            }
        }
    }
}

#[test]
fn a_fan_out_larger_than_its_cache_is_answered_in_waves_and_computes_its_context_once() {
    let place = Place::new();
    let text = include_str!("../../../workloads/envelopes/fan-out-64.toml");
    // 64 agents of 96 + 32 + 16 positions, two pages and a half: fifteen pages hold one page of context and a few agents.
    let small = text
        .replacen("prefix = 1024", "prefix = 96", 1)
        .replacen("kv_pages = 2048", "kv_pages = 15", 1)
        .replacen("smollm2-135m-q8_0", "synthetic-tiny", 1)
        .replacen("\"fast\"", "\"exact\"", 1)
        .replacen("reps = 5", "reps = 1", 1);
    fs::write(place.work().join("small.toml"), small).unwrap();
    let run = place.run(&["run", "small.toml", "--json"]).expect(0).json();
    assert_eq!(run["identity"]["equal"], true);
    let computed = |arm: &str| {
        run["arms"][arm]["prefill_tokens_computed"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(computed("fused"), 96 + 64 * 32);
    assert_eq!(computed("agent-kv-batched"), 64 * (96 + 32));
    let dir = Path::new(run["dir"].as_str().unwrap());
    let trace = fs::read_to_string(dir.join("trace/fused-0.jsonl")).unwrap();
    let lines = trace
        .lines()
        .map(|line| serde_json::from_str::<Line>(line).unwrap().body);
    let batches = lines.filter_map(|line| match line {
        Body::Finish { batch, .. } => batch.into_iter().max(),
        _ => None,
    });
    let largest = batches.max().unwrap();
    assert!((2..15).contains(&largest), "{largest} agents at once");
}

#[test]
fn a_gate_on_a_session_asked_twice_notices_its_control_and_passes_on_other_kernels() {
    let place = Place::new();
    let text = include_str!("../../../workloads/envelopes/radix-tree-of-thought.toml");
    let small = text
        .replacen("smollm2-135m-q8_0", "synthetic-tiny", 1)
        .replacen("\"fast\"", "\"exact\"", 1);
    fs::write(place.work().join("small.toml"), small).unwrap();
    place.run(&["gate", "small.toml", "--accept"]).expect(0);
    place
        .run(&["gate", "small.toml", "--kernels", "scalar"])
        .expect(0);
}
