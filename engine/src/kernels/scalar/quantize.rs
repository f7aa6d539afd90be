//! Numbers rounded to bytes, per block of 32: q = round half to even of x * (127 / greatest magnitude).
//!
//! So are inputs of `fast` products, and keys and values of type q8_0 when a page is written. A block of zeros, or of magnitudes so small that 127 over them overflows, gives zeros. A block with NaN or
//! infinity gives the scale NaN, which reaches the logits and is refused there. Not here: weights, rounded at load or before.

use crate::tensor::Activations;
use crate::tensor::dtype::BLOCK;

/// Greatest quantised magnitude.
pub(in crate::kernels) const LEVELS: f32 = 127.0;
/// 1.5 * 2^23, where a unit is the last place: a sum with it is rounded to an integer, half to even, whose lowest bits are
/// those of the sum. In vectors of any instruction set, where `round_ties_even` is a call per number without SSE4.1.
pub(in crate::kernels) const SHIFT: f32 = 12_582_912.0;
/// Bits of positive infinity; magnitudes at or above are not finite.
pub(in crate::kernels) const INFINITY_BITS: u32 = 0x7f80_0000;

/// Rounds `x`, rows of whole blocks, into `out`, which has room for it.
#[inline(always)]
pub(in crate::kernels) fn quantize(x: &[f32], out: &mut Activations) {
    for (b, (x, quants)) in x
        .chunks_exact(BLOCK)
        .zip(out.quants.chunks_exact_mut(BLOCK))
        .enumerate()
    {
        out.scales[b] = round_block(x, quants);
        out.sums[b] = quants.iter().map(|quant| i32::from(*quant)).sum();
    }
}

/// Rounds one block into as many `quants`; gives its scale.
#[inline(always)]
pub(crate) fn round_block(x: &[f32], quants: &mut [i8]) -> f32 {
    // Compared as integers, so that NaN is the greatest and no order of comparing matters.
    let greatest = x.iter().map(|x| x.abs().to_bits()).max().unwrap_or(0);
    let (inverse, scale) = factors(greatest, LEVELS);
    if inverse == 0.0 {
        quants.fill(0);
    } else {
        for (quant, &x) in quants.iter_mut().zip(x) {
            *quant = (x * inverse + SHIFT).to_bits() as i8;
        }
    }
    scale
}

/// (levels / greatest, greatest / levels), from the bits of the greatest magnitude.
#[inline(always)]
pub(in crate::kernels) fn factors(greatest: u32, levels: f32) -> (f32, f32) {
    if greatest >= INFINITY_BITS {
        return (0.0, f32::NAN);
    }
    let greatest = f32::from_bits(greatest);
    let inverse = levels / greatest;
    if inverse.is_finite() {
        (inverse, greatest / levels)
    } else {
        (0.0, 0.0)
    }
}
