//! Matrix product in `fast` mode: per block of 32 an exact integer dot product, then one fma with both scales.
//!
//! Types with a minimum add a second fma per block: sum of the inputs times minimum and input scale. Blocks ascending, one
//! accumulator per output, so a batch gives each of its rows the bits it has alone.

use std::ops::Range;

use super::dequantize::factors;
use crate::tensor::dtype::BLOCK;
use crate::tensor::packed::{NIBBLE_OFFSET, PANEL_ROWS, QUAD};
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
    for (i, panel) in panels.enumerate() {
        let panel = w.panel(panel);
        let rows = x
            .quants
            .chunks_exact(x.cols)
            .zip(out.chunks_exact_mut(width));
        for (row, (quants, out)) in rows.enumerate() {
            let mut sums = [0.0_f32; PANEL_ROWS];
            for (b, quants) in quants.chunks_exact(BLOCK).enumerate() {
                let (x_scale, x_sum) = (x.scales[row * blocks + b], x.sums[row * blocks + b]);
                add_block(panel, b, quants, x_scale, x_sum, &mut sums);
            }
            out[i * PANEL_ROWS..][..PANEL_ROWS].copy_from_slice(&sums);
        }
    }
}

#[inline(always)]
fn add_block(
    panel: Panel<'_>,
    b: usize,
    x: &[i8],
    x_scale: f32,
    x_sum: i32,
    sums: &mut [f32; PANEL_ROWS],
) {
    let mut dots = [0_i32; PANEL_ROWS];
    let (scales, minimums) = match panel {
        Panel::Bytes {
            scales,
            minimums,
            quants,
        } => {
            let quants = &quants[b * BLOCK * PANEL_ROWS..][..BLOCK * PANEL_ROWS];
            dot_quads(quants, x, &mut dots, i32::from);
            factors(scales, minimums, b)
        }
        Panel::Nibbles {
            scales,
            minimums,
            quants,
        } => {
            let half = BLOCK / 2 * PANEL_ROWS;
            let quants = &quants[b * half..][..half];
            let offset = if minimums.is_empty() {
                NIBBLE_OFFSET
            } else {
                0
            };
            let (low, high) = x.split_at(BLOCK / 2);
            dot_quads(quants, low, &mut dots, |pair: u8| {
                i32::from(pair & 15) - offset
            });
            dot_quads(quants, high, &mut dots, |pair: u8| {
                i32::from(pair >> 4) - offset
            });
            factors(scales, minimums, b)
        }
        // Not quantised: `backend` multiplies these in exact mode.
        Panel::F32(_) | Panel::F16(_) | Panel::BF16(_) => return,
    };
    for lane in 0..PANEL_ROWS {
        sums[lane] = (dots[lane] as f32).mul_add(scales[lane] * x_scale, sums[lane]);
        if let Some(minimum) = minimums.get(lane) {
            sums[lane] = (x_sum as f32).mul_add(minimum * x_scale, sums[lane]);
        }
    }
}

/// Adds the products of `[cols/4][16][4]` weights with `x[cols]` to the sixteen dot products.
#[inline(always)]
fn dot_quads<T: Copy>(
    quants: &[T],
    x: &[i8],
    dots: &mut [i32; PANEL_ROWS],
    integer: impl Fn(T) -> i32,
) {
    for (quants, x) in quants
        .chunks_exact(QUAD * PANEL_ROWS)
        .zip(x.chunks_exact(QUAD))
    {
        for (dot, quad) in dots.iter_mut().zip(quants.chunks_exact(QUAD)) {
            for (&quant, &x) in quad.iter().zip(x) {
                *dot += integer(quant) * i32::from(x);
            }
        }
    }
}
