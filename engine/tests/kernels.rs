//! Every kernel set against the reference, bit for bit, and the reference against arithmetic written another way.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::kernels::{hidden, others, rounded, spans, values};
use common::{Rounded, bits};
use engine::kernels::{KernelChoice, Kernels, scalar};
use engine::tensor::{
    Activations, DType, PAGE_POSITIONS, PackedMatrix, PageView, Partials, PartialsMut, Span,
};
use engine::weights::quantize::encode;
use half::f16;
use proptest::prelude::*;

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

/// Blocks of a row and inputs: few of both, or more blocks than are unpacked at a time, for as many inputs as make that pay.
fn blocks_and_inputs() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![4 => (1..5_usize, 1..20_usize), 1 => (15..=36_usize, 6..20_usize)]
}

/// Bits by query of a page's partials: maximum, sum, output.
fn attend(kernels: &Kernels, page: PageView<'_>, queries: &[f32], seen: &[Span]) -> Vec<Vec<u32>> {
    let head_dim = queries.len() / seen.len();
    let mut out = vec![7.0; Partials::elements(seen.len(), head_dim)];
    let partials = PartialsMut::of(&mut out, seen.len());
    (kernels.attend)(page, Some(page), queries, seen, 0.125, partials);
    let of = |m| {
        let own = Partials::of(&out, seen.len()).queries(m..m + 1);
        [own.max, own.sum, own.out].concat()
    };
    (0..seen.len()).map(|m| bits(&of(m))).collect()
}

/// [`attend`] over the page as it is, rounded to half precision, and rounded to bytes.
fn attend_as_each_type(
    kernels: &Kernels,
    (k, v): (&[f32], &[f32]),
    queries: &[f32],
    seen: &[Span],
) -> [Vec<Vec<u32>>; 3] {
    let half = |values: &[f32]| {
        let halves = values.iter().map(|x| f16::from_f32(*x).to_bits());
        halves.collect::<Vec<u16>>()
    };
    let (half_k, half_v) = (half(k), half(v));
    let (k_half, v_half) = (half_k.as_slice(), half_v.as_slice());
    let (k_bytes, v_bytes) = (Rounded::keys(k), Rounded::values(v));
    [
        PageView::F32 { k, v },
        PageView::F16 {
            k: k_half,
            v: v_half,
        },
        PageView::Q8_0 {
            k: k_bytes.view(),
            v: v_bytes.view(),
        },
    ]
    .map(|data| attend(kernels, data, queries, seen))
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
        kind in 3..DType::ALL.len(), rows in 1..40_usize, (blocks, n) in blocks_and_inputs(),
        seed in any::<u64>(), x in values(19 * 128),
    ) {
        let dtype = DType::ALL[kind];
        let cols = blocks * 32;
        let bytes = matrix_bytes(dtype, rows * cols, seed);
        let w = PackedMatrix::pack(dtype, rows, cols, &bytes);
        let x: Vec<f32> = x.iter().copied().cycle().take(n * cols).collect();
        let x = rounded(&x, cols);
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
        head_dim in prop::sample::select(vec![2_usize, 8, 16, 20, 34, 64, 72, 80, 96, 128]), spans in spans(),
        seed in values(64 * 128), queries in values(40 * 128),
    ) {
        let size = head_dim * PAGE_POSITIONS;
        let keys = &seed[..size];
        let page_values: Vec<f32> = keys.iter().rev().copied().collect();
        let queries = &queries[..spans.len() * head_dim];
        let attend = |kernels: &Kernels, k: &[f32], v: &[f32]| attend_as_each_type(kernels, (k, v), queries, &spans);
        let expected = attend(&scalar::table(), keys, &page_values);
        for other in others() {
            prop_assert_eq!(&attend(other, keys, &page_values), &expected);
        }
        // Definition: bytes are attended as the numbers that they stand for.
        let (k, v) = (Rounded::keys(keys).key_numbers(), Rounded::values(&page_values).value_numbers());
        prop_assert_eq!(&attend(&scalar::table(), &k, &v)[0], &expected[2]);
        // Slots that a query does not see may hold anything, even NaN, whatever those beside it see.
        for (m, span) in spans.iter().enumerate().step_by(spans.len().div_ceil(3)) {
            let (k, v) = hidden(keys, &page_values, *span);
            for kernels in [scalar::table(), Kernels::choose(KernelChoice::Auto).unwrap()] {
                for (found, expected) in attend(&kernels, &k, &v).iter().zip(&expected) {
                    prop_assert_eq!(&found[m], &expected[m]);
                }
            }
        }
    }

    #[test]
    fn norms_turns_and_activations_equal_the_reference(x in values(203), weight in values(203), len in 1..203_usize) {
        let run = |kernels: &Kernels| {
            let mut normed = vec![0.0; len];
            (kernels.rms_norm)(&x[..len], &weight[..len], 1e-5, &mut normed);
            let mut gate = x[..len].to_vec();
            (kernels.silu_mul)(&mut gate, &weight[..len]);
            let mut head = x[..len / 2 * 2].to_vec();
            (kernels.rotate)(&mut head, &weight[..len / 2 * 2]);
            [bits(&normed), bits(&gate), bits(&head)]
        };
        let expected = run(&scalar::table());
        for other in others() {
            prop_assert_eq!(&run(other), &expected);
        }
    }

    #[test]
    fn merging_equals_the_reference(
        queries in 1..20_usize, head_dim in 1..80_usize, seed in values(2 * 20 * 82),
        sums in prop::collection::vec(prop_oneof![1 => Just(0.0_f32), 3 => 0.1_f32..64.0], 40),
    ) {
        let elements = Partials::elements(queries, head_dim);
        let partials = |from: usize, sums: &[f32]| {
            let mut values = seed[from..from + elements].to_vec();
            PartialsMut::of(&mut values, queries).sum.copy_from_slice(&sums[..queries]);
            values
        };
        let page = partials(0, &sums);
        let run = |kernels: &Kernels| {
            let mut into = partials(elements, &sums[20..]);
            (kernels.merge)(PartialsMut::of(&mut into, queries), Partials::of(&page, queries));
            bits(&into)
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
    let mut sum = vec![0.0; Partials::elements(1, head_dim)];
    for start in (0..positions).step_by(PAGE_POSITIONS) {
        let len = PAGE_POSITIONS.min(positions - start);
        let (mut k, mut v) = (vec![0.0; 64 * head_dim], vec![0.0; 64 * head_dim]);
        for slot in 0..len {
            for d in 0..head_dim {
                k[d * PAGE_POSITIONS + slot] = keys[(start + slot) * head_dim + d];
                v[slot * head_dim + d] = values[(start + slot) * head_dim + d];
            }
        }
        let mut page = sum.clone();
        (kernels.attend)(
            PageView::F32 { k: &k, v: &v },
            None,
            &query,
            &[Span { first: 0, end: len }],
            0.5,
            PartialsMut::of(&mut page, 1),
        );
        (kernels.merge)(PartialsMut::of(&mut sum, 1), Partials::of(&page, 1));
    }
    let sum = Partials::of(&sum, 1);
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
