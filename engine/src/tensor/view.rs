//! Borrowed views of KV pages, and the partial attention a page gives.
//!
//! Not here: who owns a page or how long it lives (`kv`).

/// Positions per KV page; pages are aligned to absolute position.
pub const PAGE_POSITIONS: usize = 64;

/// One layer of one KV page, all KV heads. Slots at and beyond `len` hold nothing of this sequence.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    /// Keys, `[kv_heads][head_dim][64]`: lane = position.
    pub k: &'a [f32],
    /// Values, `[kv_heads][64][head_dim]`: lane = dimension.
    pub v: &'a [f32],
    /// Positions filled.
    pub len: usize,
}

impl<'a> PageView<'a> {
    /// The view of one KV head: `k` is `[head_dim][64]`, `v` is `[64][head_dim]`.
    #[must_use]
    pub fn head(self, head: usize, head_dim: usize) -> PageView<'a> {
        let size = head_dim * PAGE_POSITIONS;
        let range = head * size..(head + 1) * size;
        PageView {
            k: &self.k[range.clone()],
            v: &self.v[range],
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
