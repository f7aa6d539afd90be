//! Many inputs: sixteen rows against three inputs at a time, weights unpacked once for all of them.
//!
//! Bytes become 16-bit integers, whose products `vpmaddwd` adds in pairs without rounding or saturation: no sign has to be
//! moved and no operand is out of range. Nibbles stay unsigned bytes: `vpmaddubsw` sums of a block are at most
//! 8 * 2 * 15 * 127 = 30 480, below 2^15. The unpacked columns, `SPAN` blocks at a time, stay in the first-level cache.

use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

use super::{BLOCK, LANES, PANEL_ROWS, QUAD, QUAD_BYTES};
use crate::kernels::avx2::dequantize::widened;
use crate::tensor::packed::NIBBLE_OFFSET;
use crate::tensor::{Activations, PackedMatrix, Panel};

/// Inputs per register tile: 3 x 2 integer and as many float accumulators, weights and an input.
const TILE_INPUTS: usize = 3;
/// Blocks unpacked at a time.
const SPAN: usize = 16;
/// Registers of eight rows in a panel.
const HALVES: usize = PANEL_ROWS / LANES;
/// Registers that hold a block of bytes as 16-bit integers: 8 groups x even and odd columns x halves. Nibbles take
/// half as many: 4 groups x low and high x halves.
const BLOCK_REGISTERS: usize = BLOCK / QUAD * 2 * HALVES;

/// Up to `SPAN` blocks of a panel.
struct Unpacked {
    blocks: usize,
    nibbles: bool,
    has_minimums: bool,
    /// By block, group of columns and half.
    weights: [[__m256i; BLOCK_REGISTERS]; SPAN],
    scales: [[__m256; HALVES]; SPAN],
    minimums: [[__m256; HALVES]; SPAN],
}

/// What every tile of a call reads.
struct Inputs<'a> {
    x: &'a Activations,
    /// Of each group of four inputs the first, third, second and fourth, as the unpacked bytes pair up; `[n][cols]`.
    words: Vec<i16>,
}

/// See `super`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn matmul_fast(
    w: &PackedMatrix,
    panels: Range<usize>,
    x: &Activations,
    out: &mut [f32],
) {
    let (width, blocks) = (panels.len() * PANEL_ROWS, x.cols / BLOCK);
    assert!(out.len() == x.rows() * width && w.cols() == x.cols);
    let bytes = panels
        .clone()
        .any(|panel| matches!(w.panel(panel), Panel::Bytes { .. }));
    let words = if bytes {
        arranged(&x.quants)
    } else {
        Vec::new()
    };
    let inputs = Inputs { x, words };
    let mut unpacked = Unpacked::new();
    for (i, panel) in panels.enumerate() {
        let panel = w.panel(panel);
        for first in (0..blocks).step_by(SPAN) {
            unpacked.fill(panel, first..blocks.min(first + SPAN));
            for row in (0..x.rows()).step_by(TILE_INPUTS) {
                let out = &mut out[row * width + i * PANEL_ROWS..];
                match x.rows() - row {
                    1 => tile::<1>(&unpacked, &inputs, (row, first), width, out),
                    2 => tile::<2>(&unpacked, &inputs, (row, first), width, out),
                    _ => tile::<TILE_INPUTS>(&unpacked, &inputs, (row, first), width, out),
                }
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn arranged(quants: &[i8]) -> Vec<i16> {
    let mut words = vec![0; quants.len()];
    let blocks = words.chunks_exact_mut(BLOCK);
    for (words, quants) in blocks.zip(quants.chunks_exact(BLOCK)) {
        // SAFETY: the chunks have 32 bytes and 32 words.
        unsafe {
            let (even, odd) = even_and_odd(_mm256_loadu_si256(quants.as_ptr().cast()));
            let (first, second) = (
                _mm256_unpacklo_epi32(even, odd),
                _mm256_unpackhi_epi32(even, odd),
            );
            let low = _mm256_permute2x128_si256::<0x20>(first, second);
            let high = _mm256_permute2x128_si256::<0x31>(first, second);
            _mm256_storeu_si256(words.as_mut_ptr().cast(), low);
            _mm256_storeu_si256(words.as_mut_ptr().add(BLOCK / 2).cast(), high);
        }
    }
    words
}

/// Signed bytes 0, 2 and 1, 3 of each 32-bit lane as 16-bit integers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn even_and_odd(bytes: __m256i) -> (__m256i, __m256i) {
    let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes));
    (even, _mm256_srai_epi16::<8>(bytes))
}

/// Low and high nibbles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn low_and_high(bytes: __m256i) -> (__m256i, __m256i) {
    let low_bits = _mm256_set1_epi8(15);
    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low_bits);
    (_mm256_and_si256(bytes, low_bits), high)
}

