//! Everything at once, in a pool that is just large enough: what neighbours do changes no answer, and what is only near says so.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use std::collections::HashSet;

use common::kv::{Client, cold, element_types, parted, text};
use engine::{
    Admission, CachePolicy, EngineOptions, Error, EvictMode, Eviction, Hold, OnQuarantine, Public,
    Scope,
};
use proptest::prelude::*;

/// Sessions there are; each comes again and again.
const SESSIONS: u64 = 7;
const EVICTIONS: [Eviction; 5] = [
    Eviction::Lru,
    Eviction::Lfu,
    Eviction::Fifo,
    Eviction::Priority,
    Eviction::Cost,
];

/// What a neighbour does. Texts are those of a family up to a position, then others.
#[derive(Clone, Copy, Debug)]
enum Act {
    Ask {
        session: u64,
        family: u64,
        at: usize,
        own: usize,
        decode: usize,
    },
    GoOn {
        session: u64,
        own: usize,
    },
    Step(usize),
    Cancel(usize),
    Quarantine {
        family: u64,
        start: usize,
        len: usize,
        abort: bool,
    },
    Evict {
        session: u64,
        start: usize,
        len: usize,
        rotate: bool,
    },
    Hold {
        family: u64,
        len: usize,
        ends: Option<u64>,
    },
    Release,
    Close(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let (family, session) = (|| 0..3_u64, || 0..SESSIONS);
    prop_oneof![
        6 => (session(), family(), 0..220_usize, 1..40_usize, 1..5_usize)
            .prop_map(|(session, family, at, own, decode)| Act::Ask { session, family, at, own, decode }),
        4 => (session(), 1..30_usize).prop_map(|(session, own)| Act::GoOn { session, own }),
        6 => (1..6_usize).prop_map(Act::Step),
        1 => (0..20_usize).prop_map(Act::Cancel),
        1 => (family(), 0..200_usize, 1..90_usize, any::<bool>())
            .prop_map(|(family, start, len, abort)| Act::Quarantine { family, start, len, abort }),
        3 => (session(), 0..200_usize, 1..90_usize, any::<bool>())
            .prop_map(|(session, start, len, rotate)| Act::Evict { session, start, len, rotate }),
        1 => (family(), 64..220_usize, prop::option::of(0..4_u64))
            .prop_map(|(family, len, ends)| Act::Hold { family, len, ends }),
        1 => Just(Act::Release),
        1 => session().prop_map(Act::Close),
    ]
}

/// A client and what it has to remember about its sessions.
struct Neighbours {
    client: Client,
    /// Ids and decoded tokens asked for.
    asked: Vec<(u64, usize)>,
    /// Requests that did not finish, by whoever's will.
    ended: HashSet<u64>,
    /// What each session has last said.
    latest: [Option<u64>; SESSIONS as usize],
    /// Sessions a span was rotated out of at some time.
    rotated: HashSet<u64>,
    holds: Vec<Hold>,
}

impl Neighbours {
    fn ask(&mut self, session: u64, prompt: &[u32], decode: usize) {
        // Two tenants of one public beginning; a session is always the same one's.
        self.client.scope = scope(session % 2);
        if let Ok(id) = self.client.try_ask(session, prompt, decode) {
            self.asked.push((id, decode));
            self.latest[session as usize] = Some(id);
        }
    }

