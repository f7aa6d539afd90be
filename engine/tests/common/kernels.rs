//! What tests of kernels have in common: the sets to compare, and values and spans to compare them on.

use std::sync::LazyLock;

use engine::kernels::{Kernels, scalar};
use engine::tensor::{Activations, PAGE_POSITIONS, Span};
use proptest::prelude::*;

/// The sets to hold against `scalar::table()`: plain scalar always, the others where the CPU has them.
pub(crate) fn others() -> &'static [Kernels] {
    static OTHERS: LazyLock<Vec<Kernels>> = LazyLock::new(|| {
        let sets = super::kernel_sets().into_iter().skip(1);
        let sets = sets.map(|choice| Kernels::choose(choice).unwrap());
        sets.chain([scalar::plain_table()]).collect()
    });
    &OTHERS
}

/// Values of very different sizes, zeros and subnormals among them.
pub(crate) fn value() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -4.0_f32..4.0,
        1 => -1e4_f32..1e4,
        1 => Just(0.0_f32),
        1 => Just(-0.0_f32),
        1 => Just(1e-41_f32),
    ]
}

pub(crate) fn values(len: usize) -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(value(), len)
}

/// Inputs rounded for `fast`, by the reference.
pub(crate) fn rounded(x: &[f32], cols: usize) -> Activations {
    let mut out = Activations::zeroed(x.len() / cols, cols);
    (scalar::table().quantize)(x, &mut out);
    out
}

/// What queries see of a page: all of it, its beginning, its end, or something between, in any mixture; or a causal tail.
pub(crate) fn spans() -> impl Strategy<Value = Vec<Span>> {
    let span = prop_oneof![
        2 => Just((0, 64)),
        1 => (0..=64_usize).prop_map(|end| (0, end)),
        1 => (0..=64_usize).prop_map(|first| (first, 64)),
        1 => (0..=64_usize, 0..=64_usize).prop_map(|(a, b)| (a.min(b), b)),
    ];
    let causal = (0..70_usize, 1..4_usize, 0..70_usize).prop_map(|(start, group, window)| {
        let span = |query: usize| {
            let end = start + query / group + 1;
            (end.saturating_sub(window).min(64), end.min(64))
        };
        (0..16).map(span).collect::<Vec<_>>()
    });
    let count = prop_oneof![6 => 1..9_usize, 1 => 9..=40_usize];
    let mixed = count.prop_flat_map(move |count| prop::collection::vec(span.clone(), count));
    prop_oneof![3 => mixed, 1 => causal].prop_map(|spans| {
        let span = |&(first, end): &(usize, usize)| Span { first, end };
        spans.iter().map(span).collect()
    })
}

/// Keys `[head_dim][64]` and values `[64][head_dim]` with NaN in every slot that `seen` leaves out.
pub(crate) fn hidden(keys: &[f32], page_values: &[f32], seen: Span) -> (Vec<f32>, Vec<f32>) {
    let head_dim = keys.len() / PAGE_POSITIONS;
    let (mut k, mut v) = (keys.to_vec(), page_values.to_vec());
    for slot in (0..PAGE_POSITIONS).filter(|slot| !(seen.first..seen.end).contains(slot)) {
        for key in k.iter_mut().skip(slot).step_by(PAGE_POSITIONS) {
            *key = f32::NAN;
        }
        v[slot * head_dim..(slot + 1) * head_dim].fill(f32::NAN);
    }
    (k, v)
}
