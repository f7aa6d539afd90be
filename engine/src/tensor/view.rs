//! Borrowed views of KV pages, and the partial attention a page gives.
//!
//! Not here: who owns a page or how long it lives (`kv`).

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

/// Attention of several queries over a run of pages, not yet divided by `sum`.
#[derive(Clone, Debug, Default)]
pub struct Partials {
    /// Greatest score so far, `[queries]`; minus infinity where a query saw nothing.
    pub max: Vec<f32>,
    /// Sum of exp(score - max), `[queries]`.
    pub sum: Vec<f32>,
    /// Sum of exp(score - max) times value, `[queries][head_dim]`.
    pub out: Vec<f32>,
}

impl Partials {
    /// Room for `queries` queries of `head_dim`, each having seen nothing.
    pub fn reset(&mut self, queries: usize, head_dim: usize) {
        for (values, len, empty) in [
            (&mut self.max, queries, f32::NEG_INFINITY),
            (&mut self.sum, queries, 0.0),
            (&mut self.out, queries * head_dim, 0.0),
        ] {
            values.clear();
            values.resize(len, empty);
        }
    }
}
