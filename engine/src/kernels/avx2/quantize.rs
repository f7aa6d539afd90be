//! Inputs of `fast` products rounded to bytes, 32 at a time.

use std::arch::x86_64::*;

use super::LANES;
use crate::kernels::scalar::quantize::{LEVELS, factors};
use crate::tensor::Activations;
use crate::tensor::dtype::BLOCK;

/// Registers of a block.
const REGISTERS: usize = BLOCK / LANES;

/// Rounds `x`, rows of whole blocks, into `out`, which has room for it.
#[target_feature(enable = "avx2,fma")]
pub(super) fn quantize(x: &[f32], out: &mut Activations) {
    let magnitude = _mm256_set1_epi32(i32::MAX);
    for (b, (x, quants)) in x
        .chunks_exact(BLOCK)
        .zip(out.quants.chunks_exact_mut(BLOCK))
        .enumerate()
    {
        let mut values = [_mm256_setzero_ps(); REGISTERS];
        let mut greatest = _mm256_setzero_si256();
        for (i, value) in values.iter_mut().enumerate() {
            // SAFETY: the chunk has 32 values and i < 4.
            *value = unsafe { _mm256_loadu_ps(x.as_ptr().add(i * LANES)) };
            let bits = _mm256_and_si256(_mm256_castps_si256(*value), magnitude);
            greatest = _mm256_max_epu32(greatest, bits);
        }
        let greatest = across(greatest, |a, b| _mm_max_epu32(a, b));
        let (inverse, scale) = factors(greatest.cast_unsigned(), LEVELS);
        out.scales[b] = scale;
        out.sums[b] = 0;
        if inverse == 0.0 {
            quants.fill(0);
            continue;
        }
        let inverse = _mm256_set1_ps(inverse);
        // Conversion rounds half to even, the default mode.
        let mut rounded = [_mm256_setzero_si256(); REGISTERS];
        for (rounded, value) in rounded.iter_mut().zip(values) {
            *rounded = _mm256_cvtps_epi32(_mm256_mul_ps(value, inverse));
        }
        // Magnitudes are at most 127, so packing saturates nothing; it interleaves the halves of its operands.
        let low = _mm256_packs_epi32(rounded[0], rounded[1]);
        let high = _mm256_packs_epi32(rounded[2], rounded[3]);
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
        // SAFETY: the chunk has 32 bytes.
        unsafe { _mm256_storeu_si256(quants.as_mut_ptr().cast(), bytes) };
        let pairs = _mm256_madd_epi16(_mm256_add_epi16(low, high), _mm256_set1_epi16(1));
        out.sums[b] = across(pairs, |a, b| _mm_add_epi32(a, b));
    }
}

/// Combines the eight lanes with an operation whose order does not matter.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn across(register: __m256i, combine: impl Fn(__m128i, __m128i) -> __m128i) -> i32 {
    let four = combine(
        _mm256_castsi256_si128(register),
        _mm256_extracti128_si256::<1>(register),
    );
    let two = combine(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    _mm_cvtsi128_si32(combine(two, _mm_shuffle_epi32::<0b00_00_00_01>(two)))
}
