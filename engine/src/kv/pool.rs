//! The page pool: owns every page, counts references, and counts rows where they are written, and only there.
//!
//! A page is written by one table and only at its end; rows below its length never change, so others may read or copy
//! them at any time. Not here: which tokens a page holds (`table`, `radix`).

use super::page::{Elements, KvShape};
use crate::error::{Error, Result};
use crate::tensor::{Arena, KvType, LayerView, PAGE_POSITIONS};

/// A page of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(usize);

/// Whose token a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowSource {
    /// Text the client supplied.
    Prefill,
    /// A token sampled in an earlier request of the session, fed with this one.
    Carried,
    /// A token sampled in this request.
    Decode,
    /// Nobody's: the row is moved, not computed.
    Moved,
}

/// Rows written since the pool was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Client-supplied positions.
    pub prefill: u64,
    /// Carried positions.
    pub carried: u64,
    /// Sampled positions.
    pub decode: u64,
}

impl RowCounts {
    fn count(&mut self, source: RowSource) {
        match source {
            RowSource::Prefill => self.prefill += 1,
            RowSource::Carried => self.carried += 1,
            RowSource::Decode => self.decode += 1,
            RowSource::Moved => {}
        }
    }
}

struct Page {
    data: Elements,
    len: usize,
    references: usize,
    written: RowCounts,
}

/// All pages of an engine.
pub struct PagePool {
    shape: KvShape,
    element: KvType,
    capacity: usize,
    pages: Vec<Page>,
    free: Vec<PageId>,
    rows: RowCounts,
    in_use_peak: usize,
    /// Positions filled in pages in use.
    positions: usize,
    arena: Arena,
}

/// How full the pages in use are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Pages in use.
    pub pages: usize,
    /// Pages there may be.
    pub capacity: usize,
    /// Positions filled in them.
    pub positions: usize,
    /// Bytes of the pages in use and of what is kept about them.
    pub bytes: u64,
}

impl Occupancy {
    /// Share of the pages' positions that are not filled; none without pages.
    pub fn waste(&self) -> Option<f64> {
        let room = self.pages * PAGE_POSITIONS;
        (room > 0).then(|| 1.0 - self.positions as f64 / room as f64)
    }
}

/// Bytes kept about a page besides its keys and values: its counts here, its node in the tree.
pub const PAGE_METADATA_BYTES: u64 =
    (size_of::<Page>() + size_of::<PageId>() + super::radix::NODE_BYTES) as u64;

impl PagePool {
    /// A pool of at most `capacity` pages of `element`s, allocated as they are first needed.
    pub fn new(shape: KvShape, element: KvType, capacity: usize) -> Self {
        let (pages, free) = (Vec::new(), Vec::new());
        Self {
            shape,
            element,
            capacity,
            pages,
            free,
            rows: RowCounts::default(),
            in_use_peak: 0,
            positions: 0,
            arena: Arena::default(),
        }
    }

    /// A pool of as many pages as fit into `bytes` together with what is kept about them.
    pub fn within(shape: KvShape, element: KvType, bytes: u64) -> Self {
        let page_bytes = shape.page_bytes(element) + PAGE_METADATA_BYTES;
        Self::new(shape, element, (bytes / page_bytes) as usize)
    }

    /// A pool whose pages hold nothing: for studies of what a cache would keep.
    pub fn metadata_only(bytes: u64) -> Self {
        let nothing = KvShape {
            layers: 0,
            kv_heads: 0,
            head_dim: 0,
        };
        Self::within(nothing, KvType::F32, bytes)
    }

    /// How full it is.
    pub fn occupancy(&self) -> Occupancy {
        let page_bytes = self.shape.page_bytes(self.element) + PAGE_METADATA_BYTES;
        Occupancy {
            pages: self.in_use(),
            capacity: self.capacity,
            positions: self.positions,
            bytes: self.in_use() as u64 * page_bytes,
        }
    }

    /// Pages that could be allocated now.
    pub fn available(&self) -> usize {
        self.capacity - self.in_use()
    }

