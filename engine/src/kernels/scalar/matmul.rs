//! Matrix product in `exact` mode: one accumulator per output, columns ascending, one fma each.
//!
//! The order does not depend on the number of inputs, so a batch gives each of its rows the bits it has alone.

use std::ops::Range;

use super::dequantize::dequantize;
use crate::tensor::PackedMatrix;
use crate::tensor::packed::PANEL_ROWS;

/// `out[n][16 * panels] = x[n][cols] * rows of the panels`.
#[inline(always)]
pub(in crate::kernels) fn matmul(
    w: &PackedMatrix,
    panels: Range<usize>,
    x: &[f32],
    out: &mut [f32],
) {
    let width = panels.len() * PANEL_ROWS;
    let mut weights = vec![0.0; w.cols() * PANEL_ROWS];
    for (i, panel) in panels.enumerate() {
        dequantize(w.panel(panel), &mut weights);
        for (x, out) in x.chunks_exact(w.cols()).zip(out.chunks_exact_mut(width)) {
            let mut sums = [0.0_f32; PANEL_ROWS];
            for (weights, &x) in weights.chunks_exact(PANEL_ROWS).zip(x) {
                for (sum, &weight) in sums.iter_mut().zip(weights) {
                    *sum = weight.mul_add(x, *sum);
                }
            }
            out[i * PANEL_ROWS..][..PANEL_ROWS].copy_from_slice(&sums);
        }
    }
}
