//! Rotary embedding: frequencies of every scaling against transformers' rules, rotation against float64, refusals by name.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Tensors, shared};
use engine::backend::{Rope, RopeScaling};
use engine::kernels::scalar;
use engine::model::Config;
use serde_json::{Value as Json, json};

/// A Llama configuration with one head of `dim` and these rotary settings, in the style of transformers 5.
fn config(dim: u64, theta: &Json, scaling: &Json) -> Json {
    let mut parameters = scaling.as_object().unwrap().clone();
    parameters.insert("rope_theta".to_owned(), theta.clone());
    json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "hidden_size": dim, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
        "max_position_embeddings": 131_072, "rms_norm_eps": 1e-5, "vocab_size": 8, "rope_parameters": parameters,
    })
}

/// The same in the older style.
fn older(mut config: Json) -> Json {
    let config_object = config.as_object_mut().unwrap();
    let Some(Json::Object(mut scaling)) = config_object.remove("rope_parameters") else {
        panic!("no rope_parameters");
    };
    config_object.insert(
        "rope_theta".to_owned(),
        scaling.remove("rope_theta").unwrap(),
    );
    let kind = scaling.remove("rope_type").unwrap();
    scaling.insert("type".to_owned(), kind);
    config_object.insert("rope_scaling".to_owned(), Json::Object(scaling));
    config
}

fn rope(config: &Config) -> Rope {
    Rope::new(
        config.rope_base,
        config.heads.head_dim,
        config.rope_scaling,
        None,
    )
}

/// A table of the golden file, read from a configuration of either style.
fn check_table(name: &str, table: &Json, expected: &[f64]) {
    let newer = config(
        table["dim"].as_u64().unwrap(),
        &table["rope_theta"],
        &table["scaling"],
    );
    for json in [older(newer.clone()), newer] {
        let config = Config::from_hub(&json).unwrap();
        let rope = rope(&config);
        assert_eq!(rope.frequencies().len(), expected.len());
        for (i, (found, expected)) in rope.frequencies().iter().zip(expected).enumerate() {
            let off = (found / expected - 1.0).abs();
            assert!(off < 1e-12, "{name}: pair {i} is {found}, not {expected}");
        }
        // At position 0 nothing turns, so what is left of a one is the factor on the cosines.
        let mut ones = vec![1.0; 2 * expected.len()];
        (scalar::table().rotate)(&mut ones, rope.table(0..1).entry(0));
        let magnitude = table["attention_factor"].as_f64().unwrap() as f32;
        assert!(
            ones.iter().all(|one| (one - magnitude).abs() < 1e-6),
            "{name}: {ones:?}"
        );
    }
}

#[test]
fn every_scaling_gives_transformers_frequencies() {
    let (Some(golden), Some(index)) = (
        shared("golden/primitives/rope_frequencies.safetensors"),
        shared("golden/primitives/index.json"),
    ) else {
        return;
    };
    let golden = Tensors::open(&golden);
    let index: Json = serde_json::from_slice(&std::fs::read(index).unwrap()).unwrap();
    let tables = index["files"]["rope_frequencies.safetensors"]["tables"]
        .as_object()
        .unwrap();
    let mut checked = Vec::new();
    for (name, table) in tables {
        let kind = table["scaling"]["rope_type"].as_str().unwrap();
        if !["default", "linear", "llama3", "yarn"].contains(&kind) {
            continue;
        }
        check_table(name, table, &golden.f64(name));
        checked.push(name.as_str());
    }
    assert_eq!(checked.len(), 7, "{checked:?}");
}

/// Golden README: a float32 rotation by float64 angles is within 2e-6.
#[test]
fn rotation_agrees_with_float64_in_both_layouts() {
    let Some(golden) = shared("golden/primitives/rope.safetensors") else {
        return;
    };
    let golden = Tensors::open(&golden);
    let positions = golden.ids("positions");
    let (heads, dim) = (3, 32);
    for (theta, name) in [(1e4, "theta10000"), (5e5, "theta500000")] {
        let rope = Rope::new(theta, dim, RopeScaling::None, None);
        let table = rope.table(positions.iter().map(|p| *p as usize));
        for layout in ["half", "interleaved"] {
            // Where dimension d of a head stands among neighbouring pairs.
            let place = |d: usize| match layout {
                "half" if d < dim / 2 => 2 * d,
                "half" => 2 * (d - dim / 2) + 1,
                _ => d,
            };
            let expected = golden.f64(&format!("{layout}_{name}"));
            let x = golden.f32("x");
            let rows = x
                .chunks_exact(heads * dim)
                .zip(expected.chunks_exact(heads * dim));
            for (index, (x, expected)) in rows.enumerate() {
                let at = |i: usize| i / dim * dim + place(i % dim);
                let mut row = vec![0.0; x.len()];
                (0..x.len()).for_each(|i| row[at(i)] = x[i]);
                for head in row.chunks_exact_mut(dim) {
                    (scalar::table().rotate)(head, table.entry(index));
                }
                for (i, expected) in expected.iter().enumerate() {
                    let off = (f64::from(row[at(i)]) - expected).abs();
                    assert!(
                        off <= 2e-6,
                        "{layout} {name} row {index} element {i}: off by {off}"
                    );
                }
            }
        }
    }
}

#[test]
fn divisors_divide_the_frequencies() {
    let plain = Rope::new(1e4, 8, RopeScaling::None, None);
    let divided = Rope::new(1e4, 8, RopeScaling::None, Some(&[1.0, 2.0, 4.0, 8.0]));
    for (i, (plain, divided)) in plain
        .frequencies()
        .iter()
        .zip(divided.frequencies())
        .enumerate()
    {
        assert!((plain / f64::from(1 << i) - divided).abs() < f64::EPSILON);
    }
}

#[test]
fn unusable_rotary_settings_are_refused_by_name() {
    let llama3 = |low: f64, high: f64| {
        json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": low, "high_freq_factor": high,
               "original_max_position_embeddings": 64})
    };
    for (theta, scaling, expected) in [
        (
            1e4,
            json!({"rope_type": "dynamic", "factor": 2.0}),
            "`dynamic` is not supported",
        ),
        (
            1e4,
            json!({"rope_type": "longrope"}),
            "`longrope` is not supported",
        ),
        (
            1e4,
            json!({"rope_type": "linear"}),
            "rope_parameters.factor` is missing",
        ),
        (
            1e4,
            json!({"rope_type": "linear", "factor": 0}),
            "factor: 0.0",
        ),
        (
            1e4,
            json!({"rope_type": "linear", "factor": "2"}),
            "expected a number, found a string",
        ),
        (
            1e4,
            json!({"rope_type": "linear", "factor": 2, "mrope_section": [1]}),
            "mrope_section",
        ),
        (
            1e4,
            json!({"rope_type": "default", "partial_rotary_factor": 0.5}),
            "rotated whole",
        ),
        (1e4, llama3(4.0, 4.0), "low below high"),
        (-1.0, json!({"rope_type": "default"}), "a rotary base of -1"),
        (
            1.0,
            json!({"rope_type": "yarn", "factor": 4.0}),
            "a rotary base of 1 with Yarn",
        ),
    ] {
        let error = Config::from_hub(&config(8, &json!(theta), &scaling))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(expected),
            "{error} should mention {expected}"
        );
    }
}
