//! Every kernel set against the reference, bit for bit, and the reference against arithmetic written another way.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

use engine::kernels::{KernelChoice, Kernels, scalar};
use engine::tensor::{DType, PAGE_POSITIONS, PackedMatrix, PageView, Partials};
use proptest::prelude::*;

/// The sets to hold against `scalar::table()`: plain scalar always, AVX2 where the CPU has it.
fn others() -> Vec<Kernels> {
    let avx2 = Kernels::choose(KernelChoice::Avx2);
    if avx2.is_err() {
        eprintln!(
            "SKIPPED: this CPU has no AVX2; only the plain build of the reference is compared"
        );
    }
    avx2.into_iter().chain([scalar::plain_table()]).collect()
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

fn matrix_bytes(dtype: DType, rows: usize, cols: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let values: Vec<f32> = (0..rows * cols).map(|_| next()).collect();
    match dtype {
        DType::F32 => values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
        DType::Q8_0 => engine::weights::quantize::q8_0(&values),
        DType::Q4_1 => {
            let mut bytes = vec![0; rows * cols / 32 * dtype.block_bytes()];
            for (block, values) in bytes.chunks_exact_mut(20).zip(values.chunks_exact(32)) {
                for (byte, value) in block.iter_mut().zip(values) {
                    *byte = (value * 127.0) as i8 as u8;
                }
                // Scales and minimums of ordinary size.
                (block[1], block[3]) = (0x2c | (block[1] & 0x83), 0x30 | (block[3] & 0x83));
            }
            bytes
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn matmul_equals_the_reference(
        kind in 0..3_usize, rows in 1..70_usize, blocks in 1..5_usize, extra in 0..32_usize, n in 1..15_usize,
        seed in any::<u64>(), x in values(14 * 160),
    ) {
        let dtype = [DType::F32, DType::Q8_0, DType::Q4_1][kind];
        let cols = blocks * 32 - if dtype == DType::F32 { extra } else { 0 };
        let w = PackedMatrix::pack(dtype, rows, cols, &matrix_bytes(dtype, rows, cols, seed));
        let x = &x[..n * cols];
        let width = w.panels() * 16;
        let run = |kernels: &Kernels| {
            let mut out = vec![f32::NAN; n * width];
            (kernels.matmul)(&w, 0..w.panels(), x, &mut out);
            out
        };
        let expected = run(&scalar::table());
        for other in others() {
            prop_assert_eq!(bits(&run(&other)), bits(&expected));
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
    fn attention_equals_the_reference_and_ignores_what_is_not_visible(
        head_dim in prop::sample::select(vec![2_usize, 8, 20, 64, 72, 128]), m in 1..5_usize,
        visible in prop::collection::vec(0..=64_usize, 4), seed in values(64 * 128), queries in values(4 * 128),
    ) {
        let size = head_dim * PAGE_POSITIONS;
        let keys = &seed[..size];
        let page_values: Vec<f32> = keys.iter().rev().copied().collect();
        let (queries, visible) = (&queries[..m * head_dim], &visible[..m]);
        let attend = |kernels: &Kernels, k: &[f32], v: &[f32]| {
            let mut out = Partials::default();
            (kernels.attend)(PageView { k, v, len: 64 }, queries, visible, 0.125, &mut out);
            [bits(&out.max), bits(&out.sum), bits(&out.out)]
        };
        let expected = attend(&scalar::table(), keys, &page_values);
        for other in others() {
            prop_assert_eq!(&attend(&other, keys, &page_values), &expected);
        }
        // What stands beyond the visible positions, even NaN, changes nothing.
        let seen = visible.iter().copied().max().unwrap_or(0);
        let (mut k, mut v) = (keys.to_vec(), page_values.clone());
        for position in seen..PAGE_POSITIONS {
            k.iter_mut().skip(position).step_by(PAGE_POSITIONS).for_each(|k| *k = f32::NAN);
            v[position * head_dim..(position + 1) * head_dim].fill(f32::NAN);
        }
        for kernels in others().iter().chain([&scalar::table()]) {
            prop_assert_eq!(&attend(kernels, &k, &v), &expected);
        }
    }

    #[test]
    fn merging_norms_and_activations_equal_the_reference(
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
            let mut merged = partial(&partials[0]);
            (kernels.merge)(&mut merged, &partial(&partials[1]));
            [bits(&normed), bits(&gate), bits(&merged.max), bits(&merged.sum), bits(&merged.out)]
        };
        let expected = run(&scalar::table());
        for other in others() {
            prop_assert_eq!(&run(&other), &expected);
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
            PageView { k: &k, v: &v, len },
            &query,
            &[len],
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
