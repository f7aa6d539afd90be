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
    let y = exp_of_rest(x, n);
    let n = _mm256_cvtps_epi32(n);
    let half = _mm256_srai_epi32::<1>(n);
    let rest = _mm256_sub_epi32(n, half);
    _mm256_mul_ps(_mm256_mul_ps(y, power_of_two(half)), power_of_two(rest))
}

/// e to the power of each lane, none above zero: the bits of [`exp`] in fewer operations.
///
/// Adding `SHIFT` rounds to an integer, half to even, and leaves it, 192 more, in the lowest bits: the exponent field of
/// 2^(n + 65). That power is never subnormal; the last multiplication takes the 65 away and is the only one to round.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn exp_below_zero(x: __m256) -> __m256 {
    /// 1.5 * 2^23, where a unit is the last place, and an even number, so that ties stay even.
    const SHIFT: f32 = 12_582_912.0 + 192.0;
    const TWO_TO_MINUS_65: f32 = 1.0 / (1_u128 << 65) as f32;
    let x = _mm256_max_ps(_mm256_set1_ps(LOWEST), x);
    let shifted = _mm256_add_ps(
        _mm256_mul_ps(x, _mm256_set1_ps(LOG2_E)),
        _mm256_set1_ps(SHIFT),
    );
    let n = _mm256_sub_ps(shifted, _mm256_set1_ps(SHIFT));
    let power = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(shifted)));
    let y = _mm256_mul_ps(exp_of_rest(x, n), power);
    _mm256_mul_ps(y, _mm256_set1_ps(TWO_TO_MINUS_65))
}

/// e^(x - n ln 2), n being the integer next to x / ln 2.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp_of_rest(x: __m256, n: __m256) -> __m256 {
    let r = _mm256_fmadd_ps(_mm256_set1_ps(-LN2_HIGH), n, x);
    let r = _mm256_fmadd_ps(_mm256_set1_ps(-LN2_LOW), n, r);
    let mut p = _mm256_set1_ps(POLYNOMIAL[0]);
    for coefficient in &POLYNOMIAL[1..] {
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(*coefficient));
    }
    let y = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
    _mm256_add_ps(y, _mm256_set1_ps(1.0))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn power_of_two(n: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(
        n,
        _mm256_set1_epi32(127),
    )))
}

#[cfg(test)]
mod tests {
    use super::super::{LANES, lanes};
    use super::*;
    use crate::kernels::scalar::exp::exp as reference;

    #[test]
    fn below_zero_gives_the_bits_of_the_reference() {
        if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
            return;
        }
        let tie = -0.5 / LOG2_E;
        let edges = [
            0.0,
            -0.0,
            f32::NEG_INFINITY,
            f32::MIN,
            -1e-41,
            tie,
            3.0 * tie,
            f32::NAN,
        ];
        // Every 509th float below zero: all exponents, and subnormal results.
        let all = (0x8000_0000..0xff80_0000_u32)
            .step_by(509)
            .map(f32::from_bits);
        let values: Vec<f32> = edges.into_iter().chain(all).collect();
        for chunk in values.as_chunks::<LANES>().0 {
            // SAFETY: AVX2 and FMA were detected; the chunk has eight elements.
            let found = unsafe { lanes(exp_below_zero(_mm256_loadu_ps(chunk.as_ptr()))) };
            for (x, found) in chunk.iter().zip(found) {
                let expected = reference(*x);
                let same = found.to_bits() == expected.to_bits() || found.is_nan() && x.is_nan();
                assert!(same, "exp({x}) is {expected}, not {found}");
            }
        }
    }
}
