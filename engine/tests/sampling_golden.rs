//! Sampling against the golden vectors: probabilities after each parameter, and after several.
//!
//! The slow twin, chance and hostile parameters are in `sampling.rs`.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Tensors, shared};
use engine::SamplingParams;
use engine::sample::{filter, probabilities};

/// golden/README.md: absolute, on probabilities.
const PROBABILITY_TOLERANCE: f64 = 5e-6;
/// The order in which a request's parameters are applied.
const OUR_ORDER: [&str; 7] = [
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
];

/// One row of the golden file: logits, prompt, output.
type Case = (Vec<f32>, Vec<u32>, Vec<u32>);

fn rows(golden: &Tensors) -> Vec<Case> {
    let (logits, prompt) = (golden.f32("logits"), golden.ids("prompt_ids"));
    let output = golden.ids("generated_ids");
    let row = |i: usize| {
        (
            logits[i * 64..][..64].to_vec(),
            prompt[i * 12..][..12].to_vec(),
            output[i * 20..][..20].to_vec(),
        )
    };
    (0..5).map(row).collect()
}

/// The case's steps, one by one in its own order.
fn stepwise(steps: &[(&str, f64)], (logits, prompt, output): &Case) -> Vec<f64> {
    let mut scores: Vec<f64> = logits.iter().map(|logit| f64::from(*logit)).collect();
    for (step, value) in steps {
        let number = *value as f32;
        match *step {
            "temperature" => filter::temperature(&mut scores, number),
            "top_k" => filter::top_k(&mut scores, *value as usize),
            "top_p" => filter::top_p(&mut scores, number),
            "min_p" => filter::min_p(&mut scores, number),
            "repetition_penalty" => {
                filter::repetition_penalty(&mut scores, prompt, output, number);
            }
            "presence_penalty" => filter::count_penalties(&mut scores, output, 0.0, number),
            "frequency_penalty" => filter::count_penalties(&mut scores, output, number, 0.0),
            other => panic!("no step {other}"),
        }
    }
    filter::softmax(&scores)
}

/// The same as parameters of a request, where the case has our order.
fn as_parameters(steps: &[(&str, f64)]) -> Option<SamplingParams> {
    let place = |(step, _): &(&str, f64)| OUR_ORDER.iter().position(|name| name == step).unwrap();
    if !steps.is_sorted_by_key(place) {
        return None;
    }
    let value = |name| {
        let found = steps.iter().find(|(step, _)| *step == name);
        found.map(|(_, value)| *value)
    };
    let number = |name, default| value(name).map_or(default, |value| value as f32);
    Some(SamplingParams {
        temperature: number("temperature", 1.0),
        top_k: value("top_k").map(|value| value as usize),
        top_p: number("top_p", 1.0),
        min_p: number("min_p", 0.0),
        repetition_penalty: number("repetition_penalty", 1.0),
        presence_penalty: number("presence_penalty", 0.0),
        frequency_penalty: number("frequency_penalty", 0.0),
        ..SamplingParams::default()
    })
}

fn agrees(mut found: Vec<f64>, expected: &[f32], tie_at_cut: bool, what: &str) {
    let mut expected = expected.to_vec();
    if tie_at_cut {
        found.sort_unstable_by(f64::total_cmp);
        expected.sort_unstable_by(f32::total_cmp);
    }
    for (id, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let difference = (found - f64::from(*expected)).abs();
        assert!(
            difference <= PROBABILITY_TOLERANCE,
            "{what}, id {id}: {found}, not {expected}"
        );
        // Rounded to f32 as the golden file is, where the smallest probabilities are zero.
        assert_eq!(
            *found as f32 == 0.0,
            *expected == 0.0,
            "{what}, id {id}: {found}"
        );
    }
}

/// Holds every case in which `wanted` has a part, or every case, to the golden vectors: step by step, and where the steps come in
/// our order as parameters. Returns how many were held each way; none where the vectors are absent.
fn held(wanted: Option<&str>) -> Option<(usize, usize)> {
    let files = ["sampling.json", "sampling.safetensors"]
        .map(|name| shared(&format!("golden/sampling/{name}")));
    let [Some(listing), Some(golden)] = files else {
        return None;
    };
    let listing: serde_json::Value =
        serde_json::from_slice(&std::fs::read(listing).unwrap()).unwrap();
    let golden = Tensors::open(&golden);
    let (mut cases, mut by_parameters) = (0, 0);
    for case in listing["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let steps: Vec<(&str, f64)> = case["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| {
                (
                    step["op"].as_str().unwrap(),
                    step["value"].as_f64().unwrap(),
                )
            })
            .collect();
        if wanted.is_some_and(|wanted| steps.iter().all(|(step, _)| *step != wanted)) {
            continue;
        }
        let expected = golden.f32(&format!("{name}.probs"));
        for (i, row) in rows(&golden).iter().enumerate() {
            let (expected, tied) = (&expected[i * 64..][..64], case["tie_at_cut"][i] == true);
            let what = format!("{name} row {i}");
            agrees(stepwise(&steps, row), expected, tied, &what);
            if let Some(params) = as_parameters(&steps) {
                let (logits, prompt, output) = row;
                agrees(
                    probabilities(&params, prompt, output, logits),
                    expected,
                    tied,
                    &what,
                );
                by_parameters += 1;
            }
        }
        cases += 1;
    }
    Some((cases, by_parameters))
}

#[test]
fn golden_vectors_agree_step_by_step_and_as_parameters() {
    if let Some(held) = held(None) {
        assert_eq!(held, (34, 31 * 5));
    }
}

/// Fails where a parameter has no case of its own.
fn agrees_with_its_golden_vectors(parameter: &str) {
    if let Some((cases, by_parameters)) = held(Some(parameter)) {
        assert!(cases > 0 && by_parameters > 0, "{parameter}: {cases} cases");
    }
}

#[test]
fn temperature_agrees_with_its_golden_vectors() {
    agrees_with_its_golden_vectors("temperature");
}

#[test]
fn top_k_agrees_with_its_golden_vectors() {
    agrees_with_its_golden_vectors("top_k");
}

#[test]
fn top_p_agrees_with_its_golden_vectors() {
    agrees_with_its_golden_vectors("top_p");
}

#[test]
fn min_p_agrees_with_its_golden_vectors() {
    agrees_with_its_golden_vectors("min_p");
}

#[test]
fn the_repetition_penalty_agrees_with_its_golden_vectors() {
    agrees_with_its_golden_vectors("repetition_penalty");
}

#[test]
fn the_presence_penalty_agrees_with_its_golden_vectors() {
    agrees_with_its_golden_vectors("presence_penalty");
}

#[test]
fn the_frequency_penalty_agrees_with_its_golden_vectors() {
    agrees_with_its_golden_vectors("frequency_penalty");
}
