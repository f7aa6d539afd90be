//! Who of those that wait goes first: whichever order, the same answers; with one that knows the cache, less computed twice
//! and nobody overtaken beyond the bound.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use std::collections::BTreeMap;

use common::bits;
use common::kv::{element_types, engine, text};
use engine::{
    Admission, CachePolicy, Engine, EngineOptions, Event, Eviction, Request, Scope, Sink,
};
use proptest::prelude::*;

/// Agents with a common beginning, who go on as soon as they are answered.
#[derive(Clone, Copy, Debug)]
struct Fleet {
    agents: u64,
    turns: u64,
    prefix: usize,
    result: usize,
    decode: usize,
}

/// What was seen of a fleet, told from the engine's events alone.
#[derive(Debug, Default)]
struct Seen {
    /// Submitted and not admitted, in the order they came, each with how often it was overtaken.
    waiting: Vec<(u64, usize)>,
    overtaken_most: usize,
    /// Requests in the order they were admitted.
    admitted: Vec<u64>,
    finished: Vec<u64>,
    /// By request: output and the bits of the last logits.
    answers: BTreeMap<u64, (Vec<u32>, Vec<u32>)>,
    computed: usize,
    /// Everything, word for word.
    log: Vec<String>,
}

impl Seen {
    /// Lets a request come.
    fn submit(&mut self, engine: &mut Engine, request: Request) {
        self.waiting.push((request.id, 0));
        engine.submit(request).unwrap();
    }
}

impl Sink for Seen {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Prefix { request, .. } => {
                let place = self.waiting.iter().position(|it| it.0 == request).unwrap();
                for passed in &mut self.waiting[..place] {
                    passed.1 += 1;
                    self.overtaken_most = self.overtaken_most.max(passed.1);
                }
                self.waiting.remove(place);
                self.admitted.push(request);
            }
            Event::Prefill { computed, .. } => self.computed += computed,
            Event::Token { request, id, .. } => {
                self.answers.entry(request).or_default().0.push(id);
            }
            Event::Finish {
                request, logits, ..
            } => {
                self.answers.entry(request).or_default().1 = bits(logits);
                self.finished.push(request);
            }
            Event::Step { .. } => {}
        }
        self.log.push(format!("{event:?}"));
    }
}

impl Fleet {
    /// Pages of one transcript, and one for a copy.
    fn pages_of_one(&self) -> usize {
        let results = (self.turns as usize - 1) * self.result;
        (self.prefix + results + self.turns as usize * self.decode).div_ceil(64) + 1
    }

    /// Plays it to its end.
    fn play(&self, options: &EngineOptions) -> Seen {
        let mut engine = engine(options);
        let mut seen = Seen::default();
        let mut transcripts = vec![text(self.prefix, 1); self.agents as usize];
        let request = |agent: u64, turn: u64, prompt: &[u32]| Request {
            id: turn * self.agents + agent,
            session: agent,
            prompt: prompt.to_vec(),
            decode_max: self.decode,
            ignore_eos: true,
            priority: agent as i32,
            ..Request::default()
        };
        for agent in 0..self.agents {
            let first = request(agent, 0, &transcripts[agent as usize]);
            seen.submit(&mut engine, first);
        }
        while engine.step(&mut seen).unwrap() {
            for id in std::mem::take(&mut seen.finished) {
                let (agent, turn) = (id % self.agents, id / self.agents + 1);
                let transcript = &mut transcripts[agent as usize];
                transcript.extend(&seen.answers[&id].0);
                transcript.extend(text(self.result, 2 + agent + self.agents * turn));
                if turn < self.turns {
                    seen.submit(&mut engine, request(agent, turn, transcript));
                }
            }
        }
        engine.check().unwrap();
        let counted = engine.counters().prefill_tokens_computed;
        assert_eq!(seen.computed as u64, counted);
        assert_eq!(seen.answers.len() as u64, self.agents * self.turns);
        seen
    }
}

const EVICTIONS: [Eviction; 5] = [
    Eviction::Lru,
    Eviction::Lfu,
    Eviction::Fifo,
    Eviction::Priority,
    Eviction::Cost,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn under_any_pressure_both_orders_give_the_same_bits_and_nobody_is_overtaken_beyond_the_bound(
        (agents, turns) in (2..6_u64, 1..4_u64),
        (prefix, result, decode) in (1..140_usize, 1..70_usize, 1..4_usize),
        spare in 0..8_usize, overtaken_max in 0..7_usize, chunk_tokens in 16..200_usize,
        shared in any::<bool>(), eviction in 0..5_usize,
    ) {
        let fleet = Fleet { agents, turns, prefix, result, decode };
        let first_come = EngineOptions {
            kv_pages: fleet.pages_of_one() + spare,
            cache: if shared { CachePolicy::Shared } else { CachePolicy::Session },
            eviction: EVICTIONS[eviction],
            chunk_tokens,
            ..element_types()[0]
        };
        let admission = Admission::CacheAware { overtaken_max };
        let cache_aware = EngineOptions { admission, ..first_come };
        let (first_come, cache_aware) = (fleet.play(&first_come), fleet.play(&cache_aware));
        prop_assert_eq!(&first_come.answers, &cache_aware.answers);
        prop_assert!(cache_aware.overtaken_most <= overtaken_max);
    }
}

