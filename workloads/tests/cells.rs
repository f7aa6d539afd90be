//! Cells: what they need against a count step by step, which ids they ask, what other programs are asked and answer.
//!
//! Not here: running one (`baselines`, `harness`).
#![allow(clippy::unwrap_used)] // tests

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use workloads::cells::external::{arguments, measurement};
use workloads::cells::needs::needs;
use workloads::cells::{Cell, CellPlan, CellTrace, Grounds, order, summarise};
use workloads::envelope::{CellEnvelope, Declared, Overrides, embedded};
use workloads::record::{CeilingsRecord, EffectiveRecord, ModelNumbers};
use workloads::trace::Line;

fn cell(prompt: usize, depth: usize, decode: usize, agents: usize, shared: usize) -> Cell {
    Cell {
        name: "c".to_owned(),
        prompt,
        depth,
        decode,
        agents,
        shared,
    }
}

const NUMBERS: ModelNumbers = ModelNumbers {
    layers: 3,
    hidden: 8,
    feed_forward: 20,
    heads: 4,
    kv_heads: 2,
    head_dim: 2,
    vocab: 50,
    weight_bytes: 1_000,
    quantized: true,
};

fn effective(mode: &str, kv_dtype: &str) -> EffectiveRecord {
    EffectiveRecord {
        mode: mode.to_owned(),
        kernels: "scalar".to_owned(),
        threads: 2,
        kv_dtype: kv_dtype.to_owned(),
    }
}

/// Bytes, operations of products and of attention, counted one step, agent and position at a time.
fn counted(cell: &Cell) -> (u64, u64, u64) {
    let n = NUMBERS;
    let (queries, keys) = (n.heads * n.head_dim, n.kv_heads * n.head_dim);
    let products = [queries, keys, keys, queries]
        .map(|width| n.hidden * width)
        .iter()
        .sum::<u64>()
        + 3 * n.hidden * n.feed_forward;
    let position_bytes = n.layers * 2 * keys * 2;
    let (mut bytes, mut matrix, mut attention) = (0, 0, 0);
    // Each step runs these many new positions of every agent, which has so many cached.
    let steps: Vec<(usize, usize)> = if cell.decode > 0 {
        (0..cell.decode)
            .map(|step| (1, cell.depth + 1 + step))
            .collect()
    } else {
        vec![(cell.prompt, cell.depth)]
    };
    for (new, cached) in steps {
        bytes += n.weight_bytes;
        let mut read = BTreeSet::new();
        for agent in 0..cell.agents {
            read.extend((0..cached).map(|at| {
                if at < cell.shared {
                    (0, at)
                } else {
                    (agent, at)
                }
            }));
            for at in cached..cached + new {
                bytes += position_bytes;
                matrix += 2 * n.layers * products;
                attention += 2 * 2 * n.layers * queries * (at as u64 + 1);
            }
            matrix += 2 * n.hidden * n.vocab;
        }
        bytes += read.len() as u64 * position_bytes;
    }
    (bytes, matrix, attention)
}

fn any_cell() -> impl Strategy<Value = Cell> {
    let sizes = (
        1_usize..9,
        0_usize..12,
        1_usize..5,
        0_usize..12,
        any::<bool>(),
    );
    sizes.prop_map(|(new, depth, agents, shared, decodes)| {
        let (prompt, decode) = if decodes { (0, new) } else { (new, 0) };
        cell(prompt, depth, decode, agents, shared.min(depth))
    })
}

proptest! {
    #[test]
    fn needs_equal_a_count_step_by_step(cell in any_cell()) {
        let found = needs(&cell, &NUMBERS, &effective("fast", "f16"), None);
        let found = (found.bytes, found.matrix_operations, found.attention_operations);
        prop_assert_eq!(found, counted(&cell));
    }

    #[test]
    fn own_ids_begin_differently_and_fill_what_is_declared(cell in any_cell(), seed in 0_u64..9) {
        let plan = CellPlan::new(&cell, seed, 10..40).unwrap();
        prop_assert_eq!(plan.shared().len(), cell.shared);
        for turn in 0..cell.turns() {
            let own: Vec<Vec<u32>> = (0..cell.agents).map(|agent| plan.append(agent, turn)).collect();
            let firsts: BTreeSet<_> = own.iter().filter_map(|ids| ids.first()).collect();
            let some = own.iter().filter(|ids| !ids.is_empty()).count();
            prop_assert_eq!(firsts.len(), some);
            prop_assert!(own.iter().flatten().all(|id| (10..40).contains(id)));
        }
        // Prompts of all turns, with the one output token between two turns, are the depth and what is new.
        let own: usize = (0..cell.turns()).map(|turn| plan.append(0, turn).len()).sum();
        let between = cell.turns() - 1;
        let before_decoding = usize::from(cell.decode > 0);
        prop_assert_eq!(cell.shared + own + between, cell.depth + cell.prompt + before_decoding);
    }
}