    /// Pages it may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn in_use(&self) -> usize {
        self.pages.len() - self.free.len()
    }

    /// Bytes of the most pages ever in use at once.
    pub fn bytes_peak(&self) -> u64 {
        self.in_use_peak as u64 * self.shape.page_bytes(self.element)
    }

    /// Rows written so far.
    pub fn rows(&self) -> RowCounts {
        self.rows
    }

    /// Rows ever written into `pages`; a copy starts with none.
    pub fn written(&self, pages: &[PageId]) -> RowCounts {
        pages.iter().fold(RowCounts::default(), |sum, page| {
            let RowCounts {
                prefill,
                carried,
                decode,
            } = self.pages[page.0].written;
            RowCounts {
                prefill: sum.prefill + prefill,
                carried: sum.carried + carried,
                decode: sum.decode + decode,
            }
        })
    }

    /// An empty page with one reference.
    pub fn allocate(&mut self) -> Result<PageId> {
        let id = if let Some(id) = self.free.pop() {
            let page = &mut self.pages[id.0];
            page.data.clear();
            (page.len, page.references, page.written) = (0, 1, RowCounts::default());
            id
        } else if self.pages.len() < self.capacity {
            let data = Elements::zeroed(&self.arena, self.shape, self.element);
            self.pages.push(Page {
                data,
                len: 0,
                references: 1,
                written: RowCounts::default(),
            });
            PageId(self.pages.len() - 1)
        } else {
            let capacity = self.capacity;
            return Err(Error::PagesExhausted {
                needed: 1,
                available: 0,
                capacity,
            });
        };
        self.in_use_peak = self.in_use_peak.max(self.in_use());
        Ok(id)
    }

    /// One more reference.
    pub fn retain(&mut self, id: PageId) {
        debug_assert!(
            self.pages[id.0].references > 0,
            "a freed page cannot be shared"
        );
        self.pages[id.0].references += 1;
    }

    /// One reference less; at none the page is free.
    pub fn release(&mut self, id: PageId) {
        let page = &mut self.pages[id.0];
        debug_assert!(page.references > 0, "a page is released once per reference");
        page.references -= 1;
        if page.references == 0 {
            self.positions -= page.len;
            if cfg!(debug_assertions) {
                page.data.poison(); // whoever still reads it gives an answer that cannot be taken for one
            }
            self.free.push(id);
        }
    }

    /// References to a page.
    pub fn references(&self, id: PageId) -> usize {
        self.pages[id.0].references
    }

    /// Positions filled.
    pub fn len(&self, id: PageId) -> usize {
        self.pages[id.0].len
    }

    /// Writes one layer of position `slot` of a page: `k` and `v` are `[kv_heads][head_dim]`.
    ///
    /// The first layer of a position makes it exist and is counted; positions are appended in order.
    pub fn write(
        &mut self,
        id: PageId,
        slot: usize,
        layer: usize,
        row: (&[f32], &[f32]),
        source: RowSource,
    ) {
        let shape = self.shape;
        let page = &mut self.pages[id.0];
        if layer == 0 {
            debug_assert_eq!(slot, page.len, "positions are appended in order");
            page.len = slot + 1;
            self.positions += 1;
            page.written.count(source);
            self.rows.count(source);
        }
        page.data.write(shape, layer, slot, row);
    }

    /// One layer of a page.
    pub fn view(&self, id: PageId, layer: usize) -> LayerView<'_> {
        self.pages[id.0].data.layer(self.shape, layer)
    }

    /// A new page holding the first `len` positions of `source`. Copied rows are not counted: nothing was computed.
    pub fn copy_head(&mut self, source: PageId, len: usize) -> Result<PageId> {
        debug_assert!(len <= self.pages[source.0].len);
        let copy = self.allocate()?;
        let mut data = std::mem::replace(&mut self.pages[copy.0].data, Elements::empty());
        data.copy_head(self.shape, &self.pages[source.0].data, len);
        let page = &mut self.pages[copy.0];
        (page.data, page.len) = (data, len);
        self.positions += len;
        Ok(copy)
    }

    /// Appends the first `len` positions of a page to `bytes`, as they are stored.
    pub fn save(&self, id: PageId, len: usize, bytes: &mut Vec<u8>) {
        debug_assert!(len <= self.pages[id.0].len);
        self.pages[id.0].data.save(self.shape, len, bytes);
    }

    /// A new page holding the `len` positions that [`Self::save`] made `rows` of, in a pool of the same shape and type. They
    /// are not counted: nothing was computed.
    pub fn load(&mut self, len: usize, rows: &[u8]) -> Result<PageId> {
        debug_assert_eq!(rows.len(), len * self.shape.position_bytes(self.element));
        let id = self.allocate()?;
        let page = &mut self.pages[id.0];
        page.data.load(self.shape, len, rows);
        page.len = len;
        self.positions += len;
        Ok(id)
    }

    /// Counts `len` positions of a page that holds nothing as written: for pools without keys and values.
    pub fn fill(&mut self, id: PageId, len: usize) {
        let page = &mut self.pages[id.0];
        debug_assert!(self.shape.layers == 0 && (page.len..=PAGE_POSITIONS).contains(&len));
        self.positions += len - page.len;
        page.len = len;
    }

    /// Keys and values of one layer and slot, `[kv_heads][head_dim]` each, as stored; none if the type cannot be read back
    /// one row at a time.
    pub fn row(&self, id: PageId, layer: usize, slot: usize) -> Option<(Vec<f32>, Vec<f32>)> {
        self.pages[id.0].data.row(self.shape, layer, slot)
    }

    /// Bits of a page's elements.
    #[doc(hidden)]
    pub fn bits(&self, id: PageId) -> Vec<u32> {
        self.pages[id.0].data.bits()
    }

    /// Changes one cached value, so that a test can show the cache is read.
    #[doc(hidden)]
    pub fn poke(&mut self, id: PageId, element: usize, value: f32) {
        self.pages[id.0].data.poke(self.shape, element, value);
    }

    /// That every page is either free and unreferenced or held; `held` is what the owners believe.
    pub fn check(
        &self,
        held: &std::collections::HashMap<PageId, usize>,
    ) -> std::result::Result<(), String> {
        for (index, page) in self.pages.iter().enumerate() {
            let believed = held.get(&PageId(index)).copied().unwrap_or(0);
            if page.references != believed {
                return Err(format!(
                    "page {index}: {} references, {believed} held",
                    page.references
                ));
            }
        }
        let in_use = self.pages.iter().filter(|page| page.references > 0);
        let positions: usize = in_use.map(|page| page.len).sum();
        if positions != self.positions {
            return Err(format!(
                "{positions} positions filled, {} counted",
                self.positions
            ));
        }
        let unreferenced = self
            .pages
            .iter()
            .filter(|page| page.references == 0)
            .count();
        if unreferenced == self.free.len() {
            Ok(())
        } else {
            Err(format!(
                "{unreferenced} pages unreferenced, {} free",
                self.free.len()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const SHAPE: KvShape = KvShape {
        layers: 2,
        kv_heads: 2,
        head_dim: 3,
    };

    fn row(position: usize, layer: usize) -> (Vec<f32>, Vec<f32>) {
        let value = |i: usize| (position * 100 + layer * 10 + i) as f32;
        (
            (0..6).map(value).collect(),
            (0..6).map(|i| -value(i)).collect(),
        )
    }

    fn filled(pool: &mut PagePool, len: usize) -> PageId {
        let id = pool.allocate().unwrap();
        for position in 0..len {
            for layer in 0..SHAPE.layers {
                let (k, v) = row(position, layer);
                pool.write(id, position, layer, (&k, &v), RowSource::Prefill);
            }
        }
        id
    }

    #[test]
    fn a_copied_head_equals_a_page_written_that_far() {
        for len in [0, 1, 17, 63, 64] {
            let mut pool = PagePool::new(SHAPE, KvType::F16, 3);
            let (whole, expected) = (filled(&mut pool, 64), filled(&mut pool, len));
            let copy = pool.copy_head(whole, len).unwrap();
            for layer in 0..SHAPE.layers {
                let (copy, expected) = (pool.view(copy, layer), pool.view(expected, layer));
                assert_eq!(format!("{copy:?}"), format!("{expected:?}"));
            }
        }
    }

    #[test]
    fn rows_are_counted_once_per_position_and_copies_not_at_all() {
        let mut pool = PagePool::new(SHAPE, KvType::F16, 3);
        let page = filled(&mut pool, 9);
        pool.copy_head(page, 5).unwrap();
        assert_eq!(
            pool.rows(),
            RowCounts {
                prefill: 9,
                carried: 0,
                decode: 0
            }
        );
    }

    #[test]
    fn a_full_pool_refuses_and_a_released_page_is_zeroed_for_the_next() {
        let mut pool = PagePool::new(SHAPE, KvType::F16, 1);
        let page = filled(&mut pool, 3);
        assert!(matches!(
            pool.allocate(),
            Err(Error::PagesExhausted { capacity: 1, .. })
        ));
        pool.check(&HashMap::from([(page, 1)])).unwrap();
        pool.release(page);
        let page = pool.allocate().unwrap();
        for layer in 0..SHAPE.layers {
            let LayerView::F16(data) = pool.view(page, layer) else {
                panic!("asked for f16")
            };
            assert!(data.iter().all(|bits| *bits == 0));
        }
        assert_eq!(pool.bytes_peak(), SHAPE.page_bytes(KvType::F16));
        assert!(pool.check(&HashMap::new()).is_err());
    }
}