impl Unpacked {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn new() -> Self {
        Self {
            blocks: 0,
            nibbles: false,
            has_minimums: false,
            weights: [[_mm256_setzero_si256(); BLOCK_REGISTERS]; SPAN],
            scales: [[_mm256_setzero_ps(); HALVES]; SPAN],
            minimums: [[_mm256_setzero_ps(); HALVES]; SPAN],
        }
    }

    /// Unpacks `blocks` of `panel`, at most `SPAN`.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn fill(&mut self, panel: Panel<'_>, blocks: Range<usize>) {
        let (scales, minimums) = match panel {
            Panel::Bytes {
                scales,
                minimums,
                quants,
            } => {
                self.nibbles = false;
                let place = quants.as_ptr().cast();
                self.unpack((place, quants.len()), BLOCK, &blocks, |bytes| {
                    even_and_odd(bytes)
                });
                (scales, minimums)
            }
            Panel::Nibbles {
                scales,
                minimums,
                quants,
            } => {
                self.nibbles = true;
                let place = quants.as_ptr();
                self.unpack((place, quants.len()), BLOCK / 2, &blocks, |bytes| {
                    low_and_high(bytes)
                });
                (scales, minimums)
            }
            // Not quantised: `backend` multiplies these in exact mode.
            Panel::F32(_) | Panel::F16(_) | Panel::BF16(_) => {
                self.blocks = 0;
                return;
            }
        };
        self.blocks = blocks.len();
        self.has_minimums = !minimums.is_empty();
        for (i, block) in blocks.enumerate() {
            for half in 0..HALVES {
                let at = block * PANEL_ROWS + half * LANES;
                self.scales[i][half] = widened(&scales[at..]);
                if self.has_minimums {
                    self.minimums[i][half] = widened(&minimums[at..]);
                }
            }
        }
    }

    /// Splits each register of `blocks` in two; a block has `row_bytes` bytes of each row.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn unpack(
        &mut self,
        (quants, len): (*const u8, usize),
        row_bytes: usize,
        blocks: &Range<usize>,
        split: impl Fn(__m256i) -> (__m256i, __m256i),
    ) {
        let block_bytes = row_bytes * PANEL_ROWS;
        assert!(blocks.end * block_bytes <= len);
        for (weights, block) in self.weights.iter_mut().zip(blocks.clone()) {
            let groups = weights.chunks_exact_mut(2 * HALVES);
            for (group, weights) in groups.enumerate().take(row_bytes / QUAD) {
                for half in 0..HALVES {
                    let at = block * block_bytes + group * QUAD_BYTES + half * 32;
                    // SAFETY: the group is one of the block's, which was asserted to be there; half is 0 or 1.
                    let bytes = unsafe { _mm256_loadu_si256(quants.add(at).cast()) };
                    (weights[half], weights[HALVES + half]) = split(bytes);
                }
            }
        }
    }
}

/// `N` inputs from `row` on against the unpacked blocks, the first of which is `first`; adds to what earlier blocks gave.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn tile<const N: usize>(
    unpacked: &Unpacked,
    inputs: &Inputs<'_>,
    place: (usize, usize),
    width: usize,
    out: &mut [f32],
) {
    match (unpacked.nibbles, unpacked.has_minimums) {
        (false, false) => tile_of::<N, false, false>(unpacked, inputs, place, width, out),
        (false, true) => tile_of::<N, false, true>(unpacked, inputs, place, width, out),
        (true, false) => tile_of::<N, true, false>(unpacked, inputs, place, width, out),
        (true, true) => tile_of::<N, true, true>(unpacked, inputs, place, width, out),
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn tile_of<const N: usize, const NIBBLES: bool, const MINIMUMS: bool>(
    unpacked: &Unpacked,
    inputs: &Inputs<'_>,
    (row, first): (usize, usize),
    width: usize,
    out: &mut [f32],
) {
    let x = inputs.x;
    let blocks = x.cols / BLOCK;
    let start = row * x.cols + first * BLOCK;
    let scales: [&[f32]; N] = rows(&x.scales[row * blocks + first..], blocks, unpacked.blocks);
    let x_sums: [&[i32]; N] = rows(&x.sums[row * blocks + first..], blocks, unpacked.blocks);
    let len = unpacked.blocks * BLOCK;
    let quants: [&[i8]; N] = rows(&x.quants[start..], x.cols, len);
    let words: [&[i16]; N] = if NIBBLES {
        [&[]; N]
    } else {
        rows(&inputs.words[start..], x.cols, len)
    };
    let mut sums = [[_mm256_setzero_ps(); HALVES]; N];
    if first > 0 {
        for (sums, out) in sums.iter_mut().zip(out.chunks(width)) {
            sums[0] = load(out, 0);
            sums[1] = load(out, LANES);
        }
    }
    for i in 0..unpacked.blocks {
        let weights = &unpacked.weights[i];
        // SAFETY: each row of inputs has `unpacked.blocks` blocks.
        let dots = unsafe {
            if NIBBLES {
                nibbles(weights, quants.map(|row| row.as_ptr().add(i * BLOCK)))
            } else {
                bytes(weights, words.map(|row| row.as_ptr().add(i * BLOCK)))
            }
        };
        for n in 0..N {
            let x_scale = _mm256_set1_ps(scales[n][i]);
            let x_sum = _mm256_set1_epi32(x_sums[n][i]);
            for half in 0..HALVES {
                let mut dot = dots[n][half];
                if NIBBLES && !MINIMUMS {
                    let offset = _mm256_slli_epi32::<{ NIBBLE_OFFSET.ilog2() as i32 }>(x_sum);
                    dot = _mm256_sub_epi32(dot, offset);
                }
                let sum = &mut sums[n][half];
                let scale = _mm256_mul_ps(unpacked.scales[i][half], x_scale);
                *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, *sum);
                if MINIMUMS {
                    let minimum = _mm256_mul_ps(unpacked.minimums[i][half], x_scale);
                    *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(x_sum), minimum, *sum);
                }
            }
        }
    }
    for (sums, out) in sums.iter().zip(out.chunks_mut(width)) {
        for (sum, out) in sums.iter().zip(out.chunks_exact_mut(LANES)) {
            // SAFETY: the chunk has eight elements.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), *sum) };
        }
    }
}

