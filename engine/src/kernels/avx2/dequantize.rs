//! Packed panels to f32, sixteen rows in two registers, four columns unpacked from each 32-bit lane by shifts.

use std::arch::x86_64::*;

use crate::tensor::Panel;
use crate::tensor::dtype::BLOCK;
use crate::tensor::packed::{NIBBLE_OFFSET, PANEL_ROWS, QUAD};

use super::LANES;

/// Bytes of one group of four columns: `[16][4]`.
const QUAD_BYTES: usize = QUAD * PANEL_ROWS;

/// Writes blocks `first_block..` of a panel as `[cols][16]`, as many columns as `out` has room for.
///
/// An f32 panel is used in place, not copied: it is ignored here.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn dequantize(panel: Panel<'_>, first_block: usize, out: &mut [f32]) {
    let first = first_block * BLOCK * PANEL_ROWS;
    let blocks = out.len() / (BLOCK * PANEL_ROWS);
    match panel {
        Panel::F32(_) => {}
        Panel::F16(bits) => f16(&bits[first..], out),
        Panel::BF16(bits) => bf16(&bits[first..], out),
        Panel::Bytes {
            scales,
            minimums,
            quants,
        } => {
            for (i, out) in out
                .chunks_exact_mut(BLOCK * PANEL_ROWS)
                .enumerate()
                .take(blocks)
            {
                let block = first_block + i;
                let quants = &quants[block * BLOCK * PANEL_ROWS..][..BLOCK * PANEL_ROWS];
                bytes(factors(scales, minimums, block), quants, out);
            }
        }
        Panel::Nibbles {
            scales,
            minimums,
            quants,
        } => {
            let half = BLOCK / 2 * PANEL_ROWS;
            for (i, out) in out
                .chunks_exact_mut(BLOCK * PANEL_ROWS)
                .enumerate()
                .take(blocks)
            {
                let block = first_block + i;
                nibbles(
                    factors(scales, minimums, block),
                    &quants[block * half..][..half],
                    out,
                );
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn f16(bits: &[u16], out: &mut [f32]) {
    for (out, bits) in out.chunks_exact_mut(LANES).zip(bits.chunks_exact(LANES)) {
        // SAFETY: both chunks have eight elements.
        unsafe {
            let value = _mm256_cvtph_ps(_mm_loadu_si128(bits.as_ptr().cast()));
            _mm256_storeu_ps(out.as_mut_ptr(), value);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn bf16(bits: &[u16], out: &mut [f32]) {
    for (out, bits) in out.iter_mut().zip(bits) {
        *out = f32::from_bits(u32::from(*bits) << 16);
    }
}

/// Eight scales and what is added after them; a type without minimums adds nothing, which is not adding zero.
#[derive(Clone, Copy)]
struct Affine {
    scale: __m256,
    minimum: Option<__m256>,
}

impl Affine {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn load((scales, minimums): (&[u16], &[u16]), half: usize) -> Self {
        let at = half * LANES..(half + 1) * LANES;
        Self {
            scale: widened(&scales[at.clone()]),
            minimum: minimums.get(at).map(|minimums| widened(minimums)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn of(self, quant: __m256i) -> __m256 {
        let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(quant), self.scale);
        match self.minimum {
            Some(minimum) => _mm256_add_ps(scaled, minimum),
            None => scaled,
        }
    }
}

/// Halves `[16]` of block `b` of scales and of minimums, if the type has them.
fn factors<'a>(scales: &'a [u16], minimums: &'a [u16], b: usize) -> (&'a [u16], &'a [u16]) {
    let rows = b * PANEL_ROWS..(b + 1) * PANEL_ROWS;
    (&scales[rows.clone()], minimums.get(rows).unwrap_or(&[]))
}

/// Eight halves as singles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::kernels) fn widened(bits: &[u16]) -> __m256 {
    let bits = &bits[..LANES];
    // SAFETY: the slice has eight elements.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(bits.as_ptr().cast())) }
}

/// One block: scales and minimums `[16]`, quants `[8][16][4]`, out `[32][16]`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn bytes(factors: (&[u16], &[u16]), quants: &[i8], out: &mut [f32]) {
    assert!(quants.len() == out.len());
    for half in 0..PANEL_ROWS / LANES {
        let affine = Affine::load(factors, half);
        let groups = quants
            .chunks_exact(QUAD_BYTES)
            .zip(out.chunks_exact_mut(QUAD_BYTES));
        for (quants, out) in groups {
            // SAFETY: a group has 64 quants and 64 outputs; each access stays inside its half of them.
            unsafe {
                let quad = _mm256_loadu_si256(quants.as_ptr().add(half * 32).cast());
                let mut store = |column: usize, quant: __m256i| {
                    let place = out.as_mut_ptr().add(column * PANEL_ROWS + half * LANES);
                    _mm256_storeu_ps(place, affine.of(quant));
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
#[target_feature(enable = "avx2,fma,f16c")]
fn nibbles(factors: (&[u16], &[u16]), quants: &[u8], out: &mut [f32]) {
    let half_out = BLOCK / 2 * PANEL_ROWS;
    assert!(quants.len() == half_out && out.len() == 2 * half_out);
    let low_bits = _mm256_set1_epi32(15);
    let offset = _mm256_set1_epi32(if factors.1.is_empty() {
        NIBBLE_OFFSET
    } else {
        0
    });
    for half in 0..PANEL_ROWS / LANES {
        let affine = Affine::load(factors, half);
        for (group, quants) in quants.chunks_exact(QUAD_BYTES).enumerate() {
            // SAFETY: a group has 64 bytes; the columns written are 4 * group + 0..4 of either half block.
            unsafe {
                let quad = _mm256_loadu_si256(quants.as_ptr().add(half * 32).cast());
                let mut store = |column: usize, quant: __m256i| {
                    let quant = _mm256_sub_epi32(_mm256_and_si256(quant, low_bits), offset);
                    let place = (group * 4 + column) * PANEL_ROWS + half * LANES;
                    _mm256_storeu_ps(out.as_mut_ptr().add(place), affine.of(quant));
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
