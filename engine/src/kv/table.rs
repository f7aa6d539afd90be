//! The page table of one sequence: its tokens that have KV, and the pages that hold them.
//!
//! Only the table that allocated its last page appends to it. Not here: sharing between tables (`radix`).

use super::pool::{PageId, PagePool};
use super::radix::NodeId;
use crate::error::Result;
use crate::tensor::PAGE_POSITIONS;

/// A sequence's cached positions.
#[derive(Debug, Default)]
pub struct PageTable {
    tokens: Vec<u32>,
    pages: Vec<PageId>,
    /// The node of the last of its pages that is in the tree, which it keeps locked.
    pub anchor: NodeId,
}

impl PageTable {
    /// Cached positions.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Tokens of the cached positions.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Pages, ascending.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// A table of `tokens`: whole `pages` shared by reference, then a copy of the head of `tail` if tokens are left.
    pub fn share(
        pool: &mut PagePool,
        tokens: &[u32],
        pages: &[PageId],
        tail: Option<PageId>,
    ) -> Result<Self> {
        let whole = tokens.len() / PAGE_POSITIONS;
        let mut table = Self {
            tokens: tokens.to_vec(),
            pages: pages[..whole].to_vec(),
            anchor: NodeId::ROOT,
        };
        if let (rest @ 1.., Some(tail)) = (tokens.len() % PAGE_POSITIONS, tail) {
            table.pages.push(pool.copy_head(tail, rest)?);
        }
        for page in &table.pages[..whole] {
            pool.retain(*page);
        }
        Ok(table)
    }

    /// A table of `tokens` that goes on in the last of `pages`, which nobody else may write to.
    pub fn go_on(pool: &mut PagePool, tokens: &[u32], pages: &[PageId]) -> Self {
        for page in pages {
            pool.retain(*page);
        }
        Self {
            tokens: tokens.to_vec(),
            pages: pages.to_vec(),
            anchor: NodeId::ROOT,
        }
    }

    /// Tokens, and the pages for whoever has the same ones elsewhere.
    pub fn parts(&mut self) -> (&[u32], &mut [PageId]) {
        (&self.tokens, &mut self.pages)
    }

    /// Appends a token whose KV is about to be written; returns the page and slot for it.
    pub fn append(&mut self, pool: &mut PagePool, token: u32) -> Result<(PageId, usize)> {
        let slot = self.tokens.len() % PAGE_POSITIONS;
        if slot == 0 {
            self.pages.push(pool.allocate()?);
        }
        self.tokens.push(token);
        Ok((self.pages[self.pages.len() - 1], slot))
    }

    /// Gives every page back.
    pub fn release(self, pool: &mut PagePool) {
        for page in self.pages {
            pool.release(page);
        }
    }
}
