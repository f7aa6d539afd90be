//! Kernels that are free to add in any order: what an engine without the contract could run. AVX2, as the contract's.
//!
//! Attention goes over some pages before it rescales anything; a product of one input keeps some accumulators per
//! output; the norm keeps some times eight stripes. With one page, one accumulator and eight stripes they add in the
//! contract's order. Shapes are those of the bench: heads of 64, whole blocks, whole panels. Not here: anything the
//! engine uses.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // intrinsics have names of their own
#![allow(clippy::unused_self)] // a `Free` is the proof that the instructions are there

use std::arch::x86_64::*;

use engine::tensor::{Activations, PAGE_POSITIONS, PackedMatrix, Panel};

use super::common::{HEAD_DIM, PANEL_ROWS};

/// Lanes of a register.
const LANES: usize = 8;
/// Queries of a register tile, and registers of keys or dimensions: the fastest of the tiles tried.
const TILE_QUERIES: usize = 3;
/// See [`TILE_QUERIES`].
const TILE_REGISTERS: usize = 2;
/// How far before its use a weight is fetched.
const FETCH_AHEAD_BYTES: usize = 4096;
/// Elements of a block.
const BLOCK: usize = 32;

/// Bits of the halves of a page: keys `[64 dimensions][64]`, values `[64][64 dimensions]`.
pub(crate) type Halves<'a> = [&'a [u16]; 2];

/// That AVX2, FMA and F16C are there.
#[derive(Clone, Copy)]
pub(crate) struct Free(());

impl Free {
    /// The free kernels, where the CPU has their instructions.
    pub(crate) fn detected() -> Option<Self> {
        let detected = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        detected.then_some(Self(()))
    }

    /// `out[queries][64]` = softmax attention, `PAGES` at a time.
    pub(crate) fn attend<const PAGES: usize>(
        self,
        pages: &[Halves<'_>],
        queries: &[f32],
        scale: f32,
        out: &mut [f32],
    ) {
        assert!(pages.len().is_multiple_of(PAGES) && queries.len() == out.len());
        assert!(queries.len().is_multiple_of(TILE_QUERIES * HEAD_DIM));
        // SAFETY: a `Free` exists only where the instructions were detected.
        unsafe { attend::<TILE_QUERIES, TILE_REGISTERS>(pages, PAGES, queries, scale, out) }
    }

    /// `out[rows]` = f32 matrix times one input, `CHAINS` accumulators per output.
    pub(crate) fn gemv_f32<const CHAINS: usize>(
        self,
        w: &PackedMatrix,
        x: &[f32],
        out: &mut [f32],
    ) {
        // SAFETY: a `Free` exists only where the instructions were detected.
        unsafe { gemv_f32::<CHAINS>(w, x, out) }
    }

    /// `out[rows]` = Q8_0 matrix times one input, `CHAINS` accumulators per output.
    pub(crate) fn gemv_q8_0<const CHAINS: usize>(
        self,
        w: &PackedMatrix,
        x: &Activations,
        out: &mut [f32],
    ) {
        // SAFETY: a `Free` exists only where the instructions were detected.
        unsafe { gemv_q8_0::<CHAINS>(w, x, out) }
    }

    /// `out = x / sqrt(mean(x^2) + epsilon) * weight`, `CHAINS` times eight stripes.
    pub(crate) fn rms_norm<const CHAINS: usize>(
        self,
        x: &[f32],
        weight: &[f32],
        epsilon: f32,
        out: &mut [f32],
    ) {
        // SAFETY: a `Free` exists only where the instructions were detected.
        unsafe { rms_norm::<CHAINS>(x, weight, epsilon, out) }
    }
}

/// Accumulators added up.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn total<const CHAINS: usize>(sums: [__m256; CHAINS]) -> __m256 {
    let mut total = sums[0];
    for sum in &sums[1..] {
        total = _mm256_add_ps(total, *sum);
    }
    total
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load(values: &[f32]) -> __m256 {
    let values = &values[..LANES];
    // SAFETY: the slice has eight elements.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn store(values: &mut [f32], register: __m256) {
    let values = &mut values[..LANES];
    // SAFETY: the slice has eight elements.
    unsafe { _mm256_storeu_ps(values.as_mut_ptr(), register) }
}

/// Eight halves, widened.
///
/// # Safety
/// `place` is valid for reading eight halves.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn widened(place: *const u16) -> __m256 {
    // SAFETY: as promised by the caller.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(place.cast()) })
}

