//! Borrowed views of KV pages, and the partial attention a page gives.
//!
//! Not here: who owns a page or how long it lives (`kv`).

use std::ops::Range;

use super::dtype::BLOCK;

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
    #[inline]
    pub fn is_empty(self) -> bool {
        self.first >= self.end
    }
}

/// Keys or values rounded to bytes: a number is its byte times the scale of its block, 32 dimensions of a head at one
/// position; the last block of a head may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Quants<'a> {
    /// Bytes, in the order in which other types have their numbers.
    pub bytes: &'a [i8],
    /// Bits of IEEE half precision, `[ceil(head_dim / 32)][64]` (lane = position) for keys and for values.
    pub scales: &'a [u16],
}

/// One KV head of one layer of a page: keys `[head_dim][64]` (lane = position), values `[64][head_dim]` (lane = dimension).
/// Slots that nobody has filled hold zeros.
#[derive(Clone, Copy, Debug)]
pub enum PageView<'a> {
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
    /// Bytes and scales.
    Q8_0 {
        /// Keys.
        k: Quants<'a>,
        /// Values.
        v: Quants<'a>,
    },
}

/// One layer of a page, `[kv_heads][keys, values]`: what attention reads of a page is one run of memory.
#[derive(Clone, Copy, Debug)]
pub enum LayerView<'a> {
    /// As computed.
    F32(&'a [f32]),
    /// Bits of IEEE half precision.
    F16(&'a [u16]),
    /// Bytes and scales, each in this order: two runs of memory.
    Q8_0(Quants<'a>),
}

impl<'a> LayerView<'a> {
    /// Whether both show the same memory: the same page, held by two sequences.
    #[must_use]
    #[inline]
    pub fn is(self, other: LayerView<'_>) -> bool {
        match (self, other) {
            (LayerView::F32(a), LayerView::F32(b)) => std::ptr::eq(a, b),
            (LayerView::F16(a), LayerView::F16(b)) => std::ptr::eq(a, b),
            (LayerView::Q8_0(a), LayerView::Q8_0(b)) => std::ptr::eq(a.bytes, b.bytes),
            _ => false,
        }
    }

    /// One KV head of it.
    #[must_use]
    #[inline]
    pub fn head(self, head: usize, head_dim: usize) -> PageView<'a> {
        match self {
            Self::F32(data) => {
                let [k, v] = halves(data, head, head_dim);
                PageView::F32 { k, v }
            }
            Self::F16(data) => {
                let [k, v] = halves(data, head, head_dim);
                PageView::F16 { k, v }
            }
            Self::Q8_0(Quants { bytes, scales }) => {
                let bytes = halves(bytes, head, head_dim);
                let scales = halves(scales, head, head_dim.div_ceil(BLOCK));
                let [k, v] = [0, 1].map(|half| Quants {
                    bytes: bytes[half],
                    scales: scales[half],
                });
                PageView::Q8_0 { k, v }
            }
        }
    }
}

/// What a head has of `[kv_heads][keys, values]`, `rows` times 64 of each.
#[inline]
fn halves<T>(data: &[T], head: usize, rows: usize) -> [&[T]; 2] {
    let size = rows * PAGE_POSITIONS;
    let (keys, values) = data[2 * head * size..][..2 * size].split_at(size);
    [keys, values]
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
    #[inline]
    pub fn elements(queries: usize, head_dim: usize) -> usize {
        queries * (2 + head_dim)
    }

    /// What `buffer` says of `queries` queries.
    #[must_use]
    #[inline]
    pub fn of(buffer: &'a [f32], queries: usize) -> Self {
        let (max, rest) = buffer.split_at(queries);
        let (sum, out) = rest.split_at(queries);
        Self { max, sum, out }
    }

    /// Those of some queries.
    #[must_use]
    #[inline]
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
    #[inline]
    pub fn of(buffer: &'a mut [f32], queries: usize) -> Self {
        let (max, rest) = buffer.split_at_mut(queries);
        let (sum, out) = rest.split_at_mut(queries);
        Self { max, sum, out }
    }

    /// Those of some queries.
    #[must_use]
    #[inline]
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
