//! The kernels, one by one, against float64 vectors: norms, gated activation, attention, softmax.
//!
//! Rotary embedding has its own tests beside the loader's.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Tensors, shared};
use engine::kernels::{Kernels, scalar};
use engine::tensor::{PAGE_POSITIONS, PageView, Partials, PartialsMut, Span};

/// Head size, heads and KV heads of the attention vectors.
const DIM: usize = 16;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;

fn kernels() -> Vec<Kernels> {
    let sets = common::kernel_sets().into_iter();
    let sets = sets.map(|choice| Kernels::choose(choice).unwrap());
    sets.chain([scalar::plain_table()]).collect()
}

/// golden/README.md: relative 1e-5 plus absolute 5e-6.
fn agrees(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let allowed = 1e-5 * expected.abs() + 5e-6;
        let difference = (f64::from(*found) - expected).abs();
        assert!(
            difference <= allowed,
            "{what} [{i}]: {found}, not {expected}"
        );
    }
}

#[test]
fn the_norm_agrees_with_float64() {
    let Some(golden) = shared("golden/primitives/norms.safetensors") else {
        return;
    };
    let golden = Tensors::open(&golden);
    let (x, weight) = (golden.f32("x"), golden.f32("weight"));
    for kernels in kernels() {
        for (name, epsilon) in [("rms_eps1e-05", 1e-5), ("rms_eps1e-06", 1e-6)] {
            let mut out = vec![0.0; x.len()];
            for (x, out) in x.chunks_exact(96).zip(out.chunks_exact_mut(96)) {
                (kernels.rms_norm)(x, &weight, epsilon, out);
            }
            agrees(&out, &golden.f64(name), &format!("{} {name}", kernels.name));
        }
    }
}

#[test]
fn the_gated_activation_agrees_with_float64() {
    let Some(golden) = shared("golden/primitives/activations.safetensors") else {
        return;
    };
    let golden = Tensors::open(&golden);
    let (gate, up) = (golden.f32("gate"), golden.f32("up"));
    for kernels in kernels() {
        for (name, up) in [("silu", &vec![1.0; gate.len()]), ("swiglu", &up)] {
            let mut out = gate.clone();
            (kernels.silu_mul)(&mut out, up);
            agrees(&out, &golden.f64(name), &format!("{} {name}", kernels.name));
        }
    }
}

/// Keys and values of one head, `[positions][DIM]`, that stand at absolute positions `start..`.
struct Cached {
    k: Vec<f32>,
    v: Vec<f32>,
    start: usize,
}

impl Cached {
    /// Softmax attention of `queries[m][DIM]`, each over the keys `seen[m]`, walked page by page.
    fn attend(&self, kernels: &Kernels, queries: &[f32], seen: &[Span], scale: f32) -> Vec<f32> {
        let len = self.k.len() / DIM;
        let elements = Partials::elements(seen.len(), DIM);
        let (mut sums, mut partial) = (vec![0.0; elements], vec![0.0; elements]);
        for page in 0..(self.start + len).div_ceil(PAGE_POSITIONS) {
            let first = page * PAGE_POSITIONS;
            let (mut k, mut v) = ([0.0; DIM * PAGE_POSITIONS], [0.0; DIM * PAGE_POSITIONS]);
            for key in 0..len {
                let slot = (self.start + key).wrapping_sub(first);
                for d in (0..DIM).filter(|_| slot < PAGE_POSITIONS) {
                    k[d * PAGE_POSITIONS + slot] = self.k[key * DIM + d];
                    v[slot * DIM + d] = self.v[key * DIM + d];
                }
            }
            let slot = |key: usize| (self.start + key).saturating_sub(first).min(PAGE_POSITIONS);
            let spans = seen.iter().map(|seen| Span {
                first: slot(seen.first),
                end: slot(seen.end),
            });
            let view = PageView::F32 { k: &k, v: &v };
            (kernels.attend)(
                view,
                None,
                queries,
                &spans.collect::<Vec<_>>(),
                scale,
                PartialsMut::of(&mut partial, seen.len()),
            );
            let sums = PartialsMut::of(&mut sums, seen.len());
            (kernels.merge)(sums, Partials::of(&partial, seen.len()));
        }
        let sum = Partials::of(&sums, seen.len());
        let rows = sum.out.chunks_exact(DIM).zip(sum.sum);
        rows.flat_map(|(row, sum)| row.iter().map(move |value| value / sum))
            .collect()
    }
}

/// One head's rows of `[positions][heads][DIM]`.
fn head(x: &[f32], heads: usize, head: usize) -> Vec<f32> {
    x.chunks_exact(heads * DIM)
        .flat_map(|row| row[head * DIM..][..DIM].to_vec())
        .collect()
}

