//! Random-weight models of the Llama family against Hugging Face transformers: every hidden state, every logit, greedy ids.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Record, Tensors, bits, options, shared};
use engine::backend::Cpu;
use engine::kernels::Kernels;
use engine::kv::{PagePool, PageTable, RowSource};
use engine::model::{Row, Stage};
use engine::{Engine, Error, KernelChoice, Mode, Model, Request};

/// Golden README: float32 noise is at most 5e-5, the weakest wrong setting moves logits by 2e-3.
const TOLERANCE: f32 = 3e-4;
const IN_SCOPE: [&str; 6] = [
    "llama",
    "llama_rope_linear",
    "llama_rope_llama3",
    "mistral_swa",
    "qwen2",
    "qwen3",
];
const PROMPTS: [&str; 2] = ["p0", "p1"];
const KERNELS: [KernelChoice; 2] = [KernelChoice::Scalar, KernelChoice::Avx2];

/// The golden folder of `model` and a copy of the model with `config` as its `config.json`.
fn copied(model: &str, config: &str) -> Option<(Tensors, tempfile::TempDir)> {
    let folder = shared(&format!("golden/tiny/{model}"))?;
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(folder.join(config), copy.path().join("config.json")).unwrap();
    let weights = "model.safetensors";
    std::fs::copy(folder.join(weights), copy.path().join(weights)).unwrap();
    Some((Tensors::open(&folder.join("golden.safetensors")), copy))
}

/// Hidden states by the golden file's names, and the logits of every position.
#[derive(Default)]
struct States {
    embed: Vec<f32>,
    layer_out: Vec<f32>, // [layers][positions][hidden]
    final_norm: Vec<f32>,
    logits: Vec<f32>, // [positions][vocab]
}

fn states(model: &Model, kernels: KernelChoice, ids: &[u32]) -> States {
    let cpu = Cpu::new(Kernels::choose(kernels).unwrap(), 2, Mode::Exact).unwrap();
    let mut pool = PagePool::new(model.kv_shape(), Mode::Exact.kv_type(), 8);
    let mut table = PageTable::default();
    let mut rows = Vec::new();
    for (position, &token) in ids.iter().enumerate() {
        table.append(&mut pool, token).unwrap();
        rows.push(Row {
            sequence: 0,
            token,
            position,
            source: Some(RowSource::Prefill),
            logits: true,
        });
    }
    let mut states = States::default();
    let mut inspect = |stage: Stage, values: &[f32]| match stage {
        Stage::Embedded => states.embed.extend_from_slice(values),
        Stage::Layer(_) => states.layer_out.extend_from_slice(values),
        Stage::Normed => states.final_norm.extend_from_slice(values),
    };
    let logits = model.forward_inspected(&cpu, &mut pool, &[table.pages()], &rows, &mut inspect);
    states.logits = logits;
    states
}

fn worst_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    // Not `f32::max`, which would drop a NaN.
    differences.fold(0.0, |worst, d| if d <= worst { worst } else { d })
}

fn greedy(engine: &mut Engine, prompt: Vec<u32>, decode_max: usize) -> Vec<u32> {
    let mut record = Record::default();
    let request = Request {
        id: 1,
        session: 1,
        prompt,
        decode_max,
        ignore_eos: true,
        ..Request::default()
    };
    engine.submit(request).unwrap();
    while engine.step(&mut record).unwrap() {}
    record.tokens.remove(&1).unwrap()
}

