//! What may happen to a cache, step by step, and what each step must do.
//!
//! Not here: what must hold whatever happened (`world`).

use engine::Error;
use engine::kv::{PageTable, RowSource, Scope};
use engine::schedule::{CachePolicy, Found, Origin, Wanted};
use engine::tensor::PAGE_POSITIONS;

use super::oracle::{SESSIONS, TENANTS, Text, Who, common, next_value, values, whole};
use super::world::{Flight, Idle, World, row};

/// Longest prompt.
const PROMPT_MAX: usize = 300;
/// Different tokens there are.
const TOKENS: u32 = 3;

/// A prompt: the beginning of a known text, then tokens of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) base: Option<u8>,
    pub(crate) keep: u16,
    pub(crate) len: u16,
    pub(crate) seed: u8,
}

/// A step; numbers choose among what there is.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A request begins: it finds, forks, locks.
    Begin {
        session: u8,
        who: u8,
        draw: Draw,
        decode: u8,
        priority: i8,
    },
    /// A request computes positions.
    Append { flight: u8, count: u8 },
    /// A request's positions are shared before it ends.
    Publish { flight: u8 },
    /// A request ends and leaves what it computed.
    Finish { flight: u8, pending: Option<u8> },
    /// A request ends and leaves nothing.
    GiveUp { flight: u8 },
    /// A text is pinned, or leased for a time.
    Hold { text: u8, lease: Option<u8> },
    /// A hold ends.
    Release { hold: u8 },
    /// Time goes by.
    Expire { by: u8 },
    /// A span of a known text is barred.
    Quarantine { text: u8, end: u16, start: u16 },
    /// A session is closed, also while a request of it runs.
    Close { session: u8 },
    /// Room is made.
    Press { pages: u8 },
    /// A text is used, and all others go.
    Spare { text: u8 },
    /// The beginning of a known text comes from another engine.
    Import { text: u8, len: u16 },
    /// A span is taken out of an idle session, exactly or by moving what follows.
    Cut {
        session: u8,
        start: u16,
        len: u16,
        rotate: bool,
    },
}

/// One of `all`, by a number.
pub(crate) fn index<T>(all: &[T], number: u8) -> Option<usize> {
    (!all.is_empty()).then(|| number as usize % all.len())
}

pub(crate) fn wanted<'a>(text: &'a Text, scope: &'a Scope, priority: i32) -> Wanted<'a> {
    Wanted {
        scope,
        session: text.session,
        priority,
        prompt: &text.tokens,
    }
}

impl World {
    pub(crate) fn step(&mut self, step: &Step) {
        match *step {
            Step::Begin {
                session,
                who,
                draw,
                decode,
                priority,
            } => self.begin((session, who), draw, decode as usize, priority.into()),
            Step::Append { flight, count } => self.append(flight, count as usize),
            Step::Publish { flight } => {
                if let Some(at) = index(&self.flights, flight) {
                    self.publish(at);
                }
            }
            Step::Finish { flight, pending } => {
                if let Some(at) = index(&self.flights, flight) {
                    let pending = pending.map(|token| u32::from(token) % TOKENS);
                    self.finish(at, pending);
                }
            }
            Step::GiveUp { flight } => self.give_up(flight),
            Step::Hold { text, lease } => self.hold(text, lease),
            Step::Release { hold } => self.release(hold),
            Step::Expire { by } => self.expire(by.into()),
            Step::Quarantine { text, end, start } => self.quarantine(text, end, start),
            Step::Close { session } => self.close(u64::from(session) % SESSIONS),
            Step::Press { pages } => self.press(pages.into()),
            Step::Spare { text } => self.spare(text),
            Step::Import { text, len } => self.import(text, len.into()),
            Step::Cut {
                session,
                start,
                len,
                rotate,
            } => self.cut(u64::from(session) % SESSIONS, (start, len), rotate),
        }
        self.check();
    }

    fn drawn(&self, session: u8, who: u8, draw: Draw) -> Text {
        let base = draw.base.and_then(|base| index(&self.known, base));
        let base = base.map(|at| &self.known[at]);
        let mut tokens = base.map_or_else(Vec::new, |base| base.tokens.clone());
        let keep = draw.keep as usize % (tokens.len() + 1);
        // Most go on from its end, or part at the end of a page or as near to it as anything can be.
        tokens.truncate(match draw.keep % 5 {
            0 => whole(keep),
            1 => whole(keep).saturating_sub(1),
            2 => keep,
            _ => tokens.len(),
        });
        let mut token = u32::from(draw.seed);
        for _ in 0..=draw.len {
            token = token.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            tokens.push((token >> 16) % TOKENS);
        }
        tokens.truncate(PROMPT_MAX);
        let session = u64::from(session) % SESSIONS;
        let (who, session) = match base {
            // Most go on under the scope of what they go on from, in the same session or in another of the tenant's.
            Some(base) if !who.is_multiple_of(4) => {
                let other = base.session + session / TENANTS * TENANTS;
                (base.who, other % SESSIONS)
            }
            _ => (Who::of(session, who), session),
        };
        Text::new(self.setting.policy, who, session, &tokens)
    }

