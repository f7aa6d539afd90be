//! What must be found, worked out without a tree: a list of published texts, and a list of barred ones.
//!
//! A position of a text is its token under the name that its page stands under; what it holds follows from all positions
//! up to it. Both are said once, here, so that a position found for the wrong tenant has a wrong value. Not here: locks
//! and memory (`world`).

use std::collections::HashSet;

use engine::kv::{Public, Scope};
use engine::schedule::CachePolicy;
use engine::tensor::PAGE_POSITIONS;

/// Sessions of a world; each is always the same tenant's.
pub(crate) const SESSIONS: u64 = 6;
/// Tenants of a world.
pub(crate) const TENANTS: u64 = 3;

/// Length of the common prefix.
pub(crate) fn common<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Whole pages of `len` positions, in positions.
pub(crate) fn whole(len: usize) -> usize {
    len / PAGE_POSITIONS * PAGE_POSITIONS
}

/// What a position holds, from what the one before it holds.
pub(crate) fn next_value(value: u64, position: u64) -> u64 {
    let mixed = (value ^ position).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (mixed >> 32)
}

/// What each of `positions` holds.
pub(crate) fn values(positions: &[u64]) -> Vec<u64> {
    let chain = positions.iter().scan(0, |value, position| {
        *value = next_value(*value, *position);
        Some(*value)
    });
    chain.collect()
}

/// Who asks: a tenant, and which public beginning its prompts have, with its length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Who {
    pub(crate) tenant: u64,
    pub(crate) public: Option<(u64, usize)>,
}

impl Who {
    /// One of a tenant's scopes; one public namespace is called as a tenant is.
    pub(crate) fn of(session: u64, choice: u8) -> Self {
        let public = [None, None, Some((9, 64)), Some((9, 150)), Some((0, 70))];
        Self {
            tenant: session % TENANTS,
            public: public[choice as usize % public.len()],
        }
    }

    pub(crate) fn scope(self) -> Scope {
        let public = self.public.map(|(name, positions)| Public {
            name: format!("n{name}"),
            positions,
        });
        Scope {
            tenant: format!("n{}", self.tenant),
            public,
        }
    }

    /// `tokens`, each under the name of its page: of a session that shares nothing, of the public, of the tenant.
    fn named(self, alone: Option<u64>, tokens: &[u32]) -> Vec<u64> {
        let name = |index: usize| {
            let page_end = whole(index) + PAGE_POSITIONS;
            match (alone, self.public) {
                (Some(session), _) => 1000 + session,
                (None, Some((public, positions))) if page_end <= positions => 100 + public,
                _ => self.tenant,
            }
        };
        let tokens = tokens.iter().enumerate();
        tokens
            .map(|(index, token)| (name(index) << 32) | u64::from(*token))
            .collect()
    }
}

/// A text, as someone asks for it.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) who: Who,
    pub(crate) session: u64,
    pub(crate) tokens: Vec<u32>,
    /// Its positions where they are cached.
    pub(crate) cached: Vec<u64>,
    /// Its positions as tombstones go by them.
    pub(crate) key: Vec<u64>,
    /// How many of its positions must be found.
    pub(crate) must: usize,
}

impl Text {
    pub(crate) fn new(policy: CachePolicy, who: Who, session: u64, tokens: &[u32]) -> Self {
        let alone = (policy == CachePolicy::Session).then_some(session);
        Self {
            who,
            session,
            tokens: tokens.to_vec(),
            cached: who.named(alone, tokens),
            key: who.named(None, tokens),
            must: tokens.len(),
        }
    }

    fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
        self.cached.truncate(len);
        self.key.truncate(len);
        self.must = self.must.min(len);
    }
}

/// A barred span: what of the text up to its end is named, and its first position.
struct Barred {
    named: Text,
    start: usize,
}

impl Barred {
    /// What is left of `len` positions of `text`: those before the span, if it has what is named of the span or, in its
    /// last positions, nothing but a part of that. Where sessions share nothing, all of the tenant's are concerned.
    fn left(&self, policy: CachePolicy, text: &Text, len: usize) -> usize {
        let same = match policy {
            CachePolicy::Session if text.who.tenant != self.named.who.tenant => 0,
            CachePolicy::Session => common(&text.tokens, &self.named.tokens),
            _ => common(&text.key, &self.named.key),
        };
        let same = same.min(len);
        let has_it = same == self.named.tokens.len() || same == len;
        if same > self.start && has_it {
            self.start
        } else {
            len
        }
    }
}

