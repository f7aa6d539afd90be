//! The element types of cached keys and values: what is stored, what it stands for, what it takes, and that it is used.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Record, Rounded, bits, options};
use engine::kernels::KernelChoice;
use engine::kv::{KvShape, PageId, PagePool, RowSource};
use engine::tensor::{LayerView, PAGE_POSITIONS, PageView, Quants};
use engine::{Engine, EngineOptions, Error, KvType, Mode, Model, Request};
use proptest::prelude::*;

/// A head of two blocks, one of them short.
const SHAPE: KvShape = KvShape {
    layers: 2,
    kv_heads: 2,
    head_dim: 40,
};
/// Numbers of the keys, or of the values, of a position.
const ROW: usize = SHAPE.kv_heads * SHAPE.head_dim;

fn pool(element: KvType) -> PagePool {
    PagePool::new(SHAPE, element, 3)
}

/// A page of `len` positions: `row` gives keys and values of a layer and slot.
fn filled(pool: &mut PagePool, len: usize, row: impl Fn(usize, usize) -> [Vec<f32>; 2]) -> PageId {
    let page = pool.allocate().unwrap();
    for slot in 0..len {
        for layer in 0..SHAPE.layers {
            let [k, v] = row(layer, slot);
            pool.write(page, slot, layer, (&k, &v), RowSource::Prefill);
        }
    }
    page
}

/// Keys and values between -2 and 2 that differ by layer and slot.
fn ordinary(layer: usize, slot: usize) -> [Vec<f32>; 2] {
    [0, 1].map(|half| {
        let seed = (half * 2 + layer) * PAGE_POSITIONS + slot;
        let number = |i: usize| ((seed * 7919 + i * 104_729) % 4093) as f32 / 1023.0 - 2.0;
        (0..ROW).map(number).collect()
    })
}

/// Bytes and scales of the keys and the values of a head.
fn quants(pool: &PagePool, page: PageId, layer: usize, head: usize) -> [Quants<'_>; 2] {
    let view = pool.view(page, layer).head(head, SHAPE.head_dim);
    let PageView::Q8_0 { k, v } = view else {
        panic!("{view:?} of a pool of q8_0")
    };
    [k, v]
}

/// What the first position's keys and values of the first head are stored as, all from `x`: equal bytes and scales.
fn stored(x: &[f32; SHAPE.head_dim]) -> (Vec<i8>, Vec<f32>) {
    let mut pool = pool(KvType::Q8_0);
    let row = [*x, [1.0; SHAPE.head_dim]].concat();
    let page = filled(&mut pool, 1, |_, _| [row.clone(), row.clone()]);
    let [k, v] = quants(&pool, page, 1, 0);
    let keys: Vec<i8> = k.bytes.iter().copied().step_by(PAGE_POSITIONS).collect();
    let first = |scales: &[u16]| {
        let lanes = scales.iter().step_by(PAGE_POSITIONS);
        let scales = lanes.map(|bits| half::f16::from_bits(*bits).to_f32());
        scales.collect::<Vec<f32>>()
    };
    assert_eq!(keys, v.bytes[..SHAPE.head_dim]);
    assert_eq!(bits(&first(k.scales)), bits(&first(v.scales)));
    (keys, first(k.scales))
}

/// Zeros, and from the first dimension on what is given.
fn head(numbers: &[f32]) -> [f32; SHAPE.head_dim] {
    let mut x = [0.0; SHAPE.head_dim];
    x[..numbers.len()].copy_from_slice(numbers);
    x
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bytes_stand_for_what_was_written_within_half_a_step(
        x in prop::array::uniform32(prop_oneof![9 => -1.0_f32..1.0, 1 => Just(0.0)]), scale in -12..6_i32,
    ) {
        let x = head(&x.map(|x| x * 10_f32.powi(scale)));
        let (bytes, scales) = stored(&x);
        let greatest = x.iter().fold(0.0_f64, |most, x| most.max(f64::from(x.abs())));
        // A byte is within half an exact step; the scale is rounded too, by 2^-11 of it or, below 2^-14, by 2^-25, and
        // counts 127 times at most.
        let step = greatest / 127.0;
        let bound = 0.50001 * step + 127.0 * (step / 2048.0).max(2_f64.powi(-25));
        for (x, byte) in x.iter().zip(&bytes) {
            let error = f64::from(*x) - f64::from(*byte) * f64::from(scales[0]);
            prop_assert!(error.abs() <= bound, "{} is {} x {}", x, byte, scales[0]);
        }
        prop_assert!(bytes.iter().all(|byte| *byte != i8::MIN));
    }
}