    fn begin(&mut self, (session, who): (u8, u8), draw: Draw, decode: usize, priority: i32) {
        let text = self.drawn(session, who, draw);
        self.start(text, decode, priority);
    }

    /// A request for a text and `decode` positions more begins, unless its session is busy or it can never run.
    pub(crate) fn start(&mut self, text: Text, decode: usize, priority: i32) {
        let positions = text.tokens.len() + decode;
        let pages = positions.div_ceil(PAGE_POSITIONS);
        let mut flights = self.flights.iter();
        if flights.any(|it| it.text.session == text.session) || pages > self.pool.capacity() {
            return;
        }
        let before = self.peek(&text);
        self.assert_found(&text, before);
        let (alone, scope) = (self.flights.is_empty(), text.who.scope());
        let room = (self.spoken_for(), alone);
        let asked = wanted(&text, &scope, priority);
        let cached = self.cache.tree().pages();
        match self.cache.find(&mut self.pool, asked, positions, room) {
            Ok(found) => self.take_off(text, found, (before, alone), positions, priority),
            Err(Error::PagesExhausted { .. }) => {
                assert!(self.setting.capacity.is_some());
                let held = self.cache.tree().protected();
                assert!(
                    !alone || pages > self.pool.capacity() - held,
                    "what fits runs"
                );
                self.note("refused", true);
                let is_all_there = self.cache.tree().pages() == cached;
                assert!(
                    alone || is_all_there || self.has_rotated(),
                    "a refusal costs nothing"
                );
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A request that found something is in flight.
    fn take_off(
        &mut self,
        text: Text,
        found: Found,
        (before, alone): (usize, bool),
        positions: usize,
        priority: i32,
    ) {
        let len = found.table.len();
        assert_eq!(found.table.tokens(), &text.tokens[..len]);
        assert_eq!(found.barred_at, self.oracle.barred_at(&text));
        let idle = self.idle.get(&text.session);
        let had = idle.map_or(0, |idle| common(&idle.text.tokens, &text.tokens));
        assert_eq!(
            (found.own, found.instance),
            (had.min(len), len - had.min(len))
        );
        let end = idle.map_or(0, |idle| idle.text.tokens.len());
        let pending = idle.and_then(|idle| idle.pending);
        let goes_on = had == end && len <= end && text.tokens.get(end) == pending.as_ref();
        assert_eq!(
            found.carried_at,
            (pending.is_some() && goes_on).then_some(end)
        );

        let findable = found.barred_at.unwrap_or(text.tokens.len());
        let rotated = idle.and_then(|idle| idle.rotated.as_ref());
        let moved = if rotated.is_some() {
            had.min(findable)
        } else {
            0
        };
        let values = match rotated {
            Some(rotated) if found.origin.is_some() => rotated[..len].to_vec(),
            _ => values(&text.cached[..len]),
        };
        let (least, most) = if found.origin.is_some() {
            assert!(moved > before, "moved positions are a last resort");
            (moved, moved)
        } else if moved > before {
            (0, 0) // all of them were given up for room
        } else {
            (before, before)
        };
        assert!(
            len <= most && (alone || len >= least),
            "{len} of {least} to {most}"
        );
        self.note_found(&found, before);
        self.remember(text.clone());
        let mut locked = self.text(&text, &text.tokens[..len]);
        locked.must = if found.origin.is_some() {
            0
        } else {
            whole(len)
        };
        self.flights.push(Flight {
            text,
            priority,
            table: found.table,
            values,
            positions,
            tainted: found.origin.is_some(),
            is_published: false,
            locked,
        });
    }

    /// Of which kinds what was found is; `before` is how much could have been.
    fn note_found(&mut self, found: &Found, before: usize) {
        let len = found.table.len();
        let tail = found.table.pages().last().filter(|_| len > whole(len));
        let in_place = tail.is_some_and(|page| self.pool.references(*page) > 1);
        self.note("found a page", whole(len) > 0);
        self.note("found of its own", found.own > 0);
        self.note("found of another's", found.instance > 0);
        self.note("copied within a page", tail.is_some() && !in_place);
        self.note("gone on in place", in_place);
        self.note("stopped before a span", found.barred_at == Some(len));
        self.note("gone on from moved positions", found.origin.is_some());
        self.note("gave up what it found", len < before);
    }

    fn append(&mut self, flight: u8, count: usize) {
        let Some(at) = index(&self.flights, flight) else {
            return;
        };
        let mut flight = self.flights.swap_remove(at);
        let (from, prompt) = (flight.table.len(), &flight.text.tokens);
        let to = flight.positions.min(from + count);
        let sampled = |at: usize| (at * at + flight.text.session as usize) as u32 % TOKENS;
        let token = |at: usize| prompt.get(at).copied().unwrap_or_else(|| sampled(at));
        let mut tokens = flight.table.tokens().to_vec();
        tokens.extend((from..to).map(token));
        let text = self.text(&flight.text, &tokens);
        self.compute(&mut flight.table, &mut flight.values, &text);
        self.flights.push(flight);
    }

    /// Computes the positions of a text that a table has not yet.
    pub(crate) fn compute(&mut self, table: &mut PageTable, values: &mut Vec<u64>, text: &Text) {
        for position in values.len()..text.tokens.len() {
            let before = values.last().copied().unwrap_or(0);
            let value = next_value(before, text.cached[position]);
            self.write(table, text.tokens[position], value, RowSource::Prefill);
            values.push(value);
        }
    }

    /// Appends a position that holds `value`; room for it was promised.
    pub(crate) fn write(
        &mut self,
        table: &mut PageTable,
        token: u32,
        value: u64,
        source: RowSource,
    ) {
        let (page, slot) = table.append(&mut self.pool, token).unwrap();
        let (k, v) = row(value);
        self.pool.write(page, slot, 0, (&[k], &[v]), source);
    }

    fn publish(&mut self, at: usize) {
        let flight = &mut self.flights[at];
        if flight.tainted {
            return;
        }
        let scope = flight.text.who.scope();
        let by = wanted(&flight.text, &scope, flight.priority);
        self.cache.publish(&mut self.pool, by, &mut flight.table);
        flight.is_published = true;
        let (like, tokens) = (flight.text.clone(), flight.table.tokens().to_vec());
        let mut locked = self.text(&like, &tokens);
        self.oracle.publish(&locked);
        let len = self.assert_published(&locked);
        locked.must = whole(len);
        self.flights[at].locked = locked;
    }

    /// All of a text is found once it is published, as far as it is not barred.
    fn assert_published(&self, text: &Text) -> usize {
        if self.setting.policy == CachePolicy::None {
            return 0;
        }
        let len = self.oracle.barred_at(text).map_or(text.tokens.len(), whole);
        assert!(self.peek(text) >= len, "{len} positions were published");
        len
    }

    fn finish(&mut self, at: usize, pending: Option<u32>) {
        let flight = self.flights.swap_remove(at);
        let text = self.text(&flight.text, flight.table.tokens());
        self.keep(
            flight.table,
            text,
            (pending, flight.priority),
            flight.tainted.then_some(flight.values),
        );
    }

    /// A session is idle, with `table` behind it; `rotated` is what its positions hold if they were moved.
    pub(crate) fn keep(
        &mut self,
        table: PageTable,
        text: Text,
        (pending, priority): (Option<u32>, i32),
        rotated: Option<Vec<u64>>,
    ) {
        let scope = text.who.scope();
        let by = wanted(&text, &scope, priority);
        // Of a text that nobody bars; `kv_quarantine` has those that are barred.
        let origin = rotated.is_some().then(|| Origin {
            scope: Scope::default(),
            ids: Vec::new(),
        });
        let left = (pending, origin);
        self.cache.keep(&mut self.pool, by, table, left);
        if self.setting.policy == CachePolicy::None {
            return;
        }
        if rotated.is_none() {
            self.oracle.publish(&text);
            self.assert_published(&text);
        }
        self.remember(text.clone());
        let idle = Idle {
            text,
            pending,
            rotated,
        };
        self.idle.insert(idle.text.session, idle);
    }

    fn give_up(&mut self, flight: u8) {
        // The engine gives up only what nobody has seen yet.
        if let Some(at) = index(&self.flights, flight)
            && !self.flights[at].is_published
        {
            let flight = self.flights.swap_remove(at);
            self.cache.give_up(&mut self.pool, flight.table);
        }
    }
}
