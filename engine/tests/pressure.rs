//! Engines short of pages, and engines whose numbers went wrong: answers stay right, requests are neither lost nor run twice.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Record, options};
use engine::{CachePolicy, Engine, EngineOptions, Error, KernelChoice, Model, Request};
use proptest::prelude::*;

fn engine(cache: CachePolicy, kv_pages: usize) -> Engine {
    let options = EngineOptions {
        cache,
        kv_pages,
        ..options(KernelChoice::Auto, 1)
    };
    Engine::new(Model::synthetic("synthetic-tiny").unwrap(), &options).unwrap()
}

fn request(id: u64, session: u64, prompt: Vec<u32>, decode_max: usize) -> Request {
    Request {
        id,
        session,
        prompt,
        decode_max,
        ignore_eos: true,
        ..Request::default()
    }
}

fn ids(len: usize, seed: usize) -> Vec<u32> {
    (0..len)
        .map(|i| ((i * i * 31 + 7 * i + seed * 13) % 255) as u32)
        .collect()
}

fn run(engine: &mut Engine) -> Record {
    let mut record = Record::default();
    while engine.step(&mut record).unwrap() {}
    engine.check().unwrap();
    record
}

/// What a request answers alone, in a roomy engine without a cache.
fn alone(prompt: &[u32], decode_max: usize) -> Vec<u32> {
    let mut engine = engine(CachePolicy::None, 64);
    engine
        .submit(request(0, 0, prompt.to_vec(), decode_max))
        .unwrap();
    run(&mut engine).tokens[&0].clone()
}

#[test]
fn a_session_gives_up_its_own_pages_for_its_next_request() {
    for cache in [CachePolicy::None, CachePolicy::Session, CachePolicy::Shared] {
        let mut engine = engine(cache, 4);
        engine.submit(request(0, 0, ids(200, 1), 10)).unwrap();
        run(&mut engine);
        engine.submit(request(1, 0, ids(100, 2), 5)).unwrap();
        assert_eq!(
            run(&mut engine).tokens[&1],
            alone(&ids(100, 2), 5),
            "{cache}"
        );
    }
}

#[test]
fn a_session_goes_on_in_the_pages_it_has() {
    for cache in [CachePolicy::Session, CachePolicy::Shared] {
        let mut engine = engine(cache, 2);
        engine.submit(request(0, 0, ids(65, 1), 10)).unwrap();
        let first = run(&mut engine).tokens[&0].clone();
        let longer: Vec<u32> = ids(65, 1)
            .into_iter()
            .chain(first)
            .chain(ids(25, 3))
            .collect();
        engine.submit(request(1, 0, longer.clone(), 10)).unwrap();
        let record = run(&mut engine);
        assert_eq!(record.tokens[&1], alone(&longer, 10));
        assert_eq!(
            record.prefix[&1].0, 74,
            "{cache}: all but the last sampled token"
        );
    }
}

#[test]
fn a_request_that_can_never_fit_is_refused_and_the_others_run() {
    let mut engine = engine(CachePolicy::Shared, 4);
    let refused = engine.submit(request(0, 0, ids(1000, 1), 1)).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::PagesExhausted {
                needed: 16,
                capacity: 4,
                ..
            }
        ),
        "{refused}"
    );
    engine.submit(request(1, 1, ids(10, 1), 3)).unwrap();
    assert_eq!(run(&mut engine).tokens[&1], alone(&ids(10, 1), 3));
}

#[test]
fn numbers_that_went_wrong_end_the_engine_with_the_same_error_each_time() {
    let mut engine = engine(CachePolicy::Shared, 64);
    engine.submit(request(0, 0, ids(70, 1), 2)).unwrap();
    run(&mut engine);
    assert!(engine.poke_session(0, 0, 0, f32::NAN));
    engine.submit(request(1, 0, ids(80, 1), 2)).unwrap();
    engine.submit(request(2, 2, ids(30, 9), 2)).unwrap();
    let mut record = Record::default();
    for _ in 0..3 {
        let error = engine.step(&mut record).unwrap_err();
        assert!(
            matches!(error, Error::NonFinite { request: 1, .. }),
            "{error}"
        );
    }
    assert_eq!(engine.counters().replayed_tokens, 0);
}

#[test]
fn a_cancelled_continuation_still_carries_its_token_when_it_comes_again() {
    let mut engine = engine(CachePolicy::Session, 64);
    engine.submit(request(0, 0, ids(70, 1), 4)).unwrap();
    let first = run(&mut engine).tokens[&0].clone();
    let longer: Vec<u32> = ids(70, 1)
        .into_iter()
        .chain(first)
        .chain([1, 2, 3])
        .collect();
    // Another session's long prompt takes the first chunk, so that the continuation is admitted and not yet run.
    engine.submit(request(1, 1, ids(600, 5), 1)).unwrap();
    engine.submit(request(2, 0, longer.clone(), 1)).unwrap();
    engine.step(&mut Record::default()).unwrap();
    assert!(engine.cancel(2));
    run(&mut engine);
    let before = engine.counters();
    engine.submit(request(3, 0, longer, 1)).unwrap();
    run(&mut engine);
    let after = engine.counters();
    assert_eq!(after.carried_tokens - before.carried_tokens, 1);
    assert_eq!(
        after.prefill_tokens_computed - before.prefill_tokens_computed,
        3
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_pool_size_changes_an_answer(
        kv_pages in 2..9_usize, shared in any::<bool>(),
        asked in prop::collection::vec((0..3_u64, 1..110_usize, 0..2_usize, 1..4_usize), 1..8),
    ) {
        let cache = if shared { CachePolicy::Shared } else { CachePolicy::Session };
        let mut engine = engine(cache, kv_pages);
        for (id, (session, len, seed, decode_max)) in asked.into_iter().enumerate() {
            let id = id as u64;
            if engine.submit(request(id, session, ids(len, seed), decode_max)).is_err() {
                // The session is busy: let it finish and ask again.
                run(&mut engine);
                engine.submit(request(id, session, ids(len, seed), decode_max)).unwrap();
            }
            if id.is_multiple_of(2) {
                let record = run(&mut engine);
                prop_assert_eq!(&record.tokens[&id], &alone(&ids(len, seed), decode_max));
            }
        }
        run(&mut engine);
    }
}
