//! The KV core against a naive map: whatever happens in whatever order, what is found is what was published, for whom it
//! was published, and not barred; what is locked stays; what is not needed goes; nothing is kept twice or lost.
//!
//! A world is a small pool and a cache, six sessions of three tenants with public beginnings, and texts of few different
//! tokens. Each position holds a value that follows from all positions up to it and the names they stand under, so that
//! a wrong page is a wrong value. Every invariant is checked after every step. Not here: attention, and what a request
//! answers (`pressure`, `invariance`).
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod cases;
mod cut;
mod govern;
mod oracle;
mod steps;
mod transfer;
mod world;

use std::cell::RefCell;

use engine::kv::Eviction;
use engine::schedule::CachePolicy;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use steps::{Draw, Step};
use world::{Happened, Setting, World};

/// Short worlds, which shrink when they fail.
const WORLDS: u32 = 1300;
/// Most steps of a short world.
const STEPS_MAX: usize = 160;
/// Steps that all short worlds must have had together.
const STEPS_SHORT: usize = 60_000;
/// Steps of each long world.
const STEPS_LONG: usize = 10_000;

/// Things that can happen.
const KINDS: usize = 19;
/// How often the rarest must have.
const TIMES_MIN: usize = 4;
const EVICTIONS: [Eviction; 5] = [
    Eviction::Lru,
    Eviction::Lfu,
    Eviction::Fifo,
    Eviction::Priority,
    Eviction::Cost,
];

/// Always the same cases.
fn runner(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[6; 32]);
    TestRunner::new_with_rng(config, rng)
}

fn draw() -> impl Strategy<Value = Draw> {
    let base = prop::option::weighted(0.8, any::<u8>());
    let parts = (base, 0..400_u16, 0..200_u16, any::<u8>());
    parts.prop_map(|(base, keep, len, seed)| Draw {
        base,
        keep,
        len: len * len / 200, // mostly short
        seed,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let number = any::<u8>;
    let begin = (number(), number(), draw(), 0..90_u8, -2..3_i8);
    let cut = (number(), 0..300_u16, 0..300_u16, any::<bool>());
    prop_oneof![
        12 => begin.prop_map(|(session, who, draw, decode, priority)| Step::Begin {
            session, who, draw, decode, priority,
        }),
        18 => (number(), 60..=u8::MAX).prop_map(|(flight, count)| Step::Append { flight, count }),
        4 => number().prop_map(|flight| Step::Publish { flight }),
        9 => (number(), prop::option::of(number()))
            .prop_map(|(flight, pending)| Step::Finish { flight, pending }),
        1 => number().prop_map(|flight| Step::GiveUp { flight }),
        2 => (number(), prop::option::weighted(0.7, 0..20_u8))
            .prop_map(|(text, lease)| Step::Hold { text, lease }),
        2 => number().prop_map(|hold| Step::Release { hold }),
        2 => (1..20_u8).prop_map(|by| Step::Expire { by }),
        1 => (number(), 20..300_u16, 0..300_u16)
            .prop_map(|(text, end, start)| Step::Quarantine { text, end, start }),
        1 => number().prop_map(|session| Step::Close { session }),
        2 => (0..8_u8).prop_map(|pages| Step::Press { pages }),
        1 => number().prop_map(|text| Step::Spare { text }),
        1 => (number(), 1..300_u16).prop_map(|(text, len)| Step::Import { text, len }),
        3 => cut.prop_map(|(session, start, len, rotate)| Step::Cut { session, start, len, rotate }),
    ]
}

fn setting() -> impl Strategy<Value = Setting> {
    let policy = prop_oneof![
        6 => Just(CachePolicy::Shared),
        3 => Just(CachePolicy::Session),
        1 => Just(CachePolicy::None),
    ];
    let eviction = prop::sample::select(&EVICTIONS[..]);
    (policy, eviction, prop::option::of(4..24_usize)).prop_map(|(policy, eviction, capacity)| {
        Setting {
            policy,
            eviction,
            capacity,
        }
    })
}

/// That everything that can happen did, so that the steps cannot quietly miss their mark.
fn assert_all_happened(happened: &Happened) {
    let rare: Vec<_> = happened
        .iter()
        .filter(|(_, times)| **times < TIMES_MIN)
        .collect();
    assert!(happened.len() >= KINDS && rare.is_empty(), "{happened:?}");
}

#[test]
fn short_worlds_agree_with_a_naive_map_after_every_step() {
    let all = RefCell::new((0, Happened::new()));
    let worlds = (setting(), prop::collection::vec(step(), 0..STEPS_MAX));
    let done = runner(WORLDS).run(&worlds, |(setting, steps)| {
        let mut world = World::new(setting);
        for step in &steps {
            world.step(step);
        }
        let (taken, happened) = &mut *all.borrow_mut();
        *taken += steps.len();
        for (what, times) in world.end() {
            *happened.entry(what).or_default() += times;
        }
        Ok(())
    });
    done.unwrap();
    let (taken, happened) = all.into_inner();
    assert!(taken >= STEPS_SHORT, "only {taken} steps");
    assert_all_happened(&happened);
}

#[test]
fn long_worlds_under_pressure_agree_with_a_naive_map_after_every_step() {
    const { assert!(STEPS_SHORT + EVICTIONS.len() * STEPS_LONG >= 100_000) };
    let (mut runner, mut happened) = (runner(1), Happened::new());
    for (eviction, capacity) in EVICTIONS.into_iter().zip([6, 9, 14, 20, 30]) {
        let mut world = World::new(Setting {
            policy: CachePolicy::Shared,
            eviction,
            capacity: Some(capacity),
        });
        for _ in 0..STEPS_LONG {
            let step = step().new_tree(&mut runner).unwrap().current();
            world.step(&step);
        }
        for (what, times) in world.end() {
            *happened.entry(what).or_default() += times;
        }
    }
    assert_all_happened(&happened);
}
