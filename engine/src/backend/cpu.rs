//! Kernels, threads and the operations that need no file of their own.
//!
//! Not here: matrix products (`product`), attention (`attend`), instruction sets.

use super::in_order::Buffers;
use super::{RopeTable, Stack};
use crate::error::Result;
use crate::kernels::Kernels;
use crate::pool::{Pool, TileSize};
use crate::tensor::{Mode, PackedMatrix};

/// Rows per tile of an activation.
const TILE_ROWS: usize = 8;

/// Kernels and threads.
pub struct Cpu {
    pub(super) kernels: Kernels,
    pub(super) pool: Pool,
    pub(super) mode: Mode,
    pub(super) share_pages: bool,
    /// For the partials of attention.
    pub(super) buffers: Buffers,
}

impl Cpu {
    /// A backend of `threads` threads.
    pub fn new(kernels: Kernels, threads: usize, mode: Mode) -> Result<Self> {
        let pool = Pool::new(threads)?;
        Ok(Self {
            kernels,
            pool,
            mode,
            share_pages: false,
            buffers: Buffers::default(),
        })
    }

    /// As it is, but rows of different sequences attend a page together that both hold, if `share_pages`.
    #[must_use]
    pub fn sharing_pages(self, share_pages: bool) -> Self {
        Self {
            share_pages,
            ..self
        }
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
        let width = weight.len();
        let size = TileSize {
            rows: TILE_ROWS,
            cols: width,
        };
        self.pool.tiles(out, width, size, |mut tile| {
            for row in 0..tile.rows {
                let x = &x[(tile.first_row + row) * width..][..width];
                (self.kernels.rms_norm)(x, weight, epsilon, tile.row(row));
            }
        });
    }

    /// Finishes `projected[n][stride]`, queries, keys and values, in place; the queries go to `queries[n][heads][head_dim]`.
    pub fn finish(&self, work: &Projection<'_>, projected: &mut [f32], queries: &mut [f32]) {
        let stride = work.stack.stride();
        let width = work.stack.columns(0).len();
        let mut blocks: Vec<_> = projected
            .chunks_mut(TILE_ROWS * stride)
            .zip(queries.chunks_mut(TILE_ROWS * width))
            .collect();
        self.pool.each(&mut blocks, |block, (projected, queries)| {
            let rows = projected.chunks_exact_mut(stride);
            for (row, (projected, query)) in rows.zip(queries.chunks_exact_mut(width)).enumerate() {
                self.finish_row(work, block * TILE_ROWS + row, projected);
                query.copy_from_slice(&projected[..width]);
            }
        });
    }

    /// Turns pairs of neighbours of one head, `[head_dim]`, by `turns[head_dim / 2][2]`, cosines and sines.
    pub fn turn(&self, head: &mut [f32], turns: &[f32]) {
        (self.kernels.rotate)(head, turns);
    }

    fn finish_row(&self, work: &Projection<'_>, index: usize, row: &mut [f32]) {
        for (part, bias) in work.biases.into_iter().flatten().enumerate() {
            for (x, &bias) in row[work.stack.columns(part)].iter_mut().zip(bias) {
                *x += bias;
            }
        }
        let turns = work.turns.entry(index);
        for part in 0..2 {
            let heads = &mut row[work.stack.columns(part)];
            for head in heads.chunks_exact_mut(turns.len()) {
                if let Some(norms) = work.head_norms {
                    let raw = head.to_vec();
                    (self.kernels.rms_norm)(&raw, &norms[part], work.epsilon, head);
                }
                (self.kernels.rotate)(head, turns);
            }
        }
    }
}

/// What turns raw projections into queries, keys and values.
pub struct Projection<'a> {
    /// The matrices that gave them: queries, keys, values.
    pub stack: &'a Stack,
    /// Added first, of queries, keys and values.
    pub biases: Option<&'a [Vec<f32>; 3]>,
    /// Weights `[head_dim]` of a norm over each head of queries and keys.
    pub head_norms: Option<&'a [Vec<f32>; 2]>,
    /// Of these norms.
    pub epsilon: f32,
    /// Rotary turns of queries and keys, by row.
    pub turns: &'a RopeTable,
}
