//! The page primitive: several queries against a page as two small products, scores and values, in one register tile.
//!
//! A key or value is widened once for all queries of a tile. Which queries share a tile changes no sum: each score has
//! its dimensions ascending, each output its keys ascending, in an accumulator of its own. Not here: which pages.

use std::arch::x86_64::*;
use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

use super::exp::exp;
use super::{LANES, lanes};
use crate::kernels::sum_stripes;
use crate::tensor::{PAGE_POSITIONS, PageData, PageView, Partials, PartialsMut, Span};

/// Queries of the widest tile: 6 x 2 accumulators, two registers of keys and one query fill the sixteen registers.
const QUERIES_MAX: usize = 6;

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

/// Rows of a matrix, `stride` elements apart.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    data: &'a [T],
    stride: usize,
}

/// One head's page: keys `[head_dim][64]`, values `[64][head_dim]`.
#[derive(Clone, Copy)]
struct Page<'a, E> {
    k: &'a [E],
    v: &'a [E],
    head_dim: usize,
}

/// Fills `out` for `queries[m][head_dim]` over the slots `seen[m]` of one head's page.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn attend(
    page: PageView<'_>,
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    out: PartialsMut<'_>,
) {
    match page.data {
        PageData::F32 { k, v } => attend_elements((k, v), queries, seen, scale, out),
        PageData::F16 { k, v } => attend_elements((k, v), queries, seen, scale, out),
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn attend_elements<E: Element>(
    (k, v): (&[E], &[E]),
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    mut out: PartialsMut<'_>,
) {
    let head_dim = k.len() / PAGE_POSITIONS;
    let page = Page { k, v, head_dim };
    let mut first = 0;
    while first < seen.len() {
        let count = QUERIES_MAX.min(seen.len() - first);
        let range = first..first + count;
        let queries = &queries[range.start * head_dim..range.end * head_dim];
        let (seen, out) = (&seen[range.clone()], out.queries(range));
        match count {
            1 => tile::<1, 8, E>(page, queries, seen, scale, out),
            2 => tile::<2, 4, E>(page, queries, seen, scale, out),
            3 => tile::<3, 4, E>(page, queries, seen, scale, out),
            4 => tile::<4, 2, E>(page, queries, seen, scale, out),
            5 => tile::<5, 2, E>(page, queries, seen, scale, out),
            _ => tile::<QUERIES_MAX, 2, E>(page, queries, seen, scale, out),
        }
        first += count;
    }
}

/// Q queries over the page, R registers of keys or of dimensions at a time.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn tile<const Q: usize, const R: usize, E: Element>(
    page: Page<'_, E>,
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    out: PartialsMut<'_>,
) {
    let Page { k, v, head_dim } = page;
    let mut weights = [[0.0_f32; PAGE_POSITIONS]; Q];
    let (from, to) = seen.iter().fold((PAGE_POSITIONS, 0), |(from, to), seen| {
        (from.min(seen.first), to.max(seen.end))
    });
    let touched = from / LANES * LANES..to.next_multiple_of(LANES);
    let (x, y) = (rows(queries, head_dim), rows(k, PAGE_POSITIONS));
    let scores = weights.as_flattened_mut();
    product::<Q, R, E>(x, y, 0..head_dim, touched, (scores, PAGE_POSITIONS));
    for (q, weights) in weights.iter_mut().enumerate() {
        (out.max[q], out.sum[q]) = softmax(weights, seen[q], scale);
    }
    out.out.fill(0.0);
    // Every query sees the slots of `joint`; what is seen by some only is multiplied for them alone, in its turn: a slot
    // that a query does not see may hold anything.
    let start = seen.iter().map(|seen| seen.first).max().unwrap_or(0);
    let end = seen.iter().map(|seen| seen.end).min().unwrap_or(0);
    let joint = start..end.max(start);
    let (x, y) = (
        rows(weights.as_flattened(), PAGE_POSITIONS),
        rows(v, head_dim),
    );
    for q in 0..Q {
        let head = seen[q].first..seen[q].end.min(joint.start);
        alone(
            &weights[q],
            y,
            head,
            &mut out.out[q * head_dim..][..head_dim],
        );
    }
    product::<Q, R, E>(x, y, joint.clone(), 0..head_dim, (out.out, head_dim));
    for q in 0..Q {
        let tail = seen[q].first.max(joint.end)..seen[q].end;
        alone(
            &weights[q],
            y,
            tail,
            &mut out.out[q * head_dim..][..head_dim],
        );
    }
}

fn rows<T>(data: &[T], stride: usize) -> Rows<'_, T> {
    Rows { data, stride }
}

