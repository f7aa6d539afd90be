//! Eight exponentials at once: the reference's operations in the reference's order.

use std::arch::x86_64::*;

use crate::kernels::scalar::exp::{HIGHEST, LN2_HIGH, LN2_LOW, LOG2_E, LOWEST, POLYNOMIAL};

/// e to the power of each lane.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn exp(x: __m256) -> __m256 {
    let x = _mm256_max_ps(_mm256_set1_ps(LOWEST), x);
    let x = _mm256_min_ps(_mm256_set1_ps(HIGHEST), x);
    let n = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm256_mul_ps(
        x,
        _mm256_set1_ps(LOG2_E),
    ));
    let r = _mm256_fmadd_ps(_mm256_set1_ps(-LN2_HIGH), n, x);
    let r = _mm256_fmadd_ps(_mm256_set1_ps(-LN2_LOW), n, r);
    let mut p = _mm256_set1_ps(POLYNOMIAL[0]);
    for coefficient in &POLYNOMIAL[1..] {
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(*coefficient));
    }
    let y = _mm256_add_ps(
        _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r),
        _mm256_set1_ps(1.0),
    );
    let n = _mm256_cvtps_epi32(n);
    let half = _mm256_srai_epi32::<1>(n);
    let rest = _mm256_sub_epi32(n, half);
    _mm256_mul_ps(_mm256_mul_ps(y, power_of_two(half)), power_of_two(rest))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn power_of_two(n: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(
        n,
        _mm256_set1_epi32(127),
    )))
}
