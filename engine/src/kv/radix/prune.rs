//! Taking nodes out: leaves that are evicted, texts that are quarantined or forgotten.
//!
//! Not here: why (`order`, `tombstone`).

use std::sync::Arc;

use super::super::pool::PagePool;
use super::{Label, NodeId, Owner, RadixTree, Salted, common_prefix};
use crate::tensor::PAGE_POSITIONS;

impl RadixTree {
    /// Takes a leaf without locks out and gives its page back.
    pub(super) fn remove_leaf(&mut self, pool: &mut PagePool, at: usize) {
        debug_assert!(self.nodes[at].children.is_empty() && self.nodes[at].locks == 0);
        let parent = self.nodes[at].parent;
        self.take_out(pool, at);
        self.list(parent);
    }

    /// Takes a node and all below it out. Their pages go once nobody else holds them; locked nodes stay, unreachable,
    /// until they are unlocked. Returns how many were taken.
    fn take_out(&mut self, pool: &mut PagePool, top: usize) -> usize {
        let (parent, label) = (self.nodes[top].parent, self.nodes[top].label.clone());
        self.nodes[parent].children.remove(&label);
        let (mut waiting, mut taken) = (vec![top], 0);
        while let Some(at) = waiting.pop() {
            self.unlist(at);
            let node = &mut self.nodes[at];
            waiting.extend(std::mem::take(&mut node.children).into_values());
            let Some(page) = node.page.take() else {
                continue;
            };
            let (salt, locks) = (node.label[0], node.locks);
            pool.release(page);
            self.salts.give_back(salt);
            if locks == 0 {
                self.forget(at);
            } else {
                self.protected -= 1;
            }
            self.page_count -= 1;
            taken += 1;
        }
        taken
    }

    /// Frees the place of a node that is out of the tree.
    pub(super) fn forget(&mut self, at: usize) {
        self.nodes[at] = super::Node::default();
        self.free.push(at);
    }

    /// Takes out whatever begins with `ids` from position `start` on, for all of the tenant's sessions where each keeps its
    /// own. The head of the page in which the span begins stays findable, as a page of its own, where one of `spare`
    /// pages is left for it. Returns how many pages were taken out.
    pub fn quarantine(
        &mut self,
        pool: &mut PagePool,
        owner: Owner<'_>,
        (ids, start): (&[u32], usize),
        mut spare: usize,
    ) -> usize {
        let mut roots = vec![self.salts.of(owner)];
        if owner.session.is_some() {
            let sessions = self.salts.sessions_of(&owner.scope.tenant);
            roots = sessions.into_iter().map(Salted::only).collect();
        }
        let mut taken = 0;
        for salted in roots {
            taken += self.quarantine_under(pool, salted, (ids, start), &mut spare);
        }
        taken
    }

    fn quarantine_under(
        &mut self,
        pool: &mut PagePool,
        salted: Salted,
        (ids, start): (&[u32], usize),
        spare: &mut usize,
    ) -> usize {
        let index = start / PAGE_POSITIONS;
        let first = index * PAGE_POSITIONS;
        let named = &ids[first..ids.len().min(first + PAGE_POSITIONS)];
        let (Some(parent), Some(salt)) = (self.exact(salted, &ids[..first]), salted.at(index))
        else {
            return 0;
        };
        let named = Label::new(salt, named);
        let head = &named.ids()[..=start - first];
        // Those that have all that is named, and those that have nothing but a part of the span.
        let has_the_span = |label: &[u32]| {
            let common = common_prefix(label, named.ids());
            common > head.len() && (common == named.len || common == label.len())
        };
        let children = self.nodes[parent].children.iter();
        let barred = children.filter(|(label, _)| has_the_span(label));
        let barred: Vec<usize> = barred.map(|(_, child)| *child).collect();
        let head = self.kept_head(pool, parent, head, &barred, *spare);
        if head.is_some() {
            *spare -= 1;
            self.salts.count(salt); // before what it is copied from goes, and perhaps the last page under this name
        }
        let mut taken = 0;
        for child in barred {
            taken += self.take_out(pool, child);
        }
        if let Some((label, page, writer)) = head {
            if self
                .add(pool, (parent, index), &label, page, writer)
                .is_none()
            {
                self.salts.give_back(salt);
            }
            pool.release(page);
        }
        self.list(parent);
        taken
    }

    /// A page with the positions before the span, unless there are none, another child has them, or no page is spare.
    fn kept_head(
        &self,
        pool: &mut PagePool,
        parent: usize,
        head: &[u32],
        barred: &[usize],
        spare: usize,
    ) -> Option<(Label, super::PageId, super::Writer)> {
        let others = self.nodes[parent].children.iter();
        let mut others = others.filter(|(_, child)| !barred.contains(child));
        if head.len() == 1 || spare == 0 || others.any(|(label, _)| label.starts_with(head)) {
            return None;
        }
        let source = &self.nodes[*barred.first()?];
        let page = pool.copy_head(source.page?, head.len() - 1).ok()?;
        let writer = super::Writer {
            session: source.session,
            priority: source.facts.priority,
        };
        Some((Label::new(head[0], &head[1..]), page, writer))
    }

    /// Takes out, from its end, what is cached of `tokens` beyond the first `keep` positions, as far as nobody works with it
    /// and no other text goes on from it. A page with any of the first `of_others` positions stays, for it may be the only one
    /// that has them; what it has beyond them is not found any more. Returns how many pages went.
    pub fn drop_text(
        &mut self,
        pool: &mut PagePool,
        owner: Owner<'_>,
        tokens: &[u32],
        (keep, of_others): (usize, usize),
    ) -> usize {
        let salted = self.salts.of(owner);
        let pages = tokens.len().div_ceil(PAGE_POSITIONS);
        let mut dropped = 0;
        for start in (0..pages).rev().map(|page| page * PAGE_POSITIONS) {
            let end = tokens.len().min(start + PAGE_POSITIONS);
            if end <= keep.max(of_others) {
                break;
            }
            let node = self.exact(salted, &tokens[..end]);
            let Some(node) = node.filter(|node| self.nodes[*node].rank.is_some()) else {
                continue;
            };
            let stays = of_others.saturating_sub(start);
            dropped += usize::from(!self.shorten(pool, node, stays));
        }
        dropped
    }

    /// Makes only the first `positions` of a leaf findable; false if it went, because there are none or a sibling has them.
    fn shorten(&mut self, pool: &mut PagePool, leaf: usize, positions: usize) -> bool {
        let held = Arc::clone(&self.nodes[leaf].label);
        let label = Label::new(held[0], &held[1..=positions]);
        let siblings = self.nodes[self.nodes[leaf].parent].children.iter();
        let mut siblings = siblings.filter(|(_, sibling)| **sibling != leaf);
        if positions == 0 || siblings.any(|(other, _)| other.starts_with(label.ids())) {
            self.remove_leaf(pool, leaf);
            return false;
        }
        self.salts.count(held[0]);
        self.relabel(leaf, &label);
        true
    }

    /// Takes out all that is cached for one session alone.
    pub fn drop_session(&mut self, pool: &mut PagePool, owner: Owner<'_>) {
        let Some(salt) = self.salts.of(owner).at(0) else {
            return;
        };
        let children = self.nodes[NodeId::ROOT.0].children.iter();
        let own = children.filter(|(label, _)| label[0] == salt);
        let own: Vec<usize> = own.map(|(_, child)| *child).collect();
        for child in own {
            self.take_out(pool, child);
        }
    }
}
