//! What cached texts take: pages for their different tokens and little more, within a byte limit that is one.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::bits;
use common::kv::{Client, can_rotate, cold, common, element_types, parted, rotatable_types, text};
use engine::{
    CachePolicy, Engine, EngineOptions, Error, EvictMode, Model, NullSink, OnQuarantine,
    PAGE_POSITIONS, Scope,
};
use proptest::prelude::*;

/// What a tree of tokens has that holds all of `texts`.
#[derive(Debug)]
struct Tokens {
    /// Tokens, those that texts begin with alike counted once.
    unique: usize,
    /// Texts that no other one goes on from.
    tails: usize,
    /// Where texts part, once for each that parts there after the first.
    branches: usize,
}

impl Tokens {
    fn of(mut texts: Vec<Vec<u32>>) -> Self {
        texts.sort();
        texts.dedup();
        let mut tokens = Self {
            unique: texts.first().map_or(0, Vec::len),
            tails: texts.len(),
            branches: 0,
        };
        for pair in texts.windows(2) {
            let shared = common(&pair[0], &pair[1]);
            tokens.unique += pair[1].len() - shared;
            match shared {
                shared if shared == pair[0].len() => tokens.tails -= 1,
                0 => {}
                _ => tokens.branches += 1,
            }
        }
        tokens
    }

    /// The pages they may take: each tail and each branch wastes less than one.
    fn pages_max(&self) -> usize {
        self.unique.div_ceil(PAGE_POSITIONS) + self.tails + self.branches
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn pages_held_are_those_of_the_unique_tokens_and_one_per_tail_and_branch(
        element in any::<prop::sample::Index>(),
        rounds in prop::collection::vec(
            prop::collection::vec((0..8_u64, 0..3_u64, 0..300_usize, 1..70_usize, 1..20_usize), 1..6), 1..5),
    ) {
        let mut client = Client::new(element.get(&element_types()));
        let mut texts: Vec<Vec<u32>> = Vec::new();
        let mut seed = 20;
        for round in rounds {
            let mut asked = Vec::new();
            for (session, family, at, own, decode) in round {
                // A session goes on with what it said, or leaves some known text somewhere.
                seed += 1;
                let prompt = match texts.get(session as usize) {
                    Some(text) if own % 2 == 0 => parted(text, at.min(text.len()), own, seed),
                    _ => parted(&text(300, family), at, own, seed),
                };
                asked.extend(client.try_ask(session, &prompt, decode).ok());
            }
            client.run();
            texts.extend(asked.into_iter().map(|id| client.said(id).cached()));
            let (tokens, occupancy) = (Tokens::of(texts.clone()), client.engine.occupancy());
            prop_assert!(occupancy.pages <= tokens.pages_max(), "{occupancy:?}, {tokens:?}");
            let copied = tokens.branches * (PAGE_POSITIONS - 1);
            prop_assert!((tokens.unique..=tokens.unique + copied).contains(&occupancy.positions),
                "{occupancy:?}, {tokens:?}");
            let peak = client.engine.kv_bytes_peak() / page_bytes(&client.engine);
            // While they run, each of a round's requests may have one page that another will turn out to have too.
            prop_assert!(peak as usize <= tokens.pages_max() + 6);
        }
    }
}

/// Bytes of the keys and values of a page.
fn page_bytes(engine: &Engine) -> u64 {
    let options = element_types();
    let mut options = options.iter();
    let same_type = options.find_map(|options| {
        let mut client = Client::new(options);
        client.answer(0, &text(1, 1), 1);
        (client.engine.kv_dtype() == engine.kv_dtype()).then(|| client.engine.kv_bytes_peak())
    });
    same_type.unwrap()
}

/// A fleet: agents on one prefix, each with its own results, as the `session` envelopes have them.
struct Shape {
    agents: u64,
    turns: usize,
    prefix: usize,
    decode: usize,
    result: usize,
}

impl Shape {
    /// Positions of a transcript that have KV in the end: all but the last sampled token.
    fn positions(&self) -> usize {
        self.prefix + self.turns * self.decode + (self.turns - 1) * self.result - 1
    }

    /// Pages of all transcripts. Asked the same, all agents first say the same: prefix and first answer can be shared.
    fn pages(&self, shared: bool) -> usize {
        let (all, agents) = (
            self.positions().div_ceil(PAGE_POSITIONS),
            self.agents as usize,
        );
        let alike = (self.prefix + self.decode) / PAGE_POSITIONS;
        agents * all - if shared { (agents - 1) * alike } else { 0 }
    }

