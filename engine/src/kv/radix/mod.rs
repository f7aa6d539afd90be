//! A radix tree over token ids whose edges are KV pages: what sequences have in common is stored once.
//!
//! A node is one page with the tokens it holds, under the salt of whoever may find it. Only a full page has children; a
//! partly filled one is a leaf, and a copy source for whoever shares its head. An edge is never longer than a page, so
//! nothing is split or merged, and there is no node without a page. Children stand in the order of their tokens, so the
//! child with the longest common prefix stands next to where the sought tokens would be inserted. The tree holds one
//! reference to each of its pages. Who works with a page locks its node, and by that all nodes above (`order`); what is
//! not locked can be evicted. Not here: which policy evicts (`policy`), what must not be found (`tombstone`).

mod check;
mod order;
mod prune;
mod salts;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

pub use check::Snapshot;
pub use order::HoldId;
pub use salts::Owner;

use super::policy::{EvictionPolicy, Facts, Rank};
use super::pool::{PageId, PagePool};
use crate::tensor::PAGE_POSITIONS;
use order::Holds;
use salts::{Salted, Salts};

/// Bytes that a node takes beside its page: itself, its label, its place among its siblings and in the order of eviction.
pub const NODE_BYTES: usize = size_of::<Node>() + LABEL_BYTES + SIBLING_BYTES + ORDER_BYTES;
/// A full label with the counts before it.
const LABEL_BYTES: usize = (PAGE_POSITIONS + 1) * size_of::<u32>() + 2 * size_of::<usize>();
/// A map of one entry, which has room for eleven: the most that a child can cost.
const SIBLING_BYTES: usize = 11 * (size_of::<Arc<[u32]>>() + size_of::<usize>()) + 16;
/// An entry of a set that is half full.
const ORDER_BYTES: usize = 2 * size_of::<(Rank, usize)>();

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(usize);

impl Default for NodeId {
    fn default() -> Self {
        Self::ROOT
    }
}

impl NodeId {
    /// Where every text begins; it has no page and cannot go.
    pub const ROOT: Self = Self(0);
}

#[derive(Default)]
struct Node {
    parent: usize,
    /// None for the root, and for a node taken out while it was locked.
    page: Option<PageId>,
    /// The salt, then the tokens.
    label: Arc<[u32]>,
    children: BTreeMap<Arc<[u32]>, usize>,
    /// Locks on this node and on nodes below.
    locks: usize,
    /// Its place in the order of eviction while it can go.
    rank: Option<Rank>,
    facts: Facts,
    /// The session whose request cached it.
    session: u64,
}

impl Node {
    fn positions(&self) -> usize {
        self.label.len().saturating_sub(1)
    }
}

/// Who caches or looks for a text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writer {
    /// Its session.
    pub session: u64,
    /// Its request's priority.
    pub priority: i32,
}

/// What of a prompt the tree holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Whole pages.
    pub pages: Vec<PageId>,
    /// A page whose head continues the match, and how many positions of it.
    pub tail: Option<(PageId, usize)>,
    /// The node of the last whole page.
    pub node: NodeId,
    /// The node of the tail.
    pub tail_node: Option<NodeId>,
}

impl Match {
    /// Nothing found.
    pub fn none() -> Self {
        Self {
            pages: Vec::new(),
            tail: None,
            node: NodeId::ROOT,
            tail_node: None,
        }
    }

    /// Matched positions.
    pub fn len(&self) -> usize {
        self.pages.len() * PAGE_POSITIONS + self.tail.map_or(0, |(_, len)| len)
    }

    /// The node of the last page, whole or not.
    pub fn last(&self) -> NodeId {
        self.tail_node.unwrap_or(self.node)
    }

    /// Whether nothing matched.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The tree.
pub struct RadixTree {
    nodes: Vec<Node>,
    free: Vec<usize>,
    clock: u64,
    salts: Salts,
    policy: Box<dyn EvictionPolicy>,
    /// Leaves without locks, the first to go first.
    order: BTreeSet<(Rank, usize)>,
    page_count: usize,
    /// Of them, those with locks.
    protected: usize,
    holds: Holds,
}

/// A salt and up to a page of tokens.
struct Label {
    ids: [u32; PAGE_POSITIONS + 1],
    len: usize,
}

impl Label {
    fn new(salt: u32, tokens: &[u32]) -> Self {
        let mut ids = [0; PAGE_POSITIONS + 1];
        let len = tokens.len().min(PAGE_POSITIONS) + 1;
        ids[0] = salt;
        ids[1..len].copy_from_slice(&tokens[..len - 1]);
        Self { ids, len }
    }