#[test]
fn a_page_holds_what_the_definition_says_and_zeros_where_nothing_was_written() {
    let mut pool = pool(KvType::Q8_0);
    let len = 50;
    let page = filled(&mut pool, len, ordinary);
    for layer in 0..SHAPE.layers {
        for h in 0..SHAPE.kv_heads {
            let (mut keys, mut values) = (vec![0.0; 64 * 40], vec![0.0; 64 * 40]);
            for slot in 0..len {
                let [k, v] = ordinary(layer, slot).map(|row| row[h * 40..][..40].to_vec());
                values[slot * 40..][..40].copy_from_slice(&v);
                for (dim, x) in k.into_iter().enumerate() {
                    keys[dim * PAGE_POSITIONS + slot] = x;
                }
            }
            let expected = [Rounded::keys(&keys), Rounded::values(&values)];
            for (found, expected) in quants(&pool, page, layer, h).iter().zip(&expected) {
                assert_eq!(found.bytes, expected.view().bytes);
                assert_eq!(found.scales, expected.view().scales);
            }
        }
    }
}

#[test]
fn ties_go_to_the_even_byte() {
    let (bytes, scales) = stored(&head(&[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, -127.0]));
    assert_eq!(bytes[..8], [127, 0, 2, 2, 0, -2, -2, -127]);
    assert_eq!(bits(&scales), bits(&[1.0, 0.0]));
}

#[test]
fn what_is_no_number_or_beyond_a_scale_poisons_its_block_and_what_is_too_small_for_one_is_zero() {
    // A scale reaches to 65504, rounding to it from below 65520; the least is 2^-24, reached from above 2^-25.
    let (most, least) = (127.0 * 65519.0, 127.0 * 2_f32.powi(-25));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 127.0 * 65521.0] {
        let (bytes, scales) = stored(&head(&[1.0, bad]));
        assert!(
            scales[0].is_nan() && bytes.iter().all(|byte| *byte == 0),
            "{bad}"
        );
        assert_eq!(bits(&scales[1..]), [0], "{bad} is not in the second block");
    }
    for (x, expected) in [(most, 65504.0), (least * 1.01, 2_f32.powi(-24))] {
        let (bytes, scales) = stored(&head(&[x]));
        assert_eq!(
            (bytes[0], scales[0].to_bits()),
            (127, expected.to_bits()),
            "{x}"
        );
    }
    for small in [0.0, -0.0, 1e-41, least * 0.99] {
        let (bytes, scales) = stored(&head(&[small]));
        assert_eq!((bits(&scales), bytes[0]), (vec![0, 0], 0), "{small}");
    }
}

#[test]
fn a_copied_head_equals_a_page_written_that_far_in_every_type() {
    for element in KvType::ALL {
        for len in [0, 1, 17, 63, 64] {
            let mut pool = pool(element);
            let whole = filled(&mut pool, 64, ordinary);
            let expected = filled(&mut pool, len, ordinary);
            let copy = pool.copy_head(whole, len).unwrap();
            assert_eq!(pool.bits(copy), pool.bits(expected), "{element}, {len}");
            assert!(
                len == 64 || pool.bits(copy) != pool.bits(whole),
                "{element}, {len}"
            );
        }
    }
}

#[test]
fn a_page_takes_the_bytes_that_it_stores() {
    for element in KvType::ALL {
        let mut pool = pool(element);
        let page = filled(&mut pool, 1, ordinary);
        let layer = |layer| match pool.view(page, layer) {
            LayerView::F32(data) => size_of_val(data),
            LayerView::F16(data) => size_of_val(data),
            LayerView::Q8_0(Quants { bytes, scales }) => size_of_val(bytes) + size_of_val(scales),
        };
        let stored: usize = (0..SHAPE.layers).map(layer).sum();
        assert_eq!(SHAPE.page_bytes(element), stored as u64, "{element}");
    }
}