/// The first `len` elements of `N` rows that start `stride` apart.
#[inline]
fn rows<T, const N: usize>(values: &[T], stride: usize, len: usize) -> [&[T]; N] {
    std::array::from_fn(|n| &values[n * stride..][..len])
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load(values: &[f32], at: usize) -> __m256 {
    let values = &values[at..at + LANES];
    // SAFETY: the slice has eight elements.
    unsafe { _mm256_loadu_ps(values.as_ptr()) }
}

/// Four bytes in every lane.
///
/// # Safety
/// `place` is valid for reading four bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn broadcast<T>(place: *const T) -> __m256i {
    // SAFETY: as promised by the caller.
    _mm256_set1_epi32(unsafe { place.cast::<i32>().read_unaligned() })
}

/// Dot products of a block with `N` inputs.
///
/// # Safety
/// Each of `inputs` is valid for reading 32 words.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bytes<const N: usize>(
    weights: &[__m256i; BLOCK_REGISTERS],
    inputs: [*const i16; N],
) -> [[__m256i; HALVES]; N] {
    let mut dots = [[_mm256_setzero_si256(); HALVES]; N];
    for (pair, weights) in weights.chunks_exact(HALVES).enumerate() {
        for (dots, input) in dots.iter_mut().zip(inputs) {
            // SAFETY: pair < 16.
            let input = unsafe { broadcast(input.add(2 * pair)) };
            for (dot, weights) in dots.iter_mut().zip(weights) {
                *dot = kept(_mm256_add_epi32(*dot, _mm256_madd_epi16(*weights, input)));
            }
        }
    }
    dots
}

/// Dot products of a block of nibbles, offset not yet taken off, with `N` inputs.
///
/// # Safety
/// Each of `inputs` is valid for reading 32 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn nibbles<const N: usize>(
    weights: &[__m256i; BLOCK_REGISTERS],
    inputs: [*const i8; N],
) -> [[__m256i; HALVES]; N] {
    let mut pairs = [[_mm256_setzero_si256(); HALVES]; N];
    let used = weights.chunks_exact(HALVES).take(BLOCK / QUAD);
    for (i, weights) in used.enumerate() {
        let column = i / 2 * QUAD + i % 2 * (BLOCK / 2);
        for (pairs, input) in pairs.iter_mut().zip(inputs) {
            // SAFETY: column <= 28.
            let input = unsafe { broadcast(input.add(column)) };
            for (pair, weights) in pairs.iter_mut().zip(weights) {
                *pair = kept(_mm256_add_epi16(
                    *pair,
                    _mm256_maddubs_epi16(*weights, input),
                ));
            }
        }
    }
    let ones = _mm256_set1_epi16(1);
    // A loop and not `map`, which is compiled without these instructions and may not be inlined.
    for pair in pairs.as_flattened_mut() {
        *pair = _mm256_madd_epi16(*pair, ones);
    }
    pairs
}

/// The same register, opaque to the optimiser: it would otherwise split integer sums into more accumulators than there
/// are registers and spill them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn kept(mut register: __m256i) -> __m256i {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(ymm_reg) register, options(nomem, nostack, preserves_flags)) };
    register
}
