//! Inputs of `fast` products rounded to bytes, 32 at a time.

use std::arch::x86_64::*;

use super::LANES;
use crate::kernels::scalar::quantize::factors;
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
        let (inverse, scale) = factors(greatest_lane(greatest));
        out.scales[b] = scale;
        out.sums[b] = 0;
        if inverse == 0.0 {
            quants.fill(0);
            continue;
        }
        let mut sum = _mm256_setzero_si256();
        for (value, quants) in values.iter().zip(quants.chunks_exact_mut(LANES)) {
            // Conversion rounds half to even, the default mode.
            let rounded = _mm256_cvtps_epi32(_mm256_mul_ps(*value, _mm256_set1_ps(inverse)));
            sum = _mm256_add_epi32(sum, rounded);
            for (quant, rounded) in quants.iter_mut().zip(integers(rounded)) {
                *quant = rounded as i8;
            }
        }
        out.sums[b] = integers(sum).iter().sum();
    }
}

#[target_feature(enable = "avx2,fma")]
fn integers(register: __m256i) -> [i32; LANES] {
    let mut lanes = [0; LANES];
    // SAFETY: the array has room for eight integers.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), register) };
    lanes
}

#[target_feature(enable = "avx2,fma")]
fn greatest_lane(register: __m256i) -> u32 {
    integers(register)
        .into_iter()
        .map(i32::cast_unsigned)
        .fold(0, u32::max)
}
