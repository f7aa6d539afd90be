//! A tree of token ids: the longest prefix that any sequence in it has in common with another.
//!
//! Every distinct id is held once, however many sequences run through it. Not here: whose sequences they are (`trace`).

use std::collections::BTreeMap;

/// Sequences that share their beginnings.
#[derive(Debug)]
pub(crate) struct Radix {
    /// The first is the root, whose edge is empty.
    nodes: Vec<Node>,
}

/// The ids that lead here from the node above, and what follows by its first id.
#[derive(Debug, Default)]
struct Node {
    edge: Vec<u32>,
    children: BTreeMap<u32, usize>,
}

/// Where a walk along some ids ends.
struct Place {
    node: usize,
    /// Ids of that node's edge the walk took.
    on_edge: usize,
    /// Ids it took in all.
    matched: usize,
}

impl Default for Radix {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
        }
    }
}

impl Radix {
    /// How many of the first `ids` some sequence begins with.
    pub(crate) fn longest(&self, ids: &[u32]) -> u64 {
        self.walk(ids).matched as u64
    }

    /// Adds a sequence; how many ids the tree now holds more.
    pub(crate) fn insert(&mut self, ids: &[u32]) -> usize {
        let Place {
            node,
            on_edge,
            matched,
        } = self.walk(ids);
        let Some(first) = ids.get(matched) else {
            return 0; // all of it is there
        };
        if on_edge < self.nodes[node].edge.len() {
            self.split(node, on_edge);
        }
        let leaf = self.nodes.len();
        self.nodes.push(Node {
            edge: ids[matched..].to_vec(),
            children: BTreeMap::new(),
        });
        self.nodes[node].children.insert(*first, leaf);
        ids.len() - matched
    }

    fn walk(&self, ids: &[u32]) -> Place {
        let mut place = Place {
            node: 0,
            on_edge: 0,
            matched: 0,
        };
        while let Some(next) = ids.get(place.matched) {
            let Some(child) = self.nodes[place.node].children.get(next) else {
                break;
            };
            let edge = &self.nodes[*child].edge;
            let taken = crate::oracle::common_prefix(edge, &ids[place.matched..]) as usize;
            place = Place {
                node: *child,
                on_edge: taken,
                matched: place.matched + taken,
            };
            if taken < edge.len() {
                break;
            }
        }
        place
    }

    /// Cuts the edge to `node` after `kept` ids; the rest becomes a node below it.
    fn split(&mut self, node: usize, kept: usize) {
        let below = self.nodes.len();
        let upper = &mut self.nodes[node];
        let edge = upper.edge.split_off(kept);
        upper.edge.shrink_to_fit();
        let children = std::mem::take(&mut upper.children);
        upper
            .children
            .extend(edge.first().map(|first| (*first, below)));
        self.nodes.push(Node { edge, children });
    }
}

#[cfg(test)]
mod tests {
    use super::Radix;

    #[test]
    fn the_tree_answers_as_a_list_of_all_sequences_does() {
        let (mut tree, mut list): (Radix, Vec<Vec<u32>>) = (Radix::default(), Vec::new());
        let mut state = 7_u32;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..400 {
            let length = draw(12);
            let ids: Vec<u32> = (0..length).map(|_| draw(2)).collect();
            let slow = list.iter().map(|it| crate::oracle::common_prefix(it, &ids));
            let slow = slow.max().unwrap_or(0);
            assert_eq!(tree.longest(&ids), slow, "{ids:?}");
            assert_eq!(
                tree.insert(&ids) as u64,
                u64::from(length) - slow,
                "{ids:?}"
            );
            list.push(ids);
        }
    }
}
