//! Same model, same ids: the same logits, bit for bit, on every path. One hash over the whole product.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Record, bits, options};
use engine::{CachePolicy, Engine, EngineOptions, KernelChoice, KvType, Mode, Model, Request};

const PROMPT_LEN: usize = 150;
const DECODE: usize = 5;
/// Modes and KV types that are each held to one answer.
const NUMERICS: [(Mode, KvType); 3] = [
    (Mode::Exact, KvType::F32),
    (Mode::Fast, KvType::F16),
    (Mode::Fast, KvType::Q8_0),
];

fn prompt() -> Vec<u32> {
    (0..PROMPT_LEN as u32)
        .map(|i| (i * i * 31 + 7 * i) % 255)
        .collect()
}

fn request(id: u64, prompt: Vec<u32>, decode_max: usize) -> Request {
    Request {
        id,
        session: id,
        prompt,
        decode_max,
        ignore_eos: true,
        ..Request::default()
    }
}

fn run(engine: &mut Engine, record: &mut Record) {
    while engine.step(record).unwrap() {}
    engine.check().unwrap();
}

/// Runs the prompt after `hit` positions of it were cached by someone else, beside `batch - 1` strangers.
fn logits_and_ids(
    model: &str,
    options: &EngineOptions,
    batch: u64,
    hit: usize,
) -> (Vec<u32>, Vec<u32>) {
    let mut engine = Engine::new(Model::synthetic(model).unwrap(), options).unwrap();
    let mut record = Record::default();
    if hit > 0 {
        engine
            .submit(request(100, prompt()[..hit].to_vec(), 1))
            .unwrap();
        run(&mut engine, &mut record);
    }
    for stranger in 1..batch {
        let ids = (0..40 * stranger as u32)
            .map(|i| (i * 13 + stranger as u32) % 255)
            .collect();
        engine.submit(request(stranger, ids, DECODE + 3)).unwrap();
    }
    engine.submit(request(0, prompt(), DECODE)).unwrap();
    run(&mut engine, &mut record);
    assert_eq!(
        record.prefix[&0],
        (0, hit),
        "the cache gives exactly what was put in"
    );
    (bits(&record.last_logits[&0]), record.tokens[&0].clone())
}

