//! The page primitive: up to six queries against the sixty-four positions of a page, or as many dimensions, at a time.
//!
//! Four registers hold a row of keys or values, so a page is read once, from its first byte to its last, as memory
//! delivers it best. Each score has its dimensions ascending and each output its keys ascending, in an accumulator of
//! its own, whichever queries share a tile. Not here: which pages.

use std::arch::x86_64::*;
use std::ops::Range;

use super::exp::exp_below_zero;
use super::stored::{Element, OfKeys, OfValues, Scales, Unscaled};
use crate::kernels::{STRIPES, sum_stripes};
use crate::tensor::{PAGE_POSITIONS, PageView, PartialsMut, Span};

/// Queries of the widest tile: 6 x 4 accumulators, four registers of keys and one query of the thirty-two.
pub(super) const QUERIES_MAX: usize = 6;
/// Queries whose scores are all there before the first value is read: what is then read again comes from the first-level
/// cache, which has room for keys or values but not for both.
const QUERIES_TOGETHER: usize = 24;
/// Lanes of a register.
pub(super) const LANES: usize = 16;
/// Registers of a row.
pub(super) const REGISTERS: usize = PAGE_POSITIONS / LANES;
/// Bytes fetched by one request.
pub(super) const LINE_BYTES: usize = 64;

/// One head's page: keys `[head_dim][64]`, values `[64][head_dim]`.
#[derive(Clone, Copy)]
struct Page<'a, E, K, V> {
    k: Matrix<'a, E, K>,
    v: Matrix<'a, E, V>,
    /// Where the keys and the values begin that will be read after these.
    next: [Option<Place>; 2],
}

/// Keys or values: elements and what they are multiplied by.
#[derive(Clone, Copy)]
struct Matrix<'a, E, S> {
    elements: &'a [E],
    scales: S,
}

/// Keys or values that are numbers as they are.
fn unscaled<E>(elements: &[E]) -> Matrix<'_, E, Unscaled> {
    let scales = Unscaled;
    Matrix { elements, scales }
}

/// An address to fetch from, never to read. Fetched into the second-level cache: the first has no room for what is read
/// after all that is read now, and waits for fewer lines at a time.
type Place = *const i8;

