//! A cache, its pool, everything in flight and everything held, and that all of it adds up after every step.
//!
//! Not here: what the steps do (`steps`), what must be found (`oracle`).

use std::collections::{BTreeMap, HashMap};

use engine::kv::radix::HoldId;
use engine::kv::{Eviction, KvShape, NodeId, Owner, PageId, PagePool, PageTable};
use engine::schedule::{Cache, CachePolicy, Wanted};
use engine::tensor::{KvType, LayerView, PAGE_POSITIONS};

use super::oracle::{Oracle, SESSIONS, Text, whole};
use super::steps::Step;

/// Known texts that new ones may begin as.
const KNOWN_MAX: usize = 16;
/// Pages of a world in which nothing is evicted.
const ROOMY: usize = 1 << 16;

/// What a world is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) policy: CachePolicy,
    pub(crate) eviction: Eviction,
    /// Pages there are; none if there is room for everything.
    pub(crate) capacity: Option<usize>,
}

/// A request in flight.
pub(crate) struct Flight {
    /// Its prompt.
    pub(crate) text: Text,
    pub(crate) priority: i32,
    pub(crate) table: PageTable,
    /// What the table's positions hold.
    pub(crate) values: Vec<u64>,
    /// Positions it may have in all.
    pub(crate) positions: usize,
    /// Whether it goes on from rotated positions.
    pub(crate) tainted: bool,
    pub(crate) is_published: bool,
    /// Its positions so far; as many as `must` says are locked.
    pub(crate) locked: Text,
}

impl Flight {
    /// Pages promised to it.
    fn promised(&self) -> usize {
        self.positions.div_ceil(PAGE_POSITIONS) - self.table.pages().len()
    }
}

/// A text held by a pin or a lease.
pub(crate) struct Held {
    pub(crate) id: HoldId,
    pub(crate) text: Text,
    pub(crate) ends: Option<u64>,
}

/// What a finished request has left.
pub(crate) struct Idle {
    pub(crate) text: Text,
    pub(crate) pending: Option<u32>,
    /// What its positions hold if they were rotated.
    pub(crate) rotated: Option<Vec<u64>>,
}

/// Everything.
pub(crate) struct World {
    pub(crate) setting: Setting,
    pub(crate) pool: PagePool,
    pub(crate) cache: Cache,
    pub(crate) oracle: Oracle,
    pub(crate) flights: Vec<Flight>,
    pub(crate) holds: Vec<Held>,
    pub(crate) idle: BTreeMap<u64, Idle>,
    pub(crate) known: Vec<Text>,
    pub(crate) now: u64,
    /// What happened how often.
    pub(crate) happened: Happened,
}

/// Counts by name.
pub(crate) type Happened = BTreeMap<&'static str, usize>;

/// The keys and values that a position of this value has.
pub(crate) fn row(value: u64) -> (f32, f32) {
    let part = |shift: u32| ((value >> shift) & 0xff_ffff) as f32;
    (part(0), part(24))
}

impl World {
    pub(crate) fn new(setting: Setting) -> Self {
        let shape = KvShape {
            layers: 1,
            kv_heads: 1,
            head_dim: 1,
        };
        let recompute = engine::kv::policy::Recompute {
            position: 100,
            attended: 1,
        };
        let Setting {
            policy,
            eviction,
            capacity,
        } = setting;
        Self {
            setting,
            pool: PagePool::new(shape, KvType::F32, capacity.unwrap_or(ROOMY)),
            cache: Cache::new(policy, eviction.policy(recompute)),
            oracle: Oracle::new(policy, capacity.is_none()),
            flights: Vec::new(),
            holds: Vec::new(),
            idle: BTreeMap::new(),
            known: Vec::new(),
            now: 0,
            happened: BTreeMap::new(),
        }
    }

    pub(crate) fn text(&self, like: &Text, tokens: &[u32]) -> Text {
        Text::new(self.setting.policy, like.who, like.session, tokens)
    }

    /// Something happened, if it did.
    pub(crate) fn note(&mut self, what: &'static str, did: bool) {
        *self.happened.entry(what).or_default() += usize::from(did);
    }

    /// Texts to come may begin as this one.
    pub(crate) fn remember(&mut self, text: Text) {
        if text.tokens.is_empty() {
            return;
        }
        if self.known.len() == KNOWN_MAX {
            self.known.remove(0);
        }
        self.known.push(text);
    }

    pub(crate) fn spoken_for(&self) -> usize {
        self.flights.iter().map(Flight::promised).sum()
    }

    /// How many positions of a text the tree has for whoever asks, leaving no trace.
    pub(crate) fn peek(&self, text: &Text) -> usize {
        let scope = text.who.scope();
        let wanted = Wanted {
            scope: &scope,
            session: text.session,
            priority: 0,
            prompt: &text.tokens,
        };
        let owner = Owner {
            scope: &scope,
            session: (self.setting.policy == CachePolicy::Session).then_some(text.session),
        };
        let found = self
            .cache
            .tree()
            .look(owner, self.cache.findable(wanted))
            .len();
        let needs_no_waiting = self.cache.matchable(wanted);
        assert!((found..=found + 1).contains(&needs_no_waiting));
        found
    }

    /// That `pages` hold `values`.
    pub(crate) fn assert_holds(&self, pages: &[PageId], values: &[u64]) {
        assert_eq!(pages.len(), values.len().div_ceil(PAGE_POSITIONS));
        for (page, values) in pages.iter().zip(values.chunks(PAGE_POSITIONS)) {
            let LayerView::F32(data) = self.pool.view(*page, 0) else {
                panic!("the pool is of f32")
            };
            for (slot, value) in values.iter().enumerate() {
                let held = (data[slot], data[PAGE_POSITIONS + slot]);
                assert_eq!(held, row(*value), "position {slot} of {page:?}");
            }
        }
    }