fn causal(query: usize) -> Span {
    Span {
        first: 0,
        end: query + 1,
    }
}

/// Which keys a query sees.
type Seen<'a> = &'a dyn Fn(usize) -> Span;

#[test]
fn attention_agrees_with_float64_wherever_the_page_boundary_lies() {
    let Some(golden) = shared("golden/primitives/attention.safetensors") else {
        return;
    };
    let golden = Tensors::open(&golden);
    let (q, k, v) = (golden.f32("q"), golden.f32("k"), golden.f32("v"));
    let window = |query: usize| Span {
        first: query.saturating_sub(3),
        end: query + 1,
    };
    let all = |_| Span { first: 0, end: 13 };
    let cases: [(&str, usize, Seen, f32); 6] = [
        ("causal", 0, &causal, 0.25),
        ("causal_scale_0.1", 0, &causal, 0.1),
        ("causal_large_scores", 0, &causal, 20.0),
        ("causal_window_4", 0, &window, 0.25),
        ("bidirectional", 0, &all, 0.25),
        ("decode_last4", 9, &causal, 0.25),
    ];
    for kernels in kernels() {
        for (name, from, seen, scale) in cases {
            for start in [0, 51, 52, 60, 63, 64, 100] {
                let seen: Vec<Span> = (from..13).map(seen).collect();
                let mut out = vec![0.0; seen.len() * HEADS * DIM];
                for h in 0..HEADS {
                    let kv = h * KV_HEADS / HEADS;
                    let cached = Cached {
                        k: head(&k, KV_HEADS, kv),
                        v: head(&v, KV_HEADS, kv),
                        start,
                    };
                    let queries = &head(&q, HEADS, h)[from * DIM..];
                    let rows = cached.attend(&kernels, queries, &seen, scale);
                    for (i, row) in rows.chunks_exact(DIM).enumerate() {
                        out[(i * HEADS + h) * DIM..][..DIM].copy_from_slice(row);
                    }
                }
                let what = format!("{} {name} from position {start}", kernels.name);
                agrees(&out, &golden.f64(name), &what);
            }
        }
    }
}

/// A row with `value` at dimension `at` and zero elsewhere.
fn one_hot(at: usize, value: f32) -> [f32; DIM] {
    let mut row = [0.0; DIM];
    row[at] = value;
    row
}

/// Attention whose scores are `scores` and whose values are unit vectors: the softmax itself.
fn softmax(kernels: &Kernels, scores: &[f32], seen: Span) -> Vec<f32> {
    let cached = Cached {
        k: scores.iter().flat_map(|score| one_hot(0, *score)).collect(),
        v: (0..scores.len())
            .flat_map(|key| one_hot(key, 1.0))
            .collect(),
        start: 60,
    };
    let row = cached.attend(kernels, &one_hot(0, 1.0), &[seen], 1.0);
    row[..scores.len()].to_vec()
}

#[test]
fn softmax_rows_agree_with_float64() {
    let Some(golden) = shared("golden/primitives/attention.safetensors") else {
        return;
    };
    let golden = Tensors::open(&golden);
    let scores = golden.f32("scores");
    for kernels in kernels() {
        for (name, offset) in [("scores_softmax", 9), ("scores_softmax_causal_offset4", 4)] {
            let end = |row: usize| (row + offset + 1).min(10);
            let rows = scores.chunks_exact(10).enumerate();
            let rows = rows.map(|(row, scores)| {
                softmax(
                    &kernels,
                    scores,
                    Span {
                        first: 0,
                        end: end(row),
                    },
                )
            });
            let found: Vec<f32> = rows.flatten().collect();
            agrees(
                &found,
                &golden.f64(name),
                &format!("{} {name}", kernels.name),
            );
        }
    }
}

#[test]
fn attention_weights_agree_with_float64() {
    let Some(golden) = shared("golden/primitives/attention.safetensors") else {
        return;
    };
    let golden = Tensors::open(&golden);
    let (q, k) = (golden.f32("q"), golden.f32("k"));
    let expected = golden.f64("causal_probs");
    let seen: Vec<Span> = (0..13).map(causal).collect();
    let values: Vec<f32> = (0..13).flat_map(|key| one_hot(key, 1.0)).collect();
    for kernels in kernels() {
        for h in 0..HEADS {
            let k = head(&k, KV_HEADS, h * KV_HEADS / HEADS);
            let cached = Cached {
                k,
                v: values.clone(),
                start: 0,
            };
            let rows = cached.attend(&kernels, &head(&q, HEADS, h), &seen, 0.25);
            let found: Vec<f32> = rows
                .chunks_exact(DIM)
                .flat_map(|row| row[..13].to_vec())
                .collect();
            agrees(
                &found,
                &expected[h * 169..][..169],
                &format!("{} head {h}", kernels.name),
            );
        }
    }
}
