//! Matrix product in `fast` mode: byte products summed in 32-bit lanes, lane = output row.
//!
//! `vpdpbusd` multiplies unsigned by signed bytes and adds four products to a 32-bit lane without saturation. Signed
//! weights enter as w + 128 (their top bit flipped), nibbles as they are, and the surplus, 128 or 8 times the known sum of
//! the inputs, is taken off again. All of it is exact: 32 * 255 * 127 + 128 * 32 * 127 < 2^21.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::tensor::dtype::BLOCK;
use crate::tensor::packed::{PANEL_ROWS, QUAD};
use crate::tensor::{Activations, PackedMatrix, Panel};

/// Inputs per pass over a panel. Eight dot products in flight hide their latency; more gain nothing and cost spills.
const TILE_INPUTS: usize = 8;
/// How far ahead quants are fetched where a panel has several passes and so takes longer to multiply than to read. With
/// one pass memory delivers at its best unasked.
const AHEAD_BYTES: usize = 4096;
/// Bytes of one group of four columns: `[16][4]`, one register.
const QUAD_BYTES: usize = QUAD * PANEL_ROWS;
/// Groups of four columns in a block.
const QUADS: usize = BLOCK / QUAD;

/// `out[n][16 * panels] = x[n][cols] * rows of the panels`; the matrix is quantised.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn matmul_fast(
    w: &PackedMatrix,
    panels: Range<usize>,
    x: &Activations,
    out: &mut [f32],
) {
    let width = panels.len() * PANEL_ROWS;
    assert!(out.len() == x.rows() * width);
    for (i, panel) in panels.enumerate() {
        let panel = w.panel(panel);
        let mut place = Place {
            row: 0,
            col: i * PANEL_ROWS,
            width,
        };
        while place.row < x.rows() {
            let rest = x.rows() - place.row;
            // As even as they come: nine inputs are five and four, not eight and one.
            let inputs = rest.div_ceil(rest.div_ceil(TILE_INPUTS));
            match inputs {
                1 => typed::<1>(panel, x, place, out),
                2 => typed::<2>(panel, x, place, out),
                3 => typed::<3>(panel, x, place, out),
                4 => typed::<4>(panel, x, place, out),
                5 => typed::<5>(panel, x, place, out),
                6 => typed::<6>(panel, x, place, out),
                7 => typed::<7>(panel, x, place, out),
                _ => typed::<TILE_INPUTS>(panel, x, place, out),
            }
            place.row += inputs;
        }
    }
}

/// First input and first output of a tile, and how many outputs an input has.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    col: usize,
    width: usize,
}

/// The tile for the type of the weights.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn typed<const N: usize>(panel: Panel<'_>, x: &Activations, place: Place, out: &mut [f32]) {
    match panel {
        Panel::Bytes {
            scales,
            minimums,
            quants,
        } => {
            let panel = Blocks::<i8, QUADS>::of(quants, scales, minimums);
            if minimums.is_empty() {
                tile::<N, _, _, false>(panel, x, place, out);
            } else {
                tile::<N, _, _, true>(panel, x, place, out);
            }
        }
        Panel::Nibbles {
            scales,
            minimums,
            quants,
        } => {
            let panel = Blocks::<u8, NIBBLE_GROUPS>::of(quants, scales, minimums);
            if minimums.is_empty() {
                tile::<N, _, _, false>(panel, x, place, out);
            } else {
                tile::<N, _, _, true>(panel, x, place, out);
            }
        }
        // Not quantised: `backend` multiplies these in exact mode.
        Panel::F32(_) | Panel::F16(_) | Panel::BF16(_) => {}
    }
}

/// Registers of a block of nibbles; a block of bytes has `QUADS`.
const NIBBLE_GROUPS: usize = QUADS / 2;

/// A quantised panel, block by block.
#[derive(Clone, Copy)]
struct Blocks<'a, T, const GROUPS: usize> {
    quants: &'a [[[T; QUAD_BYTES]; GROUPS]],
    scales: &'a [[u16; PANEL_ROWS]],
    minimums: &'a [[u16; PANEL_ROWS]],
}

impl<'a, T, const GROUPS: usize> Blocks<'a, T, GROUPS> {
    fn of(quants: &'a [T], scales: &'a [u16], minimums: &'a [u16]) -> Self {
        Self {
            quants: quants.as_chunks().0.as_chunks().0,
            scales: scales.as_chunks().0,
            minimums: minimums.as_chunks().0,
        }
    }
}

