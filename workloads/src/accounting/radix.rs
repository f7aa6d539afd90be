//! What a cache holds, as a tree of edges: the obvious one, which every other count is held against.
//!
//! An edge is what was inserted between two places where prompts part, so a leaf is evicted as far back as the last such
//! place. Not here: the engine's own tree, whose edges are pages.

use std::collections::BTreeMap;

use super::{Span, tokens_of};

/// An edge and what hangs on it.
#[derive(Debug, Default)]
struct Node {
    edge: Vec<Span>,
    parent: usize,
    /// By the first span of their edges.
    children: BTreeMap<Span, usize>,
    touched: u64,
    /// Evicted, and its place not used again.
    gone: bool,
}

/// A tree of everything that is held; node 0 is the empty beginning.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    tokens: u64,
    now: u64,
    evictions: u64,
    splits: u64,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
            tokens: 0,
            now: 0,
            evictions: 0,
            splits: 0,
        }
    }
}

impl Tree {
    /// Tokens held.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Leaves evicted so far.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Edges split so far.
    pub(super) fn splits(&self) -> u64 {
        self.splits
    }

    /// Tokens of the longest beginning of `prompt` that is held; what is matched is touched.
    pub(super) fn find(&mut self, prompt: &[Span]) -> u64 {
        self.now += 1;
        let (_, matched, _) = self.walk(prompt);
        self.touch(prompt);
        tokens_of(&prompt[..matched])
    }

    /// The same without touching anything.
    pub(super) fn look(&self, prompt: &[Span]) -> u64 {
        tokens_of(&prompt[..self.walk(prompt).1])
    }

    /// Everything on the way of `text` is touched.
    fn touch(&mut self, text: &[Span]) {
        let (mut node, _, _) = self.walk(text);
        while node != 0 {
            self.nodes[node].touched = self.now;
            node = self.nodes[node].parent;
        }
    }

    /// Holds all of `text`.
    pub(super) fn insert(&mut self, text: &[Span]) {
        self.now += 1;
        self.touch(text);
        let (node, matched, within) = self.walk(text);
        let rest = &text[matched..];
        let parent = if within < self.nodes[node].edge.len() && !rest.is_empty() {
            self.split(node, within)
        } else {
            node
        };
        let Some(first) = rest.first() else {
            return;
        };
        let leaf = self.nodes.len();
        self.nodes.push(Node {
            edge: rest.to_vec(),
            parent,
            touched: self.now,
            ..Node::default()
        });
        self.nodes[parent].children.insert(*first, leaf);
        self.tokens += tokens_of(rest);
    }

    /// Evicts leaves, the one touched longest ago first, until no more than `capacity` tokens are left.
    pub(super) fn evict_to(&mut self, capacity: u64) {
        while self.tokens > capacity {
            let leaves = self.nodes.iter().enumerate().skip(1);
            let leaf = leaves
                .filter(|(_, node)| !node.gone && node.children.is_empty())
                .min_by_key(|(place, node)| (node.touched, *place));
            let Some((leaf, _)) = leaf else { return };
            let node = &mut self.nodes[leaf];
            node.gone = true;
            let (edge, parent) = (std::mem::take(&mut node.edge), node.parent);
            self.tokens -= tokens_of(&edge);
            self.evictions += 1;
            if let Some(first) = edge.first() {
                self.nodes[parent].children.remove(first);
            }
        }
    }

    /// The last node on the way of `text`, how many of its spans match, and how many of them on that node's own edge.
    fn walk(&self, text: &[Span]) -> (usize, usize, usize) {
        let (mut node, mut matched, mut within) = (0, 0, 0);
        while let Some(next) = text.get(matched)
            && within == self.nodes[node].edge.len()
            && let Some(&child) = self.nodes[node].children.get(next)
        {
            let edge = &self.nodes[child].edge;
            within = (edge.iter().zip(&text[matched..]))
                .take_while(|(held, said)| held == said)
                .count();
            matched += within;
            node = child;
        }
        (node, matched, within)
    }

    /// Parts a node's edge behind so many spans; the new node before it.
    fn split(&mut self, node: usize, at: usize) -> usize {
        self.splits += 1;
        let upper = self.nodes.len();
        let rest = self.nodes[node].edge.split_off(at);
        let edge = std::mem::replace(&mut self.nodes[node].edge, rest);
        let (parent, touched) = (self.nodes[node].parent, self.nodes[node].touched);
        let (first, second) = (edge[0], self.nodes[node].edge[0]);
        self.nodes.push(Node {
            edge,
            parent,
            touched,
            children: BTreeMap::from([(second, node)]),
            gone: false,
        });
        self.nodes[node].parent = upper;
        self.nodes[parent].children.insert(first, upper);
        upper
    }
}