    /// Everything that must hold between two steps.
    pub(crate) fn check(&mut self) {
        self.check_references();
        self.check_contents();
        self.check_locks();
        self.check_memory();
    }

    /// Every page and every lock is somebody's.
    fn check_references(&self) {
        let mut held: HashMap<PageId, usize> = HashMap::new();
        self.cache.count_held(&mut held);
        for page in self.flights.iter().flat_map(|it| it.table.pages()) {
            *held.entry(*page).or_default() += 1;
        }
        self.pool.check(&held).unwrap();
        let anchors: Vec<NodeId> = self.flights.iter().map(|it| it.table.anchor).collect();
        let tree = self.cache.tree();
        tree.check(&anchors).unwrap();
        assert_eq!(tree.protected() + tree.evictable(), tree.pages());
        if self.flights.is_empty() && self.holds.is_empty() {
            assert_eq!(tree.protected(), 0);
        }
        let mut distinct: Vec<&PageId> = held.keys().collect();
        distinct.sort();
        let occupancy = self.pool.occupancy();
        assert_eq!(occupancy.pages, distinct.len());
        assert_eq!(occupancy.pages + self.pool.available(), occupancy.capacity);
        assert!(self.spoken_for() <= self.pool.available());
    }

    /// Tables in flight and rotated ones hold what they did, whatever became of the tree.
    fn check_contents(&mut self) {
        for flight in &self.flights {
            self.assert_holds(flight.table.pages(), &flight.values);
        }
        for session in 0..SESSIONS {
            let is_rotated = self.cache.is_rotated(session);
            let idle = self.idle.get_mut(&session);
            let Some(values) = idle.and_then(|idle| idle.rotated.take()) else {
                assert!(!is_rotated);
                continue;
            };
            if is_rotated {
                let pages = self.cache.session_pages(session).unwrap();
                self.assert_holds(&pages, &values);
                self.idle.get_mut(&session).unwrap().rotated = Some(values);
            } else {
                assert!(self.setting.capacity.is_some(), "dropped without need");
            }
        }
    }

    /// What is locked is found, unless it is barred; what is found for anyone is what was published for them.
    fn check_locks(&self) {
        let flights = self.flights.iter().map(|flight| &flight.locked);
        let holds = self.holds.iter().map(|held| &held.text);
        for text in flights.chain(holds) {
            let barred_at = self.oracle.barred_at(text).unwrap_or(usize::MAX);
            let found = self.peek(text);
            assert!(
                found >= text.must.min(whole(barred_at)),
                "{} positions are locked and {found} found of {text:?}",
                text.must
            );
        }
        if let Some(text) = self.known.get(self.now as usize % self.known.len().max(1)) {
            self.assert_found(text, self.peek(text));
        }
    }

    /// That `found` positions of a text are as many as there should be.
    pub(crate) fn assert_found(&self, text: &Text, found: usize) {
        let (must, may) = self.oracle.findable(text);
        assert!(
            (must..=may).contains(&found),
            "{found} positions found, not {must} to {may}, of {text:?}"
        );
    }

    /// Memory is linear in unique positions, and nothing is kept twice.
    fn check_memory(&self) {
        let tree = self.cache.tree();
        let nodes = tree.snapshot();
        assert_eq!(nodes.len(), tree.pages());
        let mut siblings: HashMap<Option<usize>, usize> = HashMap::new();
        for (at, node) in nodes.iter().enumerate() {
            let before = siblings.insert(node.parent, at).map(|at| &nodes[at]);
            let repeated = before.filter(|before| {
                let same = before.under == node.under && before.tokens.len() < PAGE_POSITIONS;
                same && node.tokens.starts_with(before.tokens)
            });
            // Where sessions share nothing, the same text of two of them stands side by side.
            if self.setting.policy == CachePolicy::Shared {
                assert!(repeated.is_none_or(|it| it.locked), "{repeated:?} is kept");
            }
        }
        let pages_max = self.oracle.pages_max();
        assert!(tree.pages() <= pages_max);
        let flights = self.flights.iter();
        let own = flights.map(|it| it.table.pages().len() - it.locked.must / PAGE_POSITIONS);
        let rotated = self.idle.values().filter_map(|idle| idle.rotated.as_ref());
        let rotated = rotated.map(|values| values.len().div_ceil(PAGE_POSITIONS));
        let apart: usize = own.chain(rotated).sum();
        assert!(self.pool.occupancy().pages <= pages_max + apart);
    }

    /// Nothing is in flight or held any more.
    pub(crate) fn let_go(&mut self) {
        while !self.flights.is_empty() {
            self.step(&Step::Finish {
                flight: 0,
                pending: None,
            });
        }
        while !self.holds.is_empty() {
            self.step(&Step::Release { hold: 0 });
        }
    }

    /// Everyone leaves, and nothing is left.
    pub(crate) fn end(mut self) -> Happened {
        self.let_go();
        for session in 0..SESSIONS as u8 {
            self.step(&Step::Close { session });
        }
        let all = self.pool.capacity();
        self.cache.reserve(&mut self.pool, all, 0).unwrap();
        assert_eq!(self.cache.tree().pages(), 0);
        self.check_references();
        self.happened
    }
}