/// Lanes folded in halves.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn across(register: __m256, combine: impl Fn(__m128, __m128) -> __m128) -> f32 {
    let four = combine(
        _mm256_castps256_ps128(register),
        _mm256_extractf128_ps::<1>(register),
    );
    let two = combine(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(combine(two, _mm_shuffle_ps::<1>(two, two)))
}

/// All queries over all pages, Q queries and R registers of keys or dimensions at a time.
#[target_feature(enable = "avx2,fma,f16c")]
fn attend<const Q: usize, const R: usize>(
    pages: &[Halves<'_>],
    span_pages: usize,
    queries: &[f32],
    scale: f32,
    out: &mut [f32],
) {
    let span = span_pages * PAGE_POSITIONS;
    let mut weights = vec![0.0_f32; Q * span];
    let mut state = vec![[(f32::NEG_INFINITY, 0.0_f32); Q]; out.len() / HEAD_DIM / Q];
    out.fill(0.0);
    for pages in pages.chunks_exact(span_pages) {
        let groups = queries.chunks_exact(Q * HEAD_DIM);
        let groups = groups.zip(out.chunks_exact_mut(Q * HEAD_DIM));
        for ((queries, out), state) in groups.zip(&mut state) {
            for (page, [keys, _]) in pages.iter().enumerate() {
                let weights = &mut weights[page * PAGE_POSITIONS..];
                scores::<Q, R>(keys, queries, scale, weights, span);
            }
            let rows = weights.chunks_exact_mut(span).zip(state);
            for ((weights, state), out) in rows.zip(out.chunks_exact_mut(HEAD_DIM)) {
                multiply(out, softmax(weights, state));
            }
            values::<Q, R>(pages, &weights, out);
        }
    }
    let sums = state.as_flattened().iter().map(|(_, sum)| sum);
    for (out, sum) in out.chunks_exact_mut(HEAD_DIM).zip(sums) {
        multiply(out, 1.0 / sum);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn multiply(values: &mut [f32], factor: f32) {
    for values in values.chunks_exact_mut(LANES) {
        store(values, _mm256_mul_ps(load(values), _mm256_set1_ps(factor)));
    }
}

/// Scaled scores of a page; those of a query stand `stride` after those of the one before.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scores<const Q: usize, const R: usize>(
    keys: &[u16],
    queries: &[f32],
    scale: f32,
    scores: &mut [f32],
    stride: usize,
) {
    assert!(keys.len() == HEAD_DIM * PAGE_POSITIONS && queries.len() == Q * HEAD_DIM);
    for first in (0..PAGE_POSITIONS).step_by(R * LANES) {
        let mut sums = [[_mm256_setzero_ps(); R]; Q];
        for d in 0..HEAD_DIM {
            for r in 0..R {
                // SAFETY: d < 64 and first + 8 (r + 1) <= 64: keys of one dimension.
                let key =
                    unsafe { widened(keys.as_ptr().add(d * PAGE_POSITIONS + first + r * LANES)) };
                for (q, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: q < Q and d < 64, and there are Q queries of 64.
                    let query = unsafe { *queries.as_ptr().add(q * HEAD_DIM + d) };
                    sums[r] = _mm256_fmadd_ps(_mm256_set1_ps(query), key, sums[r]);
                }
            }
        }
        for (q, sums) in sums.iter().enumerate() {
            for (r, sum) in sums.iter().enumerate() {
                let scaled = _mm256_mul_ps(*sum, _mm256_set1_ps(scale));
                store(&mut scores[q * stride + first + r * LANES..], scaled);
            }
        }
    }
}

/// Turns a span's scores into weights and takes them into `(maximum, sum)`; gives what all before is to be multiplied
/// with.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn softmax(weights: &mut [f32], (max, sum): &mut (f32, f32)) -> f32 {
    let mut greatest = [_mm256_set1_ps(*max); 2];
    for pair in weights.chunks_exact(2 * LANES) {
        greatest[0] = _mm256_max_ps(greatest[0], load(pair));
        greatest[1] = _mm256_max_ps(greatest[1], load(&pair[LANES..]));
    }
    let greatest = across(_mm256_max_ps(greatest[0], greatest[1]), |a, b| {
        _mm_max_ps(a, b)
    });
    let offset = _mm256_set1_ps(greatest);
    let rescale = _mm256_cvtss_f32(exp(_mm256_set1_ps(*max - greatest)));
    let mut sums = [_mm256_setzero_ps(); 2];
    for pair in weights.chunks_exact_mut(2 * LANES) {
        let low = exp(_mm256_sub_ps(load(pair), offset));
        let high = exp(_mm256_sub_ps(load(&pair[LANES..]), offset));
        sums = [_mm256_add_ps(sums[0], low), _mm256_add_ps(sums[1], high)];
        store(pair, low);
        store(&mut pair[LANES..], high);
    }
    let added = across(_mm256_add_ps(sums[0], sums[1]), |a, b| _mm_add_ps(a, b));
    *sum = sum.mul_add(rescale, added);
    *max = greatest;
    rescale
}

/// e to the power of lanes that are at most 0; what would be subnormal is about 1e-38.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn exp(x: __m256) -> __m256 {
    const POLYNOMIAL: [f32; 6] = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0];
    let x = _mm256_max_ps(x, _mm256_set1_ps(-87.0));
    let scaled = _mm256_mul_ps(x, _mm256_set1_ps(std::f32::consts::LOG2_E));
    let n = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(scaled);
    let r = _mm256_fmadd_ps(n, _mm256_set1_ps(-std::f32::consts::LN_2), x);
    let mut p = _mm256_set1_ps(POLYNOMIAL[0]);
    for coefficient in &POLYNOMIAL[1..] {
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(*coefficient));
    }
    let y = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0));
    let exponent = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n));
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), exponent))
}