fn agrees(model: &str) {
    for config in ["config.json", "config_v5.json"] {
        let Some((golden, copy)) = copied(model, config) else {
            return;
        };
        for (kernels, prompt) in KERNELS
            .iter()
            .flat_map(|k| PROMPTS.map(|prompt| (*k, prompt)))
        {
            let opened = Model::open(copy.path()).unwrap();
            let ids = golden.ids(&format!("{prompt}.input_ids"));
            let found = states(&opened, kernels, &ids);
            let mut worst = 0.0_f32;
            for (name, values) in [
                ("embed", &found.embed),
                ("layer_out", &found.layer_out),
                ("final_norm", &found.final_norm),
                ("logits", &found.logits),
            ] {
                let name = format!("{prompt}.{name}");
                let difference = worst_difference(values, &golden.f32(&name));
                assert!(
                    difference <= TOLERANCE,
                    "{model} {config} {kernels}: {name} differs by {difference}"
                );
                worst = worst.max(difference);
            }
            eprintln!("{model} {config} {kernels} {prompt}: worst difference {worst:e}");
            let expected = golden.ids(&format!("{prompt}.greedy_ids"));
            let mut engine = Engine::new(opened, &options(kernels, 2)).unwrap();
            assert_eq!(
                greedy(&mut engine, ids, expected.len()),
                expected,
                "{model} {prompt}"
            );
        }
    }
}

#[test]
fn llama_agrees_with_transformers() {
    agrees("llama");
}

#[test]
fn linear_rope_scaling_agrees_with_transformers() {
    agrees("llama_rope_linear");
}

#[test]
fn llama3_rope_scaling_agrees_with_transformers() {
    agrees("llama_rope_llama3");
}

#[test]
fn a_sliding_window_agrees_with_transformers() {
    agrees("mistral_swa");
}

#[test]
fn qwen2_biases_agree_with_transformers() {
    agrees("qwen2");
}

#[test]
fn qwen3_head_norms_agree_with_transformers() {
    agrees("qwen3");
}

/// Four layers with a window of 8: what is more than 28 positions back cannot be seen, on whichever page it lies.
#[test]
fn a_window_over_page_boundaries_sees_all_of_it_and_nothing_else() {
    let Some((golden, copy)) = copied("mistral_swa", "config.json") else {
        return;
    };
    let reach = 4 * (8 - 1);
    let tokens = [
        golden.ids("p1.input_ids"),
        golden.ids("p1.input_ids"),
        golden.ids("p1.input_ids"),
    ]
    .concat();
    let model = Model::open(copy.path()).unwrap();
    let mut engine = Engine::new(model, &options(KernelChoice::Auto, 2)).unwrap();
    for len in [40, 64, 65, 68, 71, 72, 80, 100, 120] {
        let mut last = |ids: &[u32]| engine.logits(ids, false).unwrap();
        let whole = last(&tokens[..len]);
        let changed = |from: usize, to: usize| {
            let mut ids = tokens[..len].to_vec();
            ids[from..to]
                .iter_mut()
                .for_each(|id| *id = (*id + 1) % 256);
            ids
        };
        let seen = len - 1 - reach;
        assert_eq!(
            bits(&last(&changed(0, seen))),
            bits(&whole),
            "{len}: sees too far"
        );
        assert_ne!(
            bits(&last(&changed(seen, seen + 1))),
            bits(&whole),
            "{len}: sees too little"
        );
        // Rotation is relative, so what is seen says the same at any place.
        let alone = worst_difference(&last(&tokens[seen..len]), &whole);
        assert!(
            alone <= TOLERANCE,
            "{len}: alone its end differs by {alone}"
        );
        eprintln!("length {len}: its end alone differs by {alone:e}");
    }
}

#[test]
fn every_other_architecture_is_refused_by_its_name() {
    let Some(folder) = shared("golden/tiny") else {
        return;
    };
    let mut refused = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !path.is_dir() || IN_SCOPE.contains(&name.as_str()) {
            continue;
        }
        for config in ["config.json", "config_v5.json"] {
            let (_, copy) = copied(&name, config).unwrap();
            let config: serde_json::Value =
                serde_json::from_slice(&std::fs::read(copy.path().join("config.json")).unwrap())
                    .unwrap();
            let model_type = config["model_type"].as_str().unwrap();
            match Model::open(copy.path()).err() {
                Some(Error::UnsupportedArchitecture(named)) => {
                    assert!(named.contains(model_type), "{name}: {named}");
                }
                other => panic!("{name}: {other:?}"),
            }
            refused += 1;
        }
    }
    assert!(refused >= 26, "only {refused} folders were tried");
}
