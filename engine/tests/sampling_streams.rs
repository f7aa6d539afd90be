//! Sampled streams of a whole engine: the same on every path, stopped, told with log-probabilities, cancelled.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Record, options};
use engine::sample::logprobs;
use engine::{
    CachePolicy, Engine, EngineOptions, Event, FinishReason, KernelChoice, Logprob, Model, Request,
    SamplingParams, Sink,
};

fn tiny(options: &EngineOptions) -> Engine {
    Engine::new(Model::synthetic("synthetic-tiny").unwrap(), options).unwrap()
}

fn asked(id: u64, prompt: Vec<u32>, sampling: SamplingParams) -> Request {
    Request {
        id,
        session: id,
        prompt,
        decode_max: 12,
        ignore_eos: true,
        sampling,
        ..Request::default()
    }
}

fn prompt() -> Vec<u32> {
    (0..90_u32).map(|i| (i * i * 17 + 5 * i) % 255).collect()
}

fn warm(seed: u64) -> SamplingParams {
    SamplingParams {
        temperature: 1.2,
        top_k: Some(60),
        top_p: 0.97,
        min_p: 0.001,
        repetition_penalty: 1.1,
        presence_penalty: 0.1,
        frequency_penalty: 0.05,
        logit_bias: [(7, -3.0), (9, 1.0)].into(),
        seed,
        ..Default::default()
    }
}

/// The stream of request 0 beside others, after someone cached `hit` positions of its prompt.
fn stream(options: &EngineOptions, neighbours: u64, hit: usize, seed: u64) -> Vec<u32> {
    let mut engine = tiny(options);
    let mut record = Record::default();
    if hit > 0 {
        engine
            .submit(asked(99, prompt()[..hit].to_vec(), warm(1)))
            .unwrap();
        while engine.step(&mut record).unwrap() {}
    }
    for id in 1..=neighbours {
        let ids = (0..20 * id as u32)
            .map(|i| (i * 13 + id as u32) % 255)
            .collect();
        engine.submit(asked(id, ids, warm(id))).unwrap();
    }
    engine.submit(asked(0, prompt(), warm(seed))).unwrap();
    while engine.step(&mut record).unwrap() {}
    record.tokens[&0].clone()
}

#[test]
fn a_sampled_stream_is_the_same_on_every_path_and_differs_by_seed() {
    let expected = stream(&options(KernelChoice::Scalar, 1), 0, 0, 5);
    for kernels in [KernelChoice::Scalar, KernelChoice::Auto] {
        for cache in [CachePolicy::None, CachePolicy::Session, CachePolicy::Shared] {
            for (threads, batched, neighbours, hit, chunk_tokens) in [
                (1, true, 0, 0, 1),
                (2, true, 4, 63, 64),
                (2, false, 2, 64, 512),
                (3, true, 1, 89, 16),
                (1, false, 0, 90, 256),
            ] {
                let base = options(kernels, threads);
                let options = EngineOptions {
                    cache,
                    batched,
                    chunk_tokens,
                    ..base
                };
                let found = stream(&options, neighbours, hit, 5);
                assert_eq!(
                    found, expected,
                    "{options:?}, {neighbours} beside, hit {hit}"
                );
            }
        }
    }
    assert_ne!(stream(&options(KernelChoice::Auto, 1), 0, 0, 6), expected);
}

#[test]
fn a_stream_cut_and_fed_again_goes_on_as_it_would_have() {
    // Without penalties on the output, which by definition forget what has become prompt.
    let sampling = SamplingParams {
        temperature: 1.0,
        seed: 77,
        ..Default::default()
    };
    let mut record = Record::default();
    let mut engine = tiny(&options(KernelChoice::Auto, 1));
    engine.submit(asked(0, prompt(), sampling.clone())).unwrap();
    while engine.step(&mut record).unwrap() {}
    let whole = record.tokens[&0].clone();
    for cut in [1, 5, 11] {
        let mut engine = tiny(&options(KernelChoice::Auto, 2));
        let text = [&prompt()[..], &whole[..cut]].concat();
        engine.submit(asked(1, text, sampling.clone())).unwrap();
        let mut again = Record::default();
        while engine.step(&mut again).unwrap() {}
        assert_eq!(again.tokens[&1][..12 - cut], whole[cut..]);
    }
}