    fn ids(&self) -> &[u32] {
        &self.ids[..self.len]
    }
}

impl RadixTree {
    /// An empty tree that evicts by `policy`.
    pub fn new(policy: Box<dyn EvictionPolicy>) -> Self {
        Self {
            nodes: vec![Node::default()],
            free: Vec::new(),
            clock: 0,
            salts: Salts::default(),
            policy,
            order: BTreeSet::new(),
            page_count: 0,
            protected: 0,
            holds: Holds::default(),
        }
    }

    /// The longest prefix of `tokens` that `owner` may find; everything on its way counts as used, and as found once
    /// [`Self::count_hit`] is told so.
    pub fn find(&mut self, owner: Owner<'_>, tokens: &[u32], priority: i32) -> Match {
        let found = self.look(owner, tokens);
        self.mark_used(found.last(), priority);
        found
    }

    /// Everything from the root to `node` counts as used.
    pub fn mark_used(&mut self, node: NodeId, priority: i32) {
        self.clock += 1;
        let mut at = self.in_tree(node);
        while at != NodeId::ROOT.0 {
            self.touch(at, priority);
            at = self.nodes[at].parent;
        }
    }

    /// The node, or the root if it is gone since, for room.
    fn in_tree(&self, NodeId(node): NodeId) -> usize {
        let is_there = self.nodes[node].page.is_some();
        if is_there { node } else { NodeId::ROOT.0 }
    }

    /// As `find`, leaving no trace.
    pub fn look(&self, owner: Owner<'_>, tokens: &[u32]) -> Match {
        let mut found = Match::none();
        let salted = self.salts.of(owner);
        for (index, tokens) in tokens.chunks(PAGE_POSITIONS).enumerate() {
            let Some((child, common)) = self.step(found.node.0, salted, index, tokens) else {
                break;
            };
            let Some(page) = self.nodes[child].page else {
                break;
            };
            if common < PAGE_POSITIONS {
                (found.tail, found.tail_node) = (Some((page, common)), Some(NodeId(child)));
                break;
            }
            found.pages.push(page);
            found.node = NodeId(child);
        }
        found
    }

    /// The child of `node` that goes on longest with `tokens`, the page at `index` of a text, and how long.
    fn step(
        &self,
        node: usize,
        salted: Salted,
        index: usize,
        tokens: &[u32],
    ) -> Option<(usize, usize)> {
        let label = Label::new(salted.at(index)?, tokens);
        if label.len > PAGE_POSITIONS
            && let Some(&child) = self.nodes[node].children.get(label.ids())
        {
            return Some((child, PAGE_POSITIONS));
        }
        let (child, common) = self.best_child(node, label.ids())?;
        (common > 1).then(|| (child, common - 1))
    }

    /// The child of `node` with the longest common prefix with `label`, salt included.
    fn best_child(&self, node: usize, label: &[u32]) -> Option<(usize, usize)> {
        let children = &self.nodes[node].children;
        let from = (Bound::Included(label), Bound::Unbounded);
        let below = (Bound::Unbounded, Bound::Excluded(label));
        let at_or_after = children.range::<[u32], _>(from).next();
        let before = children.range::<[u32], _>(below).next_back();
        [at_or_after, before]
            .into_iter()
            .flatten()
            .map(|(ids, child)| (*child, common_prefix(ids, label)))
            .max_by_key(|(_, common)| *common)
    }

    /// Makes `tokens`, held by `pages`, findable for `owner`; returns the node of the last page that is now in the tree,
    /// locked in place of `anchor`.
    ///
    /// Where the tree has a whole page of these tokens already, `pages` is given that one and its own is released: the
    /// bits are the same, and one copy is kept.
    pub fn insert(
        &mut self,
        pool: &mut PagePool,
        owner: Owner<'_>,
        (tokens, pages): (&[u32], &mut [PageId]),
        writer: Writer,
        anchor: NodeId,
    ) -> NodeId {
        self.clock += 1;
        let mut node = NodeId::ROOT.0;
        let texts = tokens.chunks(PAGE_POSITIONS).zip(pages).enumerate();
        for (index, (tokens, page)) in texts {
            let salt = self.salts.take(owner, index);
            let label = Label::new(salt, tokens);
            let known = self.nodes[node].children.get(label.ids()).copied();
            let next = match known {
                Some(child) => self.share(pool, child, page),
                None => self.add(pool, (node, index), &label, *page, writer),
            };
            if known.is_some() || next.is_none() {
                self.salts.give_back(salt);
            }
            let Some(next) = next else {
                break;
            };
            self.touch(next, writer.priority);
            node = next;
        }
        self.lock(NodeId(node));
        self.unlock(pool, anchor);
        NodeId(node)
    }

