//! Kernels, threads and the operations that need no file of their own.
//!
//! Not here: matrix products (`product`), attention (`attend`), instruction sets.

use std::sync::Mutex;

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
    /// Room for the partials of attention, kept between calls.
    pub(super) partials: Mutex<Vec<f32>>,
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
            partials: Mutex::default(),
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
        for (x, out) in x
            .chunks_exact(weight.len())
            .zip(out.chunks_exact_mut(weight.len()))
        {
            (self.kernels.rms_norm)(x, weight, epsilon, out);
        }
    }

    /// `gate = silu(gate) * up`, rows of `width`.
    pub fn silu_mul(&self, gate: &mut [f32], up: &[f32], width: usize) {
        self.pool.tiles(
            gate,
            width,
            TileSize {
                rows: TILE_ROWS,
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
