//! Cached keys and values as f32, sixteen at a time: elements are widened, then multiplied by their scales if they have any.
//!
//! Not here: what is done with them (`attend`).

use std::arch::x86_64::*;

use super::attend::{LANES, REGISTERS};
use crate::tensor::PAGE_POSITIONS;
use crate::tensor::dtype::BLOCK;

/// An element type of cached keys and values.
pub(super) trait Element: Copy {
    /// Widens sixteen elements, zeros where `mask` has no bit.
    ///
    /// # Safety
    /// The elements of `mask` from `place` on are valid for reading and the CPU has what `attend` enables.
    unsafe fn load(place: *const Self, mask: __mmask16) -> __m512;
}

impl Element for f32 {
    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn load(place: *const Self, mask: __mmask16) -> __m512 {
        // SAFETY: as promised by the caller.
        unsafe { _mm512_maskz_loadu_ps(mask, place) }
    }
}

impl Element for u16 {
    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn load(place: *const Self, mask: __mmask16) -> __m512 {
        // SAFETY: as promised by the caller.
        unsafe { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, place.cast())) }
    }
}

impl Element for i8 {
    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn load(place: *const Self, mask: __mmask16) -> __m512 {
        // SAFETY: as promised by the caller.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, place))) }
    }
}

/// What the elements of a matrix are multiplied by.
pub(super) trait Scales: Copy {
    /// Rows from a multiple of which on the scales are widened together.
    const ROWS: usize;
    /// Scales of these rows and of the columns of four registers.
    type Wide;

    /// Those of `ROWS` rows, `row` among them, and of the columns from `first` on.
    ///
    /// # Safety
    /// The CPU has what `attend` enables.
    unsafe fn widen(self, row: usize, first: usize) -> Self::Wide;

    /// The elements of `row` and register `r` times their scales.
    ///
    /// # Safety
    /// The CPU has what `attend` enables.
    unsafe fn multiply(wide: &Self::Wide, row: usize, r: usize, elements: __m512) -> __m512;
}

/// Elements that are numbers as they are.
#[derive(Clone, Copy)]
pub(super) struct Unscaled;

impl Scales for Unscaled {
    const ROWS: usize = usize::MAX;
    type Wide = ();

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn widen(self, _: usize, _: usize) {}

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn multiply((): &(), _: usize, _: usize, elements: __m512) -> __m512 {
        elements
    }
}

/// Scales of keys, `[ceil(rows / 32)][64]`: a row is a dimension, a lane a position.
#[derive(Clone, Copy)]
pub(super) struct OfKeys<'a>(pub(super) &'a [u16]);

impl Scales for OfKeys<'_> {
    const ROWS: usize = BLOCK;
    type Wide = [__m512; REGISTERS];

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn widen(self, row: usize, _: usize) -> Self::Wide {
        let scales = &self.0[row / BLOCK * PAGE_POSITIONS..][..PAGE_POSITIONS];
        // SAFETY: there are sixty-four scales; the CPU is as promised by the caller.
        std::array::from_fn(|r| unsafe { u16::load(scales[r * LANES..].as_ptr(), !0) })
    }

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn multiply(wide: &Self::Wide, _: usize, r: usize, elements: __m512) -> __m512 {
        // SAFETY: as promised by the caller.
        unsafe { _mm512_mul_ps(elements, wide[r]) }
    }
}

/// Scales of values, `[ceil(columns / 32)][64]`: a row is a position, a lane a dimension.
#[derive(Clone, Copy)]
pub(super) struct OfValues<'a>(pub(super) &'a [u16]);

/// Blocks that four registers reach into.
const BLOCKS: usize = REGISTERS * LANES / BLOCK;

impl Scales for OfValues<'_> {
    const ROWS: usize = PAGE_POSITIONS;
    type Wide = [[f32; PAGE_POSITIONS]; BLOCKS];

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn widen(self, _: usize, first: usize) -> Self::Wide {
        let mut wide = [[0.0; PAGE_POSITIONS]; BLOCKS];
        let scales = self.0[first / BLOCK * PAGE_POSITIONS..].chunks_exact(PAGE_POSITIONS);
        for (wide, scales) in wide.iter_mut().zip(scales) {
            for (wide, scales) in wide.chunks_exact_mut(LANES).zip(scales.chunks_exact(LANES)) {
                // SAFETY: both chunks have sixteen elements; the CPU is as promised by the caller.
                unsafe { _mm512_storeu_ps(wide.as_mut_ptr(), u16::load(scales.as_ptr(), !0)) };
            }
        }
        wide
    }

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn multiply(wide: &Self::Wide, row: usize, r: usize, elements: __m512) -> __m512 {
        let scale = wide[r * LANES / BLOCK][row % PAGE_POSITIONS];
        // SAFETY: as promised by the caller.
        unsafe { _mm512_mul_ps(elements, _mm512_set1_ps(scale)) }
    }
}
