//! Instructions per multiply-add of two AVX2 kernels, counted by valgrind: the same on every machine and under any load.
//!
//! `cargo bench -p engine --bench instructions` runs itself under callgrind with a few calls and with some more; what
//! the latter took longer, over the calls it made more, is the kernel alone. It fails where a count is further than 5 %
//! from the one below: a kernel that became slower, or one that became faster and whose count should be written down.
//! Not here: time. Valgrind has no AVX-512.
#![allow(clippy::print_stdout)] // a bench says what it measured

mod common;

use std::hint::black_box;
use std::process::ExitCode;

use common::counted;
use common::{HEAD_DIM, Page, all_seen, attend, matrix, noise, rounded};
use engine::kernels::{KernelChoice, Kernels};
use engine::tensor::DType;

/// Calls of the shorter and the longer run.
const CALLS: [u64; 2] = [2, 10];
/// Share of the expected count that a count may be off; another compiler schedules a little differently.
const TOLERANCE: f64 = 0.05;
/// Inputs, rows and columns of the product.
const PRODUCT: [usize; 3] = [64, 256, 576];
/// Queries over a page: five agents of three grouped heads.
const QUERIES: usize = 15;

/// What is counted.
struct Work {
    name: &'static str,
    /// Of one call.
    multiply_adds: u64,
    /// Instructions per multiply-add.
    expected: f64,
    /// Makes what it needs, then calls the kernel so many times.
    run: fn(&Kernels, calls: u64),
}

fn works() -> [Work; 2] {
    [
        Work {
            name: "matmul_fast-q8_0-64-inputs",
            multiply_adds: PRODUCT.iter().product::<usize>() as u64,
            expected: 0.2925,
            run: product,
        },
        Work {
            name: "attend-f16-15-queries",
            multiply_adds: common::page_multiply_adds(QUERIES),
            expected: 0.4087,
            run: attention,
        },
    ]
}

fn product(kernels: &Kernels, calls: u64) {
    let [n, rows, cols] = PRODUCT;
    let (w, x) = (matrix(DType::Q8_0, rows, cols), rounded(kernels, n, cols));
    let mut out = vec![0.0; n * rows];
    for _ in 0..calls {
        (kernels.matmul_fast)(&w, 0..w.panels(), &x, &mut out);
        black_box(&mut out);
    }
}

fn attention(kernels: &Kernels, calls: u64) {
    let page = Page::new(3);
    let (queries, seen) = (noise(QUERIES * HEAD_DIM, 5), all_seen(QUERIES));
    let mut partials = common::partials(QUERIES);
    for _ in 0..calls {
        attend(kernels, &[page.f16()], &queries, &seen, &mut partials);
        black_box(&mut partials);
    }
}

fn main() -> ExitCode {
    let Ok(kernels) = Kernels::choose(KernelChoice::Avx2) else {
        println!("not counted: this CPU has no AVX2");
        return ExitCode::SUCCESS;
    };
    // `cargo bench` adds `--bench`; only the run under valgrind has a name and a number.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name, calls] = arguments.as_slice() {
        return run_one(&kernels, name, calls);
    }
    if let Some(why) = counted::unavailable() {
        println!("{why}");
        return ExitCode::SUCCESS;
    }
    match works().iter().map(check).collect::<Result<Vec<bool>, _>>() {
        Ok(held) if held.iter().all(|held| *held) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The run that valgrind watches.
fn run_one(kernels: &Kernels, name: &str, calls: &str) -> ExitCode {
    let works = works();
    let work = works.iter().find(|work| work.name == name);
    if let (Some(work), Ok(count)) = (work, calls.parse()) {
        (work.run)(kernels, count);
        return ExitCode::SUCCESS;
    }
    println!("`{name} {calls}` is no work and number of calls; give no arguments");
    ExitCode::FAILURE
}

/// Prints a work's count; whether it is the expected one.
fn check(work: &Work) -> Result<bool, String> {
    let found = counted::per_call(work.name, CALLS)? / work.multiply_adds as f64;
    let held = (found / work.expected - 1.0).abs() <= TOLERANCE;
    let verdict = if held {
        "held"
    } else {
        "NOT HELD: if the kernel changed on purpose, write the new count into engine/benches/instructions.rs"
    };
    println!(
        "{:<28} {found:.5} instructions per multiply-add, expected {:.5}: {verdict}",
        work.name, work.expected
    );
    Ok(held)
}