/// Fills `out` for `queries[m][head_dim]` over the slots `seen[m]` of one head's page.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn attend(
    page: PageView<'_>,
    next: Option<PageView<'_>>,
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    out: PartialsMut<'_>,
) {
    let next = next.map(|next| match next {
        PageView::F32 { k, v } => [k.as_ptr().cast(), v.as_ptr().cast()],
        PageView::F16 { k, v } => [k.as_ptr().cast(), v.as_ptr().cast()],
        PageView::Q8_0 { k, v } => [k.bytes.as_ptr(), v.bytes.as_ptr()],
    });
    let next = next.map_or([None; 2], |places| places.map(Some));
    let x = (queries, seen, scale);
    match page {
        PageView::F32 { k, v } => {
            let (k, v) = (unscaled(k), unscaled(v));
            attend_elements(Page { k, v, next }, x, out);
        }
        PageView::F16 { k, v } => {
            let (k, v) = (unscaled(k), unscaled(v));
            attend_elements(Page { k, v, next }, x, out);
        }
        PageView::Q8_0 { k, v } => {
            let k = Matrix {
                elements: k.bytes,
                scales: OfKeys(k.scales),
            };
            let v = Matrix {
                elements: v.bytes,
                scales: OfValues(v.scales),
            };
            attend_elements(Page { k, v, next }, x, out);
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn attend_elements<E: Element, K: Scales, V: Scales>(
    page: Page<'_, E, K, V>,
    x: (&[f32], &[Span], f32),
    out: PartialsMut<'_>,
) {
    if x.1.len() <= QUERIES_MAX {
        attend_page::<QUERIES_MAX, _, _, _>(page, x, out);
    } else {
        attend_page::<QUERIES_TOGETHER, _, _, _>(page, x, out);
    }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn attend_page<const TOGETHER: usize, E: Element, K: Scales, V: Scales>(
    mut page: Page<'_, E, K, V>,
    (queries, seen, scale): (&[f32], &[Span], f32),
    mut out: PartialsMut<'_>,
) {
    let head_dim = page.k.elements.len() / PAGE_POSITIONS;
    let mut weights = [[0.0; PAGE_POSITIONS]; TOGETHER];
    for first in (0..seen.len()).step_by(TOGETHER) {
        let range = first..seen.len().min(first + TOGETHER);
        let queries = &queries[range.start * head_dim..range.end * head_dim];
        let (seen, out) = (&seen[range.clone()], out.queries(range));
        let weights = &mut weights[..seen.len()];
        scores(page, queries, weights);
        weigh(weights, seen, scale, (out.max, out.sum));
        outputs(page, weights, seen, out.out);
        page.next = [None; 2]; // fetched once
    }
}

/// Queries per tile where `rest` are left, as even as they come: seven are four and three, not six and one.
pub(super) fn tile_of(rest: usize) -> usize {
    rest.div_ceil(rest.div_ceil(QUERIES_MAX))
}

/// `scores[m][64] = queries[m][head_dim] * keys`, not yet scaled.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn scores<E: Element, K: Scales, V: Scales>(
    page: Page<'_, E, K, V>,
    queries: &[f32],
    scores: &mut [[f32; PAGE_POSITIONS]],
) {
    let head_dim = page.k.elements.len() / PAGE_POSITIONS;
    let mut product = Product {
        x: queries,
        x_stride: head_dim,
        y: page.k,
        y_stride: PAGE_POSITIONS,
        next: page.next[0],
    };
    let mut rest = scores;
    while !rest.is_empty() {
        let (tile, behind) = rest.split_at_mut(tile_of(rest.len()));
        product.run::<true>(tile.len(), 0..head_dim, tile.as_flattened_mut());
        product.x = &product.x[tile.len() * head_dim..];
        product.next = None; // fetched once
        rest = behind;
    }
}

/// `out[m][head_dim] = weights[m][64] * values`, of the slots seen.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn outputs<E: Element, K: Scales, V: Scales>(
    page: Page<'_, E, K, V>,
    weights: &[[f32; PAGE_POSITIONS]],
    seen: &[Span],
    out: &mut [f32],
) {
    let head_dim = page.v.elements.len() / PAGE_POSITIONS;
    let mut next = page.next[1];
    let mut first = 0;
    while first < seen.len() {
        let tile = first..first + tile_of(seen.len() - first);
        let (weights, seen) = (&weights[tile.clone()], &seen[tile.clone()]);
        let out = &mut out[tile.start * head_dim..tile.end * head_dim];
        let values = |x, next| Product {
            x,
            x_stride: PAGE_POSITIONS,
            y: page.v,
            y_stride: head_dim,
            next,
        };
        // Every query sees the slots of `joint`; what is seen by some only is multiplied for them alone, in its turn: a
        // slot that a query does not see may hold anything.
        let start = seen.iter().map(|seen| seen.first).max().unwrap_or(0);
        let end = seen.iter().map(|seen| seen.end).min().unwrap_or(0);
        let joint = start..end.max(start);
        let all = values(weights.as_flattened(), next);
        if seen.iter().all(|seen| (seen.first..seen.end) == joint) {
            all.run::<true>(tile.len(), joint, out);
        } else {
            out.fill(0.0);
            for (q, out) in out.chunks_exact_mut(head_dim).enumerate() {
                let head = seen[q].first..seen[q].end.min(joint.start);
                values(&weights[q], None).run::<false>(1, head, out);
            }
            all.run::<false>(tile.len(), joint.clone(), &mut *out);
            for (q, out) in out.chunks_exact_mut(head_dim).enumerate() {
                let tail = seen[q].first.max(joint.end)..seen[q].end;
                values(&weights[q], None).run::<false>(1, tail, out);
            }
        }
        next = None; // fetched once
        first = tile.end;
    }
}

/// Sums over rows of `y`, ascending, of `x[q][row] * y[row][column]`.
struct Product<'a, E, S> {
    x: &'a [f32],
    x_stride: usize,
    y: Matrix<'a, E, S>,
    y_stride: usize,
    /// What to fetch meanwhile, as long as `y`.
    next: Option<Place>,
}

impl<E: Element, S: Scales> Product<'_, E, S> {
    /// Lines fetched for a row of `y`.
    const LINES: usize = PAGE_POSITIONS * size_of::<E>() / LINE_BYTES;

    /// The sums over `rows` for `queries` rows of `x`, at most `QUERIES_MAX`, in `out[queries][y_stride]`: from zero if
    /// `SET`, else on top of what is there.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
    fn run<const SET: bool>(&self, queries: usize, rows: Range<usize>, out: &mut [f32]) {
        match queries {
            1 => self.tile::<1, SET>(rows, out),
            2 => self.tile::<2, SET>(rows, out),
            3 => self.tile::<3, SET>(rows, out),
            4 => self.tile::<4, SET>(rows, out),
            5 => self.tile::<5, SET>(rows, out),
            _ => self.tile::<QUERIES_MAX, SET>(rows, out),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
    fn tile<const Q: usize, const SET: bool>(&self, rows: Range<usize>, out: &mut [f32]) {
        if rows.is_empty() {
            if SET {
                out.fill(0.0);
            }
            return;
        }
        assert!((Q - 1) * self.x_stride + rows.end <= self.x.len());
        assert!(rows.end * self.y_stride <= self.y.elements.len());
        assert!(out.len() >= Q * self.y_stride);
        let mut next = self.next;
        for first in (0..self.y_stride).step_by(REGISTERS * LANES) {
            // SAFETY: the assertions above; a strip writes no further than the stride.
            unsafe { self.strip::<Q, SET>(rows.clone(), first, out, next) };
            next = None; // fetched once
        }
    }

    /// Up to 64 columns from `first` on in Q x 4 accumulators.
    ///
    /// # Safety
    /// Q rows of `x`, `rows` of `y` and Q rows of `out` are within the slices.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn strip<const Q: usize, const SET: bool>(
        &self,
        rows: Range<usize>,
        first: usize,
        out: &mut [f32],
        next: Option<Place>,
    ) {
        let masks: [__mmask16; REGISTERS] = std::array::from_fn(|r| {
            let left = self.y_stride.saturating_sub(first + r * LANES);
            (1_u32.unbounded_shl(left as u32)).wrapping_sub(1) as __mmask16
        });
        // With nothing to fetch, something that is at hand.
        let (mut fetched, step) = match next {
            Some(place) => (place, Self::LINES * LINE_BYTES),
            None => (self.y.elements.as_ptr().cast(), 0),
        };
        // SAFETY: all places read and written lie within the slices, as promised by the caller; fetching reads nothing.
        unsafe {
            let out = out.as_mut_ptr().add(first);
            let place = |q: usize, r: usize| out.wrapping_add(q * self.y_stride + r * LANES);
            let mut sums = [[_mm512_setzero_ps(); REGISTERS]; Q];
            if !SET {
                for (q, sums) in sums.iter_mut().enumerate() {
                    for (r, sum) in sums.iter_mut().enumerate() {
                        *sum = _mm512_maskz_loadu_ps(masks[r], place(q, r));
                    }
                }
            }
            let mut x_place = self.x.as_ptr().add(rows.start);
            let y = self.y.elements.as_ptr();
            let mut y_place = y.wrapping_add(rows.start * self.y_stride + first);
            let mut start = rows.start;
            while start < rows.end {
                let end = rows.end.min((start / S::ROWS + 1) * S::ROWS);
                let scales = self.y.scales.widen(start, first);
                for row in start..end {
                    let y: [__m512; REGISTERS] = std::array::from_fn(|r| {
                        let elements = E::load(y_place.wrapping_add(r * LANES), masks[r]);
                        S::multiply(&scales, row, r, elements)
                    });
                    for (q, sums) in sums.iter_mut().enumerate() {
                        let x = _mm512_set1_ps(*x_place.add(q * self.x_stride));
                        for (sum, y) in sums.iter_mut().zip(y) {
                            *sum = _mm512_fmadd_ps(x, y, *sum);
                        }
                    }
                    for line in 0..Self::LINES {
                        _mm_prefetch::<_MM_HINT_T1>(fetched.wrapping_add(line * LINE_BYTES));
                    }
                    fetched = fetched.wrapping_add(step);
                    x_place = x_place.add(1);
                    y_place = y_place.wrapping_add(self.y_stride); // not read beyond the last row
                }
                start = end;
            }
            for (q, sums) in sums.into_iter().enumerate() {
                for (r, sum) in sums.into_iter().enumerate() {
                    _mm512_mask_storeu_ps(place(q, r), masks[r], sum);
                }
            }
        }
    }
}

/// Turns the scores of the slots seen into weights exp(score - max), zero elsewhere; gives maxima and striped sums.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn weigh(
    weights: &mut [[f32; PAGE_POSITIONS]],
    seen: &[Span],
    scale: f32,
    (max, sum): (&mut [f32], &mut [f32]),
) {
    let each = weights.chunks_mut(2).zip(seen.chunks(2));
    let each = each.zip(max.chunks_mut(2)).zip(sum.chunks_mut(2));
    for (((weights, seen), max), sum) in each {
        // Two at a time: each waits for its own maximum and its own sum.
        match seen.len() {
            1 => softmax::<1>(weights, seen, scale, max, sum),
            _ => softmax::<2>(weights, seen, scale, max, sum),
        }
    }
}

