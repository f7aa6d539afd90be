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

/// Inputs per pass over two panels. Eight dot products in flight hide their latency; more gain nothing and cost spills.
const TILE_INPUTS: usize = 4;
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
    for first in panels.clone().step_by(2) {
        let mut place = Place {
            row: 0,
            col: (first - panels.start) * PANEL_ROWS,
            width,
        };
        while place.row < x.rows() {
            let rest = x.rows() - place.row;
            // As even as they come: five inputs are three and two, not four and one.
            let inputs = rest.div_ceil(rest.div_ceil(TILE_INPUTS));
            if first + 1 < panels.end {
                let pair = [w.panel(first), w.panel(first + 1)];
                tile_of(inputs, pair, x, place, out);
            } else {
                tile_of(inputs, [w.panel(first)], x, place, out);
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

/// Sizes known while running become sizes known while compiling.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn tile_of<const P: usize>(
    inputs: usize,
    panels: [Panel<'_>; P],
    x: &Activations,
    place: Place,
    out: &mut [f32],
) {
    match inputs {
        1 => typed::<1, P>(panels, x, place, out),
        2 => typed::<2, P>(panels, x, place, out),
        3 => typed::<3, P>(panels, x, place, out),
        _ => typed::<TILE_INPUTS, P>(panels, x, place, out),
    }
}

/// The same for the type of the weights.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn typed<const N: usize, const P: usize>(
    panels: [Panel<'_>; P],
    x: &Activations,
    place: Place,
    out: &mut [f32],
) {
    match panels[0] {
        Panel::Bytes { minimums: [], .. } => {
            tile::<N, P, _, QUADS, false>(panels.map(bytes), x, place, out);
        }
        Panel::Bytes { .. } => tile::<N, P, _, QUADS, true>(panels.map(bytes), x, place, out),
        Panel::Nibbles { minimums: [], .. } => {
            tile::<N, P, _, NIBBLE_GROUPS, false>(panels.map(nibbles), x, place, out);
        }
        Panel::Nibbles { .. } => {
            tile::<N, P, _, NIBBLE_GROUPS, true>(panels.map(nibbles), x, place, out);
        }
        // Not quantised: `backend` multiplies these in exact mode.
        Panel::F32(_) | Panel::F16(_) | Panel::BF16(_) => {}
    }
}

/// Registers of a block of nibbles; a block of bytes has `QUADS`.
const NIBBLE_GROUPS: usize = QUADS / 2;

/// A quantised panel, block by block.
#[derive(Clone, Copy, Default)]
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

fn bytes(panel: Panel<'_>) -> Blocks<'_, i8, QUADS> {
    match panel {
        Panel::Bytes {
            scales,
            minimums,
            quants,
        } => Blocks::of(quants, scales, minimums),
        _ => Blocks::default(),
    }
}

fn nibbles(panel: Panel<'_>) -> Blocks<'_, u8, NIBBLE_GROUPS> {
    match panel {
        Panel::Nibbles {
            scales,
            minimums,
            quants,
        } => Blocks::of(quants, scales, minimums),
        _ => Blocks::default(),
    }
}

/// One input, block by block.
#[derive(Clone, Copy, Default)]
struct Input<'a> {
    quants: &'a [[i8; BLOCK]],
    scales: &'a [f32],
    sums: &'a [i32],
}

/// `N` inputs against `P` panels.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn tile<const N: usize, const P: usize, T: Copy, const GROUPS: usize, const MINIMUMS: bool>(
    mut panels: [Blocks<'_, T, GROUPS>; P],
    x: &Activations,
    place: Place,
    out: &mut [f32],
) {
    // Every slice is cut to the same length here, so that no index below needs a check.
    let blocks = x.cols / BLOCK;
    for panel in &mut panels {
        panel.quants = &panel.quants[..blocks];
        panel.scales = &panel.scales[..blocks];
        panel.minimums = &panel.minimums[..if MINIMUMS { blocks } else { 0 }];
    }
    let mut inputs = [Input::default(); N];
    for (n, input) in inputs.iter_mut().enumerate() {
        let first = (place.row + n) * blocks;
        input.quants = &x.quants.as_chunks().0[first..][..blocks];
        input.scales = &x.scales[first..][..blocks];
        input.sums = &x.sums[first..][..blocks];
    }
    let mut sums = [[_mm512_setzero_ps(); P]; N];
    for b in 0..blocks {
        let dots = dots::<N, P, T, GROUPS>(
            panels.map(|panel| &panel.quants[b]),
            inputs.map(|input| &input.quants[b]),
        );
        for n in 0..N {
            let x_scale = _mm512_set1_ps(inputs[n].scales[b]);
            let x_sum = _mm512_set1_epi32(inputs[n].sums[b]);
            for p in 0..P {
                let dot = match (GROUPS, MINIMUMS) {
                    (QUADS, _) => _mm512_sub_epi32(dots[n][p], _mm512_slli_epi32::<7>(x_sum)),
                    (_, false) => _mm512_sub_epi32(dots[n][p], _mm512_slli_epi32::<3>(x_sum)),
                    (_, true) => dots[n][p],
                };
                let scale = _mm512_mul_ps(widened(&panels[p].scales[b]), x_scale);
                sums[n][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, sums[n][p]);
                if MINIMUMS {
                    let minimum = _mm512_mul_ps(widened(&panels[p].minimums[b]), x_scale);
                    sums[n][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(x_sum), minimum, sums[n][p]);
                }
            }
        }
    }
    for (n, sums) in sums.iter().enumerate() {
        let out = &mut out[(place.row + n) * place.width + place.col..][..P * PANEL_ROWS];
        for (sum, out) in sums.iter().zip(out.as_chunks_mut::<PANEL_ROWS>().0) {
            // SAFETY: there is room for sixteen floats.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), *sum) };
        }
    }
}

/// Sums over a block of the inputs times the unsigned weights, as the prologue has them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn dots<const N: usize, const P: usize, T: Copy, const GROUPS: usize>(
    quants: [&[[T; QUAD_BYTES]; GROUPS]; P],
    inputs: [&[i8; BLOCK]; N],
) -> [[__m512i; P]; N] {
    let mut dots = [[_mm512_setzero_si512(); P]; N];
    for group in 0..GROUPS {
        for half in 0..QUADS / GROUPS {
            let mut weights = [_mm512_setzero_si512(); P];
            for (weights, quants) in weights.iter_mut().zip(quants) {
                let place = quants[group].as_ptr().cast();
                // SAFETY: a group has 64 quants of one byte.
                let quants = unsafe { _mm512_loadu_si512(place) };
                *weights = match (GROUPS, half) {
                    (QUADS, _) => _mm512_xor_si512(quants, _mm512_set1_epi8(i8::MIN)),
                    (_, 0) => _mm512_and_si512(quants, _mm512_set1_epi8(15)),
                    _ => _mm512_and_si512(_mm512_srli_epi16::<4>(quants), _mm512_set1_epi8(15)),
                };
            }
            for (dots, input) in dots.iter_mut().zip(inputs) {
                let quad = input.as_chunks::<QUAD>().0[half * GROUPS + group];
                let x = _mm512_set1_epi32(i32::from_le_bytes(quad.map(i8::cast_unsigned)));
                for (dot, weights) in dots.iter_mut().zip(weights) {
                    *dot = _mm512_dpbusd_epi32(*dot, weights, x);
                }
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