    fn do_one(&mut self, act: Act) {
        match act {
            Act::Ask {
                session,
                family,
                at,
                own,
                decode,
            } => {
                let prompt = parted(&text(260, family), at, own, session);
                self.ask(session, &prompt, decode);
            }
            Act::GoOn { session, own } => {
                if let Some(id) = self.latest[session as usize] {
                    let said = self.client.said(id).said();
                    self.ask(session, &[said, text(own, 200)].concat(), 2);
                }
            }
            Act::Step(steps) => (0..steps).for_each(|_| self.step()),
            Act::Cancel(index) => {
                if let Some((id, _)) = self.asked.get(index)
                    && self.client.engine.cancel(*id)
                {
                    self.ended.insert(*id);
                }
            }
            Act::Quarantine {
                family,
                start,
                len,
                abort,
            } => {
                let running = if abort {
                    OnQuarantine::Abort
                } else {
                    OnQuarantine::Finish
                };
                let ids = text(start + len, family);
                let done = self
                    .client
                    .engine
                    .quarantine(&scope(family % 2), &ids, start, running);
                self.ended.extend(done.unwrap().aborted);
            }
            Act::Evict {
                session,
                start,
                len,
                rotate,
            } => self.evict(session, start, len, rotate),
            Act::Hold { family, len, ends } => {
                let (engine, scope) = (&mut self.client.engine, scope(family % 2));
                let ids = text(len, family);
                self.holds.extend(match ends {
                    Some(ends) => engine.lease(&scope, 0, &ids, ends),
                    None => engine.pin(&scope, 0, &ids),
                });
            }
            Act::Release => {
                self.client.engine.expire(1);
                if let Some(hold) = self.holds.pop() {
                    self.client.engine.release(hold.id);
                }
            }
            Act::Close(session) => self.client.engine.close_session(session),
        }
        self.client.engine.check().unwrap();
    }

    /// A refusal is a typed one; what was taken out exactly was never there, as the answers will show.
    fn evict(&mut self, session: u64, start: usize, len: usize, rotate: bool) {
        let mode = if rotate {
            EvictMode::Rotate
        } else {
            EvictMode::Exact
        };
        match self
            .client
            .engine
            .evict_span(session, start..start + len, mode)
        {
            Ok(evicted) => {
                assert_eq!(evicted.exact, !rotate);
                if rotate {
                    self.rotated.insert(session);
                }
            }
            Err(
                Error::SessionBusy(_)
                | Error::UnknownSession(_)
                | Error::SpanOutOfRange { .. }
                | Error::CannotRotate(_)
                | Error::PagesExhausted { .. },
            ) => {}
            Err(other) => panic!("{other}"),
        }
    }

    /// Lets go of what is held when that is all that keeps a request from running.
    fn step(&mut self) {
        if let Err(error) = self.client.try_step() {
            assert!(
                matches!(error, Error::PagesExhausted { .. }) && !self.holds.is_empty(),
                "{error}"
            );
            for hold in self.holds.drain(..) {
                self.client.engine.release(hold.id);
            }
        }
    }
}

fn scope(tenant: u64) -> Scope {
    Scope {
        tenant: tenant.to_string(),
        public: Some(Public {
            name: "all".to_owned(),
            positions: 130,
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_neighbours_do_changes_no_answer(
        kv_pages in 5..14_usize, element in any::<prop::sample::Index>(), eviction in 0..5_usize,
        shared in any::<bool>(), overtaken_max in prop::option::of(0..4_usize),
        acts in prop::collection::vec(act(), 6..50),
    ) {
        let cache = if shared { CachePolicy::Shared } else { CachePolicy::Session };
        let eviction = EVICTIONS[eviction];
        let cache_aware = |overtaken_max| Admission::CacheAware { overtaken_max };
        let admission = overtaken_max.map_or(Admission::FirstCome, cache_aware);
        let options = EngineOptions { kv_pages, eviction, cache, admission, ..*element.get(&element_types()) };
        let mut all = Neighbours {
            client: Client::new(&options),
            asked: Vec::new(),
            ended: HashSet::new(),
            latest: [None; SESSIONS as usize],
            rotated: HashSet::new(),
            holds: Vec::new(),
        };
        for act in acts {
            all.do_one(act);
        }
        for hold in std::mem::take(&mut all.holds) {
            all.client.engine.release(hold.id);
        }
        all.client.run();
        for (id, decode) in all.asked.iter().filter(|(id, _)| !all.ended.contains(id)) {
            let answer = all.client.said(*id);
            if answer.approximate {
                prop_assert!(!all.rotated.is_empty(), "near, though nothing was ever rotated");
                continue;
            }
            let expected = cold(&options, &answer.prompt, *decode);
            prop_assert_eq!(answer.result(), expected.result(), "request {}", id);
        }
        for session in 0..SESSIONS {
            all.client.engine.close_session(session);
        }
        all.client.engine.check().unwrap();
        if cache == CachePolicy::Session {
            prop_assert_eq!(all.client.engine.occupancy().pages, 0);
        }
    }
}
