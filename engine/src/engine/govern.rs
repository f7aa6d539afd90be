//! What is done to cached text by name: barring a span, taking one out of a session, keeping a text from eviction.
//!
//! Not here: who decides it (`policy`, later), how the tree does it (`kv`).

use std::ops::Range;

use super::{Engine, EngineOptions};
use crate::error::{Error, Result};
use crate::kv::radix::HoldId;
use crate::kv::{Domain, PageId, PageTable, RowSource, Scope};
use crate::model::Model;
use crate::schedule::{Active, CachePolicy, Origin, Request, Wanted};
use crate::tensor::PAGE_POSITIONS;

/// What becomes of requests in flight that have the span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnQuarantine {
    /// They finish; what they compute from the span on is not kept.
    #[default]
    Finish,
    /// They end now, without a `finish` event.
    Abort,
}

/// What a quarantine did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantined {
    /// Pages taken out of the tree.
    pub pages: usize,
    /// Requests queued or running that have the span, or go on from positions rotated out of a text that has it.
    pub running: usize,
    /// Of these, the ids of those that were ended.
    pub aborted: Vec<u64>,
}

/// How a span is taken out of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictMode {
    /// What followed it is computed again: bit for bit as if the session never had it.
    Exact,
    /// What followed is moved and its keys turned to the new positions, once. Above the first layer it still carries
    /// what the span did to it.
    Rotate,
}

/// What taking a span out did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Whether the session is now bit for bit one that never had the span.
    pub exact: bool,
    /// Positions computed again.
    pub recomputed_tokens: usize,
    /// Positions moved.
    pub rotated_tokens: usize,
    /// Positions the session has now.
    pub positions: usize,
}

/// A text kept from eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its number.
    pub id: HoldId,
    /// Positions held: whole pages.
    pub positions: usize,
}

impl Engine {
    /// Bars the span from `start` to the end of `ids`, a prompt's beginning: from now on no request finds it or anything
    /// after it, however often the same text is computed again. A prompt that differs from `ids` before the end of the
    /// first page that the span touches (or of the span, if that comes first) is another text.
    ///
    /// Pages go at once, locked or not; memory is free when the last request that reads them is done.
    pub fn quarantine(
        &mut self,
        scope: &Scope,
        ids: &[u32],
        start: usize,
        running: OnQuarantine,
    ) -> Result<Quarantined> {
        let len = ids.len();
        if start >= len {
            return Err(Error::SpanOutOfRange {
                start,
                end: len,
                len,
            });
        }
        let spoken_for = self.spoken_for();
        // An engine has one set of weights: should their file be gone by now, its own keys need not name them.
        let weights = self.model.sha256().unwrap_or("of this engine").to_owned();
        let (pool, span) = (&mut self.pool, (ids, start));
        let domain = || domain(&self.model, &weights, &self.options);
        let pages = self
            .cache
            .quarantine(pool, scope, span, spoken_for, domain)?;
        let named = &ids[..len.min((start / PAGE_POSITIONS + 1) * PAGE_POSITIONS)];
        let shares = |other: &Scope| scope.shared_positions(other) >= named.len();
        let has_the_span = |request: &Request, output: &[u32]| {
            let text = request.prompt.iter().chain(output).take(named.len());
            shares(&request.scope) && named.iter().eq(text)
        };
        let goes_on_from_it = |active: &Active| {
            let origin = active.origin.as_ref();
            origin.is_some_and(|it| shares(&it.scope) && it.ids.starts_with(named))
        };
        let queued = self.pending.iter().filter(|it| has_the_span(it, &[]));
        let active = self.active.iter();
        let active =
            active.filter(|it| has_the_span(&it.request, &it.output) || goes_on_from_it(it));
        let concerned = queued.chain(active.map(|active| &active.request));
        let concerned: Vec<u64> = concerned.map(|request| request.id).collect();
        let mut quarantined = Quarantined {
            pages,
            running: concerned.len(),
            aborted: Vec::new(),
        };
        if running == OnQuarantine::Abort {
            for id in concerned {
                self.cancel(id);
                quarantined.aborted.push(id);
            }
        }
        Ok(quarantined)
    }

    /// Takes `span` out of an idle session's text, so that its next prompt can go on without it.
    ///
    /// Other sessions keep what they share with it. A public beginning now ends where the span began. For governance use
    /// `Exact` alone.
    pub fn evict_span(
        &mut self,
        session: u64,
        span: Range<usize>,
        mode: EvictMode,
    ) -> Result<Evicted> {
        self.check_idle(session)?;
        let text = self
            .cache
            .text(session)
            .ok_or(Error::UnknownSession(session))?;
        let (scope, tokens, pending) = (text.0.clone(), text.1.to_vec(), text.2);
        if span.start >= span.end || span.end > tokens.len() {
            return Err(Error::SpanOutOfRange {
                start: span.start,
                end: span.end,
                len: tokens.len(),
            });
        }
        let left = [&tokens[..span.start], &tokens[span.end..]].concat();
        let left_scope = scope.clone().parting_at(span.start);
        let wanted = Wanted {
            scope: &left_scope,
            session,
            priority: 0,
            prompt: &left,
        };
        let before = self.pool.rows().prefill;
        let table = match mode {
            EvictMode::Exact => {
                self.cache.forget_rotated(&mut self.pool, session);
                self.computed(wanted)?
            }
            EvictMode::Rotate => self.rotated(session, &tokens, &span)?,
        };
        let exact = mode == EvictMode::Exact;
        self.cache.drop_text(&mut self.pool, session, span.start);
        let rotated_tokens = if exact { 0 } else { tokens.len() - span.end };
        let origin = (!exact).then_some(Origin { scope, ids: tokens });
        self.cache
            .keep(&mut self.pool, wanted, table, (pending, origin));
        Ok(Evicted {
            exact,
            recomputed_tokens: (self.pool.rows().prefill - before) as usize,
            rotated_tokens,
            positions: left.len(),
        })
    }

