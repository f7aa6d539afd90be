//! The kernels for CPUs with AVX2, FMA and F16C. Same files, same bits as `scalar`.
//!
//! Eight f32 lanes: output rows in `matmul`, positions and dimensions in `attend`, stripes in `norm`. Not here: sums
//! across lanes, except of the eight stripes, in the reference's order.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // intrinsics have names of their own

use std::ops::Range;

use super::Kernels;
use crate::tensor::{
    Activations, PackedMatrix, PageView, Partials, PartialsMut, Quants, RoundedRows, Span,
};

mod activation;
mod attend;
mod attend_fast;
mod dequantize;
mod exp;
mod matmul;
mod matmul_fast;
mod norm;
mod quantize;
mod rotate;
mod stored;

/// Lanes of a register.
const LANES: usize = 8;

/// Gives each kernel a safe face for the dispatch table.
macro_rules! detected {
    ($($name:ident: $body:path, ($($argument:ident: $type:ty),*);)*) => {
        $(fn $name($($argument: $type),*) {
            // SAFETY: `table` is only called after AVX2, FMA and F16C were detected.
            unsafe { $body($($argument),*) }
        })*
    };
}

detected! {
    matmul: matmul::matmul, (w: &PackedMatrix, panels: Range<usize>, x: &[f32], out: &mut [f32]);
    quantize: quantize::quantize, (x: &[f32], out: &mut Activations);
    matmul_fast: matmul_fast::matmul_fast,
        (w: &PackedMatrix, panels: Range<usize>, x: &Activations, out: &mut [f32]);
    attend: attend::attend,
        (page: PageView<'_>, next: Option<PageView<'_>>, queries: &[f32], seen: &[Span], scale: f32, out: PartialsMut<'_>);
    attend_fast: attend_fast::attend_fast,
        (page: [Quants<'_>; 2], next: Option<[Quants<'_>; 2]>, queries: RoundedRows<'_>, seen: &[Span], scale: f32, out: PartialsMut<'_>);
    merge: attend::merge, (into: PartialsMut<'_>, page: Partials<'_>);
    rms_norm: norm::rms_norm, (x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]);
    rotate: rotate::rotate, (head: &mut [f32], turns: &[f32]);
    silu_mul: activation::silu_mul, (gate: &mut [f32], up: &[f32]);
}

/// The AVX2 table. Call only after detecting AVX2, FMA and F16C, as [`Kernels::choose`] does.
pub(super) fn table() -> Kernels {
    Kernels {
        name: "avx2",
        matmul,
        quantize,
        matmul_fast,
        attend,
        attend_fast,
        merge,
        rms_norm,
        rotate,
        silu_mul,
    }
}

/// The eight lanes as an array.
#[target_feature(enable = "avx2,fma")]
fn lanes(register: std::arch::x86_64::__m256) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    // SAFETY: the array has room for eight floats.
    unsafe { std::arch::x86_64::_mm256_storeu_ps(lanes.as_mut_ptr(), register) };
    lanes
}
