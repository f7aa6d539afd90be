//! What finished work leaves behind and new work finds: sessions' own tables, and the tree all sessions share.
//!
//! The policies are the arms' whole difference. Not here: when a request is admitted (`batch`, `engine`).

use std::collections::HashMap;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::kv::radix::common_prefix;
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
    /// Of these, from pages of other sessions.
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
    /// `spoken_for` pages are promised to running requests. On failure nothing has changed but evictions.
    pub fn find(
        &mut self,
        pool: &mut PagePool,
        (session, prompt): (u64, &[u32]),
        positions: usize,
        spoken_for: usize,
    ) -> Result<Found> {
        let own = self.sessions.remove(&session);
        let own_len = own
            .as_ref()
            .map_or(0, |own| common_prefix(own.table.tokens(), prompt));
        let tree = match self.policy {
            CachePolicy::Shared => self.tree.find(prompt),
            CachePolicy::None | CachePolicy::Session => crate::kv::radix::Match::default(),
        };
        let use_tree = tree.len() > own_len;
        let pages: Vec<PageId> = match &own {
            Some(own) if !use_tree => own.table.pages().to_vec(),
            _ => tree
                .pages
                .iter()
                .copied()
                .chain(tree.tail.map(|(page, _)| page))
                .collect(),
        };
        for page in &pages {
            pool.retain(*page);
        }
        let matched = if use_tree { tree.len() } else { own_len };
        let needed = positions.div_ceil(PAGE_POSITIONS) - matched / PAGE_POSITIONS;
        let room = self.make_room(pool, needed, spoken_for);
        let table = room.and_then(|()| {
            let tail = pages.get(matched / PAGE_POSITIONS).copied();
            match &own {
                Some(own) if !use_tree && own.table.len() == matched => Ok(None),
                _ => PageTable::share(pool, &prompt[..matched], &pages, tail).map(Some),
            }
        });
        for page in &pages {
            pool.release(*page);
        }
        match table {
            Err(error) => {
                if let Some(own) = own {
                    self.sessions.insert(session, own);
                }
                Err(error)
            }
            Ok(shared) => {
                let carried_at = own.as_ref().and_then(|own| own.carried_at(prompt, matched));
                let own = own.map(|own| own.table);
                let table = shared_or_own(pool, shared, own);
                let instance = matched - own_len.min(matched);
                Ok(Found {
                    table,
                    own: matched - instance,
                    instance,
                    carried_at,
                })
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

/// The shared table if one was made, the session's own otherwise; the other is released.
fn shared_or_own(
    pool: &mut PagePool,
    shared: Option<PageTable>,
    own: Option<PageTable>,
) -> PageTable {
    match (shared, own) {
        (Some(shared), Some(own)) => {
            own.release(pool);
            shared
        }
        (Some(table), None) | (None, Some(table)) => table,
        (None, None) => PageTable::default(),
    }
}