#[test]
fn one_answer_over_kernels_threads_batch_hits_and_chunks() {
    let kernels = common::kernel_sets();
    let models = Model::synthetic_names().iter();
    for (model, (mode, kv_type)) in models.flat_map(|model| NUMERICS.map(|it| (model, it))) {
        let options = |kernels, threads| EngineOptions {
            mode,
            kv_type: Some(kv_type),
            ..options(kernels, threads)
        };
        let cold = EngineOptions {
            chunk_tokens: 1,
            ..options(KernelChoice::Scalar, 1)
        };
        let expected = logits_and_ids(model, &cold, 1, 0);
        let mut runs = 0;
        for &kernels in &kernels {
            for threads in [1, 2] {
                for batch in [1, 3] {
                    for hit in [0, 63, 64, 65] {
                        for chunk_tokens in [1, 64, 512] {
                            let options = EngineOptions {
                                chunk_tokens,
                                ..options(kernels, threads)
                            };
                            let found = logits_and_ids(model, &options, batch, hit);
                            assert!(
                                found == expected,
                                "{model}, {kv_type}: {kernels}, {threads} threads, batch {batch}, hit {hit}, chunk {chunk_tokens}"
                            );
                            runs += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(runs, kernels.len() * 2 * 2 * 4 * 3);
    }
}

/// Several requests on one prefix, of different depths, decoding together beside strangers: ids and last logits of each.
fn fleet(options: &EngineOptions, prefix: usize) -> Vec<(Vec<u32>, Vec<u32>)> {
    let mut engine = Engine::new(Model::synthetic("synthetic-tiny").unwrap(), options).unwrap();
    let mut record = Record::default();
    let donor = prompt()[..prefix].to_vec();
    engine.submit(request(100, donor.clone(), 1)).unwrap();
    run(&mut engine, &mut record);
    for agent in 0..6_u64 {
        // Agents 2 and 5 share nothing; the others part at once or after some pages of their own.
        let start = if agent % 3 == 2 { &[][..] } else { &donor };
        let own = (0..=29 * agent as u32).map(|i| (i * 17 + 40 * agent as u32 + 1) % 255);
        let ids = start.iter().copied().chain(own).collect();
        engine
            .submit(request(agent, ids, 3 + agent as usize))
            .unwrap();
    }
    run(&mut engine, &mut record);
    let answer = |agent: u64| {
        (
            bits(&record.last_logits[&agent]),
            record.tokens[&agent].clone(),
        )
    };
    (0..6).map(answer).collect()
}

#[test]
fn attending_common_pages_together_changes_no_bit() {
    for prefix in [40, 64, 100, 128, 129] {
        for (mode, kv_type) in NUMERICS {
            let options = |threads, shared_attention, batched| EngineOptions {
                mode,
                kv_type: Some(kv_type),
                shared_attention,
                batched,
                ..options(KernelChoice::Auto, threads)
            };
            let expected = fleet(&options(1, false, false), prefix);
            for (threads, shared) in [(1, true), (2, true), (5, true), (2, false)] {
                let found = fleet(&options(threads, shared, true), prefix);
                assert!(
                    found == expected,
                    "{mode}, {kv_type}: prefix {prefix}, {threads} threads, {shared}"
                );
            }
        }
    }
}

#[test]
fn a_prompt_found_whole_replays_one_position_and_answers_the_same() {
    let options = options(KernelChoice::Auto, 2);
    let expected = logits_and_ids("synthetic-tiny", &options, 1, 0);
    for hit in [PROMPT_LEN - 1, PROMPT_LEN] {
        assert_eq!(logits_and_ids("synthetic-tiny", &options, 1, hit), expected);
    }
    let mut engine = Engine::new(Model::synthetic("synthetic-tiny").unwrap(), &options).unwrap();
    for id in [0, 1] {
        engine.submit(request(id, prompt(), DECODE)).unwrap();
    }
    run(&mut engine, &mut Record::default());
    let counters = engine.counters();
    assert_eq!(
        (counters.prefill_tokens_computed, counters.replayed_tokens),
        (PROMPT_LEN as u64, 1)
    );
}

#[test]
fn rows_written_by_decoding_equal_rows_written_by_prefill() {
    for (model, mode, kv_type) in [
        ("synthetic-tiny", Mode::Exact, KvType::F32),
        ("synthetic-tiny-q4_1", Mode::Fast, KvType::F16),
        ("synthetic-tiny-q4_1", Mode::Fast, KvType::Q8_0),
        ("synthetic-tiny", Mode::Exact, KvType::Q8_0),
    ] {
        decoded_rows_equal_prefilled_rows(model, mode, kv_type);
    }
}

/// A session goes on with its own output; another engine gets the whole text as a prompt.
fn decoded_rows_equal_prefilled_rows(model: &str, mode: Mode, kv_type: KvType) {
    let options = EngineOptions {
        mode,
        kv_type: Some(kv_type),
        ..options(KernelChoice::Auto, 2)
    };
    let new = || Engine::new(Model::synthetic(model).unwrap(), &options).unwrap();
    let (mut warm, mut cold) = (new(), new());
    let mut record = Record::default();
    warm.submit(request(0, prompt(), 70)).unwrap();
    run(&mut warm, &mut record);
    let continued: Vec<u32> = prompt()
        .into_iter()
        .chain(record.tokens[&0].clone())
        .chain([9, 8, 7])
        .collect();
    warm.submit(Request {
        id: 1,
        session: 0,
        prompt: continued.clone(),
        decode_max: DECODE,
        ignore_eos: true,
        ..Request::default()
    })
    .unwrap();
    run(&mut warm, &mut record);
    assert_eq!(
        record.prefix[&1],
        (PROMPT_LEN + 69, 0),
        "all but the last sampled token is cached"
    );
    let counters = warm.counters();
    assert_eq!(counters.prefill_tokens_computed, PROMPT_LEN as u64 + 3);
    assert_eq!(counters.carried_tokens, 1);
    cold.submit(request(1, continued, DECODE)).unwrap();
    let mut cold_record = Record::default();
    run(&mut cold, &mut cold_record);
    assert_eq!(
        bits(&record.last_logits[&1]),
        bits(&cold_record.last_logits[&1])
    );
    // Every page of both, whoever wrote which row.
    let (warm, cold) = (warm.session_bits(0).unwrap(), cold.session_bits(1).unwrap());
    assert!(
        warm.len() > 3 && warm == cold,
        "{model}, {mode}, {kv_type}: cached bits differ"
    );
}

#[test]
fn an_edited_history_keeps_only_what_is_still_true() {
    let options = EngineOptions {
        cache: CachePolicy::Session,
        ..options(KernelChoice::Auto, 1)
    };
    let new = || Engine::new(Model::synthetic("synthetic-tiny").unwrap(), &options).unwrap();
    let mut warm = new();
    let mut record = Record::default();
    warm.submit(request(0, prompt(), DECODE)).unwrap();
    run(&mut warm, &mut record);
    let mut edited = prompt();
    edited[100] = (edited[100] + 1) % 255;
    let again = |id| Request {
        id,
        session: 0,
        prompt: edited.clone(),
        decode_max: DECODE,
        ignore_eos: true,
        ..Request::default()
    };
    warm.submit(again(1)).unwrap();
    run(&mut warm, &mut record);
    assert_eq!(record.prefix[&1], (100, 0));
    let mut cold = new();
    cold.submit(again(2)).unwrap();
    run(&mut cold, &mut record);
    assert_eq!(record.tokens[&1], record.tokens[&2]);
    assert_eq!(bits(&record.last_logits[&1]), bits(&record.last_logits[&2]));
}

#[test]
fn a_small_pool_evicts_waits_or_refuses_but_never_changes_an_answer() {
    let ample = options(KernelChoice::Auto, 1);
    let expected: Vec<_> = (0..4)
        .map(|agent| session_output(&ample, agent).1)
        .collect();
    // Each session needs 3 pages; 4 sessions one after another in 4 pages must evict.
    let tight = EngineOptions {
        kv_pages: 4,
        ..ample
    };
    let mut engine = Engine::new(Model::synthetic("synthetic-tiny").unwrap(), &tight).unwrap();
    let mut record = Record::default();
    for agent in 0..4 {
        engine.submit(session_output(&ample, agent).0).unwrap();
    }
    run(&mut engine, &mut record);
    for (agent, expected) in expected.iter().enumerate() {
        assert_eq!(&record.tokens[&(agent as u64)], expected);
    }
    let hopeless = EngineOptions {
        kv_pages: 2,
        ..ample
    };
    let mut engine = Engine::new(Model::synthetic("synthetic-tiny").unwrap(), &hopeless).unwrap();
    let error = engine.submit(session_output(&ample, 0).0).unwrap_err();
    assert!(error.to_string().contains("raise kv_pages"), "{error}");
}

/// A request of 140 positions of its own, and what it answers with room to spare.
fn session_output(options: &EngineOptions, agent: u64) -> (Request, Vec<u32>) {
    let ids = (0..140_u32)
        .map(|i| (i * (agent as u32 + 3) + agent as u32) % 255)
        .collect();
    let asked = request(agent, ids, DECODE);
    let mut engine = Engine::new(Model::synthetic("synthetic-tiny").unwrap(), options).unwrap();
    let mut record = Record::default();
    engine.submit(asked.clone()).unwrap();
    run(&mut engine, &mut record);
    (asked, record.tokens[&agent].clone())
}

#[test]
fn bad_requests_are_refused_by_name() {
    let mut engine = Engine::new(
        Model::synthetic("synthetic-tiny").unwrap(),
        &options(KernelChoice::Auto, 1),
    )
    .unwrap();
    let refused = |engine: &mut Engine, request| engine.submit(request).unwrap_err().to_string();
    assert!(refused(&mut engine, request(0, vec![], 1)).contains("empty"));
    assert!(refused(&mut engine, request(0, vec![1, 256], 1)).contains("id 256 at position 1"));
    assert!(refused(&mut engine, request(0, vec![1], 0)).contains("decode_max"));
    assert!(refused(&mut engine, request(0, vec![1; 8000], 193)).contains("8193 positions"));
    engine.submit(request(0, vec![1], 1)).unwrap();
    assert!(refused(&mut engine, request(0, vec![1], 1)).contains("id 0"));
    let busy = Request {
        id: 9,
        ..request(0, vec![1], 1)
    };
    assert!(refused(&mut engine, busy).contains("session 0"));
}