#[test]
fn the_limit_is_the_slower_of_moving_and_computing_at_the_ceilings_of_the_threads() {
    let rates = |one: u64, two: u64| [(1, one), (2, two)].into();
    let mut ceilings = CeilingsRecord {
        read_bytes_per_s: rates(1, 1_000_000_000),
        f32_flop_per_s: rates(1, 1_000_000_000),
        int8_op_per_s: rates(1, 4_000_000_000),
    };
    let work = cell(0, 5, 2, 1, 0);
    let limit = |mode: &str, ceilings: &CeilingsRecord| {
        needs(&work, &NUMBERS, &effective(mode, "f16"), Some(ceilings))
            .limit_ns
            .unwrap()
    };
    let (bytes, matrix, attention) = counted(&work);
    assert!(bytes < matrix / 4 + attention);
    assert_eq!(limit("exact", &ceilings), matrix + attention);
    assert_eq!(
        limit("fast", &ceilings),
        (matrix as f64 / 4.0).round() as u64 + attention
    );
    ceilings.read_bytes_per_s = rates(9, 1_000_000);
    assert_eq!(limit("fast", &ceilings), bytes * 1000);
    ceilings.int8_op_per_s.remove(&2);
    let unknown = needs(&work, &NUMBERS, &effective("fast", "f16"), Some(&ceilings));
    assert_eq!(unknown.limit_ns, None);
    assert!(unknown.withheld.unwrap().contains("2 threads"));
}

#[test]
fn every_cell_has_a_command_line_that_asks_for_it() {
    for (cell, fused, words) in [
        (
            cell(512, 0, 0, 1, 0),
            false,
            "-fa 0 -p 512 -n 0 -d 0 -r 1 -o json",
        ),
        (
            cell(64, 4096, 0, 5, 4096),
            true,
            "-fa 1 -p 64 -n 0 -d 4096 -r 1 -o json",
        ),
        (
            cell(0, 6144, 64, 1, 0),
            true,
            "-fa 1 -p 0 -n 64 -d 6144 -r 1 -o json",
        ),
        // 2048 + 5 * 33 positions, in steps of 256.
        (
            cell(0, 2048, 32, 5, 2048),
            true,
            "-c 2304 -npp 2048 -ntg 32 -npl 5 -pps -kvu --output-format jsonl -fa on",
        ),
        // Each of five has 4448 + 33 positions, in steps of 256.
        (
            cell(0, 4448, 32, 5, 2048),
            false,
            "-c 23040 -npp 4448 -ntg 32 -npl 5 --output-format jsonl -fa off",
        ),
    ] {
        assert_eq!(
            arguments(&cell, 2, fused, "m.gguf").join(" "),
            format!("-m m.gguf -t 2 {words}")
        );
    }
}

#[test]
fn an_answer_counts_only_if_it_is_for_what_was_asked() {
    let single = cell(64, 4096, 0, 5, 4096);
    let answer = r#"[{"n_prompt": 64, "n_gen": 0, "n_depth": 4096, "samples_ns": [800000000]}]"#;
    let measured = measurement(&single, answer).unwrap();
    assert_eq!((measured.tokens, measured.timed_ns), (64, 800_000_000));
    let batched = cell(0, 2048, 32, 5, 2048);
    let line = "\n{\"pp\": 2048, \"tg\": 32, \"pl\": 5, \"t_tg\": 3.784526}\n\n";
    let measured = measurement(&batched, line).unwrap();
    assert_eq!((measured.tokens, measured.timed_ns), (160, 3_784_526_000));
    for (cell, answer, part) in [
        (
            &single,
            answer.replace("\"n_prompt\": 64", "\"n_prompt\": 65"),
            "asked was 64",
        ),
        (
            &single,
            answer.replace("[800000000]", "[1, 2]"),
            "2 entries",
        ),
        (
            &single,
            answer.replace("800000000", "0"),
            "no time above zero",
        ),
        (
            &single,
            answer.replace("800000000", "-1"),
            "no time above zero",
        ),
        (&single, "[]".to_owned(), "0 measurements"),
        (&single, answer[..20].to_owned(), "not a JSON array"),
        (
            &batched,
            line.replace("3.784526", "\"fast\""),
            "no time above zero",
        ),
        (
            &batched,
            line.replace("\"pl\": 5", "\"pl\": 4"),
            "asked was 5",
        ),
        (
            &batched,
            "5 agents are fast".to_owned(),
            "no line with a JSON object",
        ),
    ] {
        let refused = measurement(cell, &answer).unwrap_err();
        assert!(refused.contains(part), "{answer}: {refused}");
    }
}

