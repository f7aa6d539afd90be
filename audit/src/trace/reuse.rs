//! What a request can have found in the cache: the longest prefix of it whose keys and values existed, under the declared policy.
//!
//! Not here: what it says it found (`request`).

use std::collections::BTreeMap;

use crate::oracle::{Cache, PAGE_POSITIONS};
use crate::radix::Radix;

/// Every sequence that has been computed so far.
pub(crate) struct Reuse {
    cache: Cache,
    instance: Radix,
    /// By session.
    own: BTreeMap<String, Radix>,
    /// Ids of the trees that may be matched, and how often some were added.
    distinct: u64,
    added: u64,
}

impl Reuse {
    pub(crate) fn new(cache: Cache) -> Self {
        Self {
            cache,
            instance: Radix::default(),
            own: BTreeMap::new(),
            distinct: 0,
            added: 0,
        }
    }

    /// Keys and values of `ids` now exist; `session` computed them. How many ids are held more for it.
    pub(crate) fn computed(&mut self, session: &str, ids: &[u32]) -> usize {
        if self.cache == Cache::None {
            return 0;
        }
        let own = self.own.entry(session.to_owned()).or_default();
        let own_added = own.insert(ids);
        let (matchable, held) = match self.cache {
            Cache::Shared => {
                let added = self.instance.insert(ids);
                (added, own_added + added)
            }
            _ => (own_added, own_added),
        };
        self.distinct += matchable as u64;
        self.added += u64::from(matchable > 0);
        held
    }

    /// Positions a tree of pages can hold of all that: each text that differs from all others repeats what its first page
    /// has in common with them.
    pub(super) fn positions_at_most(&self) -> u64 {
        self.distinct + (PAGE_POSITIONS - 1) * self.added
    }

    /// Positions of `ids` a request of `session` can find, in all and among its session's own.
    pub(crate) fn limits(&self, session: &str, ids: &[u32]) -> (u64, u64) {
        let own = self.own.get(session).map_or(0, |own| own.longest(ids));
        match self.cache {
            Cache::None => (0, 0),
            Cache::Session => (own, own),
            Cache::Shared => (self.instance.longest(ids), own),
        }
    }
}
