//! Taking a span out of an idle session's text as an engine does: computing what follows again, or moving it.
//!
//! Not here: turning keys; a moved position keeps its value, which is the wrong one where it now stands.

use std::ops::Range;

use engine::Error;
use engine::kv::{PageTable, RowSource};
use engine::tensor::PAGE_POSITIONS;

use super::oracle::{Text, values, whole};
use super::steps::wanted;
use super::world::World;

/// A table, and what its positions hold.
type Left = (PageTable, Vec<u64>);

impl World {
    pub(crate) fn cut(&mut self, session: u64, (start, len): (u16, u16), rotate: bool) {
        let is_busy = self.flights.iter().any(|it| it.text.session == session);
        let idle = self.idle.get(&session);
        let Some(idle) = idle.filter(|idle| !is_busy && !idle.text.tokens.is_empty()) else {
            return;
        };
        let (text, pending) = (idle.text.clone(), idle.pending);
        let start = start as usize % text.tokens.len();
        let end = start + 1 + len as usize % (text.tokens.len() - start);
        let left = [&text.tokens[..start], &text.tokens[end..]].concat();
        let left = self.text(&text, &left);
        let cut = if rotate {
            self.moved(&text, start..end, left.tokens.len())
        } else {
            self.computed(&left)
        };
        let Some((table, values)) = cut else {
            return;
        };
        self.cache.drop_text(&mut self.pool, session, start);
        let others = self.idle.iter().filter(|(other, _)| **other != session);
        let theirs = others.map(|(_, idle)| &idle.text);
        self.oracle.drop_text(&text, start, theirs);
        self.keep(table, left, (pending, 0), rotate.then_some(values));
    }

    /// What is left, found or computed; none if there is no room.
    fn computed(&mut self, left: &Text) -> Option<Left> {
        self.cache.forget_rotated(&mut self.pool, left.session);
        self.idle.get_mut(&left.session)?.rotated = None;
        let before = self.peek(left);
        let (scope, alone) = (left.who.scope(), self.flights.is_empty());
        let room = (self.spoken_for(), alone);
        let asked = wanted(left, &scope, 0);
        let positions = left.tokens.len();
        let mut table = match self.cache.find(&mut self.pool, asked, positions, room) {
            Ok(found) => found.table,
            Err(Error::PagesExhausted { .. }) => return None,
            Err(error) => panic!("{error}"),
        };
        assert!(table.len() == before || alone && table.len() < before);
        let mut values = values(&left.cached[..table.len()]);
        self.compute(&mut table, &mut values, left);
        Some((table, values))
    }

    /// What is left, moved; none if there is no room, or not all of the session is cached.
    fn moved(&mut self, text: &Text, span: Range<usize>, left: usize) -> Option<Left> {
        if self.cache.is_rotated(text.session) {
            return None;
        }
        let Some(pages) = self.cache.session_pages(text.session) else {
            assert!(self.oracle.findable(text).0 < text.tokens.len());
            return None;
        };
        let held = values(&text.cached);
        self.assert_holds(&pages, &held);
        for page in &pages {
            self.pool.retain(*page);
        }
        let shared = whole(span.start);
        let needed = left.div_ceil(PAGE_POSITIONS) - shared / PAGE_POSITIONS;
        let spoken_for = self.spoken_for();
        let room = self.cache.reserve(&mut self.pool, needed, spoken_for);
        let table = room.ok().map(|()| {
            let tokens = &text.tokens[..shared];
            let mut table = PageTable::share(&mut self.pool, tokens, &pages, None).unwrap();
            let mut values = held[..shared].to_vec();
            for from in (shared..span.start).chain(span.end..text.tokens.len()) {
                self.write(&mut table, text.tokens[from], held[from], RowSource::Moved);
                values.push(held[from]);
            }
            (table, values)
        });
        for page in &pages {
            self.pool.release(*page);
        }
        table
    }
}
