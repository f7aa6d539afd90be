//! Matrix product in `fast` mode: byte products summed in 32-bit lanes, lane = output row.
//!
//! Few inputs read the packed bytes as they are (`few`: decoding, bound by memory); many share weights unpacked once
//! (`many`: prompts, bound by arithmetic). Integer sums are exact in any order and the f32 steps are the same, so which
//! of the two runs changes no bit.

use std::ops::Range;

use super::LANES;
use crate::tensor::dtype::BLOCK;
use crate::tensor::packed::{PANEL_ROWS, QUAD};
use crate::tensor::{Activations, PackedMatrix};

mod few;
mod many;

/// Inputs from which unpacking pays; measured, it breaks even between four and eight.
const MANY_INPUTS: usize = 6;
/// Bytes of one group of four columns: `[16][4]`.
const QUAD_BYTES: usize = QUAD * PANEL_ROWS;

/// `out[n][16 * panels] = x[n][cols] * rows of the panels`; the matrix is quantised.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn matmul_fast(
    w: &PackedMatrix,
    panels: Range<usize>,
    x: &Activations,
    out: &mut [f32],
) {
    if x.rows() < MANY_INPUTS {
        few::matmul_fast(w, panels, x, out);
    } else {
        many::matmul_fast(w, panels, x, out);
    }
}
