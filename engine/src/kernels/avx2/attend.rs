//! The page primitive: several queries against a page as two small products, scores and values, in one register tile.
//!
//! A key or value is widened once for all queries of a tile. Which queries share a tile changes no sum: each score has
//! its dimensions ascending, each output its keys ascending, in an accumulator of its own. Not here: which pages.

use std::arch::x86_64::*;
use std::ops::Range;

use super::exp::exp_below_zero;
use super::stored::{Element, OfKeys, OfValues, Scales, Unscaled};
use super::{LANES, lanes};
use crate::tensor::{PAGE_POSITIONS, PageView, Partials, PartialsMut, Span};

/// Queries of the widest tile: 6 x 2 accumulators, two registers of keys and one query fill the sixteen registers.
const QUERIES_MAX: usize = 6;

/// Rows of a matrix, `stride` elements apart.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    data: &'a [T],
    stride: usize,
}

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
#[target_feature(enable = "avx2,fma,f16c")]
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
    match page {
        PageView::F32 { k, v } => {
            let (k, v) = (unscaled(k), unscaled(v));
            attend_elements(Page { k, v, next }, queries, seen, scale, out);
        }
        PageView::F16 { k, v } => {
            let (k, v) = (unscaled(k), unscaled(v));
            attend_elements(Page { k, v, next }, queries, seen, scale, out);
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
            attend_elements(Page { k, v, next }, queries, seen, scale, out);
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn attend_elements<E: Element, K: Scales, V: Scales>(
    mut page: Page<'_, E, K, V>,
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    mut out: PartialsMut<'_>,
) {
    let head_dim = page.k.elements.len() / PAGE_POSITIONS;
    let mut first = 0;
    while first < seen.len() {
        let count = QUERIES_MAX.min(seen.len() - first);
        let range = first..first + count;
        let queries = &queries[range.start * head_dim..range.end * head_dim];
        let (seen, out) = (&seen[range.clone()], out.queries(range));
        // 64 keys are 8 registers; sums, keys and queries together must leave some of the sixteen.
        match count {
            1 => tile::<1, 8, _, _, _>(page, queries, seen, scale, out),
            2 => tile::<2, 4, _, _, _>(page, queries, seen, scale, out),
            3 => tile::<3, 3, _, _, _>(page, queries, seen, scale, out),
            4 => tile::<4, 2, _, _, _>(page, queries, seen, scale, out),
            5 => tile::<5, 2, _, _, _>(page, queries, seen, scale, out),
            _ => tile::<QUERIES_MAX, 2, _, _, _>(page, queries, seen, scale, out),
        }
        page.next = [None; 2]; // fetched once
        first += count;
    }
}

/// Q queries over the page, R registers of keys or of dimensions at a time.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn tile<const Q: usize, const R: usize, E: Element, K: Scales, V: Scales>(
    page: Page<'_, E, K, V>,
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    mut out: PartialsMut<'_>,
) {
    let head_dim = page.k.elements.len() / PAGE_POSITIONS;
    let mut weights = [[0.0_f32; PAGE_POSITIONS]; Q];
    let (from, to) = seen.iter().fold((PAGE_POSITIONS, 0), |(from, to), seen| {
        (from.min(seen.first), to.max(seen.end))
    });
    let scores = Product {
        x: rows(queries, head_dim),
        y: rows(page.k.elements, PAGE_POSITIONS),
        scales: page.k.scales,
        steps: 0..head_dim,
        next: page.next[0],
    };
    let touched = from / LANES * LANES..to.next_multiple_of(LANES);
    scores.add::<Q, R>(touched.clone(), weights.as_flattened_mut(), PAGE_POSITIONS);
    softmax(&mut weights, seen, touched, scale, &mut out);
    out.out.fill(0.0);
    // Every query sees the slots of `joint`; what is seen by some only is multiplied for them alone, in its turn: a slot
    // that a query does not see may hold anything.
    let start = seen.iter().map(|seen| seen.first).max().unwrap_or(0);
    let end = seen.iter().map(|seen| seen.end).min().unwrap_or(0);
    let joint = start..end.max(start);
    for q in 0..Q {
        let head = seen[q].first..seen[q].end.min(joint.start);
        let out = &mut out.out[q * head_dim..][..head_dim];
        alone(&weights[q], page.v, head, out);
    }
    let sums = Product {
        x: rows(weights.as_flattened(), PAGE_POSITIONS),
        y: rows(page.v.elements, head_dim),
        scales: page.v.scales,
        steps: joint.clone(),
        next: page.next[1],
    };
    sums.add::<Q, R>(0..head_dim, out.out, head_dim);
    for q in 0..Q {
        let tail = seen[q].first.max(joint.end)..seen[q].end;
        let out = &mut out.out[q * head_dim..][..head_dim];
        alone(&weights[q], page.v, tail, out);
    }
}

fn rows<T>(data: &[T], stride: usize) -> Rows<'_, T> {
    Rows { data, stride }
}

