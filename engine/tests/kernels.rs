//! Every kernel set against the reference, bit for bit, and the reference against arithmetic written another way.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use std::sync::LazyLock;

use engine::kernels::{Kernels, scalar};
use engine::tensor::{
    Activations, DType, PAGE_POSITIONS, PackedMatrix, PageData, PageView, Partials, Span,
};
use engine::weights::quantize::encode;
use half::f16;
use proptest::prelude::*;

/// The sets to hold against `scalar::table()`: plain scalar always, the others where the CPU has them.
fn others() -> &'static [Kernels] {
    static OTHERS: LazyLock<Vec<Kernels>> = LazyLock::new(|| {
        let sets = common::kernel_sets().into_iter().skip(1);
        let sets = sets.map(|choice| Kernels::choose(choice).unwrap());
        sets.chain([scalar::plain_table()]).collect()
    });
    &OTHERS
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Values of very different sizes, zeros and subnormals among them.
fn value() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -4.0_f32..4.0,
        1 => -1e4_f32..1e4,
        1 => Just(0.0_f32),
        1 => Just(-0.0_f32),
        1 => Just(1e-41_f32),
    ]
}

fn values(len: usize) -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(value(), len)
}

/// A matrix of ordinary values in any type, and in one case of five blocks at the edges of the type.
fn matrix_bytes(dtype: DType, elements: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let values: Vec<f32> = (0..elements).map(|_| next()).collect();
    let mut bytes = encode(dtype, &values);
    if seed.is_multiple_of(5) && dtype.is_quantized() {
        let header = dtype.block_bytes() - dtype.block_bytes() / 16 * 16;
        for (i, block) in bytes.chunks_exact_mut(dtype.block_bytes()).enumerate() {
            // Extreme integers; subnormal scales in every other block.
            block[header..].fill([0x80, 0x7f, 0xff, 0x00][i % 4]);
            block[1] &= if i % 2 == 0 { 0x03 } else { 0x3f };
        }
    }
    bytes
}