/// Six agents who go on for six turns; two of their transcripts fit.
const SQUEEZED: Fleet = Fleet {
    agents: 6,
    turns: 6,
    prefix: 64,
    result: 60,
    decode: 4,
};

fn squeezed(admission: Admission) -> Seen {
    let cache = CachePolicy::Shared;
    SQUEEZED.play(&EngineOptions {
        kv_pages: 15,
        cache,
        admission,
        ..element_types()[0]
    })
}

#[test]
fn the_more_often_somebody_may_be_overtaken_the_less_is_computed_twice() {
    let first_come = squeezed(Admission::FirstCome).computed;
    let bounds = [0, 2, 6, 12, 1000];
    let by_bound = bounds.map(|overtaken_max| {
        let seen = squeezed(Admission::CacheAware { overtaken_max });
        assert!(seen.overtaken_most <= overtaken_max);
        seen.computed
    });
    eprintln!("{first_come} first come, first served; {by_bound:?} with bounds {bounds:?}");
    assert!(by_bound.is_sorted_by(|a, b| a >= b), "{by_bound:?}");
    let least = 64 + 6 * 5 * 60; // each position once
    assert!(by_bound[0] > 5 * least / 2 && first_come > 5 * least / 2);
    assert!((least..4 * least / 3).contains(&by_bound[4]));
    assert!(
        by_bound[2] < 3 * first_come / 5,
        "as many as there are agents"
    );
}

#[test]
fn with_room_for_all_both_orders_are_one_and_the_same() {
    let play = |admission| {
        let roomy = EngineOptions {
            kv_pages: 100,
            admission,
            ..element_types()[0]
        };
        SQUEEZED.play(&roomy).log
    };
    let cache_aware = play(Admission::CacheAware { overtaken_max: 6 });
    assert_eq!(play(Admission::FirstCome), cache_aware);
}

/// One that fills the cache waits for one that runs; three small ones come later.
fn beside_a_large_one(admission: Admission) -> Vec<u64> {
    let mut engine = engine(&EngineOptions {
        kv_pages: 6,
        admission,
        ..element_types()[0]
    });
    let mut seen = Seen::default();
    for (id, len, decode_max) in [
        (0, 100, 60),
        (1, 330, 1),
        (2, 30, 1),
        (3, 30, 1),
        (4, 30, 1),
    ] {
        let prompt = text(len, id);
        let request = Request {
            id,
            session: id,
            prompt,
            decode_max,
            ignore_eos: true,
            ..Request::default()
        };
        seen.submit(&mut engine, request);
    }
    while engine.step(&mut seen).unwrap() {}
    engine.check().unwrap();
    seen.admitted
}

#[test]
fn whoever_does_not_fit_is_passed_so_often_and_then_nobody_passes_any_more() {
    assert_eq!(beside_a_large_one(Admission::FirstCome), [0, 2, 3, 4, 1]);
    for (overtaken_max, expected) in [
        (0, [0, 1, 2, 3, 4]),
        (1, [0, 2, 1, 3, 4]),
        (2, [0, 2, 3, 1, 4]),
        (3, [0, 2, 3, 4, 1]),
    ] {
        let admitted = beside_a_large_one(Admission::CacheAware { overtaken_max });
        assert_eq!(admitted, expected, "{overtaken_max}");
    }
}

#[test]
fn a_hold_that_leaves_no_room_for_the_one_chosen_is_an_error_until_it_ends() {
    let mut engine = engine(&EngineOptions {
        kv_pages: 4,
        admission: Admission::CacheAware { overtaken_max: 3 },
        ..element_types()[0]
    });
    let mut seen = Seen::default();
    let request = |id: u64, prompt: Vec<u32>| Request {
        id,
        session: id,
        prompt,
        decode_max: 1,
        ignore_eos: true,
        ..Request::default()
    };
    seen.submit(&mut engine, request(0, text(130, 1)));
    while engine.step(&mut seen).unwrap() {}
    let held = engine.pin(&Scope::default(), 0, &text(130, 1)).unwrap();
    let longer = [text(130, 1), text(70, 2)].concat();
    seen.submit(&mut engine, request(1, text(200, 3)));
    seen.submit(&mut engine, request(2, longer));
    // The later one finds the pinned pages, and is chosen; then there is no room for the other.
    assert!(engine.step(&mut seen).unwrap());
    assert_eq!(seen.admitted, [0, 2]);
    let failed = loop {
        match engine.step(&mut seen) {
            Ok(worked) => assert!(worked),
            Err(error) => break error.to_string(),
        }
    };
    assert!(failed.contains("pages"), "{failed}");
    assert!(engine.release(held.id));
    while engine.step(&mut seen).unwrap() {}
    assert_eq!(seen.admitted, [0, 2, 1]);
    engine.check().unwrap();
}
