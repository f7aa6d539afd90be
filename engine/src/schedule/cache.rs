//! What finished work leaves behind and new work finds.
//!
//! Everything cached stands in one tree of pages: under each session's own name where sessions share nothing, else under
//! the tenant's. The policies are the arms' whole difference. Not here: when a request is admitted (`batch`, `engine`).

mod idle;
mod transfer;

use std::collections::HashMap;

use super::pins::{Origin, Pins};
use super::sharing::CachePolicy;
use crate::error::{Error, Result};
use crate::kv::policy::EvictionPolicy;
use crate::kv::radix::{HoldId, Match, common_prefix};
use crate::kv::tombstone::Tombstones;
use crate::kv::{Domain, NodeId, Owner, PageId, PagePool, PageTable, RadixTree, Scope, Writer};
use crate::tensor::PAGE_POSITIONS;

/// What an idle session leaves besides pages in the tree.
struct Session {
    scope: Scope,
    /// Its text as far as it had KV.
    tokens: Vec<u32>,
    /// Its last sampled token, which has no KV yet; none if it was cancelled before the first.
    pending: Option<u32>,
    last_used: u64,
    /// Its pages if they were rotated: nobody else may find them.
    rotated: Option<Rotated>,
}

/// Pages from which a span was taken out by rotation.
struct Rotated {
    table: PageTable,
    origin: Origin,
}

/// What is looked for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Who asks.
    pub scope: &'a Scope,
    /// In which session.
    pub session: u64,
    /// How important it is.
    pub priority: i32,
    /// The whole prompt.
    pub prompt: &'a [u32],
}

/// What a prompt found, ready to be continued.
pub struct Found {
    /// The cached positions.
    pub table: PageTable,
    /// Of these, those that the session had before.
    pub own: usize,
    /// Of these, those it had not: whoever wrote them.
    pub instance: usize,
    /// Where the session's pending token stands, if the prompt goes on with it.
    pub carried_at: Option<usize>,
    /// From where on nothing may be found, because a span is quarantined.
    pub barred_at: Option<usize>,
    /// The text the positions were computed for, if they were rotated: what follows is only near what it would be.
    pub origin: Option<Origin>,
}

/// The cache of one engine.
pub struct Cache {
    policy: CachePolicy,
    tree: RadixTree,
    /// None as long as nothing was ever barred.
    tombstones: Option<Tombstones>,
    sessions: HashMap<u64, Session>,
    clock: u64,
    /// What is looked for counts as used only once it is admitted.
    quiet: bool,
}

impl Cache {
    /// An empty cache.
    pub fn new(policy: CachePolicy, eviction: Box<dyn EvictionPolicy>) -> Self {
        Self {
            policy,
            tree: RadixTree::new(eviction),
            tombstones: None,
            sessions: HashMap::new(),
            clock: 0,
            quiet: false,
        }
    }

    /// Whether what a prompt finds counts as used only where it is admitted, else also where it must go on waiting.
    #[must_use]
    pub fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Its policy.
    pub fn policy(&self) -> CachePolicy {
        self.policy
    }

    /// The tree.
    pub fn tree(&self) -> &RadixTree {
        &self.tree
    }

    /// What is barred.
    pub fn tombstones(&self) -> Option<&Tombstones> {
        self.tombstones.as_ref()
    }

