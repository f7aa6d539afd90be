//! The page primitive: sixty-four scores in eight registers, then values by dimension.

use std::arch::x86_64::*;

use super::exp::exp;
use super::{LANES, lanes};
use crate::kernels::sum_stripes;
use crate::tensor::{PAGE_POSITIONS, PageView, Partials};

/// Registers that hold the scores of a page.
const SCORE_REGISTERS: usize = PAGE_POSITIONS / LANES;
/// Registers of output dimensions summed in one sweep over the values.
const OUT_REGISTERS: usize = 8;

/// Fills `out` for `queries[m][head_dim]` over the first `visible[m]` positions of one head's page.
#[target_feature(enable = "avx2,fma")]
pub(super) fn attend(
    page: PageView<'_>,
    queries: &[f32],
    visible: &[usize],
    scale: f32,
    out: &mut Partials,
) {
    let head_dim = page.k.len() / PAGE_POSITIONS;
    out.reset(visible.len(), head_dim);
    for (m, (query, &visible)) in queries.chunks_exact(head_dim).zip(visible).enumerate() {
        if visible == 0 {
            continue;
        }
        let mut weights = [0.0_f32; PAGE_POSITIONS];
        (out.max[m], out.sum[m]) = softmax(scores(query, page.k), visible, scale, &mut weights);
        let out = &mut out.out[m * head_dim..][..head_dim];
        values(&weights[..visible], page.v, out);
    }
}

/// Dot products with all keys of the page, dimensions ascending.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn scores(query: &[f32], keys: &[f32]) -> [__m256; SCORE_REGISTERS] {
    let mut scores = [_mm256_setzero_ps(); SCORE_REGISTERS];
    for (&q, keys) in query.iter().zip(keys.chunks_exact(PAGE_POSITIONS)) {
        let q = _mm256_set1_ps(q);
        for (i, score) in scores.iter_mut().enumerate() {
            // SAFETY: the chunk has 64 keys and i < 8.
            let key = unsafe { _mm256_loadu_ps(keys.as_ptr().add(i * LANES)) };
            *score = _mm256_fmadd_ps(q, key, *score);
        }
    }
    scores
}

/// Writes exp(score - max) of the visible positions, zero elsewhere; returns the maximum and the striped sum.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn softmax(
    mut scores: [__m256; SCORE_REGISTERS],
    visible: usize,
    scale: f32,
    weights: &mut [f32; PAGE_POSITIONS],
) -> (f32, f32) {
    let minus_infinity = _mm256_set1_ps(f32::NEG_INFINITY);
    let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let mut max = minus_infinity;
    for (i, score) in scores.iter_mut().enumerate() {
        let left = _mm256_set1_epi32(visible as i32 - (i * LANES) as i32);
        let seen = _mm256_castsi256_ps(_mm256_cmpgt_epi32(left, lane));
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
#[target_feature(enable = "avx2,fma")]
fn values(weights: &[f32], values: &[f32], out: &mut [f32]) {
    let head_dim = out.len();
    assert!(values.len() >= weights.len() * head_dim);
    let mut first = 0;
    while head_dim - first >= OUT_REGISTERS * LANES {
        sweep::<OUT_REGISTERS>(weights, values, first, out);
        first += OUT_REGISTERS * LANES;
    }
    while head_dim - first >= LANES {
        sweep::<1>(weights, values, first, out);
        first += LANES;
    }
    for dimension in first..head_dim {
        out[dimension] = weights.iter().enumerate().fold(0.0, |sum, (i, weight)| {
            weight.mul_add(values[i * head_dim + dimension], sum)
        });
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn sweep<const N: usize>(weights: &[f32], values: &[f32], first: usize, out: &mut [f32]) {
    let head_dim = out.len();
    let mut sums = [_mm256_setzero_ps(); N];
    for (position, &weight) in weights.iter().enumerate() {
        let weight = _mm256_set1_ps(weight);
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `values` checked that weights.len() rows of head_dim exist and N registers fit after `first`.
            let value = unsafe {
                _mm256_loadu_ps(values.as_ptr().add(position * head_dim + first + i * LANES))
            };
            *sum = _mm256_fmadd_ps(weight, value, *sum);
        }
    }
    for (sum, out) in sums.iter().zip(out[first..].chunks_exact_mut(LANES)) {
        // SAFETY: the chunk has eight elements.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), *sum) };
    }
}

/// Adds the partial of the next page to what the pages before it gave.
#[target_feature(enable = "avx2,fma")]
pub(super) fn merge(into: &mut Partials, page: &Partials) {
    // Few operations per page; the reference's loop compiled for this instruction set is as good as intrinsics.
    crate::kernels::scalar::attend::merge(into, page);
}
