//! One account for every kind of work: a stream of requests, a cache that is declared, and what is computed, found and held.
//!
//! Whatever the work is called, here it is requests whose prompts are made of spans. Closed forms (`crate::oracle`, and those
//! of published reports) are tests of this, never the other way round. Nothing is run and nothing is timed: provenance
//! MODELED. Not here: which requests a kind of work makes (`streams`, `crate::datasets`), or counting what an arm did.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod geometry;
pub mod online;
mod radix;
pub mod streams;

pub use geometry::{Geometry, Operations};
use radix::Tree;

/// A run of tokens that is only ever said whole: where two prompts have the same span at the same place, after the same
/// spans, they have the same tokens there, and where they do not, not even the first token is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// What it says.
    pub id: u64,
    /// How long it is.
    pub tokens: u64,
}

/// One request: a prompt, and what is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Who serves it.
    pub worker: u64,
    /// Whose conversation it is.
    pub session: u64,
    /// What is asked.
    pub prompt: Vec<Span>,
    /// What is answered; its keys and values stay in the cache behind the prompt's.
    pub answer: Option<Span>,
}

impl Request {
    /// Tokens of the prompt.
    pub fn prompt_tokens(&self) -> u64 {
        tokens_of(&self.prompt)
    }
}

/// Tokens of some spans.
pub fn tokens_of(spans: &[Span]) -> u64 {
    spans.iter().map(|span| span.tokens).sum()
}

/// Who finds what was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Nobody: every prompt is computed whole.
    None,
    /// The same conversation.
    Session,
    /// All conversations of a worker.
    Worker,
    /// All conversations.
    Fleet,
}

/// A cache, as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheModel {
    /// Who finds what was computed.
    pub scope: Scope,
    /// Tokens each cache of the scope may hold after a request; without, no limit. What goes first is the leaf that was
    /// touched longest ago: a path is touched when it is matched and when it is extended.
    pub capacity_tokens: Option<u64>,
}

impl CacheModel {
    /// One without a limit.
    pub fn unbounded(scope: Scope) -> Self {
        Self {
            scope,
            capacity_tokens: None,
        }
    }
}

/// What a stream of requests costs under a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Requests.
    pub requests: u64,
    /// Sum of prompt lengths.
    pub prompt_tokens: u64,
    /// Prompt tokens found in a cache.
    pub reused_tokens: u64,
    /// Prompt tokens computed.
    pub computed_tokens: u64,
    /// Tokens answered.
    pub decode_tokens: u64,
    /// Sum over computed prompt tokens and answered ones of the positions each attends to, itself included.
    #[serde(serialize_with = "as_u64")]
    pub attended_positions: u128,
    /// Most tokens all caches held at once, after a request.
    pub held_tokens_peak: u64,
    /// Leaves that had to go.
    pub evictions: u64,
    /// Edges that were split where two prompts part.
    pub splits: u64,
}

impl Account {
    /// Prompt tokens found over all prompt tokens.
    pub fn hit_rate(&self) -> f64 {
        self.reused_tokens as f64 / self.prompt_tokens.max(1) as f64
    }

    /// Adds another stream's account, whose caches are gone when this one's begin.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            reused_tokens: self.reused_tokens + other.reused_tokens,
            computed_tokens: self.computed_tokens + other.computed_tokens,
            decode_tokens: self.decode_tokens + other.decode_tokens,
            attended_positions: self.attended_positions + other.attended_positions,
            held_tokens_peak: self.held_tokens_peak.max(other.held_tokens_peak),
            evictions: self.evictions + other.evictions,
            splits: self.splits + other.splits,
        }
    }
}

/// What `requests` cost under `model`, one after the other.
pub fn replay(model: &CacheModel, requests: impl IntoIterator<Item = Request>) -> Account {
    let mut caches = Caches::new(*model);
    for request in requests {
        caches.serve(&request);
    }
    caches.account()
}

/// The caches of a scope, and what was counted so far.
struct Caches {
    model: CacheModel,
    by_key: BTreeMap<u64, Tree>,
    /// Tokens all of them hold.
    held: u64,
    account: Account,
}

impl Caches {
    fn new(model: CacheModel) -> Self {
        Self {
            model,
            by_key: BTreeMap::new(),
            held: 0,
            account: Account::default(),
        }
    }

    /// Which cache serves a request; none where nothing is kept.
    fn key(&self, request: &Request) -> Option<u64> {
        match self.model.scope {
            Scope::None => None,
            Scope::Session => Some(request.session),
            Scope::Worker => Some(request.worker),
            Scope::Fleet => Some(0),
        }
    }

    /// Tokens a request would find now.
    fn would_find(&self, request: &Request) -> u64 {
        let cache = self.key(request).and_then(|key| self.by_key.get(&key));
        cache.map_or(0, |cache| cache.look(&request.prompt))
    }

    fn serve(&mut self, request: &Request) {
        let asked = request.prompt_tokens();
        let answered = request.answer.map_or(0, |span| span.tokens);
        let mut found = 0;
        if let Some(key) = self.key(request) {
            let cache = self.by_key.entry(key).or_default();
            let before = cache.tokens();
            found = cache.find(&request.prompt);
            let said = request.prompt.iter().copied().chain(request.answer);
            cache.insert(&said.collect::<Vec<_>>());
            if let Some(capacity) = self.model.capacity_tokens {
                cache.evict_to(capacity);
            }
            self.held = self.held - before + cache.tokens();
            self.account.held_tokens_peak = self.account.held_tokens_peak.max(self.held);
        }
        self.account.requests += 1;
        self.account.prompt_tokens += asked;
        self.account.reused_tokens += found;
        self.account.computed_tokens += asked - found;
        self.account.decode_tokens += answered;
        self.account.attended_positions += attended(found, asked - found + answered);
    }

    fn account(&self) -> Account {
        Account {
            evictions: self.by_key.values().map(Tree::evictions).sum(),
            splits: self.by_key.values().map(Tree::splits).sum(),
            ..self.account
        }
    }
}

/// In JSON numbers end at 64 bits: beyond, null.
fn as_u64<S: serde::Serializer>(value: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    u64::try_from(*value).ok().serialize(serializer)
}

/// Positions that `count` positions behind `prior` others attend to, each to all before it and to itself.
fn attended(prior: u64, count: u64) -> u128 {
    let (prior, count) = (u128::from(prior), u128::from(count));
    count * prior + count * (count + 1) / 2
}