    /// That the session has no request in flight.
    pub(super) fn check_idle(&self, session: u64) -> Result<()> {
        let running = self.active.iter().map(|active| &active.request);
        let mut in_flight = self.pending.iter().chain(running);
        if in_flight.any(|request| request.session == session) {
            return Err(Error::SessionBusy(session));
        }
        Ok(())
    }

    /// The text's positions, found as far as they are cached, the others computed.
    fn computed(&mut self, wanted: Wanted<'_>) -> Result<PageTable> {
        let room = (self.spoken_for(), self.active.is_empty());
        let wanted_positions = wanted.prompt.len();
        let found = self
            .cache
            .find(&mut self.pool, wanted, wanted_positions, room)?;
        let mut table = found.table;
        let rest = &wanted.prompt[table.len()..];
        let mut chunks = rest.chunks(self.options.chunk_tokens);
        let done = chunks
            .try_for_each(|chunk| self.logits_chunk(&mut table, chunk, &|_| false, &mut |_, _| ()));
        if let Err(error) = done {
            self.cache.give_up(&mut self.pool, table);
            return Err(error);
        }
        Ok(table)
    }

    /// The session's positions without the span: those after it moved down, their keys turned back by its length.
    fn rotated(&mut self, session: u64, tokens: &[u32], span: &Range<usize>) -> Result<PageTable> {
        let refuse = |what: &str| Err(Error::CannotRotate(what.to_owned()));
        if self.cache.policy() == CachePolicy::None {
            return refuse("nothing is cached");
        }
        if self.cache.is_rotated(session) {
            return refuse("the session was rotated before, and errors would add up");
        }
        let Some(pages) = self.cache.session_pages(session) else {
            return refuse("a part of the session was evicted");
        };
        let whole = span.start / PAGE_POSITIONS;
        let left = tokens.len() - span.len();
        let needed = left.div_ceil(PAGE_POSITIONS) - whole;
        for page in &pages {
            self.pool.retain(*page); // while room is made
        }
        let spoken_for = self.spoken_for();
        let room = self.cache.reserve(&mut self.pool, needed, spoken_for);
        let table = room.and_then(|()| self.moved(tokens, span, &pages));
        for page in pages {
            self.pool.release(page);
        }
        table
    }

    fn moved(
        &mut self,
        tokens: &[u32],
        span: &Range<usize>,
        pages: &[PageId],
    ) -> Result<PageTable> {
        let turn = self.model.turn_back(span.len());
        let whole = span.start / PAGE_POSITIONS * PAGE_POSITIONS;
        let mut table = PageTable::share(&mut self.pool, &tokens[..whole], pages, None)?;
        let layers = self.model.kv_shape().layers;
        for from in (whole..span.start).chain(span.end..tokens.len()) {
            let (page, slot) = table.append(&mut self.pool, tokens[from])?;
            let source = (pages[from / PAGE_POSITIONS], from % PAGE_POSITIONS);
            for layer in 0..layers {
                let Some((mut k, v)) = self.pool.row(source.0, layer, source.1) else {
                    table.release(&mut self.pool);
                    let what = "cached keys are quantised, and would be rounded twice";
                    return Err(Error::CannotRotate(what.to_owned()));
                };
                if from >= span.end {
                    for head in k.chunks_exact_mut(turn.len()) {
                        self.cpu.turn(head, &turn);
                    }
                }
                self.pool
                    .write(page, slot, layer, (&k, &v), RowSource::Moved);
            }
        }
        Ok(table)
    }

    /// Keeps what is cached of `ids` from eviction until [`Self::release`]; none if no whole page of it is cached.
    pub fn pin(&mut self, scope: &Scope, session: u64, ids: &[u32]) -> Option<Hold> {
        self.hold((scope, session, ids), None)
    }

    /// As `pin`, until [`Self::expire`] is told a time of `ends` or later, by whatever clock the caller goes by.
    pub fn lease(&mut self, scope: &Scope, session: u64, ids: &[u32], ends: u64) -> Option<Hold> {
        self.hold((scope, session, ids), Some(ends))
    }

    fn hold(
        &mut self,
        (scope, session, prompt): (&Scope, u64, &[u32]),
        ends: Option<u64>,
    ) -> Option<Hold> {
        let wanted = Wanted {
            scope,
            session,
            priority: i32::MIN,
            prompt,
        };
        let (id, positions) = self.cache.hold(wanted, ends)?;
        Some(Hold { id, positions })
    }

    /// Ends a pin or a lease; false if it has ended.
    pub fn release(&mut self, hold: HoldId) -> bool {
        self.cache.release_hold(&mut self.pool, hold)
    }

    /// Ends the leases that end at `now` or before; how many.
    pub fn expire(&mut self, now: u64) -> usize {
        self.cache.expire(&mut self.pool, now)
    }
}

/// What the keys of all pages have in common.
pub(super) fn domain(model: &Model, weights: &str, options: &EngineOptions) -> Domain {
    let rope = format!("{:?}", model.config());
    Domain::new(&[
        ("weights", weights),
        ("adapter", "none"),
        ("architecture", &rope),
        ("mode", &options.mode.to_string()),
        ("kv", options.kv_type().name()),
        ("media", "none"),
    ])
}
