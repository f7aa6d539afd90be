//! Rotary position embedding (Su et al. 2021): neighbours of a head turned by an angle of position and pair.
//!
//! Not here: the angles (`backend/rope`).

/// Turns pairs of neighbours of `head[head_dim]` by `turns[head_dim / 2][2]`, cosines and sines.
#[inline(always)]
pub(in crate::kernels) fn rotate(head: &mut [f32], turns: &[f32]) {
    for (pair, turn) in head.chunks_exact_mut(2).zip(turns.chunks_exact(2)) {
        let ((x, y), (cos, sin)) = ((pair[0], pair[1]), (turn[0], turn[1]));
        pair[0] = x.mul_add(cos, -(y * sin));
        pair[1] = x.mul_add(sin, y * cos);
    }
}
