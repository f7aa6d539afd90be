//! Borrowed views of KV pages, and the partial attention a page gives.
//!
//! Not here: who owns a page or how long it lives (`kv`).

use std::ops::Range;

/// Positions per KV page; pages are aligned to absolute position.
pub const PAGE_POSITIONS: usize = 64;

/// The slots of a page that a query sees: `first..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First slot seen; above 0 only at the lower edge of a sliding window.
    pub first: usize,
    /// One past the last slot seen.
    pub end: usize,
}

impl Span {
    /// Whether nothing of the page is seen.
    pub fn is_empty(self) -> bool {
        self.first >= self.end
    }
}

/// One layer of one KV page: keys `[kv_heads][head_dim][64]` (lane = position), values `[kv_heads][64][head_dim]`
/// (lane = dimension).
#[derive(Clone, Copy, Debug)]
pub enum PageData<'a> {
    /// As computed.
    F32 {
        /// Keys.
        k: &'a [f32],
        /// Values.
        v: &'a [f32],
    },
    /// Bits of IEEE half precision.
    F16 {
        /// Keys.
        k: &'a [u16],
        /// Values.
        v: &'a [u16],
    },
}

/// One layer of one KV page, of all KV heads or of one. Slots at and beyond `len` hold nothing of this sequence.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    /// Keys and values.
    pub data: PageData<'a>,
    /// Positions filled.
    pub len: usize,
}

impl PageView<'_> {
    /// Whether both show the same memory: the same page, held by two sequences.
    #[must_use]
    pub fn is(self, other: PageView<'_>) -> bool {
        match (self.data, other.data) {
            (PageData::F32 { k: a, .. }, PageData::F32 { k: b, .. }) => std::ptr::eq(a, b),
            (PageData::F16 { k: a, .. }, PageData::F16 { k: b, .. }) => std::ptr::eq(a, b),
            _ => false,
        }
    }

    /// The view of one KV head: keys `[head_dim][64]`, values `[64][head_dim]`.
    #[must_use]
    pub fn head(self, head: usize, head_dim: usize) -> Self {
        let size = head_dim * PAGE_POSITIONS;
        let range = head * size..(head + 1) * size;
        let data = match self.data {
            PageData::F32 { k, v } => PageData::F32 {
                k: &k[range.clone()],
                v: &v[range],
            },
            PageData::F16 { k, v } => PageData::F16 {
                k: &k[range.clone()],
                v: &v[range],
            },
        };
        PageView {
            data,
            len: self.len,
        }
    }
}

/// Attention of several queries over some pages, not yet divided by `sum`. Borrowed from one flat buffer,
/// `[max, sum, out]`, so that many of them can stand side by side in memory of the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Partials<'a> {
    /// Greatest score so far, `[queries]`; means nothing where `sum` is zero.
    pub max: &'a [f32],
    /// Sum of exp(score - max), `[queries]`; zero where a query saw nothing.
    pub sum: &'a [f32],
    /// Sum of exp(score - max) times value, `[queries][head_dim]`; means nothing where `sum` is zero.
    pub out: &'a [f32],
}

/// [`Partials`] to be written.
#[derive(Debug)]
pub struct PartialsMut<'a> {
    /// See [`Partials`].
    pub max: &'a mut [f32],
    /// See [`Partials`].
    pub sum: &'a mut [f32],
    /// See [`Partials`].
    pub out: &'a mut [f32],
}

impl<'a> Partials<'a> {
    /// Elements of a buffer for `queries` queries.
    #[must_use]
    pub fn elements(queries: usize, head_dim: usize) -> usize {
        queries * (2 + head_dim)
    }

    /// What `buffer` says of `queries` queries.
    #[must_use]
    pub fn of(buffer: &'a [f32], queries: usize) -> Self {
        let (max, rest) = buffer.split_at(queries);
        let (sum, out) = rest.split_at(queries);
        Self { max, sum, out }
    }

    /// Those of some queries.
    #[must_use]
    pub fn queries(self, range: Range<usize>) -> Self {
        let head_dim = self.out.len() / self.max.len();
        Self {
            max: &self.max[range.clone()],
            sum: &self.sum[range.clone()],
            out: &self.out[range.start * head_dim..range.end * head_dim],
        }
    }
}

impl<'a> PartialsMut<'a> {
    /// Those of `queries` queries in `buffer`, as they are.
    #[must_use]
    pub fn of(buffer: &'a mut [f32], queries: usize) -> Self {
        let (max, rest) = buffer.split_at_mut(queries);
        let (sum, out) = rest.split_at_mut(queries);
        Self { max, sum, out }
    }

    /// Those of some queries.
    #[must_use]
    pub fn queries(&mut self, range: Range<usize>) -> PartialsMut<'_> {
        let head_dim = self.out.len() / self.max.len();
        PartialsMut {
            max: &mut self.max[range.clone()],
            sum: &mut self.sum[range.clone()],
            out: &mut self.out[range.start * head_dim..range.end * head_dim],
        }
    }

    /// That every query saw nothing.
    pub fn clear(&mut self) {
        self.max.fill(f32::NEG_INFINITY);
        self.sum.fill(0.0);
        self.out.fill(0.0);
    }
}