/// `out += weights * values`, all keys of the span in one go.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn values<const Q: usize, const R: usize>(pages: &[Halves<'_>], weights: &[f32], out: &mut [f32]) {
    let span = pages.len() * PAGE_POSITIONS;
    assert!(weights.len() == Q * span);
    for first in (0..HEAD_DIM).step_by(R * LANES) {
        let mut sums = [[_mm256_setzero_ps(); R]; Q];
        for (q, sums) in sums.iter_mut().enumerate() {
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = load(&out[q * HEAD_DIM + first + r * LANES..]);
            }
        }
        for (page, [_, values]) in pages.iter().enumerate() {
            assert!(values.len() == HEAD_DIM * PAGE_POSITIONS);
            for slot in 0..PAGE_POSITIONS {
                for r in 0..R {
                    // SAFETY: slot < 64 and first + 8 (r + 1) <= 64: values of one position.
                    let value = unsafe {
                        widened(values.as_ptr().add(slot * HEAD_DIM + first + r * LANES))
                    };
                    for (q, sums) in sums.iter_mut().enumerate() {
                        let at = q * span + page * PAGE_POSITIONS + slot;
                        // SAFETY: q < Q and page * 64 + slot < span, and there are Q * span weights.
                        let weight = unsafe { *weights.as_ptr().add(at) };
                        sums[r] = _mm256_fmadd_ps(_mm256_set1_ps(weight), value, sums[r]);
                    }
                }
            }
        }
        for (q, sums) in sums.iter().enumerate() {
            for (r, sum) in sums.iter().enumerate() {
                store(&mut out[q * HEAD_DIM + first + r * LANES..], *sum);
            }
        }
    }
}

/// An accumulator for each column mod `CHAINS`, both halves of a panel together.
#[target_feature(enable = "avx2,fma,f16c")]
fn gemv_f32<const CHAINS: usize>(w: &PackedMatrix, x: &[f32], out: &mut [f32]) {
    for (panel, out) in out.chunks_exact_mut(PANEL_ROWS).enumerate() {
        let Panel::F32(weights) = w.panel(panel) else {
            return;
        };
        let mut sums = [[_mm256_setzero_ps(); CHAINS]; 2];
        let groups = weights.chunks_exact(CHAINS * PANEL_ROWS);
        for (weights, x) in groups.zip(x.chunks_exact(CHAINS)) {
            for c in 0..CHAINS {
                let x = _mm256_set1_ps(x[c]);
                for (half, sums) in sums.iter_mut().enumerate() {
                    let weights = load(&weights[c * PANEL_ROWS + half * LANES..]);
                    sums[c] = _mm256_fmadd_ps(weights, x, sums[c]);
                }
            }
        }
        store(out, total(sums[0]));
        store(&mut out[LANES..], total(sums[1]));
    }
}