    /// Plays it; `after` sees each turn.
    fn play(&self, client: &mut Client, mut after: impl FnMut(&Client)) {
        let prefix = text(self.prefix, 1);
        let mut prompts = vec![prefix; self.agents as usize];
        for turn in 0..self.turns {
            let asked = (0..).zip(&prompts);
            let asked: Vec<_> = asked
                .map(|(agent, prompt)| client.ask(agent, prompt, self.decode))
                .collect();
            client.run();
            after(client);
            for (agent, id) in asked.into_iter().enumerate() {
                let mut result = text(self.result, (turn * 7 + agent) as u64);
                result[0] = agent as u32; // so that no two agents say the same
                prompts[agent] = [client.said(id).said(), result].concat();
            }
        }
    }
}

#[test]
fn a_fleet_takes_the_pages_of_its_prefix_once_and_agents_by_themselves_once_each() {
    for options in element_types() {
        for (agents, turns, prefix, decode, result) in [
            (5, 8, 512, 16, 32),
            (5, 8, 500, 17, 29),
            (3, 6, 512, 16, 32),
            (2, 3, 640, 64, 64),
        ] {
            let shape = Shape {
                agents,
                turns,
                prefix,
                decode,
                result,
            };
            let [apart, fused] = [CachePolicy::Session, CachePolicy::Shared].map(|cache| {
                let mut client = Client::new(&EngineOptions { cache, ..options });
                shape.play(&mut client, |_| ());
                assert_eq!(
                    client.engine.occupancy().pages,
                    shape.pages(cache == CachePolicy::Shared)
                );
                client.engine.kv_bytes_peak()
            });
            assert_eq!(
                apart * shape.pages(true) as u64,
                fused * shape.pages(false) as u64,
                "{agents} agents, {turns} turns"
            );
        }
    }
}

/// `session-50x5` is this shape with 2048 positions of prefix, 32 decoded and 64 of a result per turn.
#[test]
fn the_ratio_of_a_long_fleet_nears_one_because_its_own_pages_outgrow_the_prefix() {
    let shape = |turns| Shape {
        agents: 5,
        turns,
        prefix: 2048,
        decode: 32,
        result: 64,
    };
    let pages = |turns| (shape(turns).pages(false), shape(turns).pages(true));
    assert_eq!(pages(1), (165, 37));
    assert_eq!(pages(50), (530, 402));
}

/// Half a page per agent is to be expected: 160 positions of some 2200 to 5500. A turn that ends badly wastes twice that.
#[test]
fn of_five_agents_over_eight_turns_less_than_a_twenty_fifth_is_waste_on_average() {
    let shape = Shape {
        agents: 5,
        turns: 8,
        prefix: 2048,
        decode: 33,
        result: 61,
    };
    let mut waste = Vec::new();
    let mut client = Client::new(&element_types()[0]);
    shape.play(&mut client, |client| {
        waste.extend(client.engine.occupancy().waste());
    });
    let mean = waste.iter().sum::<f64>() / waste.len() as f64;
    eprintln!("waste after each turn: {waste:.4?}, mean {mean:.4}");
    assert!(
        mean < 0.04 && waste.iter().all(|waste| *waste < 0.08),
        "{waste:?}"
    );
}

#[test]
fn nothing_is_held_once_all_is_closed() {
    for options in element_types() {
        for cache in [CachePolicy::None, CachePolicy::Session, CachePolicy::Shared] {
            let mut client = Client::new(&EngineOptions { cache, ..options });
            for session in 0..4 {
                client.answer(session, &parted(&text(200, 1), 150, 60, session), 5);
            }
            if cache != CachePolicy::None {
                let rotated = client.engine.evict_span(0, 10..70, EvictMode::Rotate);
                assert_eq!(rotated.is_ok(), can_rotate(&options));
                client
                    .engine
                    .evict_span(1, 10..70, EvictMode::Exact)
                    .unwrap();
                let hold = client.engine.pin(&client.scope, 2, &text(128, 1)).unwrap();
                assert!(
                    client
                        .engine
                        .lease(&client.scope, 2, &text(128, 1), 9)
                        .is_some()
                );
                assert!(client.engine.release(hold.id));
                assert_eq!(client.engine.expire(9), 1);
            }
            let cancelled = client.ask(7, &text(300, 3), 9);
            client.step();
            assert!(client.engine.cancel(cancelled));
            for session in 0..8 {
                client.engine.close_session(session);
            }
            if cache == CachePolicy::Shared {
                // What everyone may find belongs to nobody: it goes by eviction, or when it is barred.
                assert!(client.engine.occupancy().pages > 0);
                for seed in 0..200 {
                    let first = text(1, seed);
                    let running = OnQuarantine::Finish;
                    client
                        .engine
                        .quarantine(&client.scope, &first, 0, running)
                        .unwrap();
                }
            }
            client.engine.check().unwrap();
            let occupancy = client.engine.occupancy();
            assert_eq!(
                (occupancy.pages, occupancy.positions, occupancy.bytes),
                (0, 0, 0),
                "{cache}"
            );
            assert_eq!(client.engine.kv_snapshot().nodes, []);
        }
    }
}

#[test]
fn everything_that_nobody_works_with_makes_room_for_one_request() {
    for options in rotatable_types() {
        let options = EngineOptions {
            kv_pages: 12,
            ..options
        };
        let mut client = Client::new(&options);
        for session in 0..3 {
            client.answer(session, &text(200, session), 5);
        }
        client
            .engine
            .evict_span(2, 10..70, EvictMode::Rotate)
            .unwrap();
        let all = text(12 * PAGE_POSITIONS - 2, 9);
        let answer = client.answer(9, &all, 2);
        assert_eq!(answer.result(), cold(&options, &all, 2).result());
        assert_eq!(client.engine.occupancy().pages, 12);
    }
}

#[test]
fn logits_asked_for_by_themselves_find_room_in_a_full_pool() {
    for options in element_types() {
        let options = EngineOptions {
            kv_pages: 4,
            ..options
        };
        let mut client = Client::new(&options);
        client.answer(0, &text(250, 1), 5);
        let prompt = text(100, 2);
        let logits = client.engine.logits(&prompt, false).unwrap();
        client.engine.check().unwrap();
        assert_eq!(Some(bits(&logits)), cold(&options, &prompt, 1).logits);
    }
}

#[test]
fn a_request_that_pins_leave_no_room_for_waits_for_it() {
    for options in element_types() {
        let options = EngineOptions {
            kv_pages: 4,
            ..options
        };
        let mut client = Client::new(&options);
        let (scope, held) = (client.scope.clone(), text(192, 1));
        client.answer(0, &held, 1);
        let pin = client.engine.pin(&scope, 0, &held).unwrap();
        let id = client.ask(1, &text(100, 2), 3);
        for _ in 0..2 {
            let refused = client.engine.step(&mut NullSink).unwrap_err();
            let named = matches!(
                refused,
                Error::PagesExhausted {
                    needed: 2,
                    available: 1,
                    capacity: 4
                }
            );
            assert!(named, "{refused}");
        }
        client.engine.release(pin.id);
        client.run();
        let answer = client.said(id);
        assert_eq!(answer.result(), cold(&options, &answer.prompt, 3).result());
    }
}

#[test]
fn bytes_that_hold_no_page_are_refused_by_name() {
    for options in element_types() {
        let least = least_bytes(&options);
        for kv_bytes in [0, 1, least - 1] {
            let options = EngineOptions {
                kv_bytes: Some(kv_bytes),
                ..options
            };
            let model = Model::synthetic("synthetic-tiny-q8_0").unwrap();
            let refused = Engine::new(model, &options).err().unwrap();
            let named = matches!(
                refused,
                Error::BadOption {
                    option: "kv_bytes",
                    ..
                }
            );
            assert!(named, "{refused}");
        }
        let mut client = Client::new(&EngineOptions {
            kv_bytes: Some(least),
            ..options
        });
        client.answer(0, &text(60, 1), 4);
        let refused = client.try_ask(1, &text(63, 1), 2).unwrap_err();
        assert!(
            matches!(
                refused,
                Error::PagesExhausted {
                    needed: 2,
                    capacity: 1,
                    ..
                }
            ),
            "{refused}"
        );
    }
}

/// Bytes of one page and of what is kept about it.
fn least_bytes(options: &EngineOptions) -> u64 {
    let mut client = Client::new(options);
    client.answer(0, &text(1, 1), 1);
    let occupancy = client.engine.occupancy();
    assert_eq!(occupancy.pages, 1);
    assert!(
        occupancy.bytes > client.engine.kv_bytes_peak(),
        "metadata counts"
    );
    occupancy.bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    #[test]
    fn bytes_in_use_never_exceed_their_limit(
        element in any::<prop::sample::Index>(), pages in 6..20_u64, over in 0..1000_u64,
        asked in prop::collection::vec((0..3_u64, 0..200_usize, 1..60_usize, 1..5_usize), 1..12),
    ) {
        let options = *element.get(&element_types());
        let page = least_bytes(&options);
        let kv_bytes = pages * page + over * page / 1001;
        let mut client = Client::new(&EngineOptions { kv_bytes: Some(kv_bytes), ..options });
        prop_assert_eq!(client.engine.occupancy().capacity as u64, pages);
        let mut sessions = 0..;
        for (tenant, at, own, decode) in asked {
            client.scope = Scope::tenant(&tenant.to_string());
            let prompt = parted(&text(200, 1), at, own, 5);
            client.ask(sessions.next().unwrap(), &prompt, decode);
            client.step();
            prop_assert!(client.engine.occupancy().bytes <= kv_bytes);
        }
        while client.step() {
            prop_assert!(client.engine.occupancy().bytes <= kv_bytes);
        }
        let peak_pages = client.engine.kv_bytes_peak() / page_bytes(&client.engine);
        prop_assert!(peak_pages * page <= kv_bytes);
    }
}
