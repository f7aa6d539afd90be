//! The kernels for CPUs with AVX-512 (F, BW, DQ, VL) and its byte dot products (VNNI). Same bits as `scalar`.
//!
//! Sixteen lanes hold the sixteen rows of a panel. A file stands here where 512 bits or VNNI beat eight lanes; every
//! other entry of the table is AVX2's, which all of these CPUs have too. Not here: sums across lanes.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // intrinsics have names of their own

use std::ops::Range;

use super::{Kernels, avx2};
use crate::tensor::{Activations, PackedMatrix, PageView, PartialsMut, Quants, RoundedRows, Span};

mod attend;
mod attend_fast;
mod exp;
mod matmul_fast;
mod stored;

/// The safe face of the kernel for the dispatch table.
fn attend(
    page: PageView<'_>,
    next: Option<PageView<'_>>,
    queries: &[f32],
    seen: &[Span],
    scale: f32,
    out: PartialsMut<'_>,
) {
    // SAFETY: `table` is only called after every feature that the function enables was detected.
    unsafe { attend::attend(page, next, queries, seen, scale, out) }
}

/// The safe face of the kernel for the dispatch table.
fn attend_fast(
    page: [Quants<'_>; 2],
    next: Option<[Quants<'_>; 2]>,
    queries: RoundedRows<'_>,
    seen: &[Span],
    scale: f32,
    out: PartialsMut<'_>,
) {
    // SAFETY: `table` is only called after every feature that the function enables was detected.
    unsafe { attend_fast::attend_fast(page, next, queries, seen, scale, out) }
}

/// The safe face of the kernel for the dispatch table.
fn matmul_fast(w: &PackedMatrix, panels: Range<usize>, x: &Activations, out: &mut [f32]) {
    // SAFETY: `table` is only called after every feature that the function enables was detected.
    unsafe { matmul_fast::matmul_fast(w, panels, x, out) }
}

/// The AVX-512 table. Call only after detecting what its functions enable, as [`Kernels::choose`] does.
pub(super) fn table() -> Kernels {
    Kernels {
        name: "avx512",
        attend,
        attend_fast,
        matmul_fast,
        ..avx2::table()
    }
}
