//! Spans that nobody may find, insert, import or restore again.
//!
//! A tombstone names what of the span lies in the first page that it touches: a text that begins with all of it is barred
//! from the span's first position on, and so is everything below. A text that differs within it is another text, and a
//! benign one hits as before. Screening what is said in other words, or after another beginning, is not done here.

use std::collections::HashMap;

use super::key::{Domain, PageKey, Scope};
use crate::error::{Error, Result};
use crate::tensor::PAGE_POSITIONS;

/// Most tombstones of an engine; none is ever forgotten, so one more is refused.
const TOMBSTONES_MAX: usize = 1 << 20;

/// What is barred.
#[derive(Debug)]
pub struct Tombstones {
    domain: Domain,
    list: Vec<Tombstone>,
    by_parent: HashMap<PageKey, Vec<usize>>,
    /// Pages of the deepest one, and of all before it.
    depth: usize,
}

/// A barred span.
#[derive(Clone, Debug)]
pub struct Tombstone {
    /// Key of its first page's tokens up to its end.
    key: PageKey,
    /// Key of the page before.
    pub parent: PageKey,
    /// Its first position.
    pub start: usize,
    /// How far what it names goes, in positions from the beginning of the text.
    pub end: usize,
}

impl Tombstones {
    /// Nothing is barred; `domain` is that of the keys.
    pub fn new(domain: Domain) -> Self {
        Self {
            domain,
            list: Vec::new(),
            by_parent: HashMap::new(),
            depth: 0,
        }
    }

    /// What all keys have in common.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Bars whatever begins with `ids` from position `start`, below their number, on.
    pub fn add(&mut self, scope: &Scope, ids: &[u32], start: usize) -> Result<()> {
        if self.list.len() == TOMBSTONES_MAX {
            return Err(Error::TombstonesFull(TOMBSTONES_MAX));
        }
        let index = start / PAGE_POSITIONS;
        let end = ids.len().min((index + 1) * PAGE_POSITIONS);
        let mut parent = self.domain.root();
        let mut key = parent;
        for next in self.domain.chain(scope, &ids[..end]) {
            (parent, key) = (key, next);
        }
        let known = self.by_parent.entry(parent).or_default();
        let same = |&at: &usize| self.list[at].key == key && self.list[at].start <= start;
        if known.iter().any(same) {
            return Ok(());
        }
        known.push(self.list.len());
        self.list.push(Tombstone {
            key,
            parent,
            start,
            end,
        });
        self.depth = self.depth.max(index + 1);
        Ok(())
    }

    /// The first position of `ids` that is barred.
    pub fn barred_at(&self, scope: &Scope, ids: &[u32]) -> Option<usize> {
        let pages = ids.chunks(PAGE_POSITIONS).take(self.depth).enumerate();
        let mut parent = self.domain.root();
        for (index, tokens) in pages {
            let here = self.by_parent.get(&parent).into_iter().flatten();
            let barred = here.map(|at| &self.list[*at]).filter(|tombstone| {
                let named = tokens.get(..tombstone.end - index * PAGE_POSITIONS);
                named.is_some_and(|named| {
                    self.domain.page(&parent, scope.at(index), named) == tombstone.key
                })
            });
            if let Some(start) = barred.map(|tombstone| tombstone.start).min() {
                return Some(start);
            }
            parent = self.domain.page(&parent, scope.at(index), tokens);
        }
        None
    }

    /// All of them, oldest first.
    pub fn list(&self) -> &[Tombstone] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_text_is_barred_exactly_where_it_begins_with_the_spans_part_of_its_first_page(
            ids in prop::collection::vec(0..3_u32, 1..200), cut in 1..200_usize, place in 0..200_usize,
            other in prop::collection::vec(0..3_u32, 0..200), common in 0..200_usize,
        ) {
            let end = cut.min(ids.len());
            let start = place % end;
            let mut tombstones = Tombstones::new(Domain::new(&[]));
            let scope = Scope::tenant("t");
            for _ in 0..2 {
                tombstones.add(&scope, &ids[..end], start).unwrap();
            }
            prop_assert_eq!(tombstones.list().len(), 1);
            let text = [&ids[..common.min(ids.len())], &other[..]].concat();
            let named = &ids[..end.min((start / PAGE_POSITIONS + 1) * PAGE_POSITIONS)];
            let expected = text.starts_with(named).then_some(start);
            prop_assert_eq!(tombstones.barred_at(&scope, &text), expected);
            prop_assert_eq!(tombstones.barred_at(&Scope::tenant("u"), &text), None);
        }
    }
}
