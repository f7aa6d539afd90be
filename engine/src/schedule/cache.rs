//! What finished work leaves behind and new work finds: sessions' own tables, and the tree all sessions share.
//!
//! The policies are the arms' whole difference. Not here: when a request is admitted (`batch`, `engine`).

use std::collections::HashMap;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::kv::radix::{Match, common_prefix};
use crate::kv::{PageId, PagePool, PageTable, RadixTree};
use crate::tensor::PAGE_POSITIONS;

/// Who may reuse what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePolicy {
    /// Nothing is kept.
    None,
    /// A session finds what itself computed.
    Session,
    /// Everyone finds what anyone in this engine computed.
    Shared,
}

impl std::fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Session => "session",
            Self::Shared => "shared",
        })
    }
}

impl FromStr for CachePolicy {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        [Self::None, Self::Session, Self::Shared]
            .into_iter()
            .find(|policy| policy.to_string() == text)
            .ok_or_else(|| format!("cache policy `{text}` is unknown; use none, session or shared"))
    }
}

/// What an idle session keeps.
struct Session {
    table: PageTable,
    /// Its last sampled token, which has no KV yet; none if it was cancelled before the first.
    pending: Option<u32>,
    last_used: u64,
}

/// What a prompt found, ready to be continued.
pub struct Found {
    /// The cached positions.
    pub table: PageTable,
    /// Of these, from the session's own pages.
    pub own: usize,
    /// Of these, only from the tree, whoever wrote them: the session's own pages had less.
    pub instance: usize,
    /// Where the session's pending token stands, if the prompt goes on with it.
    pub carried_at: Option<usize>,
}

/// The cache of one engine.
pub struct Cache {
    policy: CachePolicy,
    tree: RadixTree,
    sessions: HashMap<u64, Session>,
    clock: u64,
}

impl Cache {
    /// An empty cache.
    pub fn new(policy: CachePolicy) -> Self {
        Self {
            policy,
            tree: RadixTree::default(),
            sessions: HashMap::new(),
            clock: 0,
        }
    }

    /// Its policy.
    pub fn policy(&self) -> CachePolicy {
        self.policy
    }

    /// How many positions of `prompt` need no waiting for: found now, or the session's own pending token.
    pub fn matchable(&mut self, session: u64, prompt: &[u32]) -> usize {
        let own = self.sessions.get(&session);
        let own = own.map_or(0, |own| {
            let matched = common_prefix(own.table.tokens(), prompt);
            matched + usize::from(own.carried_at(prompt, matched).is_some())
        });
        match self.policy {
            CachePolicy::Shared => own.max(self.tree.find(prompt).len()),
            CachePolicy::None | CachePolicy::Session => own,
        }
    }

    /// Finds the longest cached prefix of `prompt` and makes room for `positions` positions in all.
    ///
    /// `spoken_for` pages are promised to running requests; `alone` says that none runs. Then room is made at any cost, at
    /// last by giving up what was found: whatever fits the pool runs. Otherwise a failure leaves the session as it was.
    pub fn find(
        &mut self,
        pool: &mut PagePool,
        (session, prompt): (u64, &[u32]),
        positions: usize,
        (spoken_for, alone): (usize, bool),
    ) -> Result<Found> {
        let own = self.sessions.remove(&session);
        let own_len = own
            .as_ref()
            .map_or(0, |own| common_prefix(own.table.tokens(), prompt));
        let tree = match self.policy {
            CachePolicy::Shared => self.tree.find(prompt),
            CachePolicy::None | CachePolicy::Session => Match::default(),
        };
        let matched = own_len.max(tree.len());
        let carried_at = own.as_ref().and_then(|own| own.carried_at(prompt, matched));
        let total = positions.div_ceil(PAGE_POSITIONS);
        let goes_on = |own: &Session| own_len == matched && own.table.len() == matched;
        let in_place = own.as_ref().is_some_and(goes_on);
        let held = own
            .as_ref()
            .filter(|_| in_place)
            .map(|own| own.table.pages().len());
        let needed = total - held.unwrap_or(matched / PAGE_POSITIONS);

        let pins = match &own {
            Some(own) if own_len == matched => Pins::new(pool, own.table.pages(), matched),
            _ => Pins::new(pool, &tree.all_pages(), matched),
        };
        let table = match (self.make_room(pool, needed, spoken_for), own) {
            (Ok(()), Some(own)) if in_place => {
                pins.release(pool);
                own.table
            }
            (Ok(()), own) => {
                let table = pins.share(pool, prompt)?;
                release_all(pool, own);
                table
            }
            (Err(error), own) if !alone => {
                pins.release(pool);
                self.sessions.extend(own.map(|own| (session, own)));
                return Err(error);
            }
            (Err(_), own) => {
                release_all(pool, own);
                self.share_what_fits(pool, pins, prompt, total)?
            }
        };
        let own = own_len.min(table.len());
        let (instance, carried_at) = (
            table.len() - own,
            carried_at.filter(|at| *at == table.len()),
        );
        Ok(Found {
            table,
            own,
            instance,
            carried_at,
        })
    }

