//! Matrix product in `fast` mode: per block of 32 an exact integer dot product, then one fma with both scales.
//!
//! Types with a minimum add a second fma per block: sum of the inputs times minimum and input scale. Blocks ascending, one
//! accumulator per output, so a batch gives each of its rows the bits it has alone. The integers are kept in f32, where they
//! are exact: a dot product is at most 32 * 128 * 127 < 2^24. Not here: rounding the inputs (`quantize`).

use std::ops::Range;

use super::dequantize::{Factors, for_each_quad};
use crate::tensor::dtype::BLOCK;
use crate::tensor::packed::{NIBBLE_OFFSET, PANEL_ROWS};
use crate::tensor::{Activations, PackedMatrix, Panel};

/// `out[n][16 * panels] = x[n][cols] * rows of the panels`; the matrix is quantised.
#[inline(always)]
pub(in crate::kernels) fn matmul_fast(
    w: &PackedMatrix,
    panels: Range<usize>,
    x: &Activations,
    out: &mut [f32],
) {
    let width = panels.len() * PANEL_ROWS;
    let blocks = x.cols / BLOCK;
    let inputs: Vec<f32> = x.quants.iter().map(|quant| f32::from(*quant)).collect();
    let mut integers = vec![0.0; x.cols * PANEL_ROWS];
    for (i, panel) in panels.enumerate() {
        let panel = w.panel(panel);
        let Some((scales, minimums)) = unpack(panel, &mut integers) else {
            return; // Not quantised: `backend` multiplies it in exact mode.
        };
        let rows = inputs.chunks_exact(x.cols).zip(out.chunks_exact_mut(width));
        for (row, (inputs, out)) in rows.enumerate() {
            let mut sums = [0.0_f32; PANEL_ROWS];
            let weights = integers.chunks_exact(BLOCK * PANEL_ROWS);
            for (b, (inputs, weights)) in inputs.chunks_exact(BLOCK).zip(weights).enumerate() {
                let dots = dots(weights, inputs);
                let Factors { scales, minimums } = Factors::of(scales, minimums, b);
                let x_scale = x.scales[row * blocks + b];
                for ((sum, dot), scale) in sums.iter_mut().zip(dots).zip(scales) {
                    *sum = dot.mul_add(scale * x_scale, *sum);
                }
                let x_sum = x.sums[row * blocks + b] as f32;
                for (sum, minimum) in sums.iter_mut().zip(minimums.into_iter().flatten()) {
                    *sum = x_sum.mul_add(minimum * x_scale, *sum);
                }
            }
            out[i * PANEL_ROWS..][..PANEL_ROWS].copy_from_slice(&sums);
        }
    }
}

/// Sixteen dot products of weights `[32][16]` with inputs `[32]`, all integers.
#[inline(always)]
fn dots(weights: &[f32], inputs: &[f32]) -> [f32; PANEL_ROWS] {
    let mut dots = [0.0; PANEL_ROWS];
    for (weights, &x) in weights.chunks_exact(PANEL_ROWS).zip(inputs) {
        for (dot, &weight) in dots.iter_mut().zip(weights) {
            *dot = weight.mul_add(x, *dot);
        }
    }
    dots
}

/// Writes the integer weights of a panel as `[cols][16]`; returns its scales and minimums, none if it is not quantised.
#[inline(always)]
fn unpack<'a>(panel: Panel<'a>, out: &mut [f32]) -> Option<(&'a [u16], &'a [u16])> {
    match panel {
        Panel::Bytes {
            scales,
            minimums,
            quants,
        } => {
            for_each_quad(out, quants, |quant, _| f32::from(quant));
            Some((scales, minimums))
        }
        Panel::Nibbles {
            scales,
            minimums,
            quants,
        } => {
            let half = BLOCK / 2 * PANEL_ROWS;
            let offset = if minimums.is_empty() {
                NIBBLE_OFFSET
            } else {
                0
            } as f32;
            for (out, quants) in out
                .chunks_exact_mut(2 * half)
                .zip(quants.chunks_exact(half))
            {
                let (low, high) = out.split_at_mut(half);
                for_each_quad(low, quants, |pair, _| f32::from(pair & 15) - offset);
                for_each_quad(high, quants, |pair, _| f32::from(pair >> 4) - offset);
            }
            Some((scales, minimums))
        }
        Panel::F32(_) | Panel::F16(_) | Panel::BF16(_) => None,
    }
}
