//! The page primitive of `fast` mode over bytes: two dimensions, or two positions, a lane.
//!
//! `vpmaddwd` multiplies 16-bit numbers and adds two products to a 32-bit lane; bytes would saturate. Rows are widened and
//! interleaved by twos once per page, a panel of thirty-two columns at a time: all queries are multiplied by one panel
//! before the next is made. Not here: which pages.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::LANES;
use super::attend::softmax;
use super::quantize::across;
use crate::kernels::scalar::attend_fast::WEIGHT_LEVELS;
use crate::kernels::scalar::quantize::factors;
use crate::tensor::dtype::BLOCK;
use crate::tensor::{PAGE_POSITIONS, PartialsMut, Quants, RoundedRows, Span};

/// Queries of a tile: as many as a KV head of the models at hand has.
const QUERIES_MAX: usize = 3;
/// Registers of a tile: 3 x 2 accumulators leave room for what is multiplied.
const STRIP: usize = 2;
/// Queries whose scores are all there before the first value is read.
const QUERIES_TOGETHER: usize = 24;
/// Columns of a panel: positions of keys, dimensions of values.
const COLUMNS: usize = 32;
/// Registers of a pair of rows.
const REGISTERS: usize = COLUMNS / LANES;
/// Pairs of dimensions in a block.
const KEY_PAIRS: usize = BLOCK / 2;
/// Pairs of positions in a page.
const VALUE_PAIRS: usize = PAGE_POSITIONS / 2;

/// Pairs of rows, widened and interleaved: register r has columns 8r to 8r + 7.
type Panel<const PAIRS: usize> = [[__m256i; REGISTERS]; PAIRS];
/// Inputs by pairs, the first of a pair in the lower half.
type Pairs<const PAIRS: usize> = [i32; PAIRS];

/// Fills `out` for the rounded queries over the slots `seen[m]` of one head's page of keys and values.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn attend_fast(
    [k, v]: [Quants<'_>; 2],
    _next: Option<[Quants<'_>; 2]>,
    queries: RoundedRows<'_>,
    seen: &[Span],
    scale: f32,
    mut out: PartialsMut<'_>,
) {
    let mut weights = [[0.0; PAGE_POSITIONS]; QUERIES_TOGETHER];
    for first in (0..seen.len()).step_by(QUERIES_TOGETHER) {
        let range = first..seen.len().min(first + QUERIES_TOGETHER);
        let weights = &mut weights[..range.len()];
        for block in 0..k.scales.len() / PAGE_POSITIONS {
            for half in 0..PAGE_POSITIONS / COLUMNS {
                scores(
                    k,
                    (block, half * COLUMNS),
                    queries.rows(range.clone()),
                    weights,
                );
            }
        }
        let (seen, mut out) = (&seen[range.clone()], out.queries(range));
        for (q, weights) in weights.iter_mut().enumerate() {
            let (seen, out) = (&seen[q..=q], &mut out.queries(q..q + 1));
            softmax::<1>(
                std::array::from_mut(weights),
                seen,
                0..PAGE_POSITIONS,
                scale,
                out,
            );
        }
        for block in 0..v.scales.len() / PAGE_POSITIONS {
            outputs(v, block, (weights, seen), out.out);
        }
    }
}

/// Adds what one block of dimensions gives to the scores of thirty-two positions from `slot` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scores(
    k: Quants<'_>,
    (block, slot): (usize, usize),
    queries: RoundedRows<'_>,
    scores: &mut [[f32; PAGE_POSITIONS]],
) {
    let last = k.bytes.len() / PAGE_POSITIONS - 1;
    let mut room = MaybeUninit::uninit();
    // Behind the last dimension queries have zeros: any key will do.
    let row = |dim: usize| {
        let row = &k.bytes[(block * BLOCK + dim).min(last) * PAGE_POSITIONS..][..PAGE_POSITIONS];
        row.as_chunks::<COLUMNS>().0[slot / COLUMNS]
    };
    let panel: &Panel<KEY_PAIRS> = interleaved(row, &mut room);
    let scales = &widened(k, block)[slot..slot + COLUMNS];
    let mut first = 0;
    while first < scores.len() {
        let tile = first..scores.len().min(first + QUERIES_MAX);
        let mut inputs = [[0; KEY_PAIRS]; QUERIES_MAX];
        for (input, query) in inputs.iter_mut().zip(tile.clone()) {
            let blocks = queries.quants.as_chunks::<BLOCK>().0;
            widen(&blocks[query * queries.cols / BLOCK + block], input);
        }
        let dots = product(&inputs, panel);
        for (dots, query) in dots.iter().zip(tile.clone()) {
            let x_scale = queries.scales[query * queries.cols / BLOCK + block];
            let scores = &mut scores[query][slot..slot + COLUMNS];
            for ((score, dot), scale) in scores.iter_mut().zip(dots).zip(scales) {
                let sum = if block == 0 { 0.0 } else { *score };
                *score = (*dot as f32).mul_add(scale * x_scale, sum);
            }
        }
        first = tile.end;
    }
}

