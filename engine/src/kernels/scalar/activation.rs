//! The gated activation of Llama's feed-forward: silu(gate) * up.

use super::exp::exp;

/// `gate = gate / (1 + exp(-gate)) * up`.
#[inline(always)]
pub(in crate::kernels) fn silu_mul(gate: &mut [f32], up: &[f32]) {
    for (gate, &up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + exp(-*gate)) * up;
    }
}