    fn owner<'a>(&self, scope: &'a Scope, session: u64) -> Owner<'a> {
        Owner {
            scope,
            session: (self.policy == CachePolicy::Session).then_some(session),
        }
    }

    /// The session, if it is this tenant's.
    fn session_of(&self, wanted: Wanted<'_>) -> Option<&Session> {
        let session = self.sessions.get(&wanted.session);
        session.filter(|session| session.scope.tenant == wanted.scope.tenant)
    }

    /// From where on `ids` may not be found.
    pub fn barred_at(&self, scope: &Scope, ids: &[u32]) -> Option<usize> {
        self.tombstones.as_ref()?.barred_at(scope, ids)
    }

    /// How many positions of a prompt need no waiting for: found now, or the session's own pending token.
    pub fn matchable(&self, wanted: Wanted<'_>) -> usize {
        let findable = self.findable(wanted);
        let matched = match self.policy {
            CachePolicy::None => 0,
            _ => self
                .tree
                .look(self.owner(wanted.scope, wanted.session), findable)
                .len(),
        };
        let carried = self
            .session_of(wanted)
            .and_then(|own| own.carried_at(wanted.prompt, matched));
        matched + usize::from(carried == Some(matched))
    }

    /// The prompt up to where it is barred.
    pub fn findable<'a>(&self, wanted: Wanted<'a>) -> &'a [u32] {
        let barred_at = self.barred_at(wanted.scope, wanted.prompt);
        &wanted.prompt[..barred_at.unwrap_or(wanted.prompt.len())]
    }

    /// Finds the longest cached prefix of a prompt and makes room for `positions` positions in all.
    ///
    /// `spoken_for` pages are promised to running requests; `alone` says that none runs. Then room is made at any cost, at
    /// last by giving up what was found: whatever fits the pool runs. Otherwise a failure leaves everything findable.
    pub fn find(
        &mut self,
        pool: &mut PagePool,
        wanted: Wanted<'_>,
        positions: usize,
        (spoken_for, alone): (usize, bool),
    ) -> Result<Found> {
        let barred_at = self.barred_at(wanted.scope, wanted.prompt);
        let findable = &wanted.prompt[..barred_at.unwrap_or(wanted.prompt.len())];
        let owner = self.owner(wanted.scope, wanted.session);
        let found = match self.policy {
            CachePolicy::None => Match::none(),
            _ if self.quiet => self.tree.look(owner, findable),
            _ => self.tree.find(owner, findable, wanted.priority),
        };
        let total = positions.div_ceil(PAGE_POSITIONS);
        let rotated = self.rotated(wanted, findable, found.len());
        let last = rotated.is_none().then(|| found.last());
        let (pins, origin) = if let Some((pins, origin)) = rotated {
            (pins, Some(origin))
        } else {
            let goes_on = barred_at.is_none() && self.may_go_on(pool, &found);
            (Pins { found, goes_on }, None)
        };
        pins.hold(&mut self.tree, pool);
        let table = self.table(pool, pins, wanted.prompt, total, (spoken_for, alone))?;
        if let Some(last) = last {
            if self.quiet {
                self.tree.mark_used(last, wanted.priority);
            }
            self.tree.count_hit(last);
        }
        let session = self.session_of(wanted);
        let had = session.map_or(0, |own| common_prefix(&own.tokens, wanted.prompt));
        let own = had.min(table.len());
        Ok(Found {
            own,
            instance: table.len() - own,
            carried_at: session.and_then(|own| own.carried_at(wanted.prompt, table.len())),
            origin: origin.filter(|_| !table.is_empty()),
            table,
            barred_at,
        })
    }

    /// The session's rotated pages, where they have more of the prompt than the tree, and what they were computed for.
    fn rotated(
        &self,
        wanted: Wanted<'_>,
        findable: &[u32],
        matched: usize,
    ) -> Option<(Pins, Origin)> {
        let Rotated { table, origin } = self.session_of(wanted)?.rotated.as_ref()?;
        let common = common_prefix(table.tokens(), findable);
        let (whole, rest) = (common / PAGE_POSITIONS, common % PAGE_POSITIONS);
        let (tokens, pages) = (&table.tokens()[..common], &table.pages()[..whole]);
        let pins = || Pins {
            found: Match {
                pages: pages.to_vec(),
                tail: (rest > 0).then(|| (table.pages()[whole], rest)),
                node: self.node_of(self.owner(&origin.scope, wanted.session), tokens, pages),
                ..Match::none()
            },
            goes_on: false,
        };
        (common > matched).then(|| (pins(), origin.clone()))
    }

    /// The node of the last of `pages`, held for `tokens`, up to which they are those of the tree.
    fn node_of(&self, owner: Owner<'_>, tokens: &[u32], pages: &[PageId]) -> NodeId {
        let held = self.tree.look(owner, tokens).pages;
        let shared = held.iter().zip(pages).take_while(|(its, own)| its == own);
        let positions = shared.count() * PAGE_POSITIONS;
        self.tree.look(owner, &tokens[..positions]).node
    }

    /// Whether the partly filled page that was found ends where the match does and nobody else has it.
    fn may_go_on(&self, pool: &PagePool, found: &Match) -> bool {
        found.tail.is_some_and(|(page, len)| {
            let whole_leaf = found.tail_node.and_then(|node| self.tree.positions(node));
            pool.len(page) == len && whole_leaf == Some(len) && pool.references(page) == 1
        })
    }

    /// A table of the pinned match with room for `total` pages in all.
    fn table(
        &mut self,
        pool: &mut PagePool,
        mut pins: Pins,
        prompt: &[u32],
        total: usize,
        (spoken_for, alone): (usize, bool),
    ) -> Result<PageTable> {
        loop {
            let spoken_for = if alone { 0 } else { spoken_for };
            let needed = total - pins.pages();
            match self.reserve(pool, needed, spoken_for) {
                Ok(()) => return pins.share(&mut self.tree, pool, prompt),
                Err(error) if !alone || pins.found.is_empty() => {
                    pins.release(&mut self.tree, pool);
                    return Err(error);
                }
                Err(_) => pins.shorten(&mut self.tree, pool),
            }
        }
    }

    /// Evicts until `needed` pages are free beside those promised to running requests, and nothing at all where that
    /// cannot be had.
    pub fn reserve(&mut self, pool: &mut PagePool, needed: usize, spoken_for: usize) -> Result<()> {
        let wanted = needed + spoken_for;
        if pool.available() >= wanted {
            return Ok(());
        }
        let could_be = pool.available() + self.tree.evictable() + self.rotated_pages(pool);
        let mut goes_on = could_be >= wanted;
        while goes_on && pool.available() < wanted {
            goes_on = self.tree.evict_one(pool) || self.drop_oldest_rotated(pool);
        }
        if goes_on {
            return Ok(());
        }
        Err(Error::PagesExhausted {
            needed,
            available: pool.available().saturating_sub(spoken_for),
            capacity: pool.capacity(),
        })
    }

    /// Pages that only sessions' rotated tables have, however many of them.
    fn rotated_pages(&self, pool: &PagePool) -> usize {
        let mut held = HashMap::new();
        self.count_rotated(&mut held);
        let alone = held.iter();
        alone
            .filter(|(page, count)| pool.references(**page) == **count)
            .count()
    }

    /// Counts a page once for each rotated table that has it.
    fn count_rotated(&self, held: &mut HashMap<PageId, usize>) {
        let rotated = self.sessions.values().filter_map(|it| it.rotated.as_ref());
        for page in rotated.flat_map(|it| it.table.pages()) {
            *held.entry(*page).or_default() += 1;
        }
    }

    fn drop_oldest_rotated(&mut self, pool: &mut PagePool) -> bool {
        let rotated = self
            .sessions
            .iter_mut()
            .filter(|(_, it)| it.rotated.is_some());
        let oldest = rotated.min_by_key(|(id, session)| (session.last_used, **id));
        let rotated = oldest.and_then(|(_, session)| session.rotated.take());
        rotated.map(|it| it.table.release(pool)).is_some()
    }

    /// Makes a running request's positions findable by others, as far as they are not barred.
    pub fn publish(&mut self, pool: &mut PagePool, by: Wanted<'_>, table: &mut PageTable) {
        if self.policy == CachePolicy::None {
            return;
        }
        let barred_at = self.barred_at(by.scope, table.tokens());
        // What a barred text has in the page it shares with the span goes with the span.
        let len = barred_at.map_or(table.len(), |at| at / PAGE_POSITIONS * PAGE_POSITIONS);
        let owner = self.owner(by.scope, by.session);
        let writer = Writer {
            session: by.session,
            priority: by.priority,
        };
        let anchor = table.anchor;
        let (tokens, pages) = table.parts();
        table.anchor = self
            .tree
            .insert(pool, owner, (&tokens[..len], pages), writer, anchor);
    }

    /// Keeps what a finished request leaves; `origin` is the text that rotated positions were computed for.
    pub fn keep(
        &mut self,
        pool: &mut PagePool,
        by: Wanted<'_>,
        mut table: PageTable,
        (pending, origin): (Option<u32>, Option<Origin>),
    ) {
        self.forget_rotated(pool, by.session);
        if self.policy == CachePolicy::None {
            return self.give_up(pool, table);
        }
        if origin.is_none() {
            self.publish(pool, by, &mut table);
        }
        self.tree.unlock(pool, std::mem::take(&mut table.anchor));
        self.clock += 1;
        let tokens = table.tokens().to_vec();
        let origin = origin.filter(|it| self.barred_at(&it.scope, &it.ids).is_none());
        let rotated = if let Some(origin) = origin {
            Some(Rotated { table, origin })
        } else {
            table.release(pool);
            None
        };
        let session = Session {
            scope: by.scope.clone(),
            tokens,
            pending,
            last_used: self.clock,
            rotated,
        };
        self.sessions.insert(by.session, session);
    }

    /// Gives back what a request held, and keeps nothing of it.
    pub fn give_up(&mut self, pool: &mut PagePool, mut table: PageTable) {
        self.tree.unlock(pool, std::mem::take(&mut table.anchor));
        table.release(pool);
    }

    /// Forgets a session's rotated pages.
    pub fn forget_rotated(&mut self, pool: &mut PagePool, session: u64) {
        let session = self.sessions.get_mut(&session);
        if let Some(rotated) = session.and_then(|session| session.rotated.take()) {
            rotated.table.release(pool);
        }
    }

    /// Forgets rotated pages that were computed for a barred text.
    fn forget_barred(&mut self, pool: &mut PagePool) {
        let Some(tombstones) = &self.tombstones else {
            return;
        };
        for session in self.sessions.values_mut() {
            let barred = |origin: &Origin| tombstones.barred_at(&origin.scope, &origin.ids);
            if let Some(rotated) = session.rotated.take_if(|it| barred(&it.origin).is_some()) {
                rotated.table.release(pool);
            }
        }
    }

    /// Forgets a session, and what was cached for it alone.
    pub fn close(&mut self, pool: &mut PagePool, session: u64) {
        self.forget_rotated(pool, session);
        let Some(Session { scope, .. }) = self.sessions.remove(&session) else {
            return;
        };
        if self.policy == CachePolicy::Session {
            self.tree.drop_session(pool, self.owner(&scope, session));
        }
    }

    /// Bars whatever begins with `ids` from `start` on and takes it out of the tree; how many pages went. `spoken_for`
    /// pages are promised to running requests; `domain` is asked for once, at the first of these.
    pub fn quarantine(
        &mut self,
        pool: &mut PagePool,
        scope: &Scope,
        (ids, start): (&[u32], usize),
        spoken_for: usize,
        domain: impl FnOnce() -> Domain,
    ) -> Result<usize> {
        let tombstones = self
            .tombstones
            .get_or_insert_with(|| Tombstones::new(domain()));
        tombstones.add(scope, ids, start)?;
        self.forget_barred(pool);
        let owner = self.owner(scope, 0);
        let spare = pool.available().saturating_sub(spoken_for);
        Ok(self.tree.quarantine(pool, owner, (ids, start), spare))
    }

    /// Holds what is cached of a text, until released or until `ends` has passed; nothing if nothing is cached.
    pub fn hold(&mut self, wanted: Wanted<'_>, ends: Option<u64>) -> Option<(HoldId, usize)> {
        let findable = self.findable(wanted);
        let owner = self.owner(wanted.scope, wanted.session);
        let found = self.tree.find(owner, findable, wanted.priority);
        let len = found.pages.len() * PAGE_POSITIONS;
        (len > 0).then(|| (self.tree.hold(found.node, ends), len))
    }

    /// Ends a hold; false if it has ended.
    pub fn release_hold(&mut self, pool: &mut PagePool, hold: HoldId) -> bool {
        self.tree.release_hold(pool, hold)
    }

    /// Ends leases whose time is up; how many.
    pub fn expire(&mut self, pool: &mut PagePool, now: u64) -> usize {
        self.tree.expire(pool, now)
    }

    /// Adds this cache's references to `held`, for [`PagePool::check`].
    pub fn count_held(&self, held: &mut HashMap<PageId, usize>) {
        self.tree.count_held(held);
        self.count_rotated(held);
    }
}

impl Session {
    /// Where its pending token stands in `prompt`, unless that many positions are there already.
    fn carried_at(&self, prompt: &[u32], matched: usize) -> Option<usize> {
        let end = self.tokens.len();
        let goes_on = self.pending.is_some() && prompt.get(end).copied() == self.pending;
        (goes_on && matched <= end && prompt.starts_with(&self.tokens)).then_some(end)
    }
}