/// Inputs rounded for `fast`, by the reference.
fn rounded(x: &[f32], cols: usize) -> Activations {
    let mut out = Activations::zeroed(x.len() / cols, cols);
    (scalar::table().quantize)(x, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn matmul_equals_the_reference(
        kind in 0..DType::ALL.len(), rows in 1..70_usize, blocks in 1..5_usize, extra in 0..32_usize, n in 1..15_usize,
        seed in any::<u64>(), x in values(14 * 160),
    ) {
        let dtype = DType::ALL[kind];
        let cols = blocks * 32 - if dtype.is_quantized() { 0 } else { extra };
        let w = PackedMatrix::pack(dtype, rows, cols, &matrix_bytes(dtype, rows * cols, seed));
        let x = &x[..n * cols];
        let width = w.panels() * 16;
        let run = |kernels: &Kernels| {
            let mut out = vec![f32::NAN; n * width];
            (kernels.matmul)(&w, 0..w.panels(), x, &mut out);
            out
        };
        let expected = run(&scalar::table());
        for other in others() {
            prop_assert_eq!(bits(&run(other)), bits(&expected));
        }
        // Definition: one accumulator, columns ascending, whatever the batch.
        let mut weights = vec![0.0; cols];
        for row in 0..rows {
            w.row(row, &mut weights);
            for (i, x) in x.chunks_exact(cols).enumerate() {
                let sum = weights.iter().zip(x).fold(0.0_f32, |sum, (w, x)| w.mul_add(*x, sum));
                prop_assert_eq!(expected[i * width + row].to_bits(), sum.to_bits());
            }
        }
    }

    #[test]
    fn fast_matmul_equals_the_reference(
        kind in 3..DType::ALL.len(), rows in 1..40_usize, blocks in 1..5_usize, n in 1..20_usize,
        seed in any::<u64>(), x in values(19 * 128),
    ) {
        let dtype = DType::ALL[kind];
        let cols = blocks * 32;
        let bytes = matrix_bytes(dtype, rows * cols, seed);
        let w = PackedMatrix::pack(dtype, rows, cols, &bytes);
        let x = rounded(&x[..n * cols], cols);
        let width = w.panels() * 16;
        let run = |kernels: &Kernels| {
            let mut out = vec![f32::NAN; n * width];
            (kernels.matmul_fast)(&w, 0..w.panels(), &x, &mut out);
            out
        };
        let expected = run(&scalar::table());
        for other in others() {
            prop_assert_eq!(bits(&run(other)), bits(&expected));
        }
        // Definition: per block an exact integer dot, then an fma with both scales, then one for the minimum.
        let row_bytes = blocks * dtype.block_bytes();
        for row in 0..rows {
            for i in 0..n {
                let mut sum = 0.0_f32;
                for b in 0..blocks {
                    let at = row * row_bytes + b * dtype.block_bytes();
                    let block = dtype.unpack(&bytes[at..at + dtype.block_bytes()]);
                    let quants = &x.quants[i * cols + b * 32..][..32];
                    let products = block.quants.iter().zip(quants);
                    let dot: i32 = products.map(|(w, x)| i32::from(*w) * i32::from(*x)).sum();
                    let (scale, total) = (x.scales[i * blocks + b], x.sums[i * blocks + b]);
                    sum = (dot as f32).mul_add(block.scale * scale, sum);
                    if let Some(minimum) = block.minimum {
                        sum = (total as f32).mul_add(minimum * scale, sum);
                    }
                }
                prop_assert_eq!(expected[i * width + row].to_bits(), sum.to_bits());
            }
        }
    }

    #[test]
    fn quantised_inputs_equal_the_reference_and_stay_within_half_a_step(x in values(96), scale in -38..33_i32) {
        let x: Vec<f32> = x.iter().map(|x| x * 10_f32.powi(scale)).collect();
        let expected = rounded(&x, 96);
        for other in others() {
            let mut found = Activations::zeroed(1, 96);
            (other.quantize)(&x, &mut found);
            prop_assert_eq!(&found.quants, &expected.quants);
            prop_assert_eq!((bits(&found.scales), &found.sums), (bits(&expected.scales), &expected.sums));
        }
        for (b, x) in x.chunks_exact(32).enumerate() {
            let (scale, quants) = (expected.scales[b], &expected.quants[b * 32..][..32]);
            prop_assert_eq!(expected.sums[b], quants.iter().map(|q| i32::from(*q)).sum::<i32>());
            for (x, q) in x.iter().zip(quants) {
                let step = f64::from(scale) + 1e-36;
                prop_assert!((f64::from(*x) - f64::from(scale) * f64::from(*q)).abs() <= 0.5001 * step);
            }
        }
    }

    #[test]
    fn attention_equals_the_reference_and_ignores_what_is_not_visible(
        head_dim in prop::sample::select(vec![2_usize, 8, 20, 64, 72, 128]), m in 1..5_usize,
        spans in prop::collection::vec((0..=64_usize, 0..=64_usize), 4), seed in values(64 * 128), queries in values(4 * 128),
    ) {
        let size = head_dim * PAGE_POSITIONS;
        let keys = &seed[..size];
        let page_values: Vec<f32> = keys.iter().rev().copied().collect();
        let queries = &queries[..m * head_dim];
        let seen: Vec<Span> = spans[..m].iter().map(|&(a, b)| Span { first: a.min(b), end: b }).collect();
        let half = |values: &[f32]| values.iter().map(|x| f16::from_f32(*x).to_bits()).collect::<Vec<u16>>();
        let attend_as = |kernels: &Kernels, data: PageData<'_>| {
            let mut out = Partials::default();
            (kernels.attend)(PageView { data, len: 64 }, queries, &seen, 0.125, &mut out);
            [bits(&out.max), bits(&out.sum), bits(&out.out)]
        };
        // Both element types at once: six rows of bits.
        let attend = |kernels: &Kernels, k: &[f32], v: &[f32]| {
            let (half_k, half_v) = (half(k), half(v));
            let single = attend_as(kernels, PageData::F32 { k, v });
            (single, attend_as(kernels, PageData::F16 { k: &half_k, v: &half_v }))
        };
        let expected = attend(&scalar::table(), keys, &page_values);
        for other in others() {
            prop_assert_eq!(&attend(other, keys, &page_values), &expected);
        }
        // What stands outside the slots anyone sees, even NaN, changes nothing.
        let read = |slot: &usize| seen.iter().any(|span| (span.first..span.end).contains(slot));
        let (mut k, mut v) = (keys.to_vec(), page_values.clone());
        for position in (0..PAGE_POSITIONS).filter(|slot| !read(slot)) {
            k.iter_mut().skip(position).step_by(PAGE_POSITIONS).for_each(|k| *k = f32::NAN);
            v[position * head_dim..(position + 1) * head_dim].fill(f32::NAN);
        }
        for kernels in others().iter().chain([&scalar::table()]) {
            prop_assert_eq!(&attend(kernels, &k, &v), &expected);
        }
    }

    #[test]
    fn merging_norms_turns_and_activations_equal_the_reference(
        x in values(203), weight in values(203), len in 1..203_usize,
        partials in prop::collection::vec((values(16), 0.0_f32..64.0, 0..3_usize), 2),
    ) {
        let partial = |(out, sum, empty): &(Vec<f32>, f32, usize)| Partials {
            max: vec![if *empty == 0 { f32::NEG_INFINITY } else { out[0] }],
            sum: vec![if *empty == 0 { 0.0 } else { *sum }],
            out: if *empty == 0 { vec![0.0; 16] } else { out.clone() },
        };
        let run = |kernels: &Kernels| {
            let mut normed = vec![0.0; len];
            (kernels.rms_norm)(&x[..len], &weight[..len], 1e-5, &mut normed);
            let mut gate = x[..len].to_vec();
            (kernels.silu_mul)(&mut gate, &weight[..len]);
            let mut head = x[..len / 2 * 2].to_vec();
            (kernels.rotate)(&mut head, &weight[..len / 2 * 2]);
            let mut merged = partial(&partials[0]);
            (kernels.merge)(&mut merged, &partial(&partials[1]));
            [bits(&normed), bits(&gate), bits(&head), bits(&merged.max), bits(&merged.sum), bits(&merged.out)]
        };
        let expected = run(&scalar::table());
        for other in others() {
            prop_assert_eq!(&run(other), &expected);
        }
    }
}

