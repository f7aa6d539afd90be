//! The page primitive of `fast` mode over keys and values of type q8_0: byte products, exact integer sums.
//!
//! Queries come rounded to bytes as the inputs of every `fast` product do, so a score is what such a product gives: per
//! block of 32 dimensions, ascending, an exact dot and one fma with both scales. A weight times the scale of its value's
//! block is rounded to a byte without sign, 255 for the greatest of the page: one exact dot over the page, and one product
//! with its scale. The sum of the weights is of the weights as they were. Not here: the merge of pages (`attend`).

use half::f16;

use super::attend::weigh;
use super::quantize::{SHIFT, factors};
use crate::tensor::dtype::BLOCK;
use crate::tensor::{PAGE_POSITIONS, PartialsMut, Quants, RoundedRows, Span};

/// Greatest rounded weight.
pub(in crate::kernels) const WEIGHT_LEVELS: f32 = 255.0;

/// Fills `out` for the rounded queries, `[m][head_dim]` and zeros up to whole blocks, over the slots `seen[m]` of one
/// head's page of keys and values.
#[inline(always)]
pub(in crate::kernels) fn attend_fast(
    [k, v]: [Quants<'_>; 2],
    _next: Option<[Quants<'_>; 2]>,
    queries: RoundedRows<'_>,
    seen: &[Span],
    scale: f32,
    mut out: PartialsMut<'_>,
) {
    let head_dim = k.bytes.len() / PAGE_POSITIONS;
    out.clear();
    for (m, &seen) in seen.iter().enumerate() {
        if seen.is_empty() {
            continue;
        }
        let mut weights = scores(k, queries.row(m));
        (out.max[m], out.sum[m]) = weigh(&mut weights, seen, scale);
        let out_row = &mut out.out[m * head_dim..][..head_dim];
        let scales = v.scales.chunks_exact(PAGE_POSITIONS);
        for (b, (out, scales)) in out_row.chunks_mut(BLOCK).zip(scales).enumerate() {
            let mut wide = [0.0; PAGE_POSITIONS];
            for (wide, scale) in wide.iter_mut().zip(scales) {
                *wide = f16::from_bits(*scale).to_f32();
            }
            let (quants, scale) = round_weights(&weights, &wide, seen);
            let mut dots = [0_i32; BLOCK];
            for (slot, &quant) in quants.iter().enumerate() {
                let values = &v.bytes[slot * head_dim + b * BLOCK..][..out.len()];
                for (dot, &value) in dots.iter_mut().zip(values) {
                    // 64 products below 2^15: checked, the loop would not become vectors.
                    *dot = dot.wrapping_add(i32::from(quant) * i32::from(value));
                }
            }
            for (out, dot) in out.iter_mut().zip(dots) {
                *out = dot as f32 * scale;
            }
        }
    }
}

/// Scores of one query, not yet scaled.
#[inline(always)]
fn scores(k: Quants<'_>, query: RoundedRows<'_>) -> [f32; PAGE_POSITIONS] {
    let mut scores = [0.0_f32; PAGE_POSITIONS];
    let blocks = k.bytes.chunks(BLOCK * PAGE_POSITIONS);
    for (b, (keys, scales)) in blocks
        .zip(k.scales.chunks_exact(PAGE_POSITIONS))
        .enumerate()
    {
        let mut dots = [0_i32; PAGE_POSITIONS];
        let quants = &query.quants[b * BLOCK..];
        for (&quant, keys) in quants.iter().zip(keys.chunks_exact(PAGE_POSITIONS)) {
            for (dot, &key) in dots.iter_mut().zip(keys) {
                // 32 products of at most 2^14, as above.
                *dot = dot.wrapping_add(i32::from(quant) * i32::from(key));
            }
        }
        for ((score, dot), scale) in scores.iter_mut().zip(dots).zip(scales) {
            let scale = f16::from_bits(*scale).to_f32() * query.scales[b];
            *score = (dot as f32).mul_add(scale, *score);
        }
    }
    scores
}

/// Rounds the weights of the slots seen, each times its scale; zeros elsewhere, where scales may hold anything.
#[inline(always)]
fn round_weights(
    weights: &[f32; PAGE_POSITIONS],
    scales: &[f32; PAGE_POSITIONS],
    seen: Span,
) -> ([u8; PAGE_POSITIONS], f32) {
    let mut products = [0.0; PAGE_POSITIONS];
    for (slot, product) in products.iter_mut().enumerate() {
        let visible = seen.first <= slot && slot < seen.end;
        *product = if visible {
            weights[slot] * scales[slot]
        } else {
            0.0
        };
    }
    // None is negative, so that their bits are in the order of the numbers, and NaN is the greatest.
    let greatest = products.iter().map(|x| x.to_bits()).max().unwrap_or(0);
    let (inverse, scale) = factors(greatest, WEIGHT_LEVELS);
    let mut quants = [0; PAGE_POSITIONS];
    if inverse != 0.0 {
        for (quant, x) in quants.iter_mut().zip(products) {
            *quant = (x * inverse + SHIFT).to_bits() as u8;
        }
    }
    (quants, scale)
}