/// The values of slots that one query sees and not all of its tile.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn alone<E: Element, S: Scales>(
    weights: &[f32; PAGE_POSITIONS],
    values: Matrix<'_, E, S>,
    slots: Range<usize>,
    out: &mut [f32],
) {
    let head_dim = out.len();
    let sums = Product {
        x: rows(weights, PAGE_POSITIONS),
        y: rows(values.elements, head_dim),
        scales: values.scales,
        steps: slots,
        next: None,
    };
    sums.add::<1, 8>(0..head_dim, out, head_dim);
}

/// Sums over i of `steps`, ascending, of `x[q][i] * y[i][column]`.
struct Product<'a, E, S> {
    x: Rows<'a, f32>,
    y: Rows<'a, E>,
    /// Of `y`.
    scales: S,
    steps: Range<usize>,
    /// What to fetch meanwhile, as long as `y`.
    next: Option<Place>,
}

impl<E: Element, S: Scales> Product<'_, E, S> {
    /// Adds to `out[Q][stride]` in some columns.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn add<const Q: usize, const R: usize>(
        &self,
        columns: Range<usize>,
        out: &mut [f32],
        stride: usize,
    ) {
        let Self { x, y, steps, .. } = self;
        if steps.is_empty() {
            return;
        }
        assert!((Q - 1) * x.stride + steps.end <= x.data.len());
        assert!((steps.end - 1) * y.stride + columns.end <= y.data.len());
        assert!((Q - 1) * stride + columns.end <= out.len());
        let strips = columns.len().div_ceil(R * LANES);
        let (mut first, mut strip) = (columns.start, 0);
        while columns.end - first >= LANES {
            let ahead = self.ahead(strip, strips);
            // SAFETY: the assertions above; the registers fit before `columns.end`.
            first += unsafe {
                match (columns.end - first) / LANES {
                    left if left >= R => self.strip::<Q, R>(first, out, stride, ahead),
                    left if left >= 2 => self.strip::<Q, 2>(first, out, stride, ahead),
                    _ => self.strip::<Q, 1>(first, out, stride, ahead),
                }
            };
            strip += 1;
        }
        for column in first..columns.end {
            for q in 0..Q {
                let out = &mut out[q * stride + column];
                *out = steps.clone().fold(*out, |sum, i| {
                    let y = y.data[i * y.stride + column].widen();
                    let y = self.scales.multiply_one(i, column, y);
                    x.data[q * x.stride + i].mul_add(y, sum)
                });
            }
        }
    }

    /// Where strip `strip` of `strips` begins to fetch and how many bytes further it fetches with each step, so that the
    /// requests to memory are spread evenly; with nothing to fetch, something that is at hand.
    fn ahead(&self, strip: usize, strips: usize) -> (Place, usize) {
        let Some(next) = self.next else {
            return (self.y.data.as_ptr().cast(), 0);
        };
        let bytes = size_of_val(self.y.data).div_ceil(strips * self.steps.len());
        (next.wrapping_add(strip * self.steps.len() * bytes), bytes)
    }

    /// The columns from `first` on in Q x R accumulators; returns how many columns these are.
    ///
    /// # Safety
    /// Q rows of `x` reach the last step, these rows of `y` and Q rows of `out` reach the last of the columns.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn strip<const Q: usize, const R: usize>(
        &self,
        first: usize,
        out: &mut [f32],
        stride: usize,
        ahead: (Place, usize),
    ) -> usize {
        // SAFETY: as promised by the caller.
        unsafe {
            if S::APART {
                self.strip_apart::<Q, R>(first, out, stride, ahead);
            } else {
                self.strip_here::<Q, R>(first, out, stride, ahead);
            }
        }
        R * LANES
    }

    /// [`Self::strip`], never inlined.
    ///
    /// # Safety
    /// As of `strip`.
    #[inline(never)]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn strip_apart<const Q: usize, const R: usize>(
        &self,
        first: usize,
        out: &mut [f32],
        stride: usize,
        ahead: (Place, usize),
    ) {
        // SAFETY: as promised by the caller.
        unsafe { self.strip_here::<Q, R>(first, out, stride, ahead) }
    }

    /// [`Self::strip`], where it is called.
    ///
    /// # Safety
    /// As of `strip`.
    #[allow(clippy::needless_range_loop)] // over the second index of `sums`
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn strip_here<const Q: usize, const R: usize>(
        &self,
        first: usize,
        out: &mut [f32],
        stride: usize,
        (mut ahead, bytes): (Place, usize),
    ) {
        let Self { x, y, steps, .. } = self;
        // SAFETY: all places read and written lie within the slices, as promised by the caller; fetching reads nothing.
        unsafe {
            let out = out.as_mut_ptr().add(first);
            let mut sums = [[_mm256_setzero_ps(); R]; Q];
            for (q, sums) in sums.iter_mut().enumerate() {
                for (r, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm256_loadu_ps(out.add(q * stride + r * LANES));
                }
            }
            let mut x_place = x.data.as_ptr().add(steps.start);
            let mut y_place = y.data.as_ptr().add(steps.start * y.stride + first);
            let mut start = steps.start;
            while start < steps.end {
                let end = steps.end.min((start / S::ROWS + 1) * S::ROWS);
                let scales = self.scales.widen(start, first, R);
                for step in start..end {
                    let wide = |q: usize| _mm256_broadcast_ss(&*x_place.add(q * x.stride));
                    let load = |r: usize| {
                        let elements = E::load(y_place.add(r * LANES));
                        S::multiply(&scales, step, first, r, elements)
                    };
                    // The shorter side waits in registers.
                    if Q <= R {
                        let x: [__m256; Q] = std::array::from_fn(wide);
                        for r in 0..R {
                            let y = load(r);
                            for q in 0..Q {
                                sums[q][r] = _mm256_fmadd_ps(x[q], y, sums[q][r]);
                            }
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
                    _mm_prefetch::<_MM_HINT_T1>(ahead);
                    ahead = ahead.wrapping_add(bytes);
                    x_place = x_place.add(1);
                    y_place = y_place.wrapping_add(y.stride); // not read beyond the last row
                }
                start = end;
            }
            for (q, sums) in sums.iter().enumerate() {
                for (r, sum) in sums.iter().enumerate() {
                    _mm256_storeu_ps(out.add(q * stride + r * LANES), *sum);
                }
            }
        }
    }
}

/// Turns the scores in the slots `touched` into weights exp(score - max); gives maxima and striped sums. The queries go
/// side by side, so that the latency of one is hidden behind the others.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn softmax<const Q: usize>(
    scores: &mut [[f32; PAGE_POSITIONS]; Q],
    seen: &[Span],
    touched: Range<usize>,
    scale: f32,
    out: &mut PartialsMut<'_>,
) {
    for (scores, seen) in scores.iter_mut().zip(seen) {
        // Beside the slots seen the weight is exp(-inf) = 0, and adding it changes no stripe.
        scores[touched.start..seen.first.clamp(touched.start, touched.end)].fill(f32::NEG_INFINITY);
        scores[seen.end.clamp(touched.start, touched.end)..touched.end].fill(f32::NEG_INFINITY);
    }
    let scale = _mm256_set1_ps(scale);
    let mut max = [_mm256_set1_ps(f32::NEG_INFINITY); Q];
    for first in touched.clone().step_by(LANES) {
        for (max, scores) in max.iter_mut().zip(&mut *scores) {
            let place = scores[first..][..LANES].as_mut_ptr();
            // SAFETY: the place has eight elements.
            unsafe {
                let score = _mm256_mul_ps(_mm256_loadu_ps(place), scale);
                *max = _mm256_max_ps(score, *max);
                _mm256_storeu_ps(place, score);
            }
        }
    }
    let max: [f32; Q] = std::array::from_fn(|q| greatest(max[q]) + 0.0);
    let mut sum = [_mm256_setzero_ps(); Q];
    for first in touched.step_by(LANES) {
        for ((sum, max), scores) in sum.iter_mut().zip(max).zip(&mut *scores) {
            let place = scores[first..][..LANES].as_mut_ptr();
            // SAFETY: the place has eight elements.
            unsafe {
                let weight =
                    exp_below_zero(_mm256_sub_ps(_mm256_loadu_ps(place), _mm256_set1_ps(max)));
                *sum = _mm256_add_ps(*sum, weight);
                _mm256_storeu_ps(place, weight);
            }
        }
    }
    for q in 0..Q {
        (out.max[q], out.sum[q]) = if seen[q].is_empty() {
            (f32::NEG_INFINITY, 0.0)
        } else {
            (max[q], sum_of(sum[q]))
        };
    }
}

