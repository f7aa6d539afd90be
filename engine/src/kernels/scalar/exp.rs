//! `exp` from multiply, add and fma only, so that every instruction set can give the same bits.
//!
//! Range reduction by n = round(x / ln 2) and a degree-5 polynomial on the rest (coefficients: Cephes `expf`,
//! S. Moshier); about 1 ulp. exp(0) = 1, exp(-inf) = 0, exp(inf) = inf, NaN stays NaN. Not here: any libm.

/// Below this the result rounds to zero.
pub(in crate::kernels) const LOWEST: f32 = -104.0;
/// Above this the result is infinite.
pub(in crate::kernels) const HIGHEST: f32 = 89.0;
/// 1 / ln 2.
pub(in crate::kernels) const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; the first has so few bits that n times it is exact.
#[allow(clippy::excessive_precision)] // exact, all nine bits
pub(in crate::kernels) const LN2_HIGH: f32 = 0.693_359_375;
/// See [`LN2_HIGH`].
pub(in crate::kernels) const LN2_LOW: f32 = -2.121_944_4e-4;
/// Polynomial for (exp(r) - 1 - r) / r^2, highest power first.
pub(in crate::kernels) const POLYNOMIAL: [f32; 6] = [
    1.987_569_1e-4,
    1.398_2e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_5e-1,
    5e-1,
];

/// e to the power `x`.
#[inline(always)]
pub(in crate::kernels) fn exp(x: f32) -> f32 {
    // Written so that NaN passes through, as `_mm256_max_ps` and `_mm256_min_ps` do with this operand order.
    let x = if LOWEST > x { LOWEST } else { x };
    let x = if HIGHEST < x { HIGHEST } else { x };
    let n = (x * LOG2_E).round_ties_even();
    let r = (-LN2_HIGH).mul_add(n, x);
    let r = (-LN2_LOW).mul_add(n, r);
    let mut p = POLYNOMIAL[0];
    for coefficient in &POLYNOMIAL[1..] {
        p = p.mul_add(r, *coefficient);
    }
    let y = p.mul_add(r * r, r) + 1.0;
    // 2^n in two factors: n reaches beyond what one exponent field holds.
    let n = n as i32;
    let half = n >> 1;
    y * power_of_two(half) * power_of_two(n - half)
}

#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_values_are_exact() {
        assert_eq!(exp(0.0).to_bits(), 1.0_f32.to_bits());
        assert_eq!(exp(-0.0).to_bits(), 1.0_f32.to_bits());
        assert_eq!(exp(f32::NEG_INFINITY).to_bits(), 0);
        assert_eq!(exp(f32::MIN).to_bits(), 0);
        assert!(exp(f32::INFINITY).is_infinite());
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn is_within_two_ulp_of_the_true_value_on_its_whole_range() {
        let mut worst: f64 = 0.0;
        for step in 0..2_000_000 {
            let x = -87.0 + step as f32 * (175.0 / 2_000_000.0);
            let truth = libm::exp(f64::from(x));
            let ulp =
                f64::from(f32::from_bits((truth as f32).to_bits() + 1)) - f64::from(truth as f32);
            worst = worst.max((f64::from(exp(x)) - truth).abs() / ulp);
        }
        assert!(worst < 2.0, "worst error {worst} ulp");
    }
}
