//! Cached keys and values as f32, eight at a time: elements are widened, then multiplied by their scales if they have any.
//!
//! Not here: what is done with them (`attend`).

use std::arch::x86_64::*;

use half::f16;

use super::LANES;
use crate::tensor::PAGE_POSITIONS;
use crate::tensor::dtype::BLOCK;

/// Registers of the widest strip of columns.
const REGISTERS_MAX: usize = PAGE_POSITIONS / LANES;

/// An element type of cached keys and values.
pub(super) trait Element: Copy {
    /// Widens eight elements.
    ///
    /// # Safety
    /// `place` is valid for reading eight elements and the CPU has AVX2 and F16C.
    unsafe fn load(place: *const Self) -> __m256;
    /// Widens one element.
    fn widen(self) -> f32;
}

impl Element for f32 {
    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn load(place: *const Self) -> __m256 {
        // SAFETY: as promised by the caller.
        unsafe { _mm256_loadu_ps(place) }
    }
    fn widen(self) -> f32 {
        self
    }
}

impl Element for u16 {
    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn load(place: *const Self) -> __m256 {
        // SAFETY: as promised by the caller.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(place.cast())) }
    }
    fn widen(self) -> f32 {
        f16::from_bits(self).to_f32()
    }
}

impl Element for i8 {
    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn load(place: *const Self) -> __m256 {
        // SAFETY: as promised by the caller.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(place.cast()))) }
    }
    fn widen(self) -> f32 {
        self.into()
    }
}

/// What the elements of a matrix are multiplied by.
pub(super) trait Scales: Copy {
    /// Rows from a multiple of which on the scales are widened together.
    const ROWS: usize;
    /// Whether the product of a strip of columns is a function of its own: inlined into what is around it, the products of
    /// bytes and scales push the accumulators out of their registers, a third of the speed.
    const APART: bool = true;
    /// Scales of these rows and of the columns of a strip.
    type Wide;

    /// Those of `ROWS` rows, `row` among them, and of the columns of some registers from `first` on.
    ///
    /// # Safety
    /// The CPU has AVX2 and F16C.
    unsafe fn widen(self, row: usize, first: usize, registers: usize) -> Self::Wide;

    /// The elements of `row` and register `r` of the columns from `first` on times their scales.
    ///
    /// # Safety
    /// The CPU has AVX2.
    unsafe fn multiply(
        wide: &Self::Wide,
        row: usize,
        first: usize,
        r: usize,
        elements: __m256,
    ) -> __m256;

    /// One element times its scale.
    fn multiply_one(self, row: usize, column: usize, element: f32) -> f32;
}

/// Elements that are numbers as they are.
#[derive(Clone, Copy)]
pub(super) struct Unscaled;

impl Scales for Unscaled {
    const ROWS: usize = usize::MAX;
    const APART: bool = false;
    type Wide = ();

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn widen(self, _: usize, _: usize, _: usize) {}

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn multiply((): &(), _: usize, _: usize, _: usize, elements: __m256) -> __m256 {
        elements
    }

    fn multiply_one(self, _: usize, _: usize, element: f32) -> f32 {
        element
    }
}

/// Scales of keys, `[ceil(rows / 32)][64]`: a row is a dimension, a lane a position.
#[derive(Clone, Copy)]
pub(super) struct OfKeys<'a>(pub(super) &'a [u16]);

impl Scales for OfKeys<'_> {
    const ROWS: usize = BLOCK;
    type Wide = [__m256; REGISTERS_MAX];

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn widen(self, row: usize, first: usize, registers: usize) -> Self::Wide {
        let scales = &self.0[row / BLOCK * PAGE_POSITIONS + first..][..registers * LANES];
        // SAFETY: each chunk has eight scales; the CPU is as promised by the caller.
        unsafe {
            let mut wide = [_mm256_setzero_ps(); REGISTERS_MAX];
            for (wide, scales) in wide.iter_mut().zip(scales.chunks_exact(LANES)) {
                *wide = u16::load(scales.as_ptr());
            }
            wide
        }
    }

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn multiply(
        wide: &Self::Wide,
        _: usize,
        _: usize,
        r: usize,
        elements: __m256,
    ) -> __m256 {
        // SAFETY: as promised by the caller.
        unsafe { _mm256_mul_ps(elements, wide[r]) }
    }

    fn multiply_one(self, row: usize, column: usize, element: f32) -> f32 {
        element * self.0[row / BLOCK * PAGE_POSITIONS + column].widen()
    }
}

/// Scales of values, `[ceil(columns / 32)][64]`: a row is a position, a lane a dimension.
#[derive(Clone, Copy)]
pub(super) struct OfValues<'a>(pub(super) &'a [u16]);

/// Blocks that a strip of columns may reach into: eight registers begin with a block, fewer anywhere.
const BLOCKS: usize = 2;

impl Scales for OfValues<'_> {
    const ROWS: usize = PAGE_POSITIONS;
    type Wide = [[f32; PAGE_POSITIONS]; BLOCKS];

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn widen(self, _: usize, first: usize, registers: usize) -> Self::Wide {
        let mut wide = [[0.0; PAGE_POSITIONS]; BLOCKS];
        let blocks = (first + registers * LANES).div_ceil(BLOCK) - first / BLOCK;
        let scales = &self.0[first / BLOCK * PAGE_POSITIONS..][..blocks * PAGE_POSITIONS];
        let places = wide.as_flattened_mut().chunks_exact_mut(LANES);
        for (wide, scales) in places.zip(scales.chunks_exact(LANES)) {
            // SAFETY: both chunks have eight elements; the CPU is as promised by the caller.
            unsafe { _mm256_storeu_ps(wide.as_mut_ptr(), u16::load(scales.as_ptr())) };
        }
        wide
    }

    #[allow(clippy::inline_always)] // compiled for the caller's instructions
    #[inline(always)]
    unsafe fn multiply(
        wide: &Self::Wide,
        row: usize,
        first: usize,
        r: usize,
        elements: __m256,
    ) -> __m256 {
        let block = (first % BLOCK + r * LANES) / BLOCK % BLOCKS;
        let scale = wide[block][row % PAGE_POSITIONS];
        // SAFETY: as promised by the caller.
        unsafe { _mm256_mul_ps(elements, _mm256_set1_ps(scale)) }
    }

    fn multiply_one(self, row: usize, column: usize, element: f32) -> f32 {
        element * self.0[column / BLOCK * PAGE_POSITIONS + row].widen()
    }
}
