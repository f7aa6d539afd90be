//! A radix tree over token ids whose edges are KV pages: what sequences have in common is stored once.
//!
//! A node is one page with the tokens it holds. Children are kept in the order of their tokens, so the child with the
//! longest common prefix stands next to where the sought tokens would be inserted. Only a full page has children; a
//! partly filled one is a leaf, and a copy source for whoever shares its head. The tree holds one reference to each of its
//! pages. Not here: whose session a page came from.

use std::collections::{BTreeMap, HashMap};

use super::pool::{PageId, PagePool};
use crate::tensor::PAGE_POSITIONS;

const ROOT: usize = 0;

#[derive(Default)]
struct Node {
    parent: usize,
    page: Option<PageId>,
    tokens: Box<[u32]>,
    children: BTreeMap<Box<[u32]>, usize>,
    last_used: u64,
}

/// What of a prompt the tree holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Whole pages.
    pub pages: Vec<PageId>,
    /// A page whose head continues the match, and how many positions of it.
    pub tail: Option<(PageId, usize)>,
}

impl Match {
    /// Matched positions.
    pub fn len(&self) -> usize {
        self.pages.len() * PAGE_POSITIONS + self.tail.map_or(0, |(_, len)| len)
    }

    /// Whole pages, then the one whose head continues them.
    pub fn all_pages(&self) -> Vec<PageId> {
        self.pages
            .iter()
            .copied()
            .chain(self.tail.map(|(page, _)| page))
            .collect()
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
}

impl Default for RadixTree {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
            free: Vec::new(),
            clock: 0,
        }
    }
}

impl RadixTree {
    /// The longest prefix of `tokens` the tree holds.
    pub fn find(&mut self, tokens: &[u32]) -> Match {
        self.clock += 1;
        let mut found = Match::default();
        let (mut node, mut rest) = (ROOT, tokens);
        while let Some((child, common)) = self.best_child(node, rest) {
            self.nodes[child].last_used = self.clock;
            let Some(page) = self.nodes[child].page else {
                break;
            };
            if common < PAGE_POSITIONS {
                found.tail = Some((page, common));
                break;
            }
            found.pages.push(page);
            (node, rest) = (child, &rest[PAGE_POSITIONS..]);
        }
        found
    }

    /// The child of `node` with the longest common prefix with `tokens`, at least one token.
    fn best_child(&self, node: usize, tokens: &[u32]) -> Option<(usize, usize)> {
        let head = &tokens[..tokens.len().min(PAGE_POSITIONS)];
        let children = &self.nodes[node].children;
        let at_or_after = children.range(Box::from(head)..).next();
        let before = children.range(..Box::from(head)).next_back();
        [at_or_after, before]
            .into_iter()
            .flatten()
            .map(|(tokens, child)| (*child, common_prefix(tokens, head)))
            .filter(|(_, common)| *common > 0)
            .max_by_key(|(_, common)| *common)
    }

    /// Makes `tokens`, held by `pages`, matchable. Pages the tree already has are kept, not replaced.
    pub fn insert(&mut self, pool: &mut PagePool, tokens: &[u32], pages: &[PageId]) {
        self.clock += 1;
        let mut node = ROOT;
        for (tokens, page) in tokens.chunks(PAGE_POSITIONS).zip(pages) {
            if let Some(&child) = self.nodes[node].children.get(tokens) {
                self.nodes[child].last_used = self.clock;
                node = child;
                continue;
            }
            if self.holds_more_than(node, tokens) {
                return;
            }
            self.remove_shorter_leaf(pool, node, tokens);
            node = self.add_child(pool, node, tokens, *page);
        }
    }

    /// Whether some child already begins with all of `tokens`, a partly filled page.
    fn holds_more_than(&self, node: usize, tokens: &[u32]) -> bool {
        self.best_child(node, tokens)
            .is_some_and(|(_, common)| common == tokens.len())
    }

    /// A leaf whose tokens begin `tokens` says nothing that the longer page will not.
    fn remove_shorter_leaf(&mut self, pool: &mut PagePool, node: usize, tokens: &[u32]) {
        if let Some((child, common)) = self.best_child(node, tokens)
            && common == self.nodes[child].tokens.len()
        {
            self.remove_leaf(pool, child);
        }
    }

    fn add_child(
        &mut self,
        pool: &mut PagePool,
        parent: usize,
        tokens: &[u32],
        page: PageId,
    ) -> usize {
        pool.retain(page);
        let node = Node {
            parent,
            page: Some(page),
            tokens: tokens.into(),
            children: BTreeMap::new(),
            last_used: self.clock,
        };
        let index = if let Some(index) = self.free.pop() {
            self.nodes[index] = node;
            index
        } else {
            self.nodes.push(node);
            self.nodes.len() - 1
        };
        self.nodes[parent].children.insert(tokens.into(), index);
        index
    }

