//! Sixteen exponentials at once: the reference's operations in the reference's order.

use std::arch::x86_64::*;

use crate::kernels::scalar::exp::{LN2_HIGH, LN2_LOW, LOG2_E, LOWEST, POLYNOMIAL};

/// e to the power of each lane, none above zero; as AVX2's, where the constants are explained.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn exp_below_zero(x: __m512) -> __m512 {
    const SHIFT: f32 = 12_582_912.0 + 192.0;
    const TWO_TO_MINUS_65: f32 = 1.0 / (1_u128 << 65) as f32;
    let x = _mm512_max_ps(_mm512_set1_ps(LOWEST), x);
    let scaled = _mm512_mul_ps(x, _mm512_set1_ps(LOG2_E));
    let shifted = _mm512_add_ps(scaled, _mm512_set1_ps(SHIFT));
    let n = _mm512_sub_ps(shifted, _mm512_set1_ps(SHIFT));
    let power = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(shifted)));
    let r = _mm512_fmadd_ps(_mm512_set1_ps(-LN2_HIGH), n, x);
    let r = _mm512_fmadd_ps(_mm512_set1_ps(-LN2_LOW), n, r);
    let mut p = _mm512_set1_ps(POLYNOMIAL[0]);
    for coefficient in &POLYNOMIAL[1..] {
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(*coefficient));
    }
    let y = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
    let y = _mm512_mul_ps(_mm512_add_ps(y, _mm512_set1_ps(1.0)), power);
    _mm512_mul_ps(y, _mm512_set1_ps(TWO_TO_MINUS_65))
}
