//! Cached keys and values as f32: halves widened, bytes multiplied by the scale of their block, once rounded.
//!
//! Not here: what is done with them (`attend`).

use half::f16;

use crate::tensor::dtype::BLOCK;
use crate::tensor::{PAGE_POSITIONS, Quants};

/// Halves, from their bits.
pub(super) fn widened(bits: &[u16]) -> Vec<f32> {
    bits.iter()
        .map(|bits| f16::from_bits(*bits).to_f32())
        .collect()
}

/// Bytes, of which `place` gives the dimension and the slot, times their scales.
pub(super) fn multiplied(
    Quants { bytes, scales }: Quants<'_>,
    place: impl Fn(usize) -> (usize, usize),
) -> Vec<f32> {
    let product = |(i, byte): (usize, &i8)| {
        let (dim, slot) = place(i);
        let scale = f16::from_bits(scales[dim / BLOCK * PAGE_POSITIONS + slot]);
        f32::from(*byte) * scale.to_f32()
    };
    bytes.iter().enumerate().map(product).collect()
}
