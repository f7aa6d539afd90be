//! How much faster the quantised products must be than the exact f32 product of the same process.
//!
//! A ratio within one process holds on a slower or busier machine of the same instruction set, where a rate does not.
//! Prints each ratio and its floor, about four fifths of what was measured when it was set; ends with 1 where one is
//! missed. Not here: rates (`kernels`), counts (`instructions`).
#![allow(clippy::print_stdout)] // a bench says what it measured

mod common;

use std::hint::black_box;
use std::process::ExitCode;

use common::{in_turns, matrix, minimum, noise, rounded};
use engine::kernels::Kernels;
use engine::tensor::DType;

/// A chunk of a prompt.
const INPUTS: usize = 64;
/// Rows and columns of the matrices.
const SHAPE: [usize; 2] = [256, 576];
/// Samples of each product, taken in turns; the least one counts.
const REPEATS: usize = 100;

/// Floors of one kernel set: how many times the f32 product's rate.
struct Floors {
    kernels: &'static str,
    of: [(DType, f64); 3],
}

/// The reference has none: it is there to be right.
const FLOORS: [Floors; 2] = [
    Floors {
        kernels: "avx2",
        of: [
            (DType::Q8_0, 0.97),
            (DType::Q4_0, 1.36),
            (DType::Q4_1, 1.31),
        ],
    },
    Floors {
        kernels: "avx512",
        of: [(DType::Q8_0, 2.4), (DType::Q4_0, 2.47), (DType::Q4_1, 2.07)],
    },
];

fn main() -> ExitCode {
    let mut held = true;
    for kernels in common::kernel_sets() {
        if let Some(floors) = FLOORS.iter().find(|floors| floors.kernels == kernels.name) {
            held &= check(&kernels, floors);
        }
    }
    if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Measures one kernel set and prints a line per floor; whether all held.
fn check(kernels: &Kernels, floors: &Floors) -> bool {
    let [rows, cols] = SHAPE;
    let exact_inputs = noise(INPUTS * cols, 2);
    let fast_inputs = rounded(kernels, INPUTS, cols);
    let exact = matrix(DType::F32, rows, cols);
    let quantised = floors.of.map(|(dtype, _)| matrix(dtype, rows, cols));
    let mut works: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    works.push(Box::new(|| {
        let mut out = vec![0.0; INPUTS * rows];
        (kernels.matmul)(&exact, 0..exact.panels(), &exact_inputs, &mut out);
        black_box(out);
    }));
    for w in &quantised {
        works.push(Box::new(|| {
            let mut out = vec![0.0; INPUTS * rows];
            (kernels.matmul_fast)(w, 0..w.panels(), &fast_inputs, &mut out);
            black_box(out);
        }));
    }
    let least_ns: Vec<f64> = in_turns(&mut works, REPEATS)
        .iter()
        .map(|samples| minimum(samples))
        .collect();
    let giga_ops = |ns: f64| (2 * INPUTS * rows * cols) as f64 / ns;
    println!(
        "{:<7} F32  {:6.0} GOP/s",
        kernels.name,
        giga_ops(least_ns[0])
    );
    let mut held = true;
    for ((dtype, floor), &ns) in floors.of.iter().zip(&least_ns[1..]) {
        let ratio = least_ns[0] / ns;
        held &= ratio >= *floor;
        println!(
            "{:<7} {:<4} {:6.0} GOP/s, {ratio:.2} of F32, floor {floor:.2}: {}",
            kernels.name,
            dtype.to_string(),
            giga_ops(ns),
            if ratio >= *floor { "held" } else { "MISSED" }
        );
    }
    held
}
