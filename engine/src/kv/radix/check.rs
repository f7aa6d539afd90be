//! The tree as it stands: for people, and for whoever wants to know that it adds up.

use std::collections::{BTreeSet, HashMap};

use super::super::key::Namespace;
use super::{NodeId, RadixTree};
use crate::tensor::PAGE_POSITIONS;

/// A page of the tree, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// Its number.
    pub id: usize,
    /// The page before it; none at the beginning of a text.
    pub parent: Option<usize>,
    /// Tokens it holds.
    pub tokens: &'a [u32],
    /// Under which name it stands.
    pub under: Namespace<'a>,
    /// The session whose request cached it.
    pub session: u64,
    /// How often it was found.
    pub hits: u64,
    /// Whether something keeps it from eviction.
    pub locked: bool,
}

impl RadixTree {
    /// Pages in the tree.
    pub fn pages(&self) -> usize {
        self.page_count
    }

    /// Every page, those before it first, siblings in the order of their tokens.
    pub fn snapshot(&self) -> Vec<Snapshot<'_>> {
        let mut described = Vec::new();
        let below = |at: usize| self.nodes[at].children.values().rev().copied();
        let mut waiting: Vec<usize> = below(NodeId::ROOT.0).collect();
        while let Some(at) = waiting.pop() {
            let node = &self.nodes[at];
            described.push(Snapshot {
                id: at,
                parent: (node.parent != NodeId::ROOT.0).then_some(node.parent),
                tokens: &node.label[1..],
                under: self
                    .salts
                    .namespace(node.label[0])
                    .unwrap_or(Namespace::Tenant("")),
                session: node.session,
                hits: node.facts.hits,
                locked: node.locks > 0,
            });
            waiting.extend(below(at));
        }
        described
    }

    /// That locks, counts and the order of eviction are what the nodes say; `anchors` are all locks but those of holds.
    pub fn check(&self, anchors: &[NodeId]) -> Result<(), String> {
        let mut locks: HashMap<usize, usize> = HashMap::new();
        for NodeId(node) in anchors.iter().copied().chain(self.holds.locks()) {
            let mut at = node;
            while at != NodeId::ROOT.0 {
                *locks.entry(at).or_default() += 1;
                at = self.nodes[at].parent;
            }
        }
        let reachable = self.reachable()?;
        let free: BTreeSet<usize> = self.free.iter().copied().collect();
        let (mut protected, mut listed) = (0, 0);
        for (at, node) in self.nodes.iter().enumerate().skip(1) {
            let expected = locks.get(&at).copied().unwrap_or(0);
            if node.locks != expected {
                return Err(format!("node {at}: {} locks, {expected} held", node.locks));
            }
            let is_in = reachable.contains(&at);
            let is_out = node.page.is_none() && (node.locks > 0) != free.contains(&at);
            if is_in != node.page.is_some() || !(is_in || is_out) {
                return Err(format!(
                    "node {at} is neither in the tree, nor locked, nor free"
                ));
            }
            let can_go = is_in && node.locks == 0 && node.children.is_empty();
            let in_order = node
                .rank
                .is_some_and(|rank| self.order.contains(&(rank, at)));
            if can_go != in_order || can_go != node.rank.is_some() {
                return Err(format!(
                    "node {at}: can go {can_go}, in the order {in_order}"
                ));
            }
            protected += usize::from(is_in && node.locks > 0);
            listed += usize::from(can_go);
        }
        let counted = (self.page_count, self.protected, self.order.len());
        if counted != (reachable.len(), protected, listed) {
            return Err(format!(
                "pages, protected, listed: {counted:?} counted, {:?} there",
                (reachable.len(), protected, listed)
            ));
        }
        let salts: BTreeSet<u32> = reachable
            .iter()
            .map(|at| self.nodes[*at].label[0])
            .collect();
        if salts.len() != self.salts.len() {
            return Err(format!(
                "{} names known, {} used",
                self.salts.len(),
                salts.len()
            ));
        }
        Ok(())
    }

    /// Nodes in the tree, each where its parent and its label say.
    fn reachable(&self) -> Result<BTreeSet<usize>, String> {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![NodeId::ROOT.0]);
        while let Some(at) = waiting.pop() {
            let parent = &self.nodes[at];
            let is_whole = at == NodeId::ROOT.0 || parent.positions() == PAGE_POSITIONS;
            if !(parent.children.is_empty() || is_whole) {
                return Err(format!("node {at} has children and is not full"));
            }
            for (label, &child) in &parent.children {
                let node = &self.nodes[child];
                let sits_right = node.parent == at && node.label == *label && label.len() > 1;
                if !sits_right || !seen.insert(child) {
                    return Err(format!(
                        "node {child} is not the child of {at} it is kept as"
                    ));
                }
                waiting.push(child);
            }
        }
        Ok(seen)
    }
}
