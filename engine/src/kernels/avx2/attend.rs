//! The page primitive: sixty-four scores in eight registers, then values by dimension.

use std::arch::x86_64::*;

use super::exp::exp;
use super::{LANES, lanes};
use crate::kernels::sum_stripes;
use crate::tensor::{PAGE_POSITIONS, PageData, PageView, Partials, Span};

/// Registers that hold the scores of a page.
const SCORE_REGISTERS: usize = PAGE_POSITIONS / LANES;
/// Registers of output dimensions summed in one sweep over the values.
const OUT_REGISTERS: usize = 8;

/// An element type of cached keys and values.
trait Element: Copy {
    /// Widens eight elements.
    ///
    /// # Safety
    /// `place` is valid for reading eight elements and the CPU has AVX2 and F16C.
    unsafe fn load(place: *const Self) -> __m256;
    /// Widens one element.
    fn widen(self) -> f32;
}

impl Element for f32 {
    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn load(place: *const Self) -> __m256 {
        // SAFETY: as promised by the caller.
        unsafe { _mm256_loadu_ps(place) }
    }
    fn widen(self) -> f32 {
        self
    }
}

impl Element for u16 {
    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn load(place: *const Self) -> __m256 {
        // SAFETY: as promised by the caller.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(place.cast())) }
    }
    fn widen(self) -> f32 {
        half::f16::from_bits(self).to_f32()
    }
}

/// Fills `out` for `queries[m][head_dim]` over the slots `seen[m]` of one head's page.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn attend(
    page: PageView<'_>,
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    out: &mut Partials,
) {
    match page.data {
        PageData::F32 { k, v } => attend_elements((k, v), queries, seen, scale, out),
        PageData::F16 { k, v } => attend_elements((k, v), queries, seen, scale, out),
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn attend_elements<E: Element>(
    (k, v): (&[E], &[E]),
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    out: &mut Partials,
) {
    let head_dim = k.len() / PAGE_POSITIONS;
    out.reset(seen.len(), head_dim);
    for (m, (query, &seen)) in queries.chunks_exact(head_dim).zip(seen).enumerate() {
        if seen.is_empty() {
            continue;
        }
        let mut weights = [0.0_f32; PAGE_POSITIONS];
        (out.max[m], out.sum[m]) = softmax(scores(query, k), seen, scale, &mut weights);
        let out = &mut out.out[m * head_dim..][..head_dim];
        weighted_sum(
            &weights[seen.first..seen.end],
            &v[seen.first * head_dim..],
            out,
        );
    }
}

/// Dot products with all keys of the page, dimensions ascending.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scores<E: Element>(query: &[f32], keys: &[E]) -> [__m256; SCORE_REGISTERS] {
    let mut scores = [_mm256_setzero_ps(); SCORE_REGISTERS];
    for (&q, keys) in query.iter().zip(keys.chunks_exact(PAGE_POSITIONS)) {
        let q = _mm256_set1_ps(q);
        for (i, score) in scores.iter_mut().enumerate() {
            // SAFETY: the chunk has 64 keys and i < 8.
            let key = unsafe { E::load(keys.as_ptr().add(i * LANES)) };
            *score = _mm256_fmadd_ps(q, key, *score);
        }
    }
    scores
}

/// Writes exp(score - max) of the slots seen, zero elsewhere; returns the maximum and the striped sum.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn softmax(
    mut scores: [__m256; SCORE_REGISTERS],
    seen: Span,
    scale: f32,
    weights: &mut [f32; PAGE_POSITIONS],
) -> (f32, f32) {
    let minus_infinity = _mm256_set1_ps(f32::NEG_INFINITY);
    let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let mut max = minus_infinity;
    for (i, score) in scores.iter_mut().enumerate() {
        let slot = _mm256_add_epi32(lane, _mm256_set1_epi32((i * LANES) as i32));
        let before_end = _mm256_cmpgt_epi32(_mm256_set1_epi32(seen.end as i32), slot);
        let before_first = _mm256_cmpgt_epi32(_mm256_set1_epi32(seen.first as i32), slot);
        let seen = _mm256_castsi256_ps(_mm256_andnot_si256(before_first, before_end));
        let scaled = _mm256_mul_ps(*score, _mm256_set1_ps(scale));
        *score = _mm256_blendv_ps(minus_infinity, scaled, seen);
        max = _mm256_max_ps(*score, max);
    }
    let max = lanes(max)
        .into_iter()
        .fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
    let mut sum = _mm256_setzero_ps();
    for (i, score) in scores.iter().enumerate() {
        let weight = exp(_mm256_sub_ps(*score, _mm256_set1_ps(max)));
        sum = _mm256_add_ps(sum, weight);
        // SAFETY: i < 8 registers of the 64 weights.
        unsafe { _mm256_storeu_ps(weights.as_mut_ptr().add(i * LANES), weight) };
    }
    (max, sum_stripes(lanes(sum)))
}

/// `out = sum over positions, ascending, of weight * value`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn weighted_sum<E: Element>(weights: &[f32], values: &[E], out: &mut [f32]) {
    let head_dim = out.len();
    assert!(values.len() >= weights.len() * head_dim);
    let mut first = 0;
    while head_dim - first >= OUT_REGISTERS * LANES {
        sweep::<OUT_REGISTERS, E>(weights, values, first, out);
        first += OUT_REGISTERS * LANES;
    }
    while head_dim - first >= LANES {
        sweep::<1, E>(weights, values, first, out);
        first += LANES;
    }
    for dimension in first..head_dim {
        out[dimension] = weights.iter().enumerate().fold(0.0, |sum, (i, weight)| {
            weight.mul_add(values[i * head_dim + dimension].widen(), sum)
        });
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sweep<const N: usize, E: Element>(weights: &[f32], values: &[E], first: usize, out: &mut [f32]) {
    let head_dim = out.len();
    let mut sums = [_mm256_setzero_ps(); N];
    for (position, &weight) in weights.iter().enumerate() {
        let weight = _mm256_set1_ps(weight);
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `weighted_sum` checked that weights.len() rows of head_dim exist and N registers fit after `first`.
            let value =
                unsafe { E::load(values.as_ptr().add(position * head_dim + first + i * LANES)) };
            *sum = _mm256_fmadd_ps(weight, value, *sum);
        }
    }
    for (sum, out) in sums.iter().zip(out[first..].chunks_exact_mut(LANES)) {
        // SAFETY: the chunk has eight elements.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), *sum) };
    }
}

/// Adds the partial of the next page to what the pages before it gave.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn merge(into: &mut Partials, page: &Partials) {
    // Few operations per page; the reference's loop compiled for this instruction set is as good as intrinsics.
    crate::kernels::scalar::attend::merge(into, page);
}
