//! The reference kernels: plain loops that say what the answer is.
//!
//! Compiled twice from one source: with the FMA instruction where the CPU has it, and without, where
//! `f32::mul_add` falls back to a correctly rounded routine. Same source, same bits. Not here: intrinsics.
#![allow(unsafe_code)]
#![allow(clippy::inline_always)] // a body must be inlined to be compiled for its caller's instructions

use std::ops::Range;

use super::Kernels;
use crate::tensor::{
    Activations, PackedMatrix, PageView, Partials, PartialsMut, Quants, RoundedRows, Span,
};

pub(super) mod activation;
pub(super) mod attend;
pub(super) mod attend_fast;
pub(super) mod dequantize;
pub(super) mod exp;
pub(super) mod matmul;
pub(super) mod matmul_fast;
pub(super) mod norm;
pub(crate) mod quantize;
pub(super) mod rotate;
pub(super) mod stored;

/// Declares each kernel as is and compiled for FMA.
macro_rules! compiled_twice {
    ($($name:ident: $body:path, ($($argument:ident: $type:ty),*);)*) => {
        mod plain {
            use super::*;
            $(pub(super) fn $name($($argument: $type),*) { $body($($argument),*) })*
        }
        #[cfg(target_arch = "x86_64")]
        mod fma {
            use super::*;
            $(pub(super) fn $name($($argument: $type),*) {
                #[target_feature(enable = "fma")]
                fn compiled($($argument: $type),*) { $body($($argument),*) }
                // SAFETY: `table` installs this module only after detecting FMA.
                unsafe { compiled($($argument),*) }
            })*
        }
    };
}

compiled_twice! {
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

/// The reference table, compiled for this CPU's FMA if it has one.
pub fn table() -> Kernels {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("fma") {
        return Kernels {
            name: "scalar",
            matmul: fma::matmul,
            quantize: fma::quantize,
            matmul_fast: fma::matmul_fast,
            attend: fma::attend,
            attend_fast: fma::attend_fast,
            merge: fma::merge,
            rms_norm: fma::rms_norm,
            rotate: fma::rotate,
            silu_mul: fma::silu_mul,
        };
    }
    plain_table()
}

/// The reference table without any instruction beyond the target's baseline.
pub fn plain_table() -> Kernels {
    Kernels {
        name: "scalar",
        matmul: plain::matmul,
        quantize: plain::quantize,
        matmul_fast: plain::matmul_fast,
        attend: plain::attend,
        attend_fast: plain::attend_fast,
        merge: plain::merge,
        rms_norm: plain::rms_norm,
        rotate: plain::rotate,
        silu_mul: plain::silu_mul,
    }
}
