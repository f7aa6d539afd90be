//! Rotary turns, four pairs of neighbours at a time.

use std::arch::x86_64::*;

use super::LANES;
use crate::kernels::scalar;

/// Turns pairs of neighbours of `head[head_dim]` by `turns[head_dim / 2][2]`, cosines and sines.
#[target_feature(enable = "avx2,fma")]
pub(super) fn rotate(head: &mut [f32], turns: &[f32]) {
    let whole = head.len() / LANES * LANES;
    let (head, head_rest) = head.split_at_mut(whole);
    let (turns, turns_rest) = turns.split_at(whole);
    for (head, turns) in head.chunks_exact_mut(LANES).zip(turns.chunks_exact(LANES)) {
        // SAFETY: both chunks have eight elements.
        unsafe {
            let pairs = _mm256_loadu_ps(head.as_ptr());
            let turns = _mm256_loadu_ps(turns.as_ptr());
            let swapped = _mm256_permute_ps::<0b10_11_00_01>(turns); // sin, cos
            let second = _mm256_mul_ps(_mm256_movehdup_ps(pairs), swapped);
            let turned = _mm256_fmaddsub_ps(_mm256_moveldup_ps(pairs), turns, second);
            _mm256_storeu_ps(head.as_mut_ptr(), turned);
        }
    }
    scalar::rotate::rotate(head_rest, turns_rest);
}
