//! The page primitive of `fast` over q8_0: every kernel set against the reference, bit for bit, and the reference against
//! softmax attention in f64.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::kernels::{hidden, others, rounded, spans, values};
use common::{Rounded, bits};
use engine::kernels::{KernelChoice, Kernels, scalar};
use engine::tensor::{Activations, PAGE_POSITIONS, Partials, PartialsMut, Span};
use proptest::prelude::*;

/// `queries[m][head_dim]` rounded for `fast`, each with zeros up to whole blocks.
fn rounded_queries(queries: &[f32], head_dim: usize) -> Activations {
    let cols = head_dim.next_multiple_of(32);
    let padded = queries.chunks_exact(head_dim).flat_map(|query| {
        let zeros = std::iter::repeat_n(&0.0, cols - head_dim);
        query.iter().chain(zeros).copied()
    });
    rounded(&padded.collect::<Vec<f32>>(), cols)
}

/// Bits by query of a page's partials in `fast` mode, keys and values rounded to bytes.
fn attend_fast(
    kernels: &Kernels,
    [k, v]: [&Rounded; 2],
    queries: &Activations,
    seen: &[Span],
) -> Vec<Vec<f32>> {
    let page = [k.view(), v.view()];
    let head_dim = k.key_numbers().len() / PAGE_POSITIONS;
    let mut out = vec![7.0; Partials::elements(seen.len(), head_dim)];
    let partials = PartialsMut::of(&mut out, seen.len());
    (kernels.attend_fast)(page, Some(page), queries.view(), seen, 0.125, partials);
    let of = |m| {
        let own = Partials::of(&out, seen.len()).queries(m..m + 1);
        [own.max, own.sum, own.out].concat()
    };
    (0..seen.len()).map(of).collect()
}

/// [`attend_fast`] of one query in f64: maximum, sum, outputs, and how far these may be off for every weight was rounded.
fn attend_by_definition(
    [k, v]: [&[f32]; 2],
    (quants, scales): (&[i8], &[f32]),
    seen: Span,
) -> (f64, f64, Vec<(f64, f64)>) {
    let head_dim = k.len() / PAGE_POSITIONS;
    let query = |d: usize| f64::from(quants[d]) * f64::from(scales[d / 32]);
    let score = |slot: usize| {
        let products = (0..head_dim).map(|d| query(d) * f64::from(k[d * PAGE_POSITIONS + slot]));
        products.sum::<f64>() * 0.125
    };
    let scores: Vec<f64> = (seen.first..seen.end).map(score).collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let out = |d: usize| {
        let value = |slot: usize| f64::from(v[slot * head_dim + d]);
        let products = weights.iter().zip(seen.first..);
        let sum = products.map(|(weight, slot)| weight * value(slot)).sum();
        // The greatest number a byte of this dimension's block can stand for at any slot seen, times its weight.
        let block = d / 32 * 32..head_dim.min(d / 32 * 32 + 32);
        let greatest = |(weight, slot): (&f64, usize)| {
            let row = &v[slot * head_dim..][block.clone()];
            weight
                * row
                    .iter()
                    .fold(0.0, |max: f64, v| max.max(f64::from(v.abs())))
        };
        let greatest = weights
            .iter()
            .zip(seen.first..)
            .map(greatest)
            .fold(0.0, f64::max);
        (sum, greatest / 255.0 / 2.0 * weights.len() as f64)
    };
    (max, weights.iter().sum(), (0..head_dim).map(out).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn fast_attention_equals_the_reference_and_ignores_what_is_not_visible(
        head_dim in prop::sample::select(vec![2_usize, 8, 16, 20, 34, 64, 72, 80, 96, 128]), spans in spans(),
        seed in values(64 * 128), queries in values(40 * 128),
    ) {
        let size = head_dim * PAGE_POSITIONS;
        let keys = &seed[..size];
        let page_values: Vec<f32> = keys.iter().rev().copied().collect();
        let queries = rounded_queries(&queries[..spans.len() * head_dim], head_dim);
        let attend = |kernels: &Kernels, k: &[f32], v: &[f32]| {
            let found = attend_fast(kernels, [&Rounded::keys(k), &Rounded::values(v)], &queries, &spans);
            found.iter().map(|found| bits(found)).collect::<Vec<_>>()
        };
        let expected = attend(&scalar::table(), keys, &page_values);
        for other in others() {
            prop_assert_eq!(&attend(other, keys, &page_values), &expected, "{}", other.name);
        }
        for (m, span) in spans.iter().enumerate().step_by(spans.len().div_ceil(3)) {
            let (k, v) = hidden(keys, &page_values, *span);
            for kernels in [scalar::table(), Kernels::choose(KernelChoice::Auto).unwrap()] {
                prop_assert_eq!(&attend(&kernels, &k, &v)[m], &expected[m]);
            }
        }
    }

    #[test]
    fn fast_attention_is_softmax_attention_over_rounded_numbers_with_weights_within_half_a_step(
        head_dim in prop::sample::select(vec![2_usize, 20, 64, 80]), span in (0..=64_usize, 0..=64_usize),
        seed in prop::collection::vec(-2.0_f32..2.0, 64 * 80), query in prop::collection::vec(-2.0_f32..2.0, 80),
    ) {
        let seen = Span { first: span.0.min(span.1), end: span.0.max(span.1) };
        let keys = &seed[..head_dim * PAGE_POSITIONS];
        let values: Vec<f32> = keys.iter().rev().copied().collect();
        let query = rounded_queries(&query[..head_dim], head_dim);
        let (k, v) = (Rounded::keys(keys), Rounded::values(&values));
        let found = attend_fast(&scalar::table(), [&k, &v], &query, &[seen]).concat();
        if seen.is_empty() {
            prop_assert_eq!(found[1].to_bits(), 0.0_f32.to_bits());
            return Ok(());
        }
        let numbers = [&k.key_numbers()[..], &v.value_numbers()];
        let (max, sum, out) = attend_by_definition(numbers, (&query.quants, &query.scales), seen);
        prop_assert!((f64::from(found[0]) - max).abs() < 1e-5 * max.abs().max(1.0), "{} {}", found[0], max);
        prop_assert!((f64::from(found[1]) - sum).abs() < 1e-4 * sum, "{} {}", found[1], sum);
        for (found, (value, off)) in found[2..].iter().zip(out) {
            // The greatest byte may be 126 where a scale was rounded up: one part in 127 more.
            let off = off * 128.0 / 126.0 + 1e-4 * value.abs() + 1e-6;
            prop_assert!((f64::from(*found) - value).abs() <= off, "{} {} {}", found, value, off);
        }
    }
}
