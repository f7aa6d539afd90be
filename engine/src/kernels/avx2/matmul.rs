//! Matrix product in `exact` mode: sixteen outputs in two registers, one fma per weight, columns ascending.
//!
//! Several inputs share a dequantised panel, six at a time (twelve accumulators hide the latency of fma). A single input
//! unpacks one block at a time, two panels side by side. Neither choice changes an output's order of operations.

use std::arch::x86_64::*;
use std::ops::Range;

use super::LANES;
use super::dequantize::dequantize;
use crate::tensor::dtype::BLOCK;
use crate::tensor::packed::PANEL_ROWS;
use crate::tensor::{PackedMatrix, Panel};

/// Inputs per register tile: 6 x 2 accumulators, 2 weights, 1 input of the 16 registers.
const TILE_INPUTS: usize = 6;

/// `out[n][16 * panels] = x[n][cols] * rows of the panels`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn matmul(w: &PackedMatrix, panels: Range<usize>, x: &[f32], out: &mut [f32]) {
    if x.len() == w.cols() {
        return one_input(w, panels, x, out);
    }
    let width = panels.len() * PANEL_ROWS;
    let mut scratch = Vec::new();
    for (i, panel) in panels.enumerate() {
        let weights = match w.panel(panel) {
            Panel::F32(values) => values,
            quantised => {
                scratch.resize(w.cols() * PANEL_ROWS, 0.0);
                dequantize(quantised, 0, &mut scratch);
                &scratch
            }
        };
        let inputs = x.chunks(TILE_INPUTS * w.cols());
        for (x, out) in inputs.zip(out.chunks_mut(TILE_INPUTS * width)) {
            let mut out: Vec<&mut [f32]> = out
                .chunks_exact_mut(width)
                .map(|row| &mut row[i * PANEL_ROWS..][..PANEL_ROWS])
                .collect();
            let out = out.as_mut_slice();
            match out.len() {
                1 => tile::<1>(weights, x, out),
                2 => tile::<2>(weights, x, out),
                3 => tile::<3>(weights, x, out),
                4 => tile::<4>(weights, x, out),
                5 => tile::<5>(weights, x, out),
                _ => tile::<TILE_INPUTS>(weights, x, out),
            }
        }
    }
}

/// `N` inputs against a panel of f32 weights `[cols][16]`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn tile<const N: usize>(weights: &[f32], x: &[f32], out: &mut [&mut [f32]]) {
    let cols = weights.len() / PANEL_ROWS;
    assert!(x.len() == N * cols && out.len() == N);
    let mut sums = [[_mm256_setzero_ps(); 2]; N];
    for (col, weights) in weights.chunks_exact(PANEL_ROWS).enumerate() {
        // SAFETY: the chunk has sixteen weights; n * cols + col < N * cols = x.len().
        unsafe {
            let low = _mm256_loadu_ps(weights.as_ptr());
            let high = _mm256_loadu_ps(weights.as_ptr().add(LANES));
            for (n, sum) in sums.iter_mut().enumerate() {
                let x = _mm256_broadcast_ss(&*x.as_ptr().add(n * cols + col));
                sum[0] = _mm256_fmadd_ps(low, x, sum[0]);
                sum[1] = _mm256_fmadd_ps(high, x, sum[1]);
            }
        }
    }
    for (sum, out) in sums.iter().zip(out) {
        store(*sum, out);
    }
}

/// One input, two panels at a time so that four accumulators are in flight.
#[target_feature(enable = "avx2,fma,f16c")]
fn one_input(w: &PackedMatrix, panels: Range<usize>, x: &[f32], out: &mut [f32]) {
    let mut pairs = out.chunks_exact_mut(2 * PANEL_ROWS);
    let mut panel = panels.start;
    for out in &mut pairs {
        block_by_block([w.panel(panel), w.panel(panel + 1)], x, out);
        panel += 2;
    }
    let rest = pairs.into_remainder();
    if !rest.is_empty() {
        block_by_block([w.panel(panel)], x, rest);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn block_by_block<const N: usize>(panels: [Panel<'_>; N], x: &[f32], out: &mut [f32]) {
    let mut unpacked = [[0.0_f32; BLOCK * PANEL_ROWS]; N];
    let mut sums = [[_mm256_setzero_ps(); 2]; N];
    for (block, x) in x.chunks(BLOCK).enumerate() {
        let len = x.len() * PANEL_ROWS;
        let mut weights: [&[f32]; N] = [&[]; N];
        for ((weights, unpacked), panel) in weights.iter_mut().zip(&mut unpacked).zip(panels) {
            *weights = match panel {
                Panel::F32(values) => &values[block * BLOCK * PANEL_ROWS..][..len],
                quantised => {
                    dequantize(quantised, block, &mut unpacked[..len]);
                    &unpacked[..len]
                }
            };
        }
        for (col, x) in x.iter().enumerate() {
            let x = _mm256_set1_ps(*x);
            for (sum, weights) in sums.iter_mut().zip(&weights) {
                // SAFETY: each slice has x.len() groups of sixteen weights and col < x.len().
                unsafe {
                    let place = weights.as_ptr().add(col * PANEL_ROWS);
                    sum[0] = _mm256_fmadd_ps(_mm256_loadu_ps(place), x, sum[0]);
                    sum[1] = _mm256_fmadd_ps(_mm256_loadu_ps(place.add(LANES)), x, sum[1]);
                }
            }
        }
    }
    for (sum, out) in sums.iter().zip(out.chunks_exact_mut(PANEL_ROWS)) {
        store(*sum, out);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn store(sum: [__m256; 2], out: &mut [f32]) {
    assert!(out.len() == PANEL_ROWS);
    // SAFETY: out has sixteen elements.
    unsafe {
        _mm256_storeu_ps(out.as_mut_ptr(), sum[0]);
        _mm256_storeu_ps(out.as_mut_ptr().add(LANES), sum[1]);
    }
}