/// Log-probabilities of each token and why the request ended.
#[derive(Default)]
struct Heard {
    ids: Vec<u32>,
    logprobs: Vec<Vec<Logprob>>,
    reason: Option<FinishReason>,
    logits: Vec<f32>,
}

impl Sink for Heard {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Token { id, logprobs, .. } => {
                self.ids.push(id);
                self.logprobs.push(logprobs.to_vec());
            }
            Event::Finish { reason, logits, .. } => {
                self.reason = Some(reason);
                self.logits = logits.to_vec();
            }
            _ => {}
        }
    }
}

fn heard(sampling: SamplingParams) -> Heard {
    let (mut engine, mut heard) = (tiny(&options(KernelChoice::Auto, 1)), Heard::default());
    engine.submit(asked(0, prompt(), sampling)).unwrap();
    while engine.step(&mut heard).unwrap() {}
    engine.check().unwrap();
    heard
}

#[test]
fn a_stop_id_ends_the_output_and_stands_in_it() {
    let free = heard(warm(5));
    assert_eq!(
        (free.reason, free.ids.len()),
        (Some(FinishReason::Length), 12)
    );
    let stop = free.ids[4];
    let first = free.ids.iter().position(|id| *id == stop).unwrap();
    let stopped = heard(SamplingParams {
        stop_ids: vec![stop],
        ..warm(5)
    });
    assert_eq!(stopped.reason, Some(FinishReason::Stop));
    assert_eq!(stopped.ids, free.ids[..=first]);
}

#[test]
fn logprobs_come_with_every_token_when_asked_and_change_nothing() {
    let (plain, told) = (
        heard(warm(5)),
        heard(SamplingParams {
            logprobs: Some(3),
            ..warm(5)
        }),
    );
    assert_eq!(plain.ids, told.ids);
    assert!(plain.logprobs.iter().all(Vec::is_empty));
    for (id, listed) in told.ids.iter().zip(&told.logprobs) {
        assert_eq!((listed.len(), listed[0].id), (4, *id));
    }
    let last = told.logprobs.last().unwrap();
    assert_eq!(last, &logprobs(&told.logits, *told.ids.last().unwrap(), 3));
}

#[test]
fn a_cancelled_request_leaves_its_pages_and_no_trace_in_others() {
    let options = EngineOptions {
        chunk_tokens: 32,
        ..options(KernelChoice::Auto, 1)
    };
    let expected = stream(&options, 0, 0, 5);
    for steps in [0, 1, 2, 3, 6] {
        let (mut engine, mut record) = (tiny(&options), Record::default());
        engine.submit(asked(8, prompt(), warm(8))).unwrap();
        for _ in 0..steps {
            engine.step(&mut record).unwrap();
        }
        assert!(engine.cancel(8));
        assert!(!engine.cancel(8), "it is gone");
        engine.check().unwrap();
        assert!(!engine.step(&mut record).unwrap());
        engine.submit(asked(0, prompt(), warm(5))).unwrap();
        while engine.step(&mut record).unwrap() {}
        engine.check().unwrap();
        assert_eq!(record.tokens[&0], expected, "after {steps} steps");
        let cached = (32 * steps).min(prompt().len());
        assert_eq!(record.prefix[&0], (0, cached), "after {steps} steps");
        assert_eq!(engine.counters().carried_tokens, 0);
    }
}

#[test]
fn the_engine_refuses_bad_sampling_before_it_queues() {
    let mut engine = tiny(&options(KernelChoice::Auto, 1));
    let bad = SamplingParams {
        top_p: 2.0,
        ..Default::default()
    };
    let error = engine.submit(asked(0, prompt(), bad)).unwrap_err();
    assert!(error.to_string().contains("top_p is 2"), "{error}");
    assert!(
        !engine.step(&mut Record::default()).unwrap(),
        "nothing was queued"
    );
}