/// The greatest lane; none is NaN.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn greatest(x: __m256) -> f32 {
    let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
}

/// The sum of the lanes in the order of `sum_stripes`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sum_of(x: __m256) -> f32 {
    let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
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
fn merge_lanes(PartialsMut { max, sum, out }: PartialsMut<'_>, page: Partials<'_>) {
    let head_dim = out.len() / max.len();
    let (max_before, max_page) = (lane_of(max), lane_of(page.max));
    let max_after = _mm256_max_ps(max_page, max_before);
    let old = exp_below_zero(_mm256_sub_ps(max_before, max_after));
    let new = exp_below_zero(_mm256_sub_ps(max_page, max_after));
    let rest = _mm256_mul_ps(old, lane_of(sum));
    let sum_after = lanes(_mm256_fmadd_ps(new, lane_of(page.sum), rest));
    let (max_after, old, new) = (lanes(max_after), lanes(old), lanes(new));
    let rows = out.chunks_exact_mut(head_dim);
    for (q, (out, values)) in rows.zip(page.out.chunks_exact(head_dim)).enumerate() {
        if page.sum[q] == 0.0 {
            continue; // the query sees nothing of this page
        }
        if sum[q] == 0.0 {
            // The first page with something to see is taken as it is.
            (max[q], sum[q]) = (page.max[q], page.sum[q]);
            out.copy_from_slice(values);
            continue;
        }
        (max[q], sum[q]) = (max_after[q], sum_after[q]);
        for (o, &value) in out.iter_mut().zip(values) {
            *o = new[q].mul_add(value, old[q] * *o);
        }
    }
}

/// Up to eight values in a register, zeros behind them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn lane_of(values: &[f32]) -> __m256 {
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(values.len() as i32), lanes);
    // SAFETY: lanes without a bit in the mask are not read.
    unsafe { _mm256_maskload_ps(values.as_ptr(), mask) }
}