/// The values of slots that one query sees and not all of its tile.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn alone<E: Element>(
    weights: &[f32; PAGE_POSITIONS],
    values: Rows<'_, E>,
    slots: Range<usize>,
    out: &mut [f32],
) {
    if !slots.is_empty() {
        let (columns, stride) = (0..out.len(), out.len());
        product::<1, 8, E>(
            rows(weights, PAGE_POSITIONS),
            values,
            slots,
            columns,
            (out, stride),
        );
    }
}

/// `out[q][c] += sum over i of steps, ascending, of x[q][i] * y[i][c]` for Q rows and some columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn product<const Q: usize, const R: usize, E: Element>(
    x: Rows<'_, f32>,
    y: Rows<'_, E>,
    steps: Range<usize>,
    columns: Range<usize>,
    (out, stride): (&mut [f32], usize),
) {
    if steps.is_empty() {
        return;
    }
    assert!((Q - 1) * x.stride + steps.end <= x.data.len());
    assert!((steps.end - 1) * y.stride + columns.end <= y.data.len());
    assert!((Q - 1) * stride + columns.end <= out.len());
    let mut first = columns.start;
    while columns.end - first >= R * LANES {
        // SAFETY: the assertions above; R registers fit before `columns.end`.
        unsafe { strip::<Q, R, E>(x, y, steps.clone(), first, (out, stride)) };
        first += R * LANES;
    }
    while columns.end - first >= LANES {
        // SAFETY: the assertions above; one register fits before `columns.end`.
        unsafe { strip::<Q, 1, E>(x, y, steps.clone(), first, (out, stride)) };
        first += LANES;
    }
    for column in first..columns.end {
        for q in 0..Q {
            let out = &mut out[q * stride + column];
            *out = steps.clone().fold(*out, |sum, i| {
                x.data[q * x.stride + i].mul_add(y.data[i * y.stride + column].widen(), sum)
            });
        }
    }
}

/// The columns `first..first + 8 R` of [`product`], in Q x R accumulators.
///
/// # Safety
/// Q rows of `x` reach `steps.end`, rows `steps` of `y` and Q rows of `out` reach the last of the columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn strip<const Q: usize, const R: usize, E: Element>(
    x: Rows<'_, f32>,
    y: Rows<'_, E>,
    steps: Range<usize>,
    first: usize,
    (out, stride): (&mut [f32], usize),
) {
    // SAFETY: all places lie within the slices, as promised by the caller.
    unsafe {
        let out = out.as_mut_ptr().add(first);
        let mut sums = [[_mm256_setzero_ps(); R]; Q];
        for (q, sums) in sums.iter_mut().enumerate() {
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = _mm256_loadu_ps(out.add(q * stride + r * LANES));
            }
        }
        let mut x_row = x.data.as_ptr().add(steps.start);
        let mut y_row = y.data.as_ptr().add(steps.start * y.stride + first);
        for _ in steps {
            let wide = |q: usize| _mm256_broadcast_ss(&*x_row.add(q * x.stride));
            let load = |r: usize| E::load(y_row.add(r * LANES));
            // The shorter side waits in registers: 3 x 4 and 6 x 2 sums then leave just enough of them.
            if Q < R {
                let x: [__m256; Q] = std::array::from_fn(wide);
                for r in 0..R {
                    let y = load(r);
                    for q in 0..Q {
                        sums[q][r] = _mm256_fmadd_ps(x[q], y, sums[q][r]);
                    }
                    // Loading the next register sooner would leave none for one of the sums.
                    compiler_fence(Ordering::SeqCst);
                }
            } else {
                let y: [__m256; R] = std::array::from_fn(load);
                for (q, sums) in sums.iter_mut().enumerate() {
                    let x = wide(q);
                    for (sum, y) in sums.iter_mut().zip(y) {
                        *sum = _mm256_fmadd_ps(x, y, *sum);
                    }
                }
            }
            x_row = x_row.add(1);
            y_row = y_row.wrapping_add(y.stride); // beyond the last row it is not read
        }
        for (q, sums) in sums.iter().enumerate() {
            for (r, sum) in sums.iter().enumerate() {
                _mm256_storeu_ps(out.add(q * stride + r * LANES), *sum);
            }
        }
    }
}

