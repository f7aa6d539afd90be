//! The kernels for CPUs with AVX2 and FMA. Same files, same bits as `scalar`.
//!
//! Eight f32 lanes: output rows in `matmul`, positions and dimensions in `attend`, stripes in `norm`. Not here: sums
//! across lanes, except of the eight stripes, in the reference's order.
#![allow(unsafe_code)]

use super::Kernels;

pub mod activation;
pub mod attend;
pub mod dequantize;
pub mod exp;
pub mod matmul;
pub mod norm;

/// Lanes of a register.
const LANES: usize = 8;

/// The AVX2 table. Call only after detecting AVX2 and FMA, as [`Kernels::choose`] does.
pub(super) fn table() -> Kernels {
    // SAFETY (all five): the caller has detected AVX2 and FMA.
    Kernels {
        name: "avx2",
        matmul: |w, panels, x, out| unsafe { matmul::matmul(w, panels, x, out) },
        attend: |page, queries, visible, scale, out| unsafe {
            attend::attend(page, queries, visible, scale, out);
        },
        merge: |into, page| unsafe { attend::merge(into, page) },
        rms_norm: |x, weight, epsilon, out| unsafe { norm::rms_norm(x, weight, epsilon, out) },
        silu_mul: |gate, up| unsafe { activation::silu_mul(gate, up) },
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
