//! What a request can have found in the cache: the longest prefix of it whose keys and values existed, under the declared policy.
//!
//! Not here: what it says it found (`request`).

use std::collections::BTreeMap;

use crate::oracle::Cache;
use crate::radix::Radix;

/// Every sequence that has been computed so far.
pub(super) struct Reuse {
    cache: Cache,
    instance: Radix,
    /// By session.
    own: BTreeMap<String, Radix>,
}

impl Reuse {
    pub(super) fn new(cache: Cache) -> Self {
        Self {
            cache,
            instance: Radix::default(),
            own: BTreeMap::new(),
        }
    }

    /// Keys and values of `ids` now exist; `session` computed them. How many ids are held more for it.
    pub(super) fn computed(&mut self, session: &str, ids: &[u32]) -> usize {
        if self.cache == Cache::None {
            return 0;
        }
        let own = self.own.entry(session.to_owned()).or_default();
        let added = own.insert(ids);
        if self.cache == Cache::Shared {
            return added + self.instance.insert(ids);
        }
        added
    }

    /// Positions of `ids` a request of `session` can find, in all and among its session's own.
    pub(super) fn limits(&self, session: &str, ids: &[u32]) -> (u64, u64) {
        let own = self.own.get(session).map_or(0, |own| own.longest(ids));
        match self.cache {
            Cache::None => (0, 0),
            Cache::Session => (own, own),
            Cache::Shared => (self.instance.longest(ids), own),
        }
    }
}
