//! Root-mean-square norm (Zhang and Sennrich 2019), squares summed in eight stripes by index mod 8.

use crate::kernels::{STRIPES, sum_stripes};

/// `out = x / sqrt(mean(x^2) + epsilon) * weight`.
#[inline(always)]
pub(in crate::kernels) fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let mut stripes = [0.0_f32; STRIPES];
    for (i, &value) in x.iter().enumerate() {
        stripes[i % STRIPES] = value.mul_add(value, stripes[i % STRIPES]);
    }
    let inverse = inverse_rms(stripes, x.len(), epsilon);
    for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * inverse * weight;
    }
}

/// 1 / sqrt(mean + epsilon) from the eight stripes of a sum of squares.
#[inline(always)]
pub(in crate::kernels) fn inverse_rms(stripes: [f32; STRIPES], len: usize, epsilon: f32) -> f32 {
    1.0 / (sum_stripes(stripes) / len as f32 + epsilon).sqrt()
}
