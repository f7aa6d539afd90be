//! Packed panels to f32: multiply, then add, each rounded. The weights are the bits of the file format's definition.
//!
//! Not here: whole models; a panel at a time is dequantised and forgotten.

use half::f16;

use crate::tensor::Panel;
use crate::tensor::dtype::{BLOCK, widen_bf16};
use crate::tensor::packed::{NIBBLE_OFFSET, PANEL_ROWS, QUAD};

/// Writes a panel as `[cols][16]`.
#[inline(always)]
pub(in crate::kernels) fn dequantize(panel: Panel<'_>, out: &mut [f32]) {
    match panel {
        Panel::F32(values) => out.copy_from_slice(values),
        Panel::F16(bits) => widen(bits, out, |bits| f16::from_bits(bits).to_f32()),
        Panel::BF16(bits) => widen(bits, out, widen_bf16),
        Panel::Bytes {
            scales,
            minimums,
            quants,
        } => {
            let blocks = out.chunks_exact_mut(BLOCK * PANEL_ROWS);
            for (b, (out, quants)) in blocks
                .zip(quants.chunks_exact(BLOCK * PANEL_ROWS))
                .enumerate()
            {
                let (scales, minimums) = factors(scales, minimums, b);
                for_each_quad(out, quants, |q, lane| {
                    value(i32::from(q), lane, scales, minimums)
                });
            }
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
            };
            let blocks = out
                .chunks_exact_mut(2 * half)
                .zip(quants.chunks_exact(half));
            for (b, (out, quants)) in blocks.enumerate() {
                let (scales, minimums) = factors(scales, minimums, b);
                let (low, high) = out.split_at_mut(half);
                let value =
                    |nibble: u8, lane| value(i32::from(nibble) - offset, lane, scales, minimums);
                for_each_quad(low, quants, |pair, lane| value(pair & 15, lane));
                for_each_quad(high, quants, |pair, lane| value(pair >> 4, lane));
            }
        }
    }
}

#[inline(always)]
fn widen(bits: &[u16], out: &mut [f32], widen: impl Fn(u16) -> f32) {
    for (out, &bits) in out.iter_mut().zip(bits) {
        *out = widen(bits);
    }
}

/// Scales and minimums `[16]` of block `b`; no minimums if the type has none.
#[inline(always)]
pub(in crate::kernels) fn factors<'a>(
    scales: &'a [f32],
    minimums: &'a [f32],
    b: usize,
) -> (&'a [f32], &'a [f32]) {
    let rows = b * PANEL_ROWS..(b + 1) * PANEL_ROWS;
    (&scales[rows.clone()], minimums.get(rows).unwrap_or(&[]))
}

#[inline(always)]
fn value(quant: i32, lane: usize, scales: &[f32], minimums: &[f32]) -> f32 {
    let scaled = quant as f32 * scales[lane];
    if minimums.is_empty() {
        scaled
    } else {
        scaled + minimums[lane]
    }
}

/// From `[cols/4][16][4]` to `[cols][16]`.
#[inline(always)]
pub(super) fn for_each_quad<T: Copy>(
    out: &mut [f32],
    quants: &[T],
    value: impl Fn(T, usize) -> f32,
) {
    let quads = out.chunks_exact_mut(QUAD * PANEL_ROWS);
    for (out, quants) in quads.zip(quants.chunks_exact(QUAD * PANEL_ROWS)) {
        for (lane, quad) in quants.chunks_exact(QUAD).enumerate() {
            for (j, &quant) in quad.iter().enumerate() {
                out[j * PANEL_ROWS + lane] = value(quant, lane);
            }
        }
    }
}
