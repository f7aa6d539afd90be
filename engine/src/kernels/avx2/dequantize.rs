//! Packed panels to f32, sixteen rows in two registers, four columns unpacked from each 32-bit lane by shifts.

use std::arch::x86_64::*;

use crate::tensor::Panel;
use crate::tensor::dtype::BLOCK;
use crate::tensor::packed::PANEL_ROWS;

use super::LANES;

/// Bytes of one group of four columns: `[16][4]`.
const QUAD_BYTES: usize = 4 * PANEL_ROWS;

/// Writes blocks `first_block..` of a panel as `[cols][16]`, as many columns as `out` has room for.
///
/// An f32 panel has no blocks and is used in place, not copied: it is ignored here.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn dequantize(panel: Panel<'_>, first_block: usize, out: &mut [f32]) {
    let blocks = out.chunks_exact_mut(BLOCK * PANEL_ROWS).enumerate();
    match panel {
        Panel::F32(_) => {}
        Panel::Q8_0 { scales, quants } => {
            for (i, out) in blocks {
                let block = first_block + i;
                let quants = &quants[block * BLOCK * PANEL_ROWS..][..BLOCK * PANEL_ROWS];
                q8_0(&scales[block * PANEL_ROWS..][..PANEL_ROWS], quants, out);
            }
        }
        Panel::Q4_1 {
            scales,
            minimums,
            quants,
        } => {
            for (i, out) in blocks {
                let block = first_block + i;
                let rows = block * PANEL_ROWS..(block + 1) * PANEL_ROWS;
                let half = BLOCK / 2 * PANEL_ROWS;
                q4_1(
                    &scales[rows.clone()],
                    &minimums[rows],
                    &quants[block * half..][..half],
                    out,
                );
            }
        }
    }
}

/// One block: scales `[16]`, quants `[8][16][4]`, out `[32][16]`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn q8_0(scales: &[f32], quants: &[i8], out: &mut [f32]) {
    assert!(scales.len() == PANEL_ROWS && quants.len() == out.len());
    for half in 0..PANEL_ROWS / LANES {
        // SAFETY: both halves lie inside the sixteen scales.
        let scale = unsafe { _mm256_loadu_ps(scales.as_ptr().add(half * LANES)) };
        let groups = quants
            .chunks_exact(QUAD_BYTES)
            .zip(out.chunks_exact_mut(QUAD_BYTES));
        for (quants, out) in groups {
            // SAFETY: a group has 64 quants and 64 outputs; each access stays inside its half of them.
            unsafe {
                let quad = _mm256_loadu_si256(quants.as_ptr().add(half * 32).cast());
                let mut store = |column: usize, quant: __m256i| {
                    let value = _mm256_mul_ps(_mm256_cvtepi32_ps(quant), scale);
                    let place = out.as_mut_ptr().add(column * PANEL_ROWS + half * LANES);
                    _mm256_storeu_ps(place, value);
                };
                store(0, _mm256_srai_epi32::<24>(_mm256_slli_epi32::<24>(quad)));
                store(1, _mm256_srai_epi32::<24>(_mm256_slli_epi32::<16>(quad)));
                store(2, _mm256_srai_epi32::<24>(_mm256_slli_epi32::<8>(quad)));
                store(3, _mm256_srai_epi32::<24>(quad));
            }
        }
    }
}

/// One block: scales and minimums `[16]`, quants `[4][16][4]` of two nibbles, out `[32][16]`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn q4_1(scales: &[f32], minimums: &[f32], quants: &[u8], out: &mut [f32]) {
    let half_out = BLOCK / 2 * PANEL_ROWS;
    assert!(scales.len() == PANEL_ROWS && minimums.len() == PANEL_ROWS);
    assert!(quants.len() == half_out && out.len() == 2 * half_out);
    let nibble = _mm256_set1_epi32(15);
    for half in 0..PANEL_ROWS / LANES {
        // SAFETY: both halves lie inside the sixteen scales and minimums.
        let (scale, minimum) = unsafe {
            (
                _mm256_loadu_ps(scales.as_ptr().add(half * LANES)),
                _mm256_loadu_ps(minimums.as_ptr().add(half * LANES)),
            )
        };
        for (group, quants) in quants.chunks_exact(QUAD_BYTES).enumerate() {
            // SAFETY: a group has 64 bytes; the columns written are 4 * group + 0..4 of either half block.
            unsafe {
                let quad = _mm256_loadu_si256(quants.as_ptr().add(half * 32).cast());
                let mut store = |column: usize, quant: __m256i| {
                    let quant = _mm256_cvtepi32_ps(_mm256_and_si256(quant, nibble));
                    let value = _mm256_add_ps(_mm256_mul_ps(quant, scale), minimum);
                    let place = (group * 4 + column) * PANEL_ROWS + half * LANES;
                    _mm256_storeu_ps(out.as_mut_ptr().add(place), value);
                };
                store(0, quad);
                store(16, _mm256_srli_epi32::<4>(quad));
                store(1, _mm256_srli_epi32::<8>(quad));
                store(17, _mm256_srli_epi32::<12>(quad));
                store(2, _mm256_srli_epi32::<16>(quad));
                store(18, _mm256_srli_epi32::<20>(quad));
                store(3, _mm256_srli_epi32::<24>(quad));
                store(19, _mm256_srli_epi32::<28>(quad));
            }
        }
    }
}