/// One input, block by block.
#[derive(Clone, Copy, Default)]
struct Input<'a> {
    quants: &'a [[i8; BLOCK]],
    scales: &'a [f32],
    sums: &'a [i32],
}

/// `N` inputs against sixteen rows.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn tile<const N: usize, T: Copy, const GROUPS: usize, const MINIMUMS: bool>(
    panel: Blocks<'_, T, GROUPS>,
    x: &Activations,
    place: Place,
    out: &mut [f32],
) {
    // Every slice is cut to the same length here, so that no index below needs a check.
    let blocks = x.cols / BLOCK;
    let (quants, scales) = (&panel.quants[..blocks], &panel.scales[..blocks]);
    let minimums = &panel.minimums[..if MINIMUMS { blocks } else { 0 }];
    let mut inputs = [Input::default(); N];
    for (n, input) in inputs.iter_mut().enumerate() {
        let first = (place.row + n) * blocks;
        input.quants = &x.quants.as_chunks().0[first..][..blocks];
        input.scales = &x.scales[first..][..blocks];
        input.sums = &x.sums[first..][..blocks];
    }
    let fetches = place.row == 0 && x.rows() > TILE_INPUTS;
    let mut sums = [_mm512_setzero_ps(); N];
    for b in 0..blocks {
        if fetches {
            for group in &quants[b] {
                let ahead = group.as_ptr().cast::<i8>().wrapping_add(AHEAD_BYTES);
                _mm_prefetch::<_MM_HINT_T0>(ahead);
            }
        }
        let dots = dots(&quants[b], inputs.map(|input| &input.quants[b]));
        let scale = widened(&scales[b]);
        for ((sum, dot), input) in sums.iter_mut().zip(dots).zip(inputs) {
            let x_scale = _mm512_set1_ps(input.scales[b]);
            let x_sum = _mm512_set1_epi32(input.sums[b]);
            let dot = match (GROUPS, MINIMUMS) {
                (QUADS, _) => _mm512_sub_epi32(dot, _mm512_slli_epi32::<7>(x_sum)),
                (_, false) => _mm512_sub_epi32(dot, _mm512_slli_epi32::<3>(x_sum)),
                (_, true) => dot,
            };
            *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(scale, x_scale), *sum);
            if MINIMUMS {
                let minimum = _mm512_mul_ps(widened(&minimums[b]), x_scale);
                *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(x_sum), minimum, *sum);
            }
        }
    }
    for (n, sum) in sums.into_iter().enumerate() {
        let out = &mut out[(place.row + n) * place.width + place.col..][..PANEL_ROWS];
        // SAFETY: the slice has sixteen elements.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sum) };
    }
}

/// Sums over a block of the inputs times the unsigned weights, as the prologue has them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn dots<const N: usize, T: Copy, const GROUPS: usize>(
    quants: &[[T; QUAD_BYTES]; GROUPS],
    inputs: [&[i8; BLOCK]; N],
) -> [__m512i; N] {
    let mut dots = [_mm512_setzero_si512(); N];
    for (group, quants) in quants.iter().enumerate() {
        // SAFETY: a group has 64 quants of one byte, signed or not.
        let quants = unsafe { _mm512_loadu_si512(quants.as_ptr().cast()) };
        for half in 0..QUADS / GROUPS {
            let weights = match (GROUPS, half) {
                (QUADS, _) => _mm512_xor_si512(quants, _mm512_set1_epi8(i8::MIN)),
                (_, 0) => _mm512_and_si512(quants, _mm512_set1_epi8(15)),
                _ => _mm512_and_si512(_mm512_srli_epi16::<4>(quants), _mm512_set1_epi8(15)),
            };
            for (dot, input) in dots.iter_mut().zip(inputs) {
                let quad = input.as_chunks::<QUAD>().0[half * GROUPS + group];
                let x = _mm512_set1_epi32(i32::from_le_bytes(quad.map(i8::cast_unsigned)));
                *dot = _mm512_dpbusd_epi32(*dot, weights, x);
            }
        }
    }
    dots
}

/// Sixteen halves as singles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn widened(bits: &[u16; PANEL_ROWS]) -> __m512 {
    // SAFETY: the array has sixteen elements.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(bits.as_ptr().cast())) }
}