/// The naive map.
pub(crate) struct Oracle {
    policy: CachePolicy,
    /// Published texts, while nothing is ever evicted.
    texts: Option<Vec<Text>>,
    barred: Vec<Barred>,
    /// What every position ever published holds, those that another goes on from, and how many more go on so.
    seen: HashSet<u64>,
    inner: HashSet<u64>,
    branches: usize,
    /// Ends of published texts that are not ends of pages.
    tails: HashSet<u64>,
    /// Heads of pages that a quarantine may have kept.
    heads: usize,
}

impl Oracle {
    pub(crate) fn new(policy: CachePolicy, roomy: bool) -> Self {
        Self {
            policy,
            texts: roomy.then(Vec::new),
            barred: Vec::new(),
            seen: HashSet::new(),
            inner: HashSet::new(),
            branches: 0,
            tails: HashSet::new(),
            heads: 0,
        }
    }

    pub(crate) fn barred_at(&self, text: &Text) -> Option<usize> {
        let barred = self.barred.iter();
        let barred = barred.filter(|barred| text.key.starts_with(&barred.named.key));
        barred.map(|barred| barred.start).min()
    }

    /// How many positions of a text must be found, and how many may.
    pub(crate) fn findable(&self, text: &Text) -> (usize, usize) {
        let end = self.barred_at(text).unwrap_or(text.cached.len());
        let wanted = &text.cached[..end];
        let seen = values(wanted);
        let may = seen.iter().take_while(|value| self.seen.contains(value));
        let may = may.count();
        let Some(texts) = &self.texts else {
            return (0, may);
        };
        let longest = |len: fn(&Text) -> usize| {
            let texts = texts.iter();
            let found = texts.map(|text| common(&text.cached[..len(text)], wanted));
            found.max().unwrap_or(0)
        };
        (
            longest(|text| text.must),
            may.min(longest(|text| text.cached.len())),
        )
    }

    pub(crate) fn publish(&mut self, text: &Text) {
        if self.policy == CachePolicy::None {
            return;
        }
        let mut text = text.clone();
        if let Some(at) = self.barred_at(&text) {
            text.truncate(whole(at));
        }
        let mut before = 0;
        for value in values(&text.cached) {
            if self.seen.insert(value) && !self.inner.insert(before) {
                self.branches += 1;
            }
            before = value;
        }
        if whole(text.cached.len()) < text.cached.len() {
            self.tails.insert(before);
        }
        if let Some(texts) = &mut self.texts {
            texts.retain(|other| !text.cached.starts_with(&other.cached));
            texts.push(text);
        }
    }

    /// Bars `ids` from `start` on. Besides published texts it cuts what `kept` texts are relied on for.
    pub(crate) fn quarantine<'a>(
        &mut self,
        ids: &Text,
        start: usize,
        kept: impl Iterator<Item = &'a mut Text>,
    ) {
        let mut named = ids.clone();
        named.truncate(whole(start) + PAGE_POSITIONS);
        let barred = Barred { named, start };
        for text in self.texts.iter_mut().flatten() {
            text.must = barred.left(self.policy, text, text.must);
            text.truncate(barred.left(self.policy, text, text.cached.len()));
        }
        for text in kept {
            text.must = whole(barred.left(self.policy, text, text.must));
        }
        self.barred.push(barred);
        self.heads += SESSIONS as usize;
    }

    /// A session took out of the cache what only it has of `own` beyond `keep`; others still rely on `theirs`.
    pub(crate) fn drop_text<'a>(
        &mut self,
        own: &Text,
        keep: usize,
        theirs: impl Iterator<Item = &'a Text>,
    ) {
        let theirs = theirs.map(|other| common(&other.cached, &own.cached));
        let left = theirs.max().unwrap_or(0).max(whole(keep));
        for text in self.texts.iter_mut().flatten() {
            if own.cached.starts_with(&text.cached[..text.must]) {
                text.must = text.must.min(left);
            }
        }
    }

    /// A session that shares nothing is gone.
    pub(crate) fn close(&mut self, session: u64) {
        if let Some(texts) = &mut self.texts {
            texts.retain(|text| text.session != session);
        }
    }

    /// Most pages that all published texts can take: their unique positions, and one more per open tail, per branch and
    /// per head kept from a quarantine.
    pub(crate) fn pages_max(&self) -> usize {
        let unique = self.seen.len().div_ceil(PAGE_POSITIONS);
        unique + self.tails.len() + self.branches + self.heads
    }
}
