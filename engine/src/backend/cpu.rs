//! The CPU backend: each operation cut into tiles of its output, every tile computed by one thread start to end.
//!
//! Cutting outputs and never sums is what makes the thread count invisible in the bits. Not here: instruction sets.

use std::ops::Range;

use crate::error::Result;
use crate::kernels::Kernels;
use crate::pool::{Pool, Tile, TileSize};
use crate::tensor::packed::PANEL_ROWS;
use crate::tensor::{Activations, Mode, PAGE_POSITIONS, PackedMatrix, PageView, Partials, Span};

/// Panels per tile of a matrix product: two, which is what the kernels run side by side.
const TILE_PANELS: usize = 2;
/// Rows per tile of attention: with the heads of a group, enough queries to reuse a page from the first-level cache.
const TILE_ATTEND_ROWS: usize = 8;
/// Multiply-adds below which waking threads costs more than it saves; some 25 us of one core.
const SERIAL_WORK_MAX: usize = 1 << 17;

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

/// Kernels and threads.
pub struct Cpu {
    kernels: Kernels,
    pool: Pool,
    mode: Mode,
}

impl Cpu {
    /// A backend of `threads` threads.
    pub fn new(kernels: Kernels, threads: usize, mode: Mode) -> Result<Self> {
        let pool = Pool::new(threads)?;
        Ok(Self {
            kernels,
            pool,
            mode,
        })
    }

    /// Numeric mode of the matrix products.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Name of the kernel set.
    pub fn kernels(&self) -> &'static str {
        self.kernels.name
    }

    /// Worker threads.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Embedding rows of `tokens`, `[n][hidden]`.
    pub fn embed(&self, table: &PackedMatrix, tokens: impl Iterator<Item = u32>, out: &mut [f32]) {
        for (token, out) in tokens.zip(out.chunks_exact_mut(table.cols())) {
            table.row(token as usize, out);
        }
    }

    /// Root-mean-square norm of each row of `x[n][hidden]`.
    pub fn rms_norm(&self, x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
        for (x, out) in x
            .chunks_exact(weight.len())
            .zip(out.chunks_exact_mut(weight.len()))
        {
            (self.kernels.rms_norm)(x, weight, epsilon, out);
        }
    }

    /// `out[n][rows] = x[n][cols] * w`. In `fast` mode the inputs of a quantised matrix are rounded first.
    pub fn matmul(&self, w: &PackedMatrix, x: &[f32], out: &mut [f32]) {
        if self.mode == Mode::Fast && w.dtype().is_quantized() {
            let mut rounded = Activations::zeroed(x.len() / w.cols(), w.cols());
            (self.kernels.quantize)(x, &mut rounded);
            self.product(w, out, |panels, sums| {
                (self.kernels.matmul_fast)(w, panels, &rounded, sums);
            });
        } else {
            self.product(w, out, |panels, sums| {
                (self.kernels.matmul)(w, panels, x, sums);
            });
        }
    }

    /// Runs `multiply` on tiles of panels; it fills `[n][16 * panels]`.
    fn product(
        &self,
        w: &PackedMatrix,
        out: &mut [f32],
        multiply: impl Fn(Range<usize>, &mut [f32]) + Sync,
    ) {
        let n = out.len() / w.rows();
        let small = n * w.rows() * w.cols() <= SERIAL_WORK_MAX;
        let tile_panels = if small { w.panels() } else { TILE_PANELS };
        let size = TileSize {
            rows: n.max(1),
            cols: tile_panels * PANEL_ROWS,
        };
        self.pool.tiles(out, w.rows(), size, |mut tile| {
            let first = tile.first_col / PANEL_ROWS;
            let panels = first..first + tile.cols.div_ceil(PANEL_ROWS);
            let width = panels.len() * PANEL_ROWS;
            let mut sums = vec![0.0; tile.rows * width];
            multiply(panels, &mut sums);
            for (row, sums) in sums.chunks_exact(width).enumerate() {
                let cols = tile.cols;
                tile.row(row).copy_from_slice(&sums[..cols]);
            }
        });
    }

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

    /// `gate = silu(gate) * up`, rows of `width`.
    pub fn silu_mul(&self, gate: &mut [f32], up: &[f32], width: usize) {
        self.pool.tiles(
            gate,
            width,
            TileSize {
                rows: TILE_ATTEND_ROWS,
                cols: width,
            },
            |mut tile| {
                for row in 0..tile.rows {
                    let from = (tile.first_row + row) * width;
                    (self.kernels.silu_mul)(tile.row(row), &up[from..from + width]);
                }
            },
        );
    }

    /// `x += y`: the residual stream.
    pub fn add(&self, x: &mut [f32], y: &[f32]) {
        for (x, &y) in x.iter_mut().zip(y) {
            *x += y;
        }
    }
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