#[test]
fn a_type_is_known_by_its_name_and_another_name_is_answered_with_what_to_type() {
    for element in KvType::ALL {
        assert_eq!(element.to_string().parse(), Ok(element));
    }
    let error = "q4_0".parse::<KvType>().unwrap_err();
    assert_eq!(error, "KV type `q4_0` is unknown; use f32, f16 or q8_0");
}

fn engine(mode: Mode, kv_type: Option<KvType>) -> Engine {
    let options = EngineOptions {
        mode,
        kv_type,
        ..options(KernelChoice::Auto, 1)
    };
    Engine::new(Model::synthetic("synthetic-tiny").unwrap(), &options).unwrap()
}

#[test]
fn an_engine_caches_in_the_type_asked_for_or_the_modes_own() {
    for (mode, kv_type, expected) in [
        (Mode::Exact, None, "f32"),
        (Mode::Fast, None, "f16"),
        (Mode::Exact, Some(KvType::Q8_0), "q8_0"),
        (Mode::Fast, Some(KvType::F32), "f32"),
    ] {
        let mut engine = engine(mode, kv_type);
        assert_eq!(engine.kv_dtype(), expected);
        engine.logits(&[1, 2, 3], false).unwrap();
        let element: KvType = expected.parse().unwrap();
        let page = engine.model().kv_shape().page_bytes(element);
        assert_eq!(engine.kv_bytes_peak(), page, "{mode}, {expected}");
    }
}

#[test]
fn q8_0_moves_the_logits_and_by_little() {
    let ids: Vec<u32> = (0..150_u32).map(|i| (i * i * 31 + 7 * i) % 255).collect();
    let logits = |kv_type| {
        engine(Mode::Exact, Some(kv_type))
            .logits(&ids, true)
            .unwrap()
    };
    let exact = logits(KvType::F32);
    let norm = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let distance = |kv_type| {
        let difference: Vec<f32> = logits(kv_type)
            .iter()
            .zip(&exact)
            .map(|(a, b)| a - b)
            .collect();
        norm(&difference) / norm(&exact)
    };
    let (half, bytes) = (distance(KvType::F16), distance(KvType::Q8_0));
    assert!(half > 0.0 && bytes > half, "f16 {half:e}, q8_0 {bytes:e}");
    // A number is off by half a step at most, 1/254 of the greatest of its block, and most by less. Attention takes means
    // of such numbers: what is made of them in a few layers should not be off by a whole step.
    assert!(bytes < 1.0 / 127.0, "{bytes:e}");
}

#[test]
fn rounded_queries_and_weights_move_the_logits_about_as_far_as_rounded_keys_and_values_do() {
    let ids: Vec<u32> = (0..150_u32).map(|i| (i * i * 31 + 7 * i) % 255).collect();
    let logits = |mode, kv_type| engine(mode, Some(kv_type)).logits(&ids, true).unwrap();
    let norm = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let exact = logits(Mode::Exact, KvType::F32);
    let distance = |mode| {
        let found = logits(mode, KvType::Q8_0);
        let difference: Vec<f32> = found.iter().zip(&exact).map(|(a, b)| a - b).collect();
        norm(&difference) / norm(&exact)
    };
    // The weights of this model are f32, which `fast` does not touch: attention is the whole difference.
    let (stored, attended) = (distance(Mode::Exact), distance(Mode::Fast));
    // Two independent errors became four of one size, which add up to the root of two of what they were.
    assert!(
        stored < attended && attended < 1.1 * 2.0_f64.sqrt() * stored,
        "stored {stored:e}, attended {attended:e}"
    );
}

#[test]
fn a_poisoned_block_is_refused_at_the_logits() {
    let mut engine = engine(Mode::Fast, Some(KvType::Q8_0));
    let request = |id, prompt: Vec<u32>| Request {
        id,
        prompt,
        decode_max: 2,
        ignore_eos: true,
        ..Request::default()
    };
    let prompt: Vec<u32> = (0..20).collect();
    let mut record = Record::default();
    engine.submit(request(0, prompt.clone())).unwrap();
    while engine.step(&mut record).unwrap() {}
    assert!(engine.poke_session(0, 0, 0, f32::NAN));
    let longer = [&prompt[..], &record.tokens[&0], &[9]].concat();
    engine.submit(request(1, longer)).unwrap();
    let error = engine.step(&mut record).unwrap_err();
    assert!(
        matches!(error, Error::NonFinite { request: 1, .. }),
        "{error}"
    );
}
