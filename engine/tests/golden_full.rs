//! The long goldens, run by `./test.sh full` only: minutes on the reference kernels.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Record, Tensors, options, shared, smollm2};
use engine::{Engine, EngineOptions, KernelChoice, Model, Request};

fn agrees(prompt: &str, kernels: KernelChoice, tolerance: f32) {
    let (Some(model), Some(golden)) = (
        smollm2(),
        shared(&format!("golden/real/{prompt}.safetensors")),
    ) else {
        return;
    };
    let golden = Tensors::open(&golden);
    let ids = golden.ids("input_ids");
    let mut engine = Engine::new(Model::open_gguf(&model).unwrap(), &options(kernels, 2)).unwrap();
    let logits = engine.logits(&ids, false).unwrap();
    let expected = golden.f32("last_logits");
    let worst = logits
        .iter()
        .zip(&expected)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    eprintln!("{prompt} {kernels}: worst logit difference {worst:e}");
    assert!(
        logits.len() == expected.len() && worst <= tolerance,
        "{prompt}: logits differ by {worst}"
    );
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    let top = golden.ids("top20_ids");
    for (found, expected) in order.iter().zip(&top[top.len() - 20..]) {
        let apart = (logits[*found] - logits[*expected as usize]).abs();
        assert!(*found == *expected as usize || apart <= 2.0 * tolerance);
    }
}

#[test]
fn long700_agrees_with_transformers_on_scalar() {
    agrees("long700", KernelChoice::Scalar, 1e-3);
}

#[test]
fn long700_agrees_with_transformers_on_avx2() {
    agrees("long700", KernelChoice::Avx2, 1e-3);
}

#[test]
fn long700_greedy_ids_agree_on_avx2() {
    let (Some(model), Some(golden)) = (smollm2(), shared("golden/real/long700.safetensors")) else {
        return;
    };
    let golden = Tensors::open(&golden);
    let options: EngineOptions = options(KernelChoice::Avx2, 2);
    let mut engine = Engine::new(Model::open_gguf(&model).unwrap(), &options).unwrap();
    let mut record = Record::default();
    let (prompt, expected, margins) = (
        golden.ids("input_ids"),
        golden.ids("greedy_ids"),
        golden.f32("greedy_margin"),
    );
    engine
        .submit(Request {
            id: 1,
            session: 1,
            prompt,
            decode_max: 48,
            ignore_eos: true,
            ..Request::default()
        })
        .unwrap();
    while engine.step(&mut record).unwrap() {}
    for (step, (found, expected)) in record.tokens[&1].iter().zip(&expected).enumerate() {
        if found != expected {
            assert!(margins[step] < 2e-3, "step {step}: {found}, not {expected}");
            break;
        }
    }
}

#[test]
fn long4096_agrees_with_transformers_on_avx2() {
    agrees("long4096", KernelChoice::Avx2, 3e-3);
}
