//! The gated activation, eight lanes at a time.

use std::arch::x86_64::*;

use super::LANES;
use super::exp::exp;
use crate::kernels::scalar;

/// `gate = gate / (1 + exp(-gate)) * up`.
#[target_feature(enable = "avx2,fma")]
pub(super) fn silu_mul(gate: &mut [f32], up: &[f32]) {
    let whole = gate.len() / LANES * LANES;
    let (gate, gate_rest) = gate.split_at_mut(whole);
    let (up, up_rest) = up.split_at(whole);
    for (gate, up) in gate.chunks_exact_mut(LANES).zip(up.chunks_exact(LANES)) {
        // SAFETY: both chunks have eight elements.
        unsafe {
            let x = _mm256_loadu_ps(gate.as_ptr());
            let minus = _mm256_xor_ps(x, _mm256_set1_ps(-0.0));
            let divisor = _mm256_add_ps(_mm256_set1_ps(1.0), exp(minus));
            let value = _mm256_mul_ps(_mm256_div_ps(x, divisor), _mm256_loadu_ps(up.as_ptr()));
            _mm256_storeu_ps(gate.as_mut_ptr(), value);
        }
    }
    scalar::activation::silu_mul(gate_rest, up_rest);
}