    /// Takes the page of `child`, which holds the same tokens, in place of `page`; a partly filled one stays the writer's
    /// own, who goes on in it.
    fn share(&mut self, pool: &mut PagePool, child: usize, page: &mut PageId) -> Option<usize> {
        let held = self.nodes[child].page?;
        if held != *page {
            if self.nodes[child].positions() < PAGE_POSITIONS {
                return None;
            }
            pool.retain(held);
            pool.release(std::mem::replace(page, held));
        }
        Some(child)
    }

    /// Adds a page the tree has not; none if a child holds all its tokens and more.
    fn add(
        &mut self,
        pool: &mut PagePool,
        (node, index): (usize, usize),
        label: &Label,
        page: PageId,
        writer: Writer,
    ) -> Option<usize> {
        if let Some((child, common)) = self.best_child(node, label.ids()) {
            if common == label.len {
                return None;
            }
            // A leaf whose tokens begin these says nothing that the longer one will not.
            if common == self.nodes[child].label.len() {
                if self.nodes[child].page == Some(page) {
                    self.relabel(child, label);
                    return Some(child);
                }
                if self.nodes[child].locks == 0 {
                    self.remove_leaf(pool, child);
                }
            }
        }
        pool.retain(page);
        let label: Arc<[u32]> = label.ids().into();
        let facts = Facts {
            created: self.clock,
            first_position: index * PAGE_POSITIONS,
            positions: label.len() - 1,
            priority: writer.priority,
            ..Facts::default()
        };
        let new = Node {
            parent: node,
            page: Some(page),
            label: Arc::clone(&label),
            facts,
            session: writer.session,
            ..Node::default()
        };
        let at = self.free.pop().unwrap_or(self.nodes.len());
        match self.nodes.get_mut(at) {
            Some(free) => *free = new,
            None => self.nodes.push(new),
        }
        self.unlist(node);
        self.nodes[node].children.insert(label, at);
        self.list(at);
        self.page_count += 1;
        Some(at)
    }

    /// Gives a leaf the label of what its page is to be found for, longer or shorter. The salt is counted once for both.
    fn relabel(&mut self, node: usize, label: &Label) {
        self.unlist(node);
        let label: Arc<[u32]> = label.ids().into();
        let Node {
            parent, label: old, ..
        } = &mut self.nodes[node];
        let (parent, old) = (*parent, std::mem::replace(old, Arc::clone(&label)));
        self.nodes[node].facts.positions = label.len() - 1;
        self.salts.give_back(old[0]);
        let siblings = &mut self.nodes[parent].children;
        siblings.remove(&old);
        siblings.insert(label, node);
        self.list(node);
    }

    /// That a node was used.
    fn touch(&mut self, node: usize, priority: i32) {
        let listed = self.unlist(node);
        let facts = &mut self.nodes[node].facts;
        facts.last_used = self.clock;
        facts.priority = facts.priority.max(priority);
        facts.age = self.policy.age();
        if listed {
            self.list(node);
        }
    }

    /// That a request goes on from what was found up to `node`.
    pub fn count_hit(&mut self, node: NodeId) {
        let mut at = self.in_tree(node);
        while at != NodeId::ROOT.0 {
            let listed = self.unlist(at);
            self.nodes[at].facts.hits += 1;
            if listed {
                self.list(at);
            }
            at = self.nodes[at].parent;
        }
    }

    /// The node that ends exactly where `tokens` do, all pages before it whole.
    fn exact(&self, salted: Salted, tokens: &[u32]) -> Option<usize> {
        let mut node = NodeId::ROOT.0;
        for (index, tokens) in tokens.chunks(PAGE_POSITIONS).enumerate() {
            let label = Label::new(salted.at(index)?, tokens);
            node = *self.nodes[node].children.get(label.ids())?;
        }
        Some(node)
    }

    /// Positions that a node's page has for those who find it; none if the node is no longer in the tree.
    pub fn positions(&self, node: NodeId) -> Option<usize> {
        let node = self.nodes.get(node.0)?;
        node.page.map(|_| node.positions())
    }

    /// Adds the tree's references to `held`, for [`PagePool::check`].
    pub fn count_held(&self, held: &mut HashMap<PageId, usize>) {
        for page in self.nodes.iter().filter_map(|node| node.page) {
            *held.entry(page).or_default() += 1;
        }
    }
}

/// Length of the common prefix.
pub fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