/// `out[m][head_dim]` of one block of dimensions.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn outputs(
    v: Quants<'_>,
    block: usize,
    (weights, seen): (&[[f32; PAGE_POSITIONS]], &[Span]),
    out: &mut [f32],
) {
    let head_dim = v.bytes.len() / PAGE_POSITIONS;
    let dims = block * BLOCK..head_dim.min((block + 1) * BLOCK);
    let mut room = MaybeUninit::uninit();
    let row = |slot: usize| {
        let row = &v.bytes[slot * head_dim..][dims.clone()];
        row.try_into().unwrap_or_else(|_| {
            let mut padded = [0; COLUMNS];
            padded[..row.len()].copy_from_slice(row);
            padded
        })
    };
    let panel: &Panel<VALUE_PAIRS> = interleaved(row, &mut room);
    let scales = widened(v, block);
    let mut first = 0;
    while first < seen.len() {
        let tile = first..seen.len().min(first + QUERIES_MAX);
        let (mut inputs, mut input_scales) = ([[0; VALUE_PAIRS]; QUERIES_MAX], [0.0; QUERIES_MAX]);
        for (i, query) in tile.clone().enumerate() {
            input_scales[i] = round(&weights[query], &scales, seen[query], &mut inputs[i]);
        }
        let dots = product(&inputs, panel);
        for (i, query) in tile.clone().enumerate() {
            let out = &mut out[query * head_dim..][dims.clone()];
            for (out, dot) in out.iter_mut().zip(dots[i]) {
                *out = dot as f32 * input_scales[i];
            }
        }
        first = tile.end;
    }
}

/// The scales of a block as singles, by position.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widened(quants: Quants<'_>, block: usize) -> [f32; PAGE_POSITIONS] {
    let mut wide = [0.0; PAGE_POSITIONS];
    let halves = quants.scales[block * PAGE_POSITIONS..][..PAGE_POSITIONS].as_chunks();
    for (wide, halves) in wide.as_chunks_mut::<LANES>().0.iter_mut().zip(halves.0) {
        let halves: &[u16; LANES] = halves;
        // SAFETY: both have eight elements.
        unsafe {
            let halves = _mm_loadu_si128(halves.as_ptr().cast());
            _mm256_storeu_ps(wide.as_mut_ptr(), _mm256_cvtph_ps(halves));
        }
    }
    wide
}

/// Bytes as 16-bit numbers, by pairs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widen(bytes: &[i8; BLOCK], pairs: &mut Pairs<KEY_PAIRS>) {
    // SAFETY: thirty-two bytes become sixteen pairs.
    unsafe {
        for half in 0..2 {
            let bytes = _mm_loadu_si128(bytes.as_ptr().add(half * BLOCK / 2).cast());
            let place = pairs.as_mut_ptr().add(half * LANES).cast();
            _mm256_storeu_si256(place, _mm256_cvtepi8_epi16(bytes));
        }
    }
}

