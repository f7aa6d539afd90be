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
                let factors = Factors::of(scales, minimums, b);
                for_each_quad(out, quants, |q, lane| factors.value(i32::from(q), lane));
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
                let factors = Factors::of(scales, minimums, b);
                let (low, high) = out.split_at_mut(half);
                let value = |nibble: u8, lane| factors.value(i32::from(nibble) - offset, lane);
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

/// Scales and minimums of block `b`, widened; no minimums if the type has none.
pub(super) struct Factors {
    pub(super) scales: [f32; PANEL_ROWS],
    pub(super) minimums: Option<[f32; PANEL_ROWS]>,
}

impl Factors {
    #[inline(always)]
    pub(super) fn of(scales: &[u16], minimums: &[u16], b: usize) -> Self {
        let widened = |bits: &[u16]| {
            let mut row = [0.0; PANEL_ROWS];
            widen(bits, &mut row, |bits| f16::from_bits(bits).to_f32());
            row
        };
        let rows = b * PANEL_ROWS..(b + 1) * PANEL_ROWS;
        Self {
            scales: widened(&scales[rows.clone()]),
            minimums: minimums.get(rows).map(widened),
        }
    }

    #[inline(always)]
    fn value(&self, quant: i32, lane: usize) -> f32 {
        let scaled = quant as f32 * self.scales[lane];
        match self.minimums {
            Some(minimums) => scaled + minimums[lane],
            None => scaled,
        }
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
