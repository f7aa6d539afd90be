//! Cached pages taken out of one engine and into another.
//!
//! Rotated pages, and those computed after them, stand outside the tree and so never leave. Not here: what an image is
//! (`kv::image`), where images are kept meanwhile.

use super::Engine;
use crate::error::{Error, Result};
use crate::kv::image::{self, Layout};
use crate::kv::{PageImage, PageKey, Scope};
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

impl Engine {
    /// Images of the pages that hold the longest cached prefix of `ids`, in their order, the last one perhaps of a head of
    /// a page. Nothing is changed by it.
    pub fn export(&self, scope: &Scope, ids: &[u32]) -> Result<Vec<Vec<u8>>> {
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
        let images = named.map(|((ids, page), names)| {
            let save = |rows: &mut Vec<u8>| self.pool.save(page, ids.len(), rows);
            image::write(self.layout(), names, ids, save)
        });
        Ok(images.collect())
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
        if ids.is_empty() {
            return Ok(Imported::default());
        }
        check_prompt(&ids, 0, self.model.config())?;
        let spoken_for = self.spoken_for();
        let text = (&ids[..], &images[..]);
        let pages = self.cache.import(&mut self.pool, scope, text, spoken_for)?;
        Ok(Imported {
            positions: ids.len(),
            pages,
        })
    }

    fn check_shared(&self) -> Result<()> {
        match self.cache.policy() {
            CachePolicy::Shared => Ok(()),
            other => Err(Error::NotShared(other.to_string())),
        }
    }

    fn layout(&self) -> Layout {
        Layout {
            shape: self.model.kv_shape(),
            element: self.options.kv_type(),
        }
    }
}
