//! What idle sessions left, for whoever takes a span out of one.
//!
//! Not here: taking it out (`engine::govern`).

use super::{Cache, CachePolicy, PageId, PagePool, Scope, common_prefix};

impl Cache {
    /// The text of an idle session and its pending token.
    pub fn text(&self, session: u64) -> Option<(&Scope, &[u32], Option<u32>)> {
        let session = self.sessions.get(&session)?;
        Some((&session.scope, &session.tokens, session.pending))
    }

    /// Whether an idle session's pages were rotated.
    pub fn is_rotated(&self, session: u64) -> bool {
        let session = self.sessions.get(&session);
        session.is_some_and(|session| session.rotated.is_some())
    }

    /// Takes out of the tree what only this session has of its text beyond the first `keep` positions.
    pub fn drop_text(&mut self, pool: &mut PagePool, session: u64, keep: usize) -> usize {
        let Some(own) = self.sessions.get(&session) else {
            return 0;
        };
        let others = self.sessions.iter().filter(|(id, _)| **id != session);
        let of_others = others.map(|(_, other)| {
            let same = common_prefix(&other.tokens, &own.tokens);
            same.min(other.scope.shared_positions(&own.scope))
        });
        let of_others = match self.policy {
            CachePolicy::Shared => of_others.max().unwrap_or(0),
            _ => 0,
        };
        let owner = self.owner(&own.scope, session);
        self.tree
            .drop_text(pool, owner, &own.tokens, (keep, of_others))
    }

    /// The pages that hold an idle session's text, if all of it is cached.
    pub fn session_pages(&mut self, session: u64) -> Option<Vec<PageId>> {
        let own = self.sessions.get(&session)?;
        if let Some(rotated) = &own.rotated {
            return Some(rotated.table.pages().to_vec());
        }
        let owner = self.owner(&own.scope, session);
        let found = self.tree.find(owner, &own.tokens, i32::MIN);
        if found.len() < own.tokens.len() {
            return None;
        }
        let tail = found.tail.map(|(page, _)| page);
        Some(found.pages.into_iter().chain(tail).collect())
    }
}
