//! Each kernel of each kernel set of this CPU, on one core: `cargo bench -p engine --bench kernels -- FILTER`.
//!
//! Products and attention count operations, a multiply-add being two: read criterion's `Gelem/s` as GOP/s. `gemv` and the
//! elementwise kernels count the bytes that they must move: `GiB/s`. The products' matrices stay in the second-level
//! cache; those of `gemv` are larger than any cache. Not here: comparisons (`floors`, `invariance_cost`).

mod common;

use std::hint::black_box;
use std::time::Duration;

use common::{HEAD_DIM, PANEL_ROWS, Page, all_seen, matrix, noise, rounded};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use engine::kernels::Kernels;
use engine::tensor::{Activations, DType, PartialsMut};

/// Inputs of a product: decoding alone, five agents, a chunk of a prompt.
const INPUTS: [usize; 3] = [1, 5, 64];
/// Columns of SmolLM2-135M's matrices.
const COLS: [usize; 2] = [576, 1536];
/// Rows of the products' matrices.
const ROWS: usize = 256;
/// Bytes of the matrices that are read from memory.
const MEMORY_BYTES: usize = 64 << 20;
/// Types with a `fast` product.
const QUANTISED: [DType; 5] = [
    DType::Q8_0,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
];

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(200))
        .nresamples(1001)
        .configure_from_args();
    for kernels in common::kernel_sets() {
        products(&mut criterion, &kernels);
        gemv(&mut criterion, &kernels);
        attention(&mut criterion, &kernels);
        elementwise(&mut criterion, &kernels);
    }
    criterion.final_summary();
}

fn group<'a>(
    criterion: &'a mut Criterion,
    what: &str,
    kernels: &Kernels,
) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(format!("{what}/{}", kernels.name));
    group.sampling_mode(SamplingMode::Flat);
    group
}

/// `matmul_fast` and `matmul` on matrices that stay in the cache.
fn products(criterion: &mut Criterion, kernels: &Kernels) {
    let mut fast = group(criterion, "matmul_fast", kernels);
    for (dtype, cols, n) in shapes(&QUANTISED) {
        let w = matrix(dtype, ROWS, cols);
        let x = rounded(kernels, n, cols);
        let mut out = vec![0.0; n * ROWS];
        fast.throughput(Throughput::Elements((2 * n * ROWS * cols) as u64));
        fast.bench_function(id(dtype, cols, n), |bench| {
            bench.iter(|| {
                (kernels.matmul_fast)(&w, 0..w.panels(), &x, &mut out);
                black_box(&mut out);
            });
        });
    }
    fast.finish();
    let mut exact = group(criterion, "matmul", kernels);
    for (dtype, cols, n) in shapes(&[DType::F32, DType::F16, DType::Q8_0, DType::Q4_1]) {
        let w = matrix(dtype, ROWS, cols);
        let x = noise(n * cols, 2);
        let mut out = vec![0.0; n * ROWS];
        exact.throughput(Throughput::Elements((2 * n * ROWS * cols) as u64));
        exact.bench_function(id(dtype, cols, n), |bench| {
            bench.iter(|| {
                (kernels.matmul)(&w, 0..w.panels(), &x, &mut out);
                black_box(&mut out);
            });
        });
    }
    exact.finish();
}

fn shapes(dtypes: &[DType]) -> impl Iterator<Item = (DType, usize, usize)> {
    let columns = |dtype: &DType| COLS.map(|cols| (*dtype, cols));
    let inputs = |(dtype, cols)| INPUTS.map(|n| (dtype, cols, n));
    dtypes.iter().flat_map(columns).flat_map(inputs)
}

fn id(dtype: DType, cols: usize, n: usize) -> BenchmarkId {
    BenchmarkId::new(dtype.to_string(), format!("{n}x{cols}"))
}

