//! Few inputs: the packed bytes are read as they are, eight rows against up to four inputs.
//!
//! `maddubs` multiplies unsigned by signed bytes and adds pairs in 16 bits with saturation. It never saturates here: signed
//! weights enter as magnitude times an input that took their sign, at most 2 * 128 * 127 = 32 512; eight nibble
//! products of a block sum to at most 8 * 2 * 15 * 127 = 30 480.

use std::arch::x86_64::*;
use std::ops::Range;

use super::{BLOCK, LANES, PANEL_ROWS, QUAD, QUAD_BYTES};
use crate::kernels::avx2::dequantize::widened;
use crate::tensor::packed::NIBBLE_OFFSET;
use crate::tensor::{Activations, PackedMatrix, Panel};

/// Inputs per pass over a half panel: as many integer and float accumulators, and the weights, fit the registers.
const TILE_INPUTS: usize = 4;

/// `out[n][16 * panels] = x[n][cols] * rows of the panels`; the matrix is quantised.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn matmul_fast(
    w: &PackedMatrix,
    panels: Range<usize>,
    x: &Activations,
    out: &mut [f32],
) {
    let width = panels.len() * PANEL_ROWS;
    let n = x.rows();
    assert!(out.len() == n * width);
    for (i, panel) in panels.enumerate() {
        let panel = w.panel(panel);
        for half in 0..PANEL_ROWS / LANES {
            let mut row = 0;
            while row < n {
                let place = Place {
                    half,
                    row,
                    out_start: row * width + i * PANEL_ROWS + half * LANES,
                    width,
                };
                match n - row {
                    1 => tile::<1>(panel, x, place, out),
                    2 => tile::<2>(panel, x, place, out),
                    3 => tile::<3>(panel, x, place, out),
                    _ => tile::<TILE_INPUTS>(panel, x, place, out),
                }
                row += TILE_INPUTS;
            }
        }
    }
}

/// Which rows of which half panel a tile computes and where they go.
#[derive(Clone, Copy)]
struct Place {
    half: usize,
    row: usize,
    out_start: usize,
    width: usize,
}

/// `N` inputs against eight rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn tile<const N: usize>(panel: Panel<'_>, x: &Activations, place: Place, out: &mut [f32]) {
    let blocks = x.cols / BLOCK;
    let mut sums = [_mm256_setzero_ps(); N];
    for b in 0..blocks {
        let mut inputs: [&[i8]; N] = [&[]; N];
        for (n, input) in inputs.iter_mut().enumerate() {
            *input = &x.quants[(place.row + n) * x.cols + b * BLOCK..][..BLOCK];
        }
        let (dots, scales, minimums) = match panel {
            Panel::Bytes {
                scales,
                minimums,
                quants,
            } => {
                let quants = &quants[b * BLOCK * PANEL_ROWS..][..BLOCK * PANEL_ROWS];
                (bytes::<N>(quants, place.half, inputs), scales, minimums)
            }
            Panel::Nibbles {
                scales,
                minimums,
                quants,
            } => {
                let quants = &quants[b * BLOCK / 2 * PANEL_ROWS..][..BLOCK / 2 * PANEL_ROWS];
                let mut dots = nibbles::<N>(quants, place.half, inputs);
                if minimums.is_empty() {
                    for (n, dot) in dots.iter_mut().enumerate() {
                        let offset = NIBBLE_OFFSET * x.sums[(place.row + n) * blocks + b];
                        *dot = _mm256_sub_epi32(*dot, _mm256_set1_epi32(offset));
                    }
                }
                (dots, scales, minimums)
            }
            // Not quantised: `backend` multiplies these in exact mode.
            Panel::F32(_) | Panel::F16(_) | Panel::BF16(_) => return,
        };
        let at = b * PANEL_ROWS + place.half * LANES;
        let scale = widened(&scales[at..]);
        for (n, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
            let x_scale = _mm256_set1_ps(x.scales[(place.row + n) * blocks + b]);
            *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scale, x_scale), *sum);
            if !minimums.is_empty() {
                let x_sum = _mm256_set1_ps(x.sums[(place.row + n) * blocks + b] as f32);
                let minimum = _mm256_mul_ps(widened(&minimums[at..]), x_scale);
                *sum = _mm256_fmadd_ps(x_sum, minimum, *sum);
            }
        }
    }
    for (n, sum) in sums.iter().enumerate() {
        let out = &mut out[place.out_start + n * place.width..][..LANES];
        // SAFETY: the slice has eight elements.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), *sum) };
    }
}

/// Four bytes of an input in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn broadcast(input: &[i8], quad: usize) -> __m256i {
    let input = &input[quad * QUAD..][..QUAD];
    let bytes = [input[0], input[1], input[2], input[3]].map(i8::cast_unsigned);
    _mm256_set1_epi32(i32::from_le_bytes(bytes))
}

/// Dot products of eight rows of signed bytes, quants `[8][16][4]`, with `N` blocks of inputs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn bytes<const N: usize>(quants: &[i8], half: usize, inputs: [&[i8]; N]) -> [__m256i; N] {
    let ones = _mm256_set1_epi16(1);
    let mut dots = [_mm256_setzero_si256(); N];
    for (quad, quants) in quants.chunks_exact(QUAD_BYTES).enumerate() {
        // SAFETY: a group has 64 bytes and half is 0 or 1.
        let weights = unsafe { _mm256_loadu_si256(quants.as_ptr().add(half * 32).cast()) };
        let magnitudes = _mm256_abs_epi8(weights);
        for (dot, input) in dots.iter_mut().zip(inputs) {
            let signed = _mm256_sign_epi8(broadcast(input, quad), weights);
            let pairs = _mm256_maddubs_epi16(magnitudes, signed);
            *dot = _mm256_add_epi32(*dot, _mm256_madd_epi16(pairs, ones));
        }
    }
    dots
}

/// Dot products of eight rows of nibbles, quants `[4][16][4]`, with `N` blocks of inputs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn nibbles<const N: usize>(quants: &[u8], half: usize, inputs: [&[i8]; N]) -> [__m256i; N] {
    let low_bits = _mm256_set1_epi8(15);
    let mut pairs = [_mm256_setzero_si256(); N];
    for (quad, quants) in quants.chunks_exact(QUAD_BYTES).enumerate() {
        // SAFETY: a group has 64 bytes and half is 0 or 1.
        let weights = unsafe { _mm256_loadu_si256(quants.as_ptr().add(half * 32).cast()) };
        let low = _mm256_and_si256(weights, low_bits);
        let high = _mm256_and_si256(_mm256_srli_epi16::<4>(weights), low_bits);
        for (pair, input) in pairs.iter_mut().zip(inputs) {
            let first = _mm256_maddubs_epi16(low, broadcast(input, quad));
            let second = _mm256_maddubs_epi16(high, broadcast(input, quad + QUAD));
            *pair = _mm256_add_epi16(*pair, _mm256_add_epi16(first, second));
        }
    }
    let ones = _mm256_set1_epi16(1);
    // A loop and not `map`, which is compiled without these instructions and may not be inlined.
    for pair in &mut pairs {
        *pair = _mm256_madd_epi16(*pair, ones);
    }
    pairs
}
