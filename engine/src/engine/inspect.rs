//! What an engine says of itself: counters, memory, the tree it keeps, and that it all adds up.
//!
//! Not here: anything that changes an answer.

use std::collections::HashMap;

use super::govern::domain;
use super::{Counters, Engine};
use crate::error::Result;
use crate::kv::radix::Snapshot;
use crate::kv::{Domain, Occupancy, PageKey, Scope, Tombstones};
use crate::model::Model;

/// The cached pages of an engine as they stand, and what is barred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvSnapshot {
    /// Pages of the tree, those before a page first.
    pub nodes: Vec<KvNode>,
    /// Barred spans, oldest first.
    pub tombstones: Vec<KvTombstone>,
}

/// A page of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvNode {
    /// Its number, of no meaning beyond the snapshot.
    pub id: usize,
    /// The page before it; none at the beginning of a text.
    pub parent: Option<usize>,
    /// Positions it has.
    pub positions: usize,
    /// The session whose request cached it.
    pub session: u64,
    /// How often it was found.
    pub hits: u64,
    /// Whether a request, a pin or a lease keeps it from eviction.
    pub locked: bool,
}

/// A barred span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvTombstone {
    /// The page it follows; none at the beginning of a text, or if that page is not cached any more.
    pub parent: Option<usize>,
    /// Its first position.
    pub start: usize,
    /// How many of its positions are named: those in the first page it touches.
    pub positions: usize,
}

impl Engine {
    /// What was done so far.
    pub fn counters(&self) -> Counters {
        let rows = self.pool.rows();
        Counters {
            prefill_tokens_computed: rows.prefill,
            decode_tokens: self.decode_tokens,
            carried_tokens: rows.carried,
            replayed_tokens: self.replayed_tokens,
        }
    }

    /// That every page is free or held by exactly who says so.
    pub fn check(&self) -> std::result::Result<(), String> {
        let mut held = HashMap::new();
        self.cache.count_held(&mut held);
        for page in self.active.iter().flat_map(|active| active.table.pages()) {
            *held.entry(*page).or_default() += 1;
        }
        self.pool.check(&held)?;
        let anchors: Vec<_> = self.active.iter().map(|it| it.table.anchor).collect();
        self.cache.tree().check(&anchors)
    }

    /// How full the KV pages are.
    pub fn occupancy(&self) -> Occupancy {
        self.pool.occupancy()
    }

    /// What the keys of this engine's pages have in common.
    pub(super) fn domain(&self) -> Result<Domain> {
        Ok(domain(&self.model, self.model.sha256()?, &self.options))
    }

    /// What stands for the page before the first: the same for all engines whose pages are each other's.
    pub fn root_key(&self) -> Result<PageKey> {
        Ok(self.domain()?.root())
    }

    /// The keys of a text's pages, the last one of a partly filled page where there is one: what they would be called
    /// wherever they are kept.
    pub fn page_keys(&self, scope: &Scope, ids: &[u32]) -> Result<Vec<PageKey>> {
        Ok(self.domain()?.chain(scope, ids).collect())
    }

    /// The tree as it stands, and what is barred.
    pub fn kv_snapshot(&self) -> KvSnapshot {
        let nodes = self.cache.tree().snapshot();
        let tombstones = self.cache.tombstones();
        let tombstones = tombstones.map_or_else(Vec::new, |barred| described(barred, &nodes));
        let node = |node: Snapshot<'_>| KvNode {
            id: node.id,
            parent: node.parent,
            positions: node.tokens.len(),
            session: node.session,
            hits: node.hits,
            locked: node.locked,
        };
        KvSnapshot {
            nodes: nodes.into_iter().map(node).collect(),
            tombstones,
        }
    }

    /// Bytes of KV in use at the peak.
    pub fn kv_bytes_peak(&self) -> u64 {
        self.pool.bytes_peak()
    }

    /// Kernel set in use.
    pub fn kernels(&self) -> &'static str {
        self.cpu.kernels()
    }

    /// Worker threads in use.
    pub fn threads(&self) -> usize {
        self.cpu.threads()
    }

    /// Element type of cached keys and values.
    pub fn kv_dtype(&self) -> &'static str {
        self.options.kv_type().name()
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Gives the model back, to be run by another engine.
    pub fn into_model(self) -> Model {
        self.model
    }

    /// Bits of the pages an idle session keeps, so that a test can compare what two paths wrote.
    #[doc(hidden)]
    pub fn session_bits(&mut self, session: u64) -> Option<Vec<Vec<u32>>> {
        let pages = self.cache.session_pages(session)?;
        Some(pages.iter().map(|page| self.pool.bits(*page)).collect())
    }

    /// Overwrites one cached value of an idle session's page, so that a test can show the cache is read.
    #[doc(hidden)]
    pub fn poke_session(&mut self, session: u64, page: usize, element: usize, value: f32) -> bool {
        let pages = self.cache.session_pages(session).unwrap_or_default();
        let page = pages.get(page).copied();
        page.inspect(|page| self.pool.poke(*page, element, value))
            .is_some()
    }
}

/// Tombstones, and which of the tree's pages they follow: the one with the key they name.
fn described(barred: &Tombstones, nodes: &[Snapshot<'_>]) -> Vec<KvTombstone> {
    let domain = barred.domain();
    let (mut keys, mut node_of) = (HashMap::new(), HashMap::new());
    for node in nodes {
        let parent = node.parent.and_then(|parent| keys.get(&parent).copied());
        let key = domain.page(&parent.unwrap_or(domain.root()), node.under, node.tokens);
        keys.insert(node.id, key);
        node_of.insert(key, node.id);
    }
    let described = barred.list().iter().map(|tombstone| KvTombstone {
        parent: node_of.get(&tombstone.parent).copied(),
        start: tombstone.start,
        positions: tombstone.end - tombstone.start,
    });
    described.collect()
}
