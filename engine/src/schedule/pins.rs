//! What a prompt found, kept from eviction while room is made for the rest of it.
//!
//! Not here: finding (`kv::radix`), making room (`cache`).

use crate::error::Result;
use crate::kv::radix::Match;
use crate::kv::{NodeId, PageId, PagePool, PageTable, RadixTree};
use crate::tensor::PAGE_POSITIONS;

/// A match whose pages and nodes are held.
pub(super) struct Pins {
    /// What was found.
    pub(super) found: Match,
    /// Whether its last page can be written on in place, instead of a copy of its head.
    pub(super) goes_on: bool,
}

impl Pins {
    /// Holds nodes and pages.
    pub(super) fn hold(&self, tree: &mut RadixTree, pool: &mut PagePool) {
        tree.lock(self.found.node);
        tree.lock(self.tail_node());
        for page in self.held() {
            pool.retain(page);
        }
    }

    fn tail_node(&self) -> NodeId {
        self.found.tail_node.unwrap_or_default()
    }

    fn held(&self) -> impl Iterator<Item = PageId> {
        let Match { pages, tail, .. } = &self.found;
        pages.iter().copied().chain(tail.map(|(page, _)| page))
    }

    /// Pages that need not be allocated.
    pub(super) fn pages(&self) -> usize {
        self.found.pages.len() + usize::from(self.goes_on)
    }

    /// Gives up the partly matched page if there is one, all pages otherwise.
    pub(super) fn shorten(&mut self, tree: &mut RadixTree, pool: &mut PagePool) {
        if let Some((page, _)) = self.found.tail.take() {
            pool.release(page);
            tree.unlock(pool, self.found.tail_node.take().unwrap_or_default());
            self.goes_on = false;
            return;
        }
        for page in self.found.pages.drain(..) {
            pool.release(page);
        }
        tree.unlock(pool, std::mem::take(&mut self.found.node));
    }

    /// A table of the matched positions, its anchor locked: whole pages by reference, the rest in place or as a copy.
    pub(super) fn share(
        self,
        tree: &mut RadixTree,
        pool: &mut PagePool,
        prompt: &[u32],
    ) -> Result<PageTable> {
        let matched = &prompt[..self.found.len()];
        let pages: Vec<_> = self.held().collect();
        let (anchor, table) = if self.goes_on {
            (
                self.tail_node(),
                Ok(PageTable::go_on(pool, matched, &pages)),
            )
        } else {
            let tail = pages.get(matched.len() / PAGE_POSITIONS).copied();
            let table = PageTable::share(pool, matched, &pages, tail);
            (self.found.node, table)
        };
        if table.is_ok() {
            tree.lock(anchor);
        }
        self.release(tree, pool);
        table.map(|mut table| {
            table.anchor = anchor;
            table
        })
    }

    /// Lets everything go.
    pub(super) fn release(self, tree: &mut RadixTree, pool: &mut PagePool) {
        for page in self.held() {
            pool.release(page);
        }
        tree.unlock(pool, self.tail_node());
        tree.unlock(pool, self.found.node);
    }
}