/// Weights of the slots seen, times their scales, rounded; gives the scale of what they became.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn round(
    weights: &[f32; PAGE_POSITIONS],
    scales: &[f32; PAGE_POSITIONS],
    seen: Span,
    pairs: &mut Pairs<VALUE_PAIRS>,
) -> f32 {
    let mut products = [_mm256_setzero_ps(); PAGE_POSITIONS / LANES];
    let mut greatest = _mm256_setzero_si256();
    let first = _mm256_set1_epi32(seen.first as i32 - 1);
    let end = _mm256_set1_epi32(seen.end as i32);
    let mut slots = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (r, product) in products.iter_mut().enumerate() {
        // SAFETY: both arrays have eight elements from there on.
        let (weight, scale) = unsafe {
            let [weight, scale] = [weights, scales].map(|it| it.as_ptr().add(r * LANES));
            (_mm256_loadu_ps(weight), _mm256_loadu_ps(scale))
        };
        // Where a slot is not seen its scale may be anything.
        let visible = _mm256_and_si256(
            _mm256_cmpgt_epi32(slots, first),
            _mm256_cmpgt_epi32(end, slots),
        );
        *product = _mm256_and_ps(_mm256_mul_ps(weight, scale), _mm256_castsi256_ps(visible));
        greatest = _mm256_max_epu32(greatest, _mm256_castps_si256(*product));
        slots = _mm256_add_epi32(slots, _mm256_set1_epi32(LANES as i32));
    }
    let greatest = across(greatest, |a, b| _mm_max_epu32(a, b));
    let (inverse, scale) = factors(greatest.cast_unsigned(), WEIGHT_LEVELS);
    if inverse == 0.0 {
        pairs.fill(0);
        return scale;
    }
    let inverse = _mm256_set1_ps(inverse);
    for (two, pairs) in products
        .as_chunks::<2>()
        .0
        .iter()
        .zip(pairs.as_chunks_mut::<LANES>().0)
    {
        // Half to even, the default mode; packing mixes the halves of its operands.
        let first = _mm256_cvtps_epi32(_mm256_mul_ps(two[0], inverse));
        let second = _mm256_cvtps_epi32(_mm256_mul_ps(two[1], inverse));
        let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(first, second));
        // SAFETY: eight pairs are sixteen numbers.
        unsafe { _mm256_storeu_si256(pairs.as_mut_ptr().cast(), packed) };
    }
    scale
}

/// Rows `row(0)`, `row(1)` and so on as a panel.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn interleaved<const PAIRS: usize>(
    row: impl Fn(usize) -> [i8; COLUMNS],
    room: &mut MaybeUninit<Panel<PAIRS>>,
) -> &Panel<PAIRS> {
    for pair in 0..PAIRS {
        let (a, b) = (row(2 * pair), row(2 * pair + 1));
        // SAFETY: each has thirty-two bytes, and there is room for every pair.
        unsafe {
            let a = _mm256_loadu_si256(a.as_ptr().cast());
            let b = _mm256_loadu_si256(b.as_ptr().cast());
            let (low, high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
            room.as_mut_ptr()
                .cast::<[__m256i; REGISTERS]>()
                .add(pair)
                .write([
                    _mm256_cvtepi8_epi16(_mm256_castsi256_si128(low)),
                    _mm256_cvtepi8_epi16(_mm256_castsi256_si128(high)),
                    _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(low)),
                    _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(high)),
                ]);
        }
    }
    // SAFETY: every pair was written.
    unsafe { room.assume_init_ref() }
}

/// Exact dots of three inputs, `[3][32]`.
#[inline(never)] // else what is around it takes registers from it
#[target_feature(enable = "avx2,fma,f16c")]
fn product<const PAIRS: usize>(
    inputs: &[Pairs<PAIRS>; QUERIES_MAX],
    panel: &Panel<PAIRS>,
) -> [[i32; COLUMNS]; QUERIES_MAX] {
    let mut dots = [[0; COLUMNS]; QUERIES_MAX];
    for first in (0..REGISTERS).step_by(STRIP) {
        let mut sums = [[_mm256_setzero_si256(); STRIP]; QUERIES_MAX];
        for (pair, columns) in panel.iter().enumerate() {
            for (sums, inputs) in sums.iter_mut().zip(inputs) {
                let x = _mm256_set1_epi32(inputs[pair]);
                for (r, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(x, columns[first + r]));
                }
            }
        }
        for (sums, dots) in sums.iter().zip(&mut dots) {
            for (r, sum) in sums.iter().enumerate() {
                // SAFETY: thirty-two dots are four registers.
                unsafe {
                    let place = dots.as_mut_ptr().add((first + r) * LANES);
                    _mm256_storeu_si256(place.cast(), *sum);
                }
            }
        }
    }
    dots
}