#[test]
fn attention_over_pages_is_softmax_attention() {
    let (head_dim, positions) = (8, 150);
    let at = |i: usize| ((i * 7919 % 1013) as f32 / 506.5 - 1.0) * 2.0;
    let query: Vec<f32> = (0..head_dim).map(at).collect();
    let keys: Vec<f32> = (0..positions * head_dim).map(|i| at(i + 31)).collect();
    let values: Vec<f32> = (0..positions * head_dim).map(|i| at(i + 77)).collect();
    let kernels = scalar::table();
    let mut sum = Partials::default();
    for start in (0..positions).step_by(PAGE_POSITIONS) {
        let len = PAGE_POSITIONS.min(positions - start);
        let (mut k, mut v) = (vec![0.0; 64 * head_dim], vec![0.0; 64 * head_dim]);
        for slot in 0..len {
            for d in 0..head_dim {
                k[d * PAGE_POSITIONS + slot] = keys[(start + slot) * head_dim + d];
                v[slot * head_dim + d] = values[(start + slot) * head_dim + d];
            }
        }
        let mut page = Partials::default();
        (kernels.attend)(
            PageView {
                data: PageData::F32 { k: &k, v: &v },
                len,
            },
            &query,
            &[Span { first: 0, end: len }],
            0.5,
            &mut page,
        );
        if start == 0 {
            sum = page;
        } else {
            (kernels.merge)(&mut sum, &page);
        }
    }
    let score = |p: usize| -> f64 {
        let dot = |d: usize| f64::from(query[d]) * f64::from(keys[p * head_dim + d]);
        (0..head_dim).map(dot).sum::<f64>() * 0.5
    };
    let total: f64 = (0..positions).map(|p| score(p).exp()).sum();
    for d in 0..head_dim {
        let expected: f64 = (0..positions)
            .map(|p| score(p).exp() / total * f64::from(values[p * head_dim + d]))
            .sum();
        let found = f64::from(sum.out[d] / sum.sum[0]);
        assert!(
            (found - expected).abs() < 1e-5,
            "dimension {d}: {found}, not {expected}"
        );
    }
}

#[test]
fn inputs_that_are_not_finite_poison_their_block_and_nothing_else() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = vec![1.0; 64];
        x[40] = bad;
        for kernels in others().iter().chain([&scalar::table()]) {
            let mut out = Activations::zeroed(1, 64);
            (kernels.quantize)(&x, &mut out);
            assert!(out.scales[1].is_nan() && (out.scales[0] - 1.0 / 127.0).abs() < 1e-9);
            assert!(out.quants[32..].iter().all(|q| *q == 0));
        }
    }
}

#[test]
fn zero_and_vanishing_inputs_give_zeros() {
    let x: Vec<f32> = [0.0; 32].into_iter().chain([1e-39; 32]).collect();
    let out = rounded(&x, 64);
    assert_eq!((out.scales, out.sums), (vec![0.0, 0.0], vec![0, 0]));
    assert!(out.quants.iter().all(|q| *q == 0));
}