#[test]
fn embedded_envelopes_of_engine_work_run_two_threads_in_fast_mode_cell_by_cell() {
    let mut found = Vec::new();
    for (name, _) in embedded() {
        let Declared::Engine(envelope) = Declared::named(name).unwrap() else {
            continue;
        };
        let resolved = envelope.resolve(&Overrides::default(), 64).unwrap();
        assert_eq!(
            (
                resolved.run.threads,
                resolved.run.reps,
                resolved.mode.as_str()
            ),
            (2, 5, "fast")
        );
        let order = order(&resolved);
        let arms = resolved.run.arms.len();
        assert_eq!(order.len(), resolved.workload.cells.len() * arms * 5);
        let first = |place: usize| (order[place].0.name.as_str(), order[place].1, order[place].2);
        let cell = resolved.workload.cells[0].name.as_str();
        assert_eq!(first(0), (cell, "fak", 0));
        assert_eq!(
            first(2 * arms - 1),
            (cell, "fak", 1),
            "odd repetitions run backwards"
        );
        found.push(*name);
    }
    let expected = [
        "engine-prefill",
        "engine-decode",
        "engine-fleet",
        "engine-q4_0",
        "engine-q4_1",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_session_and_engine_work_are_told_apart_and_never_confused() {
    assert!(matches!(
        Declared::named("smoke").unwrap(),
        Declared::Session(_)
    ));
    assert!(CellEnvelope::named("smoke").is_err());
    let refused = Declared::parse("[workload]\nkind = \"engine\"\n", "x.toml").unwrap_err();
    assert!(refused.to_string().contains("x.toml"), "{refused}");
}

/// The lines of a trace that fails after `begin`.
fn failed(mut begin: Value) -> Vec<Line> {
    let zeros = "0".repeat(64);
    begin["schema"] = json!("fak.trace/1");
    for (field, value) in [
        ("envelope", "e"),
        ("envelope_sha256", &zeros),
        ("cell", "c"),
        ("model_sha256", "m"),
    ] {
        begin[field] = json!(value);
    }
    let error = json!({ "kind": "error", "message": "it broke" });
    let lines = [begin, error].into_iter().enumerate();
    let whole = lines.map(|(seq, mut line)| {
        (line["seq"], line["t_ns"], line["prev"]) = (json!(seq), json!(seq), json!(zeros));
        serde_json::from_value(line).unwrap()
    });
    whole.collect()
}

fn other(rep: usize, sha256: &str, model: &str) -> Vec<Line> {
    failed(json!({
        "kind": "begin_external", "arm": "llama-bench:fa0", "rep": rep,
        "program": {
            "name": "llama-bench", "sha256": sha256, "libraries_sha256": null, "version": null,
            "arguments": ["-m", model],
        },
    }))
}

#[test]
fn traces_of_different_builds_or_model_files_are_not_summarised_together() {
    let overrides = Overrides {
        arms: vec!["fak".to_owned(), "llama-bench:fa0".to_owned()],
        reps: Some(2),
        ..Overrides::default()
    };
    let named = CellEnvelope::named("engine-decode").unwrap();
    let mut envelope = named.resolve(&overrides, 1).unwrap();
    envelope.workload.cells = vec![cell(0, 1, 1, 1, 0)];
    let settings = json!({
        "cache": "shared", "batched": true, "shared_attention": true, "mode": "fast",
        "kernels": "scalar", "threads": 2, "kv_dtype": "f16", "page_positions": 64,
        "chunk_tokens": 256, "kv_pages": 64, "greedy": true,
    });
    let ours = |rep: usize| {
        failed(json!({
            "kind": "begin", "arm": "fak", "rep": rep, "tokenizer_sha256": null, "settings": settings,
        }))
    };
    for (second, refused) in [
        (other(1, "build", "a.gguf"), false),
        (other(1, "another build", "a.gguf"), true),
        (other(1, "build", "b.gguf"), true),
    ] {
        let lines = [ours(0), ours(1), other(0, "build", "a.gguf"), second];
        let cell = &envelope.workload.cells[0];
        let places = [
            ("fak", 0),
            ("fak", 1),
            ("llama-bench:fa0", 0),
            ("llama-bench:fa0", 1),
        ];
        let traces = places.iter().zip(&lines);
        let traces: Vec<CellTrace<'_>> = traces
            .map(|(&(arm, rep), lines)| CellTrace {
                cell,
                arm,
                rep,
                lines,
            })
            .collect();
        let grounds = Grounds {
            numbers: &NUMBERS,
            ceilings: None,
        };
        let outcome = summarise(&envelope, &traces, grounds).map_err(|error| error.to_string());
        assert_eq!(outcome.is_err(), refused, "{outcome:?}");
        let said = outcome.err().unwrap_or_default();
        assert_eq!(
            said.contains("its program or model file"),
            refused,
            "{said}"
        );
    }
}