/// An accumulator for each block mod `CHAINS`, both halves of a panel together.
#[target_feature(enable = "avx2,fma,f16c")]
fn gemv_q8_0<const CHAINS: usize>(w: &PackedMatrix, x: &Activations, out: &mut [f32]) {
    for (panel, out) in out.chunks_exact_mut(PANEL_ROWS).enumerate() {
        let Panel::Bytes { scales, quants, .. } = w.panel(panel) else {
            return;
        };
        let mut sums = [[_mm256_setzero_ps(); CHAINS]; 2];
        let inputs = x.quants.chunks_exact(BLOCK).zip(&x.scales);
        let blocks = quants
            .chunks_exact(BLOCK * PANEL_ROWS)
            .zip(scales.chunks_exact(PANEL_ROWS));
        for (b, ((quants, scales), (inputs, x_scale))) in blocks.zip(inputs).enumerate() {
            let dots = dots(quants, inputs);
            for (half, dot) in dots.into_iter().enumerate() {
                // SAFETY: sixteen scales, half is 0 or 1.
                let scale = unsafe { widened(scales.as_ptr().add(half * LANES)) };
                let scale = _mm256_mul_ps(scale, _mm256_set1_ps(*x_scale));
                let sum = &mut sums[half][b % CHAINS];
                *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, *sum);
            }
        }
        store(out, total(sums[0]));
        store(&mut out[LANES..], total(sums[1]));
    }
}

/// Integer dot products of sixteen rows, quants `[8][16][4]`, with a block of inputs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn dots(quants: &[i8], inputs: &[i8]) -> [__m256i; 2] {
    assert!(quants.len() == BLOCK * PANEL_ROWS && inputs.len() == BLOCK);
    let ones = _mm256_set1_epi16(1);
    let mut dots = [_mm256_setzero_si256(); 2];
    for quad in 0..BLOCK / 4 {
        // A group is a line of the cache.
        let ahead = quants
            .as_ptr()
            .wrapping_add(FETCH_AHEAD_BYTES + quad * PANEL_ROWS * 4);
        // SAFETY: quad < 8 groups of four inputs; what lies ahead is fetched and not read, there or not.
        let input = unsafe {
            _mm_prefetch::<_MM_HINT_T0>(ahead);
            inputs.as_ptr().add(quad * 4).cast::<i32>().read_unaligned()
        };
        let input = _mm256_set1_epi32(input);
        for (half, dot) in dots.iter_mut().enumerate() {
            let at = (quad * PANEL_ROWS + half * LANES) * 4;
            // SAFETY: quad < 8 and half < 2: 32 of 512 bytes.
            let weights = unsafe { _mm256_loadu_si256(quants.as_ptr().add(at).cast()) };
            let signed = _mm256_sign_epi8(input, weights);
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), signed);
            *dot = _mm256_add_epi32(*dot, _mm256_madd_epi16(pairs, ones));
        }
    }
    dots
}

/// `CHAINS` times eight stripes.
#[target_feature(enable = "avx2,fma,f16c")]
fn rms_norm<const CHAINS: usize>(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let mut sums = [_mm256_setzero_ps(); CHAINS];
    for group in x.chunks_exact(CHAINS * LANES) {
        for (sum, x) in sums.iter_mut().zip(group.chunks_exact(LANES)) {
            let x = load(x);
            *sum = _mm256_fmadd_ps(x, x, *sum);
        }
    }
    let mean = across(total(sums), |a, b| _mm_add_ps(a, b)) / x.len() as f32;
    let inverse = _mm256_set1_ps(1.0 / (mean + epsilon).sqrt());
    let rows = x.chunks_exact(LANES).zip(weight.chunks_exact(LANES));
    for (out, (x, weight)) in out.chunks_exact_mut(LANES).zip(rows) {
        let scaled = _mm256_mul_ps(load(x), inverse);
        store(out, _mm256_mul_ps(scaled, load(weight)));
    }
}
