//! Locks, holds and the order of eviction.
//!
//! A lock on a node counts on every node above, so that a node without locks has none below and all of it can go, leaf by
//! leaf. Nodes with locks are *protected*; protected and evictable ones are all there are. Not here: ranks (`policy`).

use std::collections::{BTreeSet, HashMap};

use super::super::pool::PagePool;
use super::{NodeId, RadixTree};
use crate::tensor::PAGE_POSITIONS;

/// A lock that outlives requests: a pin, or a lease with an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId(u64);

/// Pins and leases.
#[derive(Default)]
pub(super) struct Holds {
    next: u64,
    nodes: HashMap<HoldId, (NodeId, Option<u64>)>,
    ends: BTreeSet<(u64, HoldId)>,
}

impl Holds {
    /// Locks held, by node.
    pub(super) fn locks(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.values().map(|(node, _)| *node)
    }
}

impl RadixTree {
    /// Nothing from the root to `node` is evicted until it is unlocked as often.
    pub fn lock(&mut self, NodeId(node): NodeId) {
        let mut at = node;
        while at != NodeId::ROOT.0 {
            self.unlist(at);
            let node = &mut self.nodes[at];
            node.locks += 1;
            if node.locks == 1 && node.page.is_some() {
                self.protected += 1;
            }
            at = node.parent;
        }
    }

    /// Takes one lock off.
    pub fn unlock(&mut self, pool: &mut PagePool, NodeId(node): NodeId) {
        let mut at = node;
        while at != NodeId::ROOT.0 {
            let node = &mut self.nodes[at];
            debug_assert!(node.locks > 0, "a node is unlocked once per lock");
            node.locks -= 1;
            let (parent, is_free) = (node.parent, node.locks == 0);
            if is_free && node.page.is_some() {
                self.protected -= 1;
                self.list(at);
            } else if is_free {
                self.forget(at); // taken out of the tree while it was locked
            }
            at = parent;
        }
        if node != NodeId::ROOT.0 && self.nodes[node].rank.is_some() && self.is_redundant(node) {
            self.remove_leaf(pool, node);
        }
    }

    /// Whether a sibling begins with all tokens of this partly filled leaf.
    fn is_redundant(&self, node: usize) -> bool {
        let node = &self.nodes[node];
        let siblings = &self.nodes[node.parent].children;
        let after = (
            std::ops::Bound::Excluded(&node.label[..]),
            std::ops::Bound::Unbounded,
        );
        // Labels that begin with this one stand directly after it.
        let next = siblings.range::<[u32], _>(after).next();
        node.positions() < PAGE_POSITIONS
            && next.is_some_and(|(label, _)| label.starts_with(&node.label))
    }

    /// Puts a node into the order of eviction, if it can go.
    pub(super) fn list(&mut self, at: usize) {
        let node = &self.nodes[at];
        let can_go = node.page.is_some() && node.locks == 0 && node.children.is_empty();
        if can_go && node.rank.is_none() {
            let rank = self.policy.rank(&node.facts);
            self.nodes[at].rank = Some(rank);
            self.order.insert((rank, at));
        }
    }

    /// Takes a node out of the order of eviction; whether it was in it.
    pub(super) fn unlist(&mut self, at: usize) -> bool {
        let rank = self.nodes[at].rank.take();
        rank.is_some_and(|rank| self.order.remove(&(rank, at)))
    }

    /// Drops the page that the policy says goes first; false if all are protected.
    pub fn evict_one(&mut self, pool: &mut PagePool) -> bool {
        let Some(&(rank, node)) = self.order.first() else {
            return false;
        };
        self.policy.evicted(rank);
        self.remove_leaf(pool, node);
        true
    }

    /// Pages that eviction could free.
    pub fn evictable(&self) -> usize {
        self.page_count - self.protected
    }

    /// Pages that locks keep.
    pub fn protected(&self) -> usize {
        self.protected
    }

    /// Holds what is cached up to `node` until [`Self::release_hold`], or until `ends` has passed.
    pub fn hold(&mut self, node: NodeId, ends: Option<u64>) -> HoldId {
        let id = HoldId(self.holds.next);
        self.holds.next += 1;
        self.lock(node);
        self.holds.nodes.insert(id, (node, ends));
        self.holds.ends.extend(ends.map(|end| (end, id)));
        id
    }

    /// Ends a hold; false if it has ended before.
    pub fn release_hold(&mut self, pool: &mut PagePool, id: HoldId) -> bool {
        let Some((node, ends)) = self.holds.nodes.remove(&id) else {
            return false;
        };
        if let Some(end) = ends {
            self.holds.ends.remove(&(end, id));
        }
        self.unlock(pool, node);
        true
    }

    /// Ends the leases whose time is up at `now`; how many.
    pub fn expire(&mut self, pool: &mut PagePool, now: u64) -> usize {
        let mut expired = 0;
        while let Some(&(end, id)) = self.holds.ends.first() {
            if end > now {
                break;
            }
            self.release_hold(pool, id);
            expired += 1;
        }
        expired
    }
}
