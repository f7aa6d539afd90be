//! Inputs of a `fast` matrix product: bytes per block of 32, with the scale and the exact sum of each block.
//!
//! Not here: how they are rounded (`kernels/*/quantize`).

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
}
