//! Packed panels to f32: multiply, then add, each rounded. The weights are the bits of the file format's definition.
//!
//! Not here: whole models; a panel at a time is dequantised and forgotten.

use crate::tensor::Panel;
use crate::tensor::dtype::BLOCK;
use crate::tensor::packed::PANEL_ROWS;

/// Columns interleaved per row in a quantised panel.
const QUAD: usize = 4;

/// Writes a panel as `[cols][16]`.
#[inline(always)]
pub(in crate::kernels) fn dequantize(panel: Panel<'_>, out: &mut [f32]) {
    match panel {
        Panel::F32(values) => out.copy_from_slice(values),
        Panel::Q8_0 { scales, quants } => {
            let blocks = out.chunks_exact_mut(BLOCK * PANEL_ROWS);
            let sources = quants.chunks_exact(BLOCK * PANEL_ROWS);
            for ((out, quants), scales) in blocks.zip(sources).zip(scales.chunks_exact(PANEL_ROWS))
            {
                for_each_quad(out, quants, |quant, lane| f32::from(quant) * scales[lane]);
            }
        }
        Panel::Q4_1 {
            scales,
            minimums,
            quants,
        } => {
            let half = BLOCK / 2 * PANEL_ROWS;
            let blocks = out
                .chunks_exact_mut(2 * half)
                .zip(quants.chunks_exact(half));
            let factors = scales
                .chunks_exact(PANEL_ROWS)
                .zip(minimums.chunks_exact(PANEL_ROWS));
            for ((out, quants), (scales, minimums)) in blocks.zip(factors) {
                let (low, high) = out.split_at_mut(half);
                for_each_quad(low, quants, |q, l| {
                    f32::from(q & 15) * scales[l] + minimums[l]
                });
                for_each_quad(high, quants, |q, l| {
                    f32::from(q >> 4) * scales[l] + minimums[l]
                });
            }
        }
    }
}

/// From `[cols/4][16][4]` to `[cols][16]`.
#[inline(always)]
fn for_each_quad<T: Copy>(out: &mut [f32], quants: &[T], value: impl Fn(T, usize) -> f32) {
    let quads = out.chunks_exact_mut(QUAD * PANEL_ROWS);
    for (out, quants) in quads.zip(quants.chunks_exact(QUAD * PANEL_ROWS)) {
        for (lane, quad) in quants.chunks_exact(QUAD).enumerate() {
            for (j, &quant) in quad.iter().enumerate() {
                out[j * PANEL_ROWS + lane] = value(quant, lane);
            }
        }
    }
}
