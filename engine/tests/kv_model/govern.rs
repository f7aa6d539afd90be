//! What is done to cached text by name, and to its memory: holding it, barring it, forgetting it, making room.
//!
//! Not here: requests (`steps`), spans taken out of a session (`cut`).

use engine::kv::{Domain, Eviction};
use engine::schedule::CachePolicy;
use engine::tensor::PAGE_POSITIONS;

use super::oracle::whole;
use super::steps::{index, wanted};
use super::world::{Held, Setting, World};

/// Shorter texts are not barred: too many others begin so.
const NAMED_MIN: usize = 8;

impl World {
    pub(crate) fn hold(&mut self, text: u8, lease: Option<u8>) {
        let Some(at) = index(&self.known, text) else {
            return;
        };
        let mut text = self.known[at].clone();
        text.must = whole(self.peek(&text));
        let scope = text.who.scope();
        let ends = lease.map(|time| self.now + u64::from(time));
        let held = self.cache.hold(wanted(&text, &scope, i32::MIN), ends);
        assert_eq!(held.map_or(0, |(_, len)| len), text.must);
        self.holds
            .extend(held.map(|(id, _)| Held { id, text, ends }));
    }

    pub(crate) fn release(&mut self, hold: u8) {
        if let Some(at) = index(&self.holds, hold) {
            let held = self.holds.swap_remove(at);
            assert!(self.cache.release_hold(&mut self.pool, held.id));
            assert!(!self.cache.release_hold(&mut self.pool, held.id));
        }
    }

    pub(crate) fn expire(&mut self, by: u64) {
        self.now += by;
        let before = self.holds.len();
        let now = self.now;
        self.holds
            .retain(|held| held.ends.is_none_or(|end| end > now));
        let expired = self.cache.expire(&mut self.pool, now);
        assert_eq!(expired, before - self.holds.len());
        self.note("expired", expired > 0);
    }

    pub(crate) fn quarantine(&mut self, text: u8, end: u16, start: u16) {
        let Some(at) = index(&self.known, text) else {
            return;
        };
        let known = &self.known[at];
        let end = known.tokens.len().min(end as usize);
        if end < NAMED_MIN {
            return;
        }
        let start = start as usize % end;
        let ids = self.text(known, &known.tokens[..end]);
        let (spoken_for, scope) = (self.spoken_for(), ids.who.scope());
        let domain = || Domain::new(&[("weights", "none")]);
        let span = (&ids.tokens[..], start);
        let before = self.cache.tree().pages();
        let quarantined = self
            .cache
            .quarantine(&mut self.pool, &scope, span, spoken_for, domain);
        let left = self.cache.tree().pages();
        let quarantined = quarantined.unwrap();
        assert!(left + quarantined >= before);
        self.note("quarantined", quarantined > 0);
        let flights = self.flights.iter_mut().map(|it| &mut it.locked);
        let holds = self.holds.iter_mut().map(|it| &mut it.text);
        self.oracle.quarantine(&ids, start, flights.chain(holds));
        assert!(self.peek(&ids) <= start);
    }

    pub(crate) fn close(&mut self, session: u64) {
        self.cache.close(&mut self.pool, session);
        let was_idle = self.idle.remove(&session).is_some();
        self.note("closed", was_idle);
        if self.setting.policy == CachePolicy::Session && was_idle {
            self.oracle.close(session);
            let flights = self.flights.iter_mut().map(|it| &mut it.locked);
            let holds = self.holds.iter_mut().map(|it| &mut it.text);
            for text in flights.chain(holds).filter(|text| text.session == session) {
                text.must = 0;
            }
        }
    }

    pub(crate) fn press(&mut self, pages: usize) {
        if self.setting.capacity.is_none() {
            return;
        }
        let (spoken_for, cached) = (self.spoken_for(), self.cache.tree().pages());
        let has_rotated = self.has_rotated();
        let made = self.cache.reserve(&mut self.pool, pages, spoken_for);
        let has_room = self.pool.available() >= pages + spoken_for;
        assert_eq!(made.is_ok(), has_room);
        let could_be = self.pool.available() + self.cache.tree().evictable();
        assert!(has_room || could_be < pages + spoken_for || has_rotated);
        let left = self.cache.tree().pages();
        assert!(has_room || left == cached || has_rotated);
        self.note("evicted", left < cached);
    }

    pub(crate) fn has_rotated(&self) -> bool {
        self.idle.values().any(|idle| idle.rotated.is_some())
    }

    /// Under the policy that goes by use, once nothing is in flight or held, what was used last goes last.
    pub(crate) fn spare(&mut self, text: u8) {
        let Setting {
            eviction, capacity, ..
        } = self.setting;
        let (Some(at), Some(capacity)) = (index(&self.known, text), capacity) else {
            return;
        };
        if eviction != Eviction::Lru {
            return;
        }
        let text = self.known[at].clone();
        self.let_go();
        for idle in self.idle.values_mut() {
            idle.rotated = None;
            let session = idle.text.session;
            self.cache.forget_rotated(&mut self.pool, session);
        }
        let before = self.peek(&text);
        let scope = text.who.scope();
        let held = self.cache.hold(wanted(&text, &scope, 0), None);
        held.map(|(id, _)| self.cache.release_hold(&mut self.pool, id));
        let others = capacity - before.div_ceil(PAGE_POSITIONS);
        self.cache.reserve(&mut self.pool, others, 0).unwrap();
        assert_eq!(self.peek(&text), before, "{text:?} was used last");
        self.note("spared", before > 0);
    }
}
