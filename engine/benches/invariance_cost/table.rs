//! The rows: which works are compared, how they are timed, what is printed. Not here: the free kernels (`free`).

use std::hint::black_box;

use engine::kernels::Kernels;
use engine::tensor::{DType, PAGE_POSITIONS, Partials};

use super::common::{
    self, HEAD_DIM, PANEL_ROWS, Page, SCALE, all_seen, in_turns, matrix, median, minimum, noise,
    rounded,
};
use super::free::Free;

/// Samples of each side, taken in turns.
const REPEATS: usize = 60;
/// Positions of a long sequence.
const POSITIONS: usize = 4096;
/// Columns of SmolLM2-135M's matrices.
const COLS: [usize; 2] = [576, 1536];
/// Rows of a matrix that stays in the cache.
const CACHED_ROWS: usize = 64;
/// Bytes of a matrix that no cache holds.
const MEMORY_BYTES: usize = 64 << 20;
/// How far the answers may be apart, as a share of the greatest value: rounding, in another order.
const AGREEMENT: f32 = 1e-4;

/// Measures and prints every row, then the means.
pub(super) fn print(kernels: &Kernels, free: Free) {
    println!(
        "{:36} least ns of samples taken in turns   contract/free   order/free",
        ""
    );
    println!(
        "{:36} {:>10} {:>10} {:>10} {:>7} {:>7} {:>7} {:>7}",
        "", "contract", "order", "free", "min", "median", "min", "median"
    );
    let mut ratios = Vec::new();
    for queries in [3, 15] {
        ratios.push(attention(kernels, free, queries));
    }
    for dtype in [DType::F32, DType::Q8_0] {
        for cols in COLS {
            ratios.push(gemv(kernels, free, dtype, [CACHED_ROWS, cols]));
        }
        let rows = MEMORY_BYTES * dtype.block_elements() / (COLS[0] * dtype.block_bytes());
        let whole = rows / PANEL_ROWS * PANEL_ROWS;
        ratios.push(gemv(kernels, free, dtype, [whole, COLS[0]]));
    }
    for cols in COLS {
        ratios.push(norm(kernels, free, cols));
    }
    let mean = |side: usize| {
        let logarithms = ratios.iter().map(|ratios| ratios[side].ln());
        (logarithms.sum::<f64>() / ratios.len() as f64).exp()
    };
    println!(
        "{:<36} {:>40.3} {:>15.3}",
        "geometric mean of minima",
        mean(0),
        mean(1)
    );
}

/// What one side computes: fills its output.
type Side<'a> = Box<dyn FnMut(&mut [f32]) + 'a>;

/// Times the contract's kernel, the free one in order and the free one; holds them to each other, prints a row and gives
/// the ratios of the first two minima to the last.
fn compare(what: &str, len: usize, sides: [Side<'_>; 3]) -> [f64; 2] {
    let mut sides = sides.map(|side| (side, vec![0.0_f32; len]));
    for (side, out) in &mut sides {
        side(out);
    }
    let greatest = sides[0].1.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    for (_, out) in &sides[1..] {
        for (found, expected) in out.iter().zip(&sides[0].1) {
            let apart = (found - expected).abs();
            assert!(
                apart <= AGREEMENT * greatest,
                "{what}: {found}, not {expected}"
            );
        }
    }
    let mut works: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    for (side, out) in &mut sides {
        works.push(Box::new(|| side(black_box(out))));
    }
    let samples_ns = in_turns(&mut works, REPEATS);
    let least_ns = [0, 1, 2].map(|side| minimum(&samples_ns[side]));
    let medians = [0, 1].map(|side| {
        let pairs = samples_ns[side].iter().zip(&samples_ns[2]);
        median(&pairs.map(|(ns, free_ns)| ns / free_ns).collect::<Vec<_>>())
    });
    let minima = [least_ns[0] / least_ns[2], least_ns[1] / least_ns[2]];
    println!(
        "{what:<36} {:>10.0} {:>10.0} {:>10.0} {:>7.3} {:>7.3} {:>7.3} {:>7.3}",
        least_ns[0], least_ns[1], least_ns[2], minima[0], medians[0], minima[1], medians[1]
    );
    minima
}

/// Pages of 64 positions merged one by one, against one pass with a rescale per 512 positions.
fn attention(kernels: &Kernels, free: Free, count: usize) -> [f64; 2] {
    let pages: Vec<Page> = (0..POSITIONS / PAGE_POSITIONS)
        .map(|page| Page::new(page as u64 * 2 + 1))
        .collect();
    let views: Vec<_> = pages.iter().map(Page::f16).collect();
    let halves: Vec<_> = pages
        .iter()
        .map(|page| page.half.each_ref().map(Vec::as_slice))
        .collect();
    let (queries, seen) = (noise(count * HEAD_DIM, 5), all_seen(count));
    let mut partials = common::partials(count);
    let contract = |out: &mut [f32]| {
        common::attend(kernels, &views, &queries, &seen, &mut partials);
        let found = Partials::of(&partials[0], count);
        let rows = found.out.chunks_exact(HEAD_DIM).zip(found.sum);
        for (out, (row, sum)) in out.chunks_exact_mut(HEAD_DIM).zip(rows) {
            for (out, value) in out.iter_mut().zip(row) {
                *out = value / sum;
            }
        }
    };
    compare(
        &format!("attention f16, {count} queries, {POSITIONS} keys"),
        count * HEAD_DIM,
        [
            Box::new(contract),
            Box::new(|out| free.attend::<1>(&halves, &queries, SCALE, out)),
            Box::new(|out| free.attend::<8>(&halves, &queries, SCALE, out)),
        ],
    )
}

/// One accumulator per output, columns or blocks ascending, against several that are summed at the end.
fn gemv(kernels: &Kernels, free: Free, dtype: DType, [rows, cols]: [usize; 2]) -> [f64; 2] {
    let w = matrix(dtype, rows, cols);
    let what = format!("{dtype} x 1 input, {rows} x {cols}");
    let (x, rounded_x) = (noise(cols, 2), rounded(kernels, 1, cols));
    let panels = || 0..w.panels();
    let sides: [Side<'_>; 3] = if dtype.is_quantized() {
        [
            Box::new(|out| (kernels.matmul_fast)(&w, panels(), &rounded_x, out)),
            Box::new(|out| free.gemv_q8_0::<1>(&w, &rounded_x, out)),
            Box::new(|out| free.gemv_q8_0::<2>(&w, &rounded_x, out)),
        ]
    } else {
        [
            Box::new(|out| (kernels.matmul)(&w, panels(), &x, out)),
            Box::new(|out| free.gemv_f32::<1>(&w, &x, out)),
            Box::new(|out| free.gemv_f32::<4>(&w, &x, out)),
        ]
    };
    compare(&what, rows, sides)
}

/// Eight stripes and a fixed tree against thirty-two stripes.
fn norm(kernels: &Kernels, free: Free, cols: usize) -> [f64; 2] {
    let (x, weight) = (noise(cols, 2), noise(cols, 3));
    compare(
        &format!("norm of {cols}"),
        cols,
        [
            Box::new(|out| (kernels.rms_norm)(&x, &weight, 1e-5, out)),
            Box::new(|out| free.rms_norm::<1>(&x, &weight, 1e-5, out)),
            Box::new(|out| free.rms_norm::<4>(&x, &weight, 1e-5, out)),
        ],
    )
}
