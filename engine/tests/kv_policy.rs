//! Which text goes first, by every policy and by one of the caller's, as requests see it; and what pages are called.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::kv::{cold, element_types, engine, text};
use engine::kv::policy::{Facts, Rank};
use engine::{
    Engine, EngineOptions, Eviction, EvictionPolicy, Mode, Model, NullSink, Public, Request, Scope,
};

/// Drops what was used last.
struct MostRecent;

impl EvictionPolicy for MostRecent {
    fn rank(&self, facts: &Facts) -> Rank {
        (u64::MAX - facts.last_used, 0)
    }
}

/// Four texts of two pages each; a fifth finds no room unless two pages go.
const TEXTS: u64 = 4;
const LEN: usize = 127;

struct Asked {
    engine: Engine,
    next: u64,
}

impl Asked {
    fn ask(&mut self, prompt: Vec<u32>, priority: i32) {
        self.next += 1;
        let request = Request {
            id: self.next,
            session: self.next,
            prompt,
            decode_max: 1,
            ignore_eos: true,
            priority,
            ..Request::default()
        };
        self.engine.submit(request).unwrap();
        while self.engine.step(&mut NullSink).unwrap() {}
        self.engine.check().unwrap();
    }
}

fn options(eviction: Eviction) -> EngineOptions {
    EngineOptions {
        kv_pages: 2 * TEXTS as usize,
        eviction,
        ..element_types()[0]
    }
}

/// Texts that are still cached whole after one more has come: written 0 to 3, then 0 and 2 asked again, 0 twice.
fn left(engine: Engine) -> Vec<u64> {
    let mut asked = Asked { engine, next: 0 };
    let priorities = [1, 5, 0, 7];
    for (seed, priority) in (0..TEXTS).zip(priorities) {
        asked.ask(text(LEN, seed), priority);
    }
    for seed in [0, 0, 2] {
        asked.ask(text(LEN, seed), priorities[seed as usize]);
    }
    asked.ask(text(LEN, TEXTS), 9);
    let mut whole = Vec::new();
    for seed in 0..TEXTS {
        let held = asked.engine.pin(&Scope::default(), 0, &text(LEN, seed));
        let nodes = asked.engine.kv_snapshot().nodes;
        let of_text = nodes.iter().filter(|node| node.session == seed + 1);
        if held.is_some() && of_text.count() == 2 {
            whole.push(seed);
        }
    }
    whole
}

#[test]
fn each_policy_drops_the_text_its_name_says() {
    let expected = [
        (Eviction::Lru, vec![0, 2, 3]),      // 1 was used longest ago
        (Eviction::Lfu, vec![0, 2, 3]),      // of 1 and 3, found never again, 1 was used longer ago
        (Eviction::Fifo, vec![1, 2, 3]),     // 0 was first
        (Eviction::Priority, vec![0, 1, 3]), // 2 has the least
    ];
    for (eviction, texts) in expected {
        assert_eq!(left(engine(&options(eviction))), texts, "{eviction}");
    }
}

#[test]
fn a_policy_of_the_callers_is_asked_instead() {
    let model = Model::synthetic("synthetic-tiny-q8_0").unwrap();
    let options = options(Eviction::Lru);
    let engine = Engine::with_policy(model, &options, Box::new(MostRecent)).unwrap();
    assert_eq!(left(engine), [0, 1, 3]);
}

#[test]
fn by_cost_the_end_of_a_long_text_outlives_a_short_one() {
    let mut asked = Asked {
        engine: engine(&EngineOptions {
            kv_pages: 22,
            ..options(Eviction::Cost)
        }),
        next: 0,
    };
    let (long, short) = (text(1279, 1), text(127, 2));
    asked.ask(long.clone(), 0);
    asked.ask(short.clone(), 0); // used later, and yet it goes
    asked.ask(text(60, 3), 0);
    let positions = |asked: &mut Asked, ids: &[u32]| {
        let held = asked.engine.pin(&Scope::default(), 0, ids);
        held.map_or(0, |held| held.positions)
    };
    assert_eq!(positions(&mut asked, &long), 1216, "all its whole pages");
    let nodes = asked.engine.kv_snapshot().nodes;
    let of_short = nodes.iter().filter(|node| node.session == 2);
    assert_eq!(of_short.count(), 1, "of the short one the end is gone");
}

#[test]
fn no_policy_changes_an_answer() {
    for eviction in ["lru", "lfu", "fifo", "priority", "cost"] {
        let options = options(eviction.parse().unwrap());
        let mut client = common::kv::Client::new(&options);
        for round in 0..3 {
            for seed in 0..6 {
                let prompt = text(100 + 30 * round, seed);
                let answer = client.answer(seed, &prompt, 3);
                assert_eq!(answer.result(), cold(&options, &prompt, 3).result());
            }
        }
    }
}

#[test]
fn keys_of_pages_follow_tokens_tenant_mode_type_and_weights_and_nothing_else() {
    let ids = text(150, 1);
    let keys =
        |options: &EngineOptions, scope: &Scope| engine(options).page_keys(scope, &ids).unwrap();
    let types = element_types();
    let (a, b) = (Scope::tenant("a"), Scope::tenant("b"));
    let here = keys(&types[0], &a);
    assert_eq!(here.len(), 3);
    let elsewhere = EngineOptions {
        threads: 2,
        chunk_tokens: 7,
        kv_pages: 50,
        ..types[0]
    };
    assert_eq!(
        keys(&elsewhere, &a),
        here,
        "how it is computed is no part of it"
    );
    let public = Scope {
        public: Some(Public {
            name: "system".to_owned(),
            positions: 64,
        }),
        ..a.clone()
    };
    let model = Model::synthetic("synthetic-tiny").unwrap();
    let other_mode = EngineOptions {
        mode: Mode::Fast,
        ..types[0]
    };
    let others = [
        keys(&other_mode, &a),
        keys(&types[0], &b),
        keys(&types[1], &a),
        keys(&types[2], &a),
        keys(&types[0], &public),
        Engine::new(model, &types[0])
            .unwrap()
            .page_keys(&a, &ids)
            .unwrap(),
    ];
    for other in others {
        assert!(here.iter().all(|key| !other.contains(key)));
    }
}
