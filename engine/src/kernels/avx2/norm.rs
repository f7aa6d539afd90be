//! Root-mean-square norm with the eight stripes in the eight lanes.

use std::arch::x86_64::*;

use super::{LANES, lanes};
use crate::kernels::scalar::norm::inverse_rms;

/// `out = x / sqrt(mean(x^2) + epsilon) * weight`.
#[target_feature(enable = "avx2,fma")]
pub(super) fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let mut sums = _mm256_setzero_ps();
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        // SAFETY: the chunk has eight elements.
        let x = unsafe { _mm256_loadu_ps(chunk.as_ptr()) };
        sums = _mm256_fmadd_ps(x, x, sums);
    }
    let mut stripes = lanes(sums);
    for (stripe, &value) in stripes.iter_mut().zip(rest) {
        *stripe = value.mul_add(value, *stripe);
    }
    let inverse = inverse_rms(stripes, x.len(), epsilon);
    for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * inverse * weight;
    }
}