/// A bit for each slot seen.
pub(super) fn slots(seen: Span) -> u64 {
    let bits = |slots: usize| 1_u64.unbounded_shl(slots as u32).wrapping_sub(1);
    bits(seen.end) & !bits(seen.first)
}

/// Turns the scores of the slots each of N queries sees into weights exp(score - max), zero elsewhere; gives maxima and
/// striped sums.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
#[allow(clippy::needless_range_loop)] // the queries' registers are walked side by side
fn softmax<const N: usize>(
    weights: &mut [[f32; PAGE_POSITIONS]],
    seen: &[Span],
    scale: f32,
    max: &mut [f32],
    sum: &mut [f32],
) {
    let (weights, seen) = (&mut weights[..N], &seen[..N]);
    let (max, sum) = (&mut max[..N], &mut sum[..N]);
    let minus_infinity = _mm512_set1_ps(f32::NEG_INFINITY);
    let mut scores = [[minus_infinity; REGISTERS]; N];
    let mut greatest = [minus_infinity; N];
    for n in 0..N {
        let seen = slots(seen[n]);
        for (r, values) in weights[n].as_chunks::<LANES>().0.iter().enumerate() {
            let mask = (seen >> (r * LANES)) as __mmask16;
            // SAFETY: the array has sixteen elements.
            let raw = unsafe { _mm512_loadu_ps(values.as_ptr()) };
            scores[n][r] = _mm512_mask_mul_ps(minus_infinity, mask, raw, _mm512_set1_ps(scale));
            greatest[n] = _mm512_max_ps(scores[n][r], greatest[n]);
        }
    }
    for n in 0..N {
        max[n] = _mm512_reduce_max_ps(greatest[n]) + 0.0;
    }
    let mut stripes = [_mm256_setzero_ps(); N];
    for r in 0..REGISTERS {
        for n in 0..N {
            let weight = exp_below_zero(_mm512_sub_ps(scores[n][r], _mm512_set1_ps(max[n])));
            stripes[n] = _mm256_add_ps(stripes[n], _mm512_castps512_ps256(weight));
            stripes[n] = _mm256_add_ps(stripes[n], _mm512_extractf32x8_ps::<1>(weight));
            let values = &mut weights[n].as_chunks_mut::<LANES>().0[r];
            // SAFETY: the array has sixteen elements.
            unsafe { _mm512_storeu_ps(values.as_mut_ptr(), weight) };
        }
    }
    for n in 0..N {
        let mut lanes = [0.0; STRIPES];
        // SAFETY: the array has eight elements.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), stripes[n]) };
        sum[n] = sum_stripes(lanes);
        if seen[n].is_empty() {
            (max[n], sum[n]) = (f32::NEG_INFINITY, 0.0);
        }
    }
}