    /// A table of as much of the pinned match as leaves room for `total` pages.
    fn share_what_fits(
        &mut self,
        pool: &mut PagePool,
        mut pins: Pins,
        prompt: &[u32],
        total: usize,
    ) -> Result<PageTable> {
        loop {
            let room = self.make_room(pool, total - pins.matched / PAGE_POSITIONS, 0);
            match room {
                Ok(()) => return pins.share(pool, prompt),
                Err(error) if pins.matched == 0 => return Err(error),
                Err(_) => pins.shorten(pool),
            }
        }
    }

    /// Evicts until `needed` pages are free beside those spoken for.
    fn make_room(&mut self, pool: &mut PagePool, needed: usize, spoken_for: usize) -> Result<()> {
        while pool.available() < needed + spoken_for {
            if !self.tree.evict_one(pool) && !self.drop_oldest_session(pool) {
                let available = pool.available().saturating_sub(spoken_for);
                return Err(Error::PagesExhausted {
                    needed,
                    available,
                    capacity: pool.capacity(),
                });
            }
        }
        Ok(())
    }

    fn drop_oldest_session(&mut self, pool: &mut PagePool) -> bool {
        let oldest = self
            .sessions
            .iter()
            .min_by_key(|(id, session)| (session.last_used, **id));
        let Some(id) = oldest.map(|(id, _)| *id) else {
            return false;
        };
        self.close(pool, id);
        true
    }

    /// Makes a running request's positions matchable by others.
    pub fn publish(&mut self, pool: &mut PagePool, table: &PageTable) {
        if self.policy == CachePolicy::Shared {
            self.tree.insert(pool, table.tokens(), table.pages());
        }
    }

    /// Keeps what a finished request leaves.
    pub fn keep(
        &mut self,
        pool: &mut PagePool,
        session: u64,
        table: PageTable,
        pending: Option<u32>,
    ) {
        if self.policy == CachePolicy::None {
            return table.release(pool);
        }
        self.publish(pool, &table);
        self.clock += 1;
        self.sessions.insert(
            session,
            Session {
                table,
                pending,
                last_used: self.clock,
            },
        );
    }

    /// Forgets a session's own table.
    pub fn close(&mut self, pool: &mut PagePool, session: u64) {
        if let Some(session) = self.sessions.remove(&session) {
            session.table.release(pool);
        }
    }

    /// The page table an idle session keeps.
    pub fn session(&self, session: u64) -> Option<&PageTable> {
        self.sessions.get(&session).map(|session| &session.table)
    }

    /// Adds this cache's references to `held`, for [`PagePool::check`].
    pub fn count_held(&self, held: &mut HashMap<PageId, usize>) {
        self.tree.count_held(held);
        for page in self
            .sessions
            .values()
            .flat_map(|session| session.table.pages())
        {
            *held.entry(*page).or_default() += 1;
        }
    }
}

impl Session {
    fn carried_at(&self, prompt: &[u32], matched: usize) -> Option<usize> {
        let end = self.table.len();
        let goes_on = self.pending.is_some() && prompt.get(end).copied() == self.pending;
        (matched == end && goes_on).then_some(end)
    }
}

fn release_all(pool: &mut PagePool, session: Option<Session>) {
    if let Some(session) = session {
        session.table.release(pool);
    }
}

/// The pages of a match, kept from eviction while room is made.
struct Pins {
    pages: Vec<PageId>,
    matched: usize,
}

impl Pins {
    /// Pins the first of `pages`, as many as hold `matched` positions.
    fn new(pool: &mut PagePool, pages: &[PageId], matched: usize) -> Self {
        let pages = pages[..matched.div_ceil(PAGE_POSITIONS)].to_vec();
        for page in &pages {
            pool.retain(*page);
        }
        Self { pages, matched }
    }

    /// Gives up the partly matched page if there is one, all pages otherwise.
    fn shorten(&mut self, pool: &mut PagePool) {
        let rest = self.matched % PAGE_POSITIONS;
        let keep = if rest > 0 { self.pages.len() - 1 } else { 0 };
        for page in self.pages.drain(keep..) {
            pool.release(page);
        }
        self.matched = keep * PAGE_POSITIONS;
    }

    /// A table of the matched positions: whole pages by reference, the rest as a copy.
    fn share(self, pool: &mut PagePool, prompt: &[u32]) -> Result<PageTable> {
        let tail = self.pages.get(self.matched / PAGE_POSITIONS).copied();
        let table = PageTable::share(pool, &prompt[..self.matched], &self.pages, tail);
        self.release(pool);
        table
    }

    fn release(self, pool: &mut PagePool) {
        for page in self.pages {
            pool.release(page);
        }
    }
}