    fn remove_leaf(&mut self, pool: &mut PagePool, index: usize) {
        debug_assert!(self.nodes[index].children.is_empty());
        let node = std::mem::take(&mut self.nodes[index]);
        self.nodes[node.parent].children.remove(&node.tokens);
        if let Some(page) = node.page {
            pool.release(page);
        }
        self.free.push(index);
    }

    /// Pages that eviction could free: those that only the tree holds.
    pub fn evictable(&self, pool: &PagePool) -> usize {
        self.held()
            .filter(|page| pool.references(*page) == 1)
            .count()
    }

    /// Drops the least recently used leaf that only the tree holds; false if there is none.
    pub fn evict_one(&mut self, pool: &mut PagePool) -> bool {
        let leaf = (0..self.nodes.len())
            .filter(|&i| self.nodes[i].children.is_empty())
            .filter(|&i| {
                self.nodes[i]
                    .page
                    .is_some_and(|page| pool.references(page) == 1)
            })
            .min_by_key(|&i| self.nodes[i].last_used);
        leaf.inspect(|&leaf| self.remove_leaf(pool, leaf)).is_some()
    }

    /// Every page the tree holds a reference to.
    pub fn held(&self) -> impl Iterator<Item = PageId> {
        self.nodes.iter().filter_map(|node| node.page)
    }

    /// Adds the tree's references to `held`, for [`PagePool::check`].
    pub fn count_held(&self, held: &mut HashMap<PageId, usize>) {
        for page in self.held() {
            *held.entry(page).or_default() += 1;
        }
    }
}

/// Length of the common prefix.
pub fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::super::page::KvShape;
    use super::super::pool::RowSource;
    use super::super::table::PageTable;
    use super::*;
    use crate::tensor::{KvType, PageView};
    use proptest::prelude::*;

    fn pool() -> PagePool {
        let shape = KvShape {
            layers: 1,
            kv_heads: 1,
            head_dim: 1,
        };
        PagePool::new(shape, KvType::F32, 1000)
    }

    fn table(pool: &mut PagePool, tokens: &[u32]) -> PageTable {
        let mut table = PageTable::default();
        for &token in tokens {
            let (page, slot) = table.append(pool, token).unwrap();
            let value = [token as f32];
            pool.write(page, slot, 0, (&value, &value), RowSource::Prefill);
        }
        table
    }

    /// Few distinct tokens and shared heads, so that prefixes coincide inside and across pages.
    fn sequences() -> impl Strategy<Value = Vec<Vec<u32>>> {
        let sequence =
            (0..200_usize, prop::collection::vec(0..3_u32, 0..30)).prop_map(|(zeros, tail)| {
                std::iter::repeat_n(0, zeros)
                    .chain(tail)
                    .collect::<Vec<u32>>()
            });
        prop::collection::vec(sequence, 1..12)
    }

    proptest! {
        #[test]
        fn finds_the_longest_common_prefix_of_everything_inserted(sequences in sequences()) {
            let mut pool = pool();
            let mut tree = RadixTree::default();
            let mut inserted: Vec<Vec<u32>> = Vec::new();
            for sequence in sequences {
                let expected = inserted.iter().map(|old| common_prefix(old, &sequence)).max().unwrap_or(0);
                let found = tree.find(&sequence);
                prop_assert_eq!(found.len(), expected);
                // The pages found really hold those tokens.
                let pages = found.pages.iter().map(|&page| (page, 64)).chain(found.tail);
                for ((page, len), tokens) in pages.zip(sequence.chunks(64)) {
                    let PageView::F32 { v, .. } = pool.view(page, 0).head(0, 1) else { panic!("asked for f32") };
                    let values = &v[..len];
                    prop_assert!(values.iter().zip(tokens).all(|(&v, &t)| v as u32 == t));
                }
                let table = table(&mut pool, &sequence);
                tree.insert(&mut pool, &sequence, table.pages());
                table.release(&mut pool);
                inserted.push(sequence);
            }
            let mut held = HashMap::new();
            tree.count_held(&mut held);
            prop_assert_eq!(pool.check(&held), Ok(()));
            while tree.evict_one(&mut pool) {}
            prop_assert_eq!(pool.check(&HashMap::new()), Ok(()));
        }
    }

    #[test]
    fn pages_are_linear_in_unique_tokens() {
        let mut pool = pool();
        let mut tree = RadixTree::default();
        let shared: Vec<u32> = (0..640).collect();
        for agent in 0..5 {
            let tokens: Vec<u32> = shared.iter().copied().chain([1000 + agent; 10]).collect();
            let found = tree.find(&tokens);
            let tail = found.tail.map(|(page, _)| page);
            let mut own =
                PageTable::share(&mut pool, &tokens[..found.len()], &found.pages, tail).unwrap();
            for &token in &tokens[found.len()..] {
                let (page, slot) = own.append(&mut pool, token).unwrap();
                pool.write(page, slot, 0, (&[0.0], &[0.0]), RowSource::Prefill);
            }
            tree.insert(&mut pool, own.tokens(), own.pages());
            own.release(&mut pool);
        }
        assert_eq!(tree.held().count(), 10 + 5);
    }
}
