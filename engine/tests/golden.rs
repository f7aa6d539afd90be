//! The pulled SmolLM2 against Hugging Face transformers: logits, top-20, greedy ids, token ids.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Record, Tensors, options, shared, smollm2};
use engine::{Engine, KernelChoice, Model, Request};

/// Golden README: float32 compute differs by at most 1e-3; a greedy difference is a near tie only below 2e-3.
const LOGITS_TOLERANCE: f32 = 1e-3;
const TIE_MARGIN: f32 = 2e-3;

fn agrees(prompt: &str, kernels: KernelChoice) {
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
    let worst = worst_difference(&logits, &golden.f32("last_logits"));
    assert!(
        worst <= LOGITS_TOLERANCE,
        "{prompt}: logits differ by {worst}"
    );
    eprintln!("{prompt} {kernels}: worst logit difference {worst:e}");
    top_20_agree(&logits, &golden, ids.len());
    greedy_agrees(&mut engine, ids, &golden);
}

fn worst_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

fn top_20_agree(logits: &[f32], golden: &Tensors, positions: usize) {
    let last = 20 * (positions - 1)..20 * positions;
    let (ids, expected) = (golden.ids("top20_ids"), golden.f32("top20_logits"));
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    for ((found, id), logit) in order.iter().zip(&ids[last.clone()]).zip(&expected[last]) {
        assert!((logits[*id as usize] - logit).abs() <= LOGITS_TOLERANCE);
        let near_tie = (logits[*found] - logits[*id as usize]).abs() <= TIE_MARGIN;
        assert!(
            *found == *id as usize || near_tie,
            "top 20: found {found}, expected {id}"
        );
    }
}

fn greedy_agrees(engine: &mut Engine, prompt: Vec<u32>, golden: &Tensors) {
    let (expected, margins) = (golden.ids("greedy_ids"), golden.f32("greedy_margin"));
    let mut record = Record::default();
    let decode_max = expected.len();
    engine
        .submit(Request {
            id: 1,
            session: 1,
            prompt,
            decode_max,
            ignore_eos: true,
        })
        .unwrap();
    while engine.step(&mut record).unwrap() {}
    for (step, (found, expected)) in record.tokens[&1].iter().zip(&expected).enumerate() {
        if found != expected {
            assert!(
                margins[step] < TIE_MARGIN,
                "step {step}: {found}, not {expected}"
            );
            break;
        }
    }
    assert_eq!(record.tokens[&1].len(), decode_max);
}

#[test]
fn short_prompt_agrees_with_transformers_on_scalar() {
    agrees("short", KernelChoice::Scalar);
}

#[test]
fn short_prompt_agrees_with_transformers_on_avx2() {
    agrees("short", KernelChoice::Avx2);
}

#[test]
fn chat_prompt_agrees_with_transformers_on_scalar() {
    agrees("chat", KernelChoice::Scalar);
}

#[test]
fn chat_prompt_agrees_with_transformers_on_avx2() {
    agrees("chat", KernelChoice::Avx2);
}

#[test]
fn every_position_of_the_short_prompt_agrees() {
    let (Some(model), Some(golden)) = (smollm2(), shared("golden/real/short.safetensors")) else {
        return;
    };
    let golden = Tensors::open(&golden);
    let mut engine = Engine::new(
        Model::open_gguf(&model).unwrap(),
        &options(KernelChoice::Auto, 2),
    )
    .unwrap();
    let logits = engine.logits(&golden.ids("input_ids"), true).unwrap();
    assert!(worst_difference(&logits, &golden.f32("logits")) <= LOGITS_TOLERANCE);
}

#[test]
fn token_ids_equal_those_of_transformers_and_llama_cpp() {
    let cases = [
        shared("golden/real/tokenizer_cases.json"),
        shared("tokenizers/smollm2/llamacpp_47.json"),
    ];
    let (Some(model), [Some(transformers), Some(llama_cpp)]) = (smollm2(), cases) else {
        return;
    };
    let model = Model::open_gguf(&model).unwrap();
    let tokenizer = model.tokenizer().unwrap();
    let mut compared = 0;
    for path in [transformers, llama_cpp] {
        let file: serde_json::Value =
            serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for case in file["cases"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let expected: Vec<u32> = case["ids"]
                .as_array()
                .unwrap()
                .iter()
                .map(|id| id.as_u64().unwrap() as u32)
                .collect();
            assert_eq!(tokenizer.encode(text, true).unwrap(), expected, "{text:?}");
            assert_eq!(tokenizer.decode(&expected).unwrap(), text);
            compared += 1;
        }
    }
    assert_eq!(compared, 80 + 47);
}
