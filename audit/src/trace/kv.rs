//! The tree a cache says it keeps at the end: pages that can be one, no more of them than there was text, and every text
//! that was taken out among those it refuses.
//!
//! Which page was found how often, and which are still there, is asserted. Not here: bytes (`possible`).

use std::collections::BTreeMap;

use super::Reader;
use crate::line::{Kv, KvNode};
use crate::notebook::{Layer, Notebook, Stop, quote};
use crate::oracle::{Cache, PAGE_POSITIONS};

impl Reader<'_> {
    pub(super) fn kv(&mut self, kv: &Kv, notes: &mut Notebook) -> Result<(), Stop> {
        notes.insist(self.asked.kv, || {
            "the envelope asks for no line of what the cache holds".to_owned()
        })?;
        let mut pages: BTreeMap<u64, u64> = BTreeMap::new();
        for node in &kv.nodes {
            self.check_node(node, &pages, notes);
            let new = pages.insert(node.id, node.positions).is_none();
            notes.check(Layer::Format, new, || {
                format!("two pages have the number {}", node.id)
            });
        }
        let (held, most) = (kv.nodes.len() as u64, self.kv_pages());
        notes.check(Layer::Memory, held <= most, || {
            format!("the tree has {held} pages, the cache {most}")
        });
        let positions = kv.nodes.iter().map(|node| node.positions);
        let positions = positions.fold(0, u64::saturating_add);
        let most = self.reuse.positions_at_most();
        notes.check(Layer::Reuse, positions <= most, || {
            format!(
                "the tree has {positions} positions, beyond the oracle: {most} can be told apart"
            )
        });
        self.check_tombstones(kv, &pages, notes);
        notes.recomputed("pages of the tree at the end", held);
        *notes
            .asserted
            .entry("pages of the tree at the end")
            .or_default() += held;
        self.kv_nodes = Some(held);
        Ok(())
    }

    /// `above` are the pages stated before it.
    fn check_node(&self, node: &KvNode, above: &BTreeMap<u64, u64>, notes: &mut Notebook) {
        let (id, positions) = (node.id, node.positions);
        notes.check(
            Layer::Format,
            (1..=PAGE_POSITIONS).contains(&positions),
            || format!("page {id} has {positions} positions, expected 1 to {PAGE_POSITIONS}"),
        );
        if let Some(parent) = node.parent {
            let full = above.get(&parent).is_some_and(|it| *it == PAGE_POSITIONS);
            notes.check(Layer::Format, full, || {
                format!("page {id} continues {parent}, which is no full page stated before it")
            });
        }
        let session = node.session.as_ref();
        let known = session.is_none_or(|it| self.prompts.has_session(it));
        notes.check(Layer::Format, known, || {
            format!(
                "page {id} was written by {}, which nobody is",
                quote(&session)
            )
        });
    }

    /// As many as there were quarantines, each where one took a text out.
    fn check_tombstones(&self, kv: &Kv, pages: &BTreeMap<u64, u64>, notes: &mut Notebook) {
        for tombstone in &kv.tombstones {
            let known = |it| pages.contains_key(&it);
            notes.check(Layer::Format, tombstone.parent.is_none_or(known), || {
                format!(
                    "a tombstone continues {:?}, which is no page",
                    tombstone.parent
                )
            });
        }
        let stated = kv.tombstones.iter().map(|it| (it.start, it.positions));
        let mut stated: Vec<_> = stated.collect();
        let expected = self.barred.iter().map(|it| (it.start, it.positions()));
        let mut expected: Vec<_> = expected.collect();
        stated.sort_unstable();
        expected.sort_unstable();
        let what = "tombstones (start and positions)";
        notes.same(Layer::Reuse, what, &stated, &expected);
    }

    /// Pages the cache may hold.
    pub(super) fn kv_pages(&self) -> u64 {
        match (&self.begin, self.cache) {
            (Some(begin), Cache::Session | Cache::Shared) => begin.settings.kv_pages,
            _ => 0,
        }
    }
}
