//! What the benches share: the kernel sets of this CPU, made-up matrices, inputs and pages, works timed in turns.
//!
//! Not here: what is measured and what it is compared with.
#![allow(dead_code)] // each bench uses its part

pub(crate) mod counted;

use std::time::Instant;

use engine::kernels::{KernelChoice, Kernels};
use engine::tensor::{
    Activations, DType, LayerView, PAGE_POSITIONS, PackedMatrix, PageView, Partials, PartialsMut,
    Quants, Span,
};
use engine::weights::quantize::encode;
use half::f16;

/// Rows of a panel.
pub(crate) const PANEL_ROWS: usize = 16;
/// Dimensions of a head of the models we measure.
pub(crate) const HEAD_DIM: usize = 64;
/// What scores are multiplied with: 1 / sqrt(64).
pub(crate) const SCALE: f32 = 0.125;
/// Shortest time between two readings of the clock, in nanoseconds: an interruption spoils one sample, not all.
const SAMPLE_NS: f64 = 200_000.0;

/// Every kernel set this CPU has, the reference first.
pub(crate) fn kernel_sets() -> Vec<Kernels> {
    KernelChoice::ALL
        .into_iter()
        .filter(|choice| *choice != KernelChoice::Auto)
        .filter_map(|choice| Kernels::choose(choice).ok())
        .collect()
}

/// Values in -1..1, the same on every run.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// A matrix of whole panels; every panel holds the same values, each in memory of its own.
pub(crate) fn matrix(dtype: DType, rows: usize, cols: usize) -> PackedMatrix {
    let panel = encode(dtype, &noise(PANEL_ROWS * cols, 1));
    PackedMatrix::pack(dtype, rows, cols, &panel.repeat(rows / PANEL_ROWS))
}

/// `n` rows of inputs, rounded for `fast` products.
pub(crate) fn rounded(kernels: &Kernels, n: usize, cols: usize) -> Activations {
    let mut out = Activations::zeroed(n, cols);
    (kernels.quantize)(&noise(n * cols, 2), &mut out);
    out
}

/// One head's page of keys `[64][64]` and values `[64][64]` in each type.
pub(crate) struct Page {
    single: [Vec<f32>; 2],
    /// Bits of IEEE half.
    pub(crate) half: [Vec<u16>; 2],
    bytes: Vec<i8>,
    scales: Vec<u16>,
}

impl Page {
    pub(crate) fn new(seed: u64) -> Self {
        let single = [seed, seed + 1].map(|seed| noise(HEAD_DIM * PAGE_POSITIONS, seed));
        let half = single.each_ref().map(|values| {
            let bits = values.iter().map(|value| f16::from_f32(*value).to_bits());
            bits.collect()
        });
        // Bytes and scales as they may come: what they are takes no time.
        let bytes = single.concat().iter().map(|x| (x * 127.0) as i8).collect();
        let scales = vec![f16::from_f32(1.0 / 127.0).to_bits(); 2 * HEAD_DIM / 32 * PAGE_POSITIONS];
        Self {
            single,
            half,
            bytes,
            scales,
        }
    }

    pub(crate) fn f32(&self) -> PageView<'_> {
        let [k, v] = &self.single;
        PageView::F32 { k, v }
    }

    pub(crate) fn f16(&self) -> PageView<'_> {
        let [k, v] = &self.half;
        PageView::F16 { k, v }
    }

    pub(crate) fn q8_0(&self) -> PageView<'_> {
        let (bytes, scales) = (&self.bytes, &self.scales);
        LayerView::Q8_0(Quants { bytes, scales }).head(0, HEAD_DIM)
    }

    /// Keys and values as bytes.
    pub(crate) fn quants(&self) -> [Quants<'_>; 2] {
        let (bytes, values) = self.bytes.split_at(HEAD_DIM * PAGE_POSITIONS);
        let (scales, of_values) = self.scales.split_at(HEAD_DIM / 32 * PAGE_POSITIONS);
        let of = |bytes, scales| Quants { bytes, scales };
        [of(bytes, scales), of(values, of_values)]
    }
}

/// Queries that see all of a page.
pub(crate) fn all_seen(queries: usize) -> Vec<Span> {
    let span = Span {
        first: 0,
        end: PAGE_POSITIONS,
    };
    vec![span; queries]
}

/// Multiply-adds of `queries` over one page, scores and values.
pub(crate) fn page_multiply_adds(queries: usize) -> u64 {
    (queries * PAGE_POSITIONS * HEAD_DIM * 2) as u64
}

/// Buffers for the attention of some queries: what the pages gave so far, and what the next one gives.
pub(crate) fn partials(queries: usize) -> [Vec<f32>; 2] {
    [(); 2].map(|()| vec![0.0; Partials::elements(queries, HEAD_DIM)])
}

/// Attention of `queries` over `pages`, merged one by one into the first of `partials`.
pub(crate) fn attend(
    kernels: &Kernels,
    pages: &[PageView<'_>],
    queries: &[f32],
    seen: &[Span],
    partials: &mut [Vec<f32>; 2],
) {
    let [into, scratch] = partials;
    for (i, page) in pages.iter().enumerate() {
        let out = if i == 0 { &mut *into } else { &mut *scratch };
        let (next, out) = (pages.get(i + 1), PartialsMut::of(out, seen.len()));
        (kernels.attend)(*page, next.copied(), queries, seen, SCALE, out);
        if i > 0 {
            let page = Partials::of(scratch, seen.len());
            (kernels.merge)(PartialsMut::of(into, seen.len()), page);
        }
    }
}

/// Nanoseconds per call of each work, `repeats` samples taken in turns, so that what disturbs one disturbs all.
pub(crate) fn in_turns(works: &mut [Box<dyn FnMut() + '_>], repeats: usize) -> Vec<Vec<f64>> {
    let calls: Vec<usize> = works
        .iter_mut()
        .map(|work| calls_per_sample(work))
        .collect();
    let mut samples_ns = vec![Vec::with_capacity(repeats); works.len()];
    for _ in 0..repeats {
        for ((work, &calls), samples_ns) in works.iter_mut().zip(&calls).zip(&mut samples_ns) {
            samples_ns.push(time_ns(work, calls));
        }
    }
    samples_ns
}

fn calls_per_sample(work: &mut dyn FnMut()) -> usize {
    let once_ns = (0..5).map(|_| time_ns(work, 1)).fold(f64::MAX, f64::min);
    (SAMPLE_NS / once_ns).ceil().max(1.0) as usize
}

fn time_ns(work: &mut dyn FnMut(), calls: usize) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| work());
    start.elapsed().as_nanos() as f64 / calls as f64
}

/// The least of some samples.
pub(crate) fn minimum(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::MAX, f64::min)
}

/// The middle of some samples.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
