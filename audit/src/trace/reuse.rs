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

    /// Keys and values of `ids` now exist; `session` computed them.
    pub(super) fn computed(&mut self, session: &str, ids: &[u32]) {
        if self.cache == Cache::None {
            return;
        }
        if let Some(own) = self.own.get_mut(session) {
            own.insert(ids);
        } else {
            let mut own = Radix::default();
            own.insert(ids);
            self.own.insert(session.to_owned(), own);
        }
        if self.cache == Cache::Shared {
            self.instance.insert(ids);
        }
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