/// Turns scores into exp(score - max) in the registers that the query sees; returns the maximum and the striped sum.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn softmax(scores: &mut [f32; PAGE_POSITIONS], seen: Span, scale: f32) -> (f32, f32) {
    if seen.is_empty() {
        return (f32::NEG_INFINITY, 0.0);
    }
    let (from, to) = (seen.first / LANES * LANES, seen.end.next_multiple_of(LANES));
    // What stands beside the slots seen weighs exp(-inf) = 0, and adding it changes no stripe.
    scores[from..seen.first].fill(f32::NEG_INFINITY);
    scores[seen.end..to].fill(f32::NEG_INFINITY);
    let scale = _mm256_set1_ps(scale);
    let registers = &mut scores.as_chunks_mut::<LANES>().0[from / LANES..to / LANES];
    let mut max = _mm256_set1_ps(f32::NEG_INFINITY);
    for register in registers.iter() {
        // SAFETY: the chunk has eight elements.
        let score = unsafe { _mm256_loadu_ps(register.as_ptr()) };
        max = _mm256_max_ps(_mm256_mul_ps(score, scale), max);
    }
    let max = lanes(max)
        .into_iter()
        .fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
        + 0.0;
    let mut sum = _mm256_setzero_ps();
    for register in registers {
        // SAFETY: the chunk has eight elements.
        let score = unsafe { _mm256_loadu_ps(register.as_ptr()) };
        let below = _mm256_sub_ps(_mm256_mul_ps(score, scale), _mm256_set1_ps(max));
        let weight = exp(below);
        sum = _mm256_add_ps(sum, weight);
        // SAFETY: the chunk has eight elements.
        unsafe { _mm256_storeu_ps(register.as_mut_ptr(), weight) };
    }
    (max, sum_stripes(lanes(sum)))
}

/// Adds the partial of the next page to what the pages before it gave, eight queries' factors at once.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn merge(mut into: PartialsMut<'_>, page: Partials<'_>) {
    let queries = into.max.len();
    let mut first = 0;
    while first < queries {
        let range = first..queries.min(first + LANES);
        merge_lanes(into.queries(range.clone()), page.queries(range));
        first += LANES;
    }
}

/// [`merge`] of at most eight queries.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn merge_lanes(into: PartialsMut<'_>, page: Partials<'_>) {
    let queries = into.max.len();
    let head_dim = into.out.len() / queries;
    let (old_max, new_max) = (lane_of(into.max), lane_of(page.max));
    let max = _mm256_max_ps(new_max, old_max);
    let (old, new) = (
        exp(_mm256_sub_ps(old_max, max)),
        exp(_mm256_sub_ps(new_max, max)),
    );
    let rest = _mm256_mul_ps(old, lane_of(into.sum));
    let sum = lanes(_mm256_fmadd_ps(new, lane_of(page.sum), rest));
    let (max, old, new) = (lanes(max), lanes(old), lanes(new));
    for q in 0..queries {
        let row = q * head_dim..(q + 1) * head_dim;
        let (out, values) = (&mut into.out[row.clone()], &page.out[row]);
        if page.sum[q] == 0.0 {
            continue; // the query sees nothing of this page
        }
        if into.sum[q] == 0.0 {
            // The first page with something to see is taken as it is.
            (into.max[q], into.sum[q]) = (page.max[q], page.sum[q]);
            out.copy_from_slice(values);
            continue;
        }
        (into.max[q], into.sum[q]) = (max[q], sum[q]);
        let (old, new) = (old[q], new[q]);
        for (o, &value) in out.iter_mut().zip(values) {
            *o = new.mul_add(value, old * *o);
        }
    }
}

/// Up to eight values in a register, zeros behind them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn lane_of(values: &[f32]) -> __m256 {
    let mut lanes = [0.0; LANES];
    lanes[..values.len()].copy_from_slice(values);
    // SAFETY: the array has eight elements.
    unsafe { _mm256_loadu_ps(lanes.as_ptr()) }
}
