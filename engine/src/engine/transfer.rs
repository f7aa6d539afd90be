//! Cached pages and idle sessions taken out of one engine and into another.
//!
//! Rotated pages, and those computed after them, stand outside the tree and so never leave. Not here: what an image is
//! (`kv::image`), where images are kept meanwhile.

use super::Engine;
use crate::error::{Error, ImageFault, Result};
use crate::kv::image::{self, Layout};
use crate::kv::{CheckedPage, PageCopy, PageImage, PageKey, Scope};
use crate::schedule::{CachePolicy, check_prompt};
use crate::tensor::PAGE_POSITIONS;

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Positions of the text, all of which are found from now on.
    pub positions: usize,
    /// Pages taken in; the others were cached already.
    pub pages: usize,
}

/// What an idle session is besides its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionText {
    /// Who may share what is cached of it.
    pub scope: Scope,
    /// Its text as far as it had keys and values.
    pub ids: Vec<u32>,
    /// Its last sampled token, which has none yet.
    pub pending: Option<u32>,
}

impl Engine {
    /// Images of the pages that hold the longest cached prefix of `ids`, in their order, the last one perhaps of a head of
    /// a page. Nothing is changed by it.
    pub fn export(&self, scope: &Scope, ids: &[u32]) -> Result<Vec<Vec<u8>>> {
        let copies = self.copy_pages(scope, ids, &mut |_| true)?;
        Ok(copies.into_iter().map(PageCopy::image).collect())
    }

    /// As `export`, copies of those pages only whose keys are `wanted`: one copy of their bytes, the rest of the work is the
    /// caller's, on any thread.
    pub fn copy_pages(
        &self,
        scope: &Scope,
        ids: &[u32],
        wanted: &mut dyn FnMut(&PageKey) -> bool,
    ) -> Result<Vec<PageCopy>> {
        self.check_shared()?;
        let domain = self.domain()?;
        let found = self.cache.cached(scope, ids);
        let ids = &ids[..found.len()];
        let keys: Vec<PageKey> = domain.chain(scope, ids).collect();
        let parents = std::iter::once(domain.root()).chain(keys.iter().copied());
        let pages = found
            .pages
            .into_iter()
            .chain(found.tail.map(|(page, _)| page));
        let texts = ids.chunks(PAGE_POSITIONS).zip(pages);
        let named = texts.zip(keys.iter().copied().zip(parents));
        let wanted = named.filter(|(_, (key, _))| wanted(key));
        let copies = wanted.map(|((ids, page), names)| {
            let save = |rows: &mut Vec<u8>| self.pool.save(page, ids.len(), rows);
            PageCopy::new(self.layout(), names, ids, save)
        });
        Ok(copies.collect())
    }

    /// Positions of `ids` that a request would find.
    pub fn cached(&self, scope: &Scope, ids: &[u32]) -> usize {
        self.cache.cached(scope, ids).len()
    }

    /// Positions of `ids` that a request may find if they are cached: all, or those before a quarantined span.
    pub fn findable(&self, scope: &Scope, ids: &[u32]) -> usize {
        self.cache.barred_at(scope, ids).unwrap_or(ids.len())
    }

    /// Takes in the pages of a text, images of all of them from its first position on, and makes them findable.
    ///
    /// What is cached already is not taken in again. Room is made as for a request: by the eviction policy, and never of
    /// what running requests need. Everything is checked first; a refusal names what is wrong, and leaves cache and
    /// requests as they were.
    pub fn import(&mut self, scope: &Scope, images: &[impl AsRef<[u8]>]) -> Result<Imported> {
        self.check_shared()?;
        let domain = self.domain()?;
        let images = images.iter().map(AsRef::as_ref);
        let images = image::read_text(images, self.layout(), &domain, scope)?;
        let ids: Vec<u32> = images.iter().flat_map(PageImage::ids).collect();
        self.insert(scope, (&ids, 0, &images))
    }

    /// As `import`, of a text one knows: `pages` are those of `ids` from page `from` on, and what comes before is cached.
    /// Their digests were checked before, perhaps by another thread; each must be the page of this text, ids compared.
    pub fn take_in(
        &mut self,
        scope: &Scope,
        ids: &[u32],
        from: usize,
        pages: &[CheckedPage],
    ) -> Result<Imported> {
        self.check_shared()?;
        let (domain, layout) = (self.domain()?, self.layout());
        let expected = ids.len().div_ceil(PAGE_POSITIONS).saturating_sub(from);
        let given = pages.len();
        if given != expected {
            return Err(Error::PagesGiven { given, expected });
        }
        let keys: Vec<PageKey> = domain.chain(scope, ids).collect();
        let parents = std::iter::once(domain.root()).chain(keys.iter().copied());
        let named = keys.iter().copied().zip(parents);
        let texts = named.zip(ids.chunks(PAGE_POSITIONS)).skip(from);
        let images: Vec<PageImage<'_>> = pages
            .iter()
            .zip(texts)
            .enumerate()
            .map(|(index, (page, (names, ids)))| {
                page.holds(layout, names, ids)
                    .map_err(|fault: ImageFault| Error::PageImage { index, fault })
            })
            .collect::<Result<_>>()?;
        self.insert(scope, (ids, from, &images))
    }

    fn insert(
        &mut self,
        scope: &Scope,
        text: (&[u32], usize, &[PageImage<'_>]),
    ) -> Result<Imported> {
        let positions = text.0.len();
        if positions == 0 {
            return Ok(Imported::default());
        }
        check_prompt(text.0, 0, self.model.config())?;
        let spoken_for = self.spoken_for();
        let pages = self.cache.import(&mut self.pool, scope, text, spoken_for)?;
        Ok(Imported { positions, pages })
    }

    /// What an idle session is besides its pages, to be put away with them.
    pub fn session_text(&self, session: u64) -> Result<SessionText> {
        self.check_shared()?;
        self.check_idle(session)?;
        if self.cache.is_rotated(session) {
            let what = "be put away: a span was rotated out of it, and what follows is approximate";
            return Err(Error::Session { session, what });
        }
        let text = self.cache.text(session);
        let (scope, ids, pending) = text.ok_or(Error::UnknownSession(session))?;
        Ok(SessionText {
            scope: scope.clone(),
            ids: ids.to_vec(),
            pending,
        })
    }

    /// Gives a session the text another engine knew it by, as if it had finished a request with it here. Its pages are
    /// taken in before; what of them is missing its next request computes.
    pub fn resume(&mut self, session: u64, text: SessionText) -> Result<()> {
        self.check_shared()?;
        self.check_idle(session)?;
        if self.cache.text(session).is_some() {
            let what = "come back: it is there already";
            return Err(Error::Session { session, what });
        }
        let SessionText {
            scope,
            mut ids,
            pending,
        } = text;
        let len = ids.len();
        ids.extend(pending);
        check_prompt(&ids, 0, self.model.config())?;
        if let Some(position) = self.cache.barred_at(&scope, &ids) {
            return Err(Error::ImportBarred { position });
        }
        ids.truncate(len);
        self.cache.resume(session, &scope, (ids, pending));
        Ok(())
    }

    /// What the rows of its pages look like.
    pub fn layout(&self) -> Layout {
        Layout {
            shape: self.model.kv_shape(),
            element: self.options.kv_type(),
        }
    }

    fn check_shared(&self) -> Result<()> {
        match self.cache.policy() {
            CachePolicy::Shared => Ok(()),
            other => Err(Error::NotShared(other.to_string())),
        }
    }
}