/// One input against a matrix that no cache holds: bytes of the matrix over time.
fn gemv(criterion: &mut Criterion, kernels: &Kernels) {
    let mut group = group(criterion, "gemv", kernels);
    for dtype in QUANTISED {
        let cols = COLS[0];
        let row_bytes = cols / dtype.block_elements() * dtype.block_bytes();
        let rows = MEMORY_BYTES / row_bytes / PANEL_ROWS * PANEL_ROWS;
        group.throughput(Throughput::Bytes((rows * row_bytes) as u64));
        group.bench_function(BenchmarkId::from_parameter(dtype), |bench| {
            // Made here: a filter that leaves this one out should not wait for it.
            let w = matrix(dtype, rows, cols);
            let x = rounded(kernels, 1, cols);
            let mut out = vec![0.0; rows];
            bench.iter(|| {
                (kernels.matmul_fast)(&w, 0..w.panels(), &x, &mut out);
                black_box(&mut out);
            });
        });
    }
    group.finish();
}

/// Queries over one full page of one head.
fn attention(criterion: &mut Criterion, kernels: &Kernels) {
    let mut group = group(criterion, "attend", kernels);
    let page = Page::new(3);
    for (name, view) in [
        ("f32", page.f32()),
        ("f16", page.f16()),
        ("q8_0", page.q8_0()),
    ] {
        for n in [3, 15, 48] {
            let (queries, seen) = (noise(n * HEAD_DIM, 5), all_seen(n));
            let mut partials = common::partials(n);
            group.throughput(Throughput::Elements(2 * common::page_multiply_adds(n)));
            group.bench_function(BenchmarkId::new(name, n), |bench| {
                bench.iter(|| {
                    common::attend(kernels, &[view], &queries, &seen, &mut partials);
                    black_box(&mut partials);
                });
            });
        }
    }
    for n in [3, 15, 48] {
        let (queries, seen) = (rounded(kernels, n, HEAD_DIM), all_seen(n));
        let [mut partials, _] = common::partials(n);
        let quants = page.quants();
        group.throughput(Throughput::Elements(2 * common::page_multiply_adds(n)));
        group.bench_function(BenchmarkId::new("q8_0-fast", n), |bench| {
            bench.iter(|| {
                let out = PartialsMut::of(&mut partials, n);
                (kernels.attend_fast)(quants, None, queries.view(), &seen, common::SCALE, out);
                black_box(&mut partials);
            });
        });
    }
    group.finish();
}

/// Kernels that read and write each element once.
fn elementwise(criterion: &mut Criterion, kernels: &Kernels) {
    let mut group = group(criterion, "elementwise", kernels);
    for cols in COLS {
        let (x, weight) = (noise(cols, 2), noise(cols, 3));
        // Floats in; a byte each, and a scale and a sum per block of 32, out.
        group.throughput(Throughput::Bytes((cols * 5 + cols / 32 * 8) as u64));
        let mut quantised = Activations::zeroed(1, cols);
        group.bench_function(BenchmarkId::new("quantize", cols), |bench| {
            bench.iter(|| {
                (kernels.quantize)(black_box(&x), &mut quantised);
                black_box(&mut quantised);
            });
        });
        group.throughput(Throughput::Bytes((cols * 3 * size_of::<f32>()) as u64));
        let mut out = vec![0.0; cols];
        group.bench_function(BenchmarkId::new("rms_norm", cols), |bench| {
            bench.iter(|| {
                (kernels.rms_norm)(black_box(&x), &weight, 1e-5, &mut out);
                black_box(&mut out);
            });
        });
        // In place: the values fall to zero, which takes as long as any other.
        let mut gate = x.clone();
        group.bench_function(BenchmarkId::new("silu_mul", cols), |bench| {
            bench.iter(|| {
                (kernels.silu_mul)(&mut gate, black_box(&weight));
                black_box(&mut gate);
            });
        });
    }
    let mut head = noise(HEAD_DIM, 2);
    let turns: Vec<f32> = (0..HEAD_DIM / 2)
        .flat_map(|pair| [(pair as f32).cos(), (pair as f32).sin()])
        .collect();
    group.throughput(Throughput::Bytes((3 * HEAD_DIM * size_of::<f32>()) as u64));
    group.bench_function(BenchmarkId::new("rotate", HEAD_DIM), |bench| {
        bench.iter(|| {
            (kernels.rotate)(&mut head, black_box(&turns));
            black_box(&mut head);
        });
    });
    group.finish();
}
