//! Inputs of a `fast` matrix product: bytes per block of 32, with the scale and the exact sum of each block.
//!
//! Not here: how they are rounded (`kernels/*/quantize`).

use std::ops::Range;

use super::dtype::BLOCK;

/// Rows of quantised inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activations {
    /// Columns per row, whole blocks.
    pub cols: usize,
    /// Rounded inputs, `[n][cols]`.
    pub quants: Vec<i8>,
    /// Block scales, `[n][cols / 32]`; NaN where a block held NaN or infinity.
    pub scales: Vec<f32>,
    /// Block sums of `quants`, `[n][cols / 32]`.
    pub sums: Vec<i32>,
}

impl Activations {
    /// Room for `n` rows of `cols` columns.
    pub fn zeroed(n: usize, cols: usize) -> Self {
        let blocks = n * (cols / BLOCK);
        Self {
            cols,
            quants: vec![0; n * cols],
            scales: vec![0.0; blocks],
            sums: vec![0; blocks],
        }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.quants.len().checked_div(self.cols).unwrap_or(0)
    }

    /// All of them, borrowed.
    #[must_use]
    pub fn view(&self) -> RoundedRows<'_> {
        RoundedRows {
            cols: self.cols,
            quants: &self.quants,
            scales: &self.scales,
            sums: &self.sums,
        }
    }
}

/// Rows of [`Activations`], borrowed; the fields are as there.
#[derive(Clone, Copy, Debug)]
pub struct RoundedRows<'a> {
    /// Columns per row, whole blocks.
    pub cols: usize,
    /// Rounded inputs.
    pub quants: &'a [i8],
    /// Block scales.
    pub scales: &'a [f32],
    /// Block sums.
    pub sums: &'a [i32],
}

impl RoundedRows<'_> {
    /// Some of them.
    #[inline]
    #[must_use]
    pub fn rows(self, rows: Range<usize>) -> Self {
        let blocks = self.cols / BLOCK;
        let of_blocks = rows.start * blocks..rows.end * blocks;
        Self {
            cols: self.cols,
            quants: &self.quants[rows.start * self.cols..rows.end * self.cols],
            scales: &self.scales[of_blocks.clone()],
            sums: &self.sums[of_blocks],
        }
    }

    /// One of them.
    #[inline]
    #[must_use]
    pub fn row(self, row: usize) -> Self {
        self.rows(row..row + 1)
    }
}
