//! Attention of a batch of rows over the pages of their sequences.
//!
//! Not here: one page's arithmetic (`kernels`), which pages a sequence has (`kv`).

use super::Cpu;
use crate::pool::{Tile, TileSize};
use crate::tensor::{PAGE_POSITIONS, PageView, Partials, Span};

/// Rows per tile of attention: with the heads of a group, enough queries to reuse a page from the first-level cache.
const TILE_ATTEND_ROWS: usize = 8;

/// A row of queries: which sequence's pages it sees and up to where.
#[derive(Clone, Copy, Debug)]
pub struct AttendRow {
    /// Index into the page lists.
    pub sequence: usize,
    /// First position it sees.
    pub first: usize,
    /// Its own position, the last it sees.
    pub position: usize,
}

/// Head counts of a model.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key and value heads; each serves `query / kv` query heads.
    pub kv: usize,
    /// Dimensions per head.
    pub head_dim: usize,
}

/// What one tile of attention reads.
#[derive(Clone, Copy)]
struct Walk<'a> {
    queries: &'a [f32],
    stride: usize,
    pages: &'a [PageView<'a>],
    head: usize,
    heads: Heads,
}

impl Cpu {
    /// Causal attention of `queries[n][heads][head_dim]` over each row's own pages; pages hold one layer, all KV heads.
    pub fn attend(
        &self,
        queries: &[f32],
        rows: &[AttendRow],
        pages: &[Vec<PageView<'_>>],
        heads: Heads,
        out: &mut [f32],
    ) {
        let stride = heads.query * heads.head_dim;
        let group_cols = stride / heads.kv;
        let size = TileSize {
            rows: TILE_ATTEND_ROWS,
            cols: group_cols,
        };
        self.pool.tiles(out, stride, size, |mut tile| {
            let head = tile.first_col / group_cols;
            let mut start = 0;
            while start < tile.rows {
                let rows = &rows[tile.first_row + start..tile.first_row + tile.rows];
                let same = rows
                    .iter()
                    .take_while(|row| row.sequence == rows[0].sequence)
                    .count();
                let walk = Walk {
                    queries,
                    stride,
                    pages: &pages[rows[0].sequence],
                    head,
                    heads,
                };
                self.attend_rows(walk, &rows[..same], &mut tile, start);
                start += same;
            }
        });
    }

    /// The rows of one sequence: pages ascending, each merged into what the ones before gave.
    fn attend_rows(&self, walk: Walk<'_>, rows: &[AttendRow], tile: &mut Tile<'_>, start: usize) {
        let Walk {
            queries,
            stride,
            pages,
            head,
            heads,
        } = walk;
        let (dim, cols) = (heads.head_dim, tile.cols);
        let group = cols / dim;
        let mut gathered = Vec::with_capacity(rows.len() * cols);
        for row in 0..rows.len() {
            let from = (tile.first_row + start + row) * stride + tile.first_col;
            gathered.extend_from_slice(&queries[from..from + cols]);
        }
        let last = rows.iter().map(|row| row.position).max().unwrap_or(0);
        let scale = 1.0 / (dim as f32).sqrt();
        let first = rows.iter().map(|row| row.first).min().unwrap_or(0);
        let (mut sum, mut partial) = (Partials::default(), Partials::default());
        sum.reset(rows.len() * group, dim);
        let walked = first / PAGE_POSITIONS..last / PAGE_POSITIONS + 1;
        for (i, page) in walked.clone().zip(&pages[walked]) {
            let page_start = i * PAGE_POSITIONS;
            let slot = |position: usize| position.saturating_sub(page_start).min(PAGE_POSITIONS);
            let span = |row: &AttendRow| Span {
                first: slot(row.first),
                end: slot(row.position + 1),
            };
            let seen: Vec<Span> = rows
                .iter()
                .flat_map(|row| std::iter::repeat_n(span(row), group))
                .collect();
            debug_assert!(seen.iter().all(|seen| seen.end <= page.len));
            (self.kernels.attend)(page.head(head, dim), &gathered, &seen, scale, &mut partial);
            (self.kernels.merge)(&mut sum, &partial);
        }
        for row in 0..rows.len() {
            let out = tile.row(start + row);
            for (i, out) in out.chunks_exact_mut(dim).enumerate() {
                let query = row * group + i;
                for (out, &value) in out.iter_mut().zip(&sum.out[query * dim..]) {
                    *out = value / sum.sum[query];
                }
            }
        }
    }
}
