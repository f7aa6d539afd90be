//! Matrix product in `fast` mode: byte products summed in 32-bit lanes, lane = output row.
//!
//! `vpdpbusd` multiplies unsigned by signed bytes and adds four products to a 32-bit lane without saturation. Signed
//! weights enter as w + 128 (their top bit flipped), nibbles as they are, and the surplus, 128 or 8 times the known sum of
//! the inputs, is taken off again: at most 32 * 255 * 127 + 128 * 32 * 127 < 2^21, exact.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::tensor::dtype::BLOCK;
use crate::tensor::packed::{NIBBLE_OFFSET, PANEL_ROWS, QUAD};
use crate::tensor::{Activations, PackedMatrix, Panel};

/// Inputs per pass over a panel: 12 integer and 12 float accumulators, and the weights, fit the 32 registers.
const TILE_INPUTS: usize = 12;
/// Bytes of one group of four columns: `[16][4]`, one register.
const QUAD_BYTES: usize = QUAD * PANEL_ROWS;
/// What flipping the top bit adds to a signed byte.
const BYTE_OFFSET: i32 = 128;

/// `out[n][16 * panels] = x[n][cols] * rows of the panels`; the matrix is quantised.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
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
        let mut row = 0;
        while row < n {
            // As even as they come: 16 inputs are 8 and 8, not 12 and 4.
            let tiles = (n - row).div_ceil(TILE_INPUTS);
            let inputs = (n - row).div_ceil(tiles);
            let place = Place {
                row,
                out_start: row * width + i * PANEL_ROWS,
                width,
            };
            match inputs {
                1 => tile::<1>(panel, x, place, out),
                2 => tile::<2>(panel, x, place, out),
                3 => tile::<3>(panel, x, place, out),
                4 => tile::<4>(panel, x, place, out),
                5 => tile::<5>(panel, x, place, out),
                6 => tile::<6>(panel, x, place, out),
                7 => tile::<7>(panel, x, place, out),
                8 => tile::<8>(panel, x, place, out),
                9 => tile::<9>(panel, x, place, out),
                10 => tile::<10>(panel, x, place, out),
                11 => tile::<11>(panel, x, place, out),
                _ => tile::<TILE_INPUTS>(panel, x, place, out),
            }
            row += inputs;
        }
    }
}

/// Which inputs a tile multiplies and where its outputs go.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    out_start: usize,
    width: usize,
}

/// `N` inputs against sixteen rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn tile<const N: usize>(panel: Panel<'_>, x: &Activations, place: Place, out: &mut [f32]) {
    let blocks = x.cols / BLOCK;
    let mut sums = [_mm512_setzero_ps(); N];
    for b in 0..blocks {
        let mut inputs: [&[i8]; N] = [&[]; N];
        let mut totals = [0; N];
        for (n, (input, total)) in inputs.iter_mut().zip(&mut totals).enumerate() {
            *input = &x.quants[(place.row + n) * x.cols + b * BLOCK..][..BLOCK];
            *total = x.sums[(place.row + n) * blocks + b];
        }
        let (dots, scales, minimums) = match panel {
            Panel::Bytes {
                scales,
                minimums,
                quants,
            } => {
                let quants = &quants[b * BLOCK * PANEL_ROWS..][..BLOCK * PANEL_ROWS];
                let start = totals.map(|total| -BYTE_OFFSET * total);
                (bytes::<N>(quants, inputs, start), scales, minimums)
            }
            Panel::Nibbles {
                scales,
                minimums,
                quants,
            } => {
                let quants = &quants[b * BLOCK / 2 * PANEL_ROWS..][..BLOCK / 2 * PANEL_ROWS];
                let offset = if minimums.is_empty() {
                    NIBBLE_OFFSET
                } else {
                    0
                };
                let start = totals.map(|total| -offset * total);
                (nibbles::<N>(quants, inputs, start), scales, minimums)
            }
            // Not quantised: `backend` multiplies these in exact mode.
            Panel::F32(_) | Panel::F16(_) | Panel::BF16(_) => return,
        };
        let at = b * PANEL_ROWS;
        let scale = widened(&scales[at..]);
        for (n, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
            let x_scale = _mm512_set1_ps(x.scales[(place.row + n) * blocks + b]);
            *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(scale, x_scale), *sum);
            if !minimums.is_empty() {
                let x_sum = _mm512_set1_ps(totals[n] as f32);
                let minimum = _mm512_mul_ps(widened(&minimums[at..]), x_scale);
                *sum = _mm512_fmadd_ps(x_sum, minimum, *sum);
            }
        }
    }
    for (n, sum) in sums.iter().enumerate() {
        let out = &mut out[place.out_start + n * place.width..][..PANEL_ROWS];
        // SAFETY: the slice has sixteen elements.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), *sum) };
    }
}

/// Sixteen halves as singles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn widened(bits: &[u16]) -> __m512 {
    let bits = &bits[..PANEL_ROWS];
    // SAFETY: the slice has sixteen elements.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(bits.as_ptr().cast())) }
}

/// Four bytes of an input in every lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn broadcast(input: &[i8], quad: usize) -> __m512i {
    let input = &input[quad * QUAD..][..QUAD];
    let bytes = [input[0], input[1], input[2], input[3]].map(i8::cast_unsigned);
    _mm512_set1_epi32(i32::from_le_bytes(bytes))
}

/// `start` plus the dot products of sixteen rows of signed bytes plus 128, quants `[8][16][4]`, with `N` blocks of inputs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn bytes<const N: usize>(quants: &[i8], inputs: [&[i8]; N], start: [i32; N]) -> [__m512i; N] {
    let top_bits = _mm512_set1_epi8(i8::MIN);
    let mut dots = [_mm512_setzero_si512(); N];
    for (dot, start) in dots.iter_mut().zip(start) {
        *dot = _mm512_set1_epi32(start);
    }
    for (quad, quants) in quants.chunks_exact(QUAD_BYTES).enumerate() {
        // SAFETY: a group has 64 bytes.
        let weights = unsafe { _mm512_loadu_si512(quants.as_ptr().cast()) };
        let weights = _mm512_xor_si512(weights, top_bits);
        for (dot, input) in dots.iter_mut().zip(inputs) {
            *dot = _mm512_dpbusd_epi32(*dot, weights, broadcast(input, quad));
        }
    }
    dots
}

/// `start` plus the dot products of sixteen rows of nibbles, quants `[4][16][4]`, with `N` blocks of inputs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn nibbles<const N: usize>(quants: &[u8], inputs: [&[i8]; N], start: [i32; N]) -> [__m512i; N] {
    let low_bits = _mm512_set1_epi8(15);
    let mut dots = [_mm512_setzero_si512(); N];
    for (dot, start) in dots.iter_mut().zip(start) {
        *dot = _mm512_set1_epi32(start);
    }
    for (quad, quants) in quants.chunks_exact(QUAD_BYTES).enumerate() {
        // SAFETY: a group has 64 bytes.
        let weights = unsafe { _mm512_loadu_si512(quants.as_ptr().cast()) };
        let low = _mm512_and_si512(weights, low_bits);
        let high = _mm512_and_si512(_mm512_srli_epi16::<4>(weights), low_bits);
        for (dot, input) in dots.iter_mut().zip(inputs) {
            *dot = _mm512_dpbusd_epi32(*dot, low, broadcast(input, quad));
            *dot = _mm512_dpbusd_epi32(*dot, high, broadcast(input, quad + QUAD));
        }
    }
    dots
}
