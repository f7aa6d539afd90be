//! Pages of the tree that leave for, or come from, another engine.
//!
//! Not here: whether they are what they are said to be (`kv::image`).

use super::{Cache, Error, PageId, PagePool, Result, Scope, Session, Writer};
use crate::kv::PageImage;
use crate::kv::radix::Match;

impl Cache {
    /// Gives an idle session a text and its pending token, as if it had finished a request with them here.
    pub fn resume(&mut self, session: u64, scope: &Scope, left: (Vec<u32>, Option<u32>)) {
        self.clock += 1;
        let (tokens, pending) = left;
        let session_left = Session {
            scope: scope.clone(),
            tokens,
            pending,
            last_used: self.clock,
            rotated: None,
        };
        self.sessions.insert(session, session_left);
    }

    /// What is cached of a text, and may be found.
    pub fn cached(&self, scope: &Scope, ids: &[u32]) -> Match {
        let barred_at = self.barred_at(scope, ids);
        let findable = &ids[..barred_at.unwrap_or(ids.len())];
        self.tree.look(self.owner(scope, 0), findable)
    }

    /// Makes `ids` findable, whose pages from number `from` on `images` are, unless they are barred; returns how many of
    /// them had to be taken in. `spoken_for` pages are promised to running requests. A failure leaves everything as it was.
    pub fn import(
        &mut self,
        pool: &mut PagePool,
        scope: &Scope,
        (ids, from, images): (&[u32], usize, &[PageImage<'_>]),
        spoken_for: usize,
    ) -> Result<usize> {
        if let Some(position) = self.barred_at(scope, ids) {
            return Err(Error::ImportBarred { position });
        }
        let owner = self.owner(scope, 0);
        let known = self.tree.look(owner, ids);
        if known.len() == ids.len() {
            return Ok(0);
        }
        let cached = known.pages.len();
        let Some(ahead) = cached.checked_sub(from) else {
            return Err(Error::PagesMissing { from, cached });
        };
        let missing = &images[ahead..];
        self.tree.lock(known.node); // while room is made
        let loaded = self
            .reserve(pool, missing.len(), spoken_for)
            .and_then(|()| load(pool, missing))
            .inspect_err(|_| self.tree.unlock(pool, known.node))?;
        let mut pages = [&known.pages[..], &loaded].concat();
        let text = (ids, &mut pages[..]);
        let writer = Writer::default();
        let last = self.tree.insert(pool, owner, text, writer, known.node);
        self.tree.unlock(pool, last);
        for page in loaded {
            pool.release(page); // the tree has its own reference
        }
        Ok(missing.len())
    }
}

/// A page for each image, or none for any.
fn load(pool: &mut PagePool, images: &[PageImage<'_>]) -> Result<Vec<PageId>> {
    let mut pages = Vec::with_capacity(images.len());
    for image in images {
        match pool.load(image.positions(), image.rows) {
            Ok(page) => pages.push(page),
            Err(error) => {
                for page in pages {
                    pool.release(page);
                }
                return Err(error);
            }
        }
    }
    Ok(pages)
}
