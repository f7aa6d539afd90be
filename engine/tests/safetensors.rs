//! Hub directories from hostile hands: whatever is wrong is a typed error that says where, never a panic.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use std::path::Path;

use common::{bits, options, overwrite, shared};
use engine::model::Config;
use engine::weights::hub::Hub;
use engine::weights::quantize::encode;
use engine::weights::safetensors::Safetensors;
use engine::{DType, Engine, Error, KernelChoice, Model};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

fn config() -> Json {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "vocab_size": 4,
        "tie_word_embeddings": true, "eos_token_id": [1, 2],
    })
}

/// Names and shapes of the model `config` describes.
const TENSORS: [(&str, &[usize]); 11] = [
    ("model.embed_tokens.weight", &[4, 8]),
    ("model.norm.weight", &[8]),
    ("model.layers.0.input_layernorm.weight", &[8]),
    ("model.layers.0.self_attn.q_proj.weight", &[8, 8]),
    ("model.layers.0.self_attn.k_proj.weight", &[4, 8]),
    ("model.layers.0.self_attn.v_proj.weight", &[4, 8]),
    ("model.layers.0.self_attn.o_proj.weight", &[8, 8]),
    ("model.layers.0.post_attention_layernorm.weight", &[8]),
    ("model.layers.0.mlp.gate_proj.weight", &[8, 8]),
    ("model.layers.0.mlp.up_proj.weight", &[8, 8]),
    ("model.layers.0.mlp.down_proj.weight", &[8, 8]),
];

/// A file of f32 tensors, a header of pairs so that a test may repeat a name.
fn file(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let (mut entries, mut end) = (Vec::new(), 0);
    for (name, shape) in tensors {
        let begin = end;
        end += 4 * shape.iter().product::<usize>();
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, end]});
        entries.push(format!("{}:{entry}", json!(name)));
    }
    let data: Vec<u8> = (0..end / 4)
        .flat_map(|i| (i as f32).sin().to_le_bytes())
        .collect();
    raw(&format!("{{{}}}", entries.join(",")), &data)
}

fn raw(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn directory(config: &Json, weights: &[u8]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    std::fs::write(directory.path().join("model.safetensors"), weights).unwrap();
    directory
}

fn refuses(error: Option<Error>, expected: &str) {
    let error = error.expect(expected).to_string();
    assert!(
        error.contains(expected),
        "{error} should mention {expected}"
    );
}

fn open_file(bytes: &[u8]) -> Result<Safetensors, Error> {
    open_in(tempfile::tempdir().unwrap().path(), bytes)
}

/// As `open_file` where a test opens thousands.
fn open_in(directory: &Path, bytes: &[u8]) -> Result<Safetensors, Error> {
    let path = directory.join("model.safetensors");
    overwrite(&path, bytes);
    Safetensors::open(&path)
}

#[test]
fn a_directory_loads_and_its_digest_covers_every_file_read() {
    let first = directory(&config(), &file(&TENSORS));
    let model = Model::open(first.path()).unwrap();
    assert_eq!((model.vocab(), model.eos_ids()), (4, vec![1]));
    assert!(model.tokenizer().is_none() && model.chat_template().is_none());
    let again = directory(&config(), &file(&TENSORS));
    assert_eq!(
        Model::open(again.path()).unwrap().sha256().unwrap(),
        model.sha256().unwrap()
    );
    let template = json!({"chat_template": [{"name": "default", "template": "{{ x }}"}]});
    let path = again.path().join("tokenizer_config.json");
    std::fs::write(path, template.to_string()).unwrap();
    let templated = Model::open(again.path()).unwrap();
    assert_eq!(templated.chat_template(), Some("{{ x }}"));
    assert_ne!(templated.sha256().unwrap(), model.sha256().unwrap());
    std::fs::write(again.path().join("chat_template.jinja"), "{{ y }}").unwrap();
    assert_eq!(
        Model::open(again.path()).unwrap().chat_template(),
        Some("{{ y }}")
    );
}

#[test]
fn a_model_whose_files_changed_since_it_was_read_has_no_digest() {
    let held = directory(&config(), &file(&TENSORS));
    let model = Model::open(held.path()).unwrap();
    let path = held.path().join("config.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + "\n").unwrap();
    let error = model.sha256().unwrap_err().to_string();
    assert!(
        error.contains("config.json") && error.contains("changed"),
        "{error}"
    );
}

#[test]
fn the_three_element_types_mean_the_same_numbers() {
    let answers = [DType::F32, DType::F16, DType::BF16].map(|dtype| {
        let (mut entries, mut data) = (Vec::new(), Vec::new());
        for (name, shape) in TENSORS {
            // Quarters up to one are exact in all three.
            let values = (0..shape.iter().product()).map(|i: usize| (i * 5 % 9) as f32 / 4.0 - 1.0);
            let begin = data.len();
            data.extend(encode(dtype, &values.collect::<Vec<f32>>()));
            let (dtype, offsets) = (dtype.to_string(), [begin, data.len()]);
            let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
            entries.push(format!("{}:{entry}", json!(name)));
        }
        let directory = directory(
            &config(),
            &raw(&format!("{{{}}}", entries.join(",")), &data),
        );
        let model = Model::open(directory.path()).unwrap();
        let mut engine = Engine::new(model, &options(KernelChoice::Auto, 1)).unwrap();
        bits(&engine.logits(&[3, 1, 2], true).unwrap())
    });
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

#[test]
fn a_tokenizer_in_the_directory_comes_along() {
    let Some(tokenizer) = shared("golden/real/tokenizer.json") else {
        return;
    };
    let with_vocabulary = |vocab: usize| {
        let mut config = config();
        config["vocab_size"] = json!(vocab);
        let shape = [vocab, 8];
        let mut tensors = TENSORS.to_vec();
        tensors[0].1 = &shape;
        let directory = directory(&config, &file(&tensors));
        std::fs::copy(&tokenizer, directory.path().join("tokenizer.json")).unwrap();
        Model::open(directory.path())
    };
    let model = with_vocabulary(49_152).unwrap();
    let ids = model.tokenizer().unwrap().encode("Hello", false).unwrap();
    assert_eq!(ids, [19_556]);
    refuses(
        with_vocabulary(49_151).err(),
        "49152 tokens for a vocabulary of 49151",
    );
}

#[test]
fn every_truncation_is_a_typed_error() {
    let directory = tempfile::tempdir().unwrap();
    let whole = file(&TENSORS);
    for len in 0..whole.len() {
        assert!(
            open_in(directory.path(), &whole[..len]).is_err(),
            "accepted {len} of {} bytes",
            whole.len()
        );
    }
    assert!(open_in(directory.path(), &whole).is_ok());
}

#[test]
fn no_flipped_header_byte_panics() {
    let directory = tempfile::tempdir().unwrap();
    let whole = file(&TENSORS);
    for position in 0..whole.len() - 4 * 100 {
        for flip in [0x01, 0x10, 0x80] {
            let mut bytes = whole.clone();
            bytes[position] ^= flip;
            // A flip may rename a tensor and be harmless here; none may panic or hang.
            let _ = open_in(directory.path(), &bytes);
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(header in "[\\{\\}\\[\\]\",:0-9a-zA-Z_ ]{0,80}", data in prop::collection::vec(any::<u8>(), 0..16)) {
        let _ = open_file(&raw(&header, &data));
        let _ = open_file(&data);
    }
}

#[test]
fn lies_in_a_header_are_refused() {
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#""a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
    };
    let good = entry("F32", "[2]", "[0,8]");
    let deep = "[".repeat(100_000);
    for (entries, expected) in [
        (format!("{good},{good}"), "`a` occurs twice"),
        (entry("F32", "[2]", "[0,16]"), "these disagree"),
        (entry("F16", "[2]", "[0,8]"), "these disagree"),
        (entry("F32", "[2]", "[8,0]"), "these disagree"),
        (
            entry("F32", "[4611686018427387904,4]", "[0,0]"),
            "these disagree",
        ),
        (
            entry("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"),
            "these disagree",
        ),
        (
            entry("F32", "[1]", "[0,4]"),
            "cover 4 bytes; the data has 8",
        ),
        (
            entry("F32", "[1]", "[4,8]"),
            "leaves a gap after what ends at 0",
        ),
        (
            entry("F32", "[4]", "[0,16]"),
            "cover 16 bytes; the data has 8",
        ),
        (good.replace("\"a\"", "\"b\"") + "," + &good, "overlaps"),
        (entry("F64", "[1]", "[0,8]"), "tensor `a` has type F64"),
        (entry("Q9", "[1]", "[0,8]"), "tensor `a` has type Q9"),
        (entry("F32", "[-2]", "[0,8]"), "line 1 column"),
        (entry("F32", "[1e30]", "[0,8]"), "line 1 column"),
        (entry("F32", "2", "[0,8]"), "line 1 column"),
        (entry("F32", "[2]", "[0,8,9]"), "line 1 column"),
        (
            r#""a":{"dtype":"F32","shape":[2]}"#.to_owned(),
            "data_offsets",
        ),
        (format!(r#""a":{{"dtype":{deep}"#), "line 1 column"),
        (format!(r#""__metadata__":{{"x":{deep}"#), "line 1 column"),
    ] {
        refuses(
            open_file(&raw(&format!("{{{entries}}}"), &[0; 8])).err(),
            expected,
        );
    }
    refuses(open_file(&raw("[]", &[])).err(), "an object of tensors");
    refuses(
        open_file(&u64::MAX.to_le_bytes()).err(),
        "a header of 18446744073709551615 bytes",
    );
    let mut long = ((1_u64 << 24) + 1).to_le_bytes().to_vec();
    long.resize(long.len() + (1 << 24) + 1, b' ');
    refuses(open_file(&long).err(), "at most 16777216");
}

#[test]
fn metadata_and_stored_rotary_tables_are_passed_over() {
    let mut tensors = TENSORS.to_vec();
    tensors.push(("model.layers.0.self_attn.rotary_emb.inv_freq", &[2]));
    let bytes = file(&tensors);
    let header_end = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[9..header_end]).unwrap();
    let header = format!(r#"{{"__metadata__":{{"format":"pt"}},{header}"#);
    let directory = directory(&config(), &raw(&header, &bytes[header_end..]));
    assert!(Model::open(directory.path()).is_ok());
}

#[test]
fn a_tied_model_ignores_a_stored_head_and_an_untied_one_needs_it() {
    let mut untied = config();
    untied["tie_word_embeddings"] = json!(false);
    let path = directory(&untied, &file(&TENSORS));
    refuses(
        Model::open(path.path()).err(),
        "tensor `output.weight` is missing",
    );
    let mut tensors = TENSORS.to_vec();
    tensors.push(("lm_head.weight", &[4, 8]));
    for config in [config(), untied] {
        let path = directory(&config, &file(&tensors));
        assert!(Model::open(path.path()).is_ok());
    }
}

/// What a setting is changed to, as JSON, and what the refusal must say.
const SETTINGS: [(&str, &str, &str); 26] = [
    (
        "num_hidden_layers",
        "1000000000",
        "num_hidden_layers`: is 1000000000",
    ),
    (
        "num_hidden_layers",
        "1024",
        "`blk.1.attn_norm.weight` is missing",
    ),
    ("num_hidden_layers", "-1", "expected an unsigned integer"),
    ("num_attention_heads", "0", "num_attention_heads`: is 0"),
    ("num_key_value_heads", "0", "num_key_value_heads`: is 0"),
    ("num_attention_heads", "3", "the architecture needs [8, 6]"),
    ("num_key_value_heads", "3", "no multiple of 3"),
    ("head_dim", "3", "heads of 3 dimensions"),
    (
        "head_dim",
        "16777216",
        "the architecture needs [8, 33554432]",
    ),
    ("hidden_size", "\"8\"", "found a string"),
    (
        "hidden_size",
        "1048576",
        "the architecture needs [1048576, 4]",
    ),
    (
        "vocab_size",
        "18446744073709551615",
        "vocab_size`: is 18446744073709551615",
    ),
    (
        "max_position_embeddings",
        "null",
        "max_position_embeddings` is missing",
    ),
    ("rms_norm_eps", "-1.0", "a norm epsilon of -1"),
    (
        "eos_token_id",
        "\"2\"",
        "an id or a list of them, found a string",
    ),
    ("eos_token_id", "4", "end-of-text id 4 is outside"),
    ("hidden_act", "\"gelu\"", "activation `gelu`"),
    ("attention_bias", "true", "attention_bias`: biases of llama"),
    ("mlp_bias", "true", "mlp_bias`: biases of llama"),
    ("quantization_config", "{}", "quantised checkpoints"),
    ("partial_rotary_factor", "0.5", "rotated whole"),
    (
        "rope_scaling",
        "{\"type\": \"su\"}",
        "`su` is not supported",
    ),
    ("rope_scaling", "[]", "expected an object, found an array"),
    (
        "layer_types",
        "[\"sliding_attention\"]",
        "sliding_attention",
    ),
    ("model_type", "\"gpt9\"", "`gpt9 (LlamaForCausalLM)`"),
    (
        "architectures",
        "[\"LlamaForSequenceClassification\"]",
        "LlamaForSequence",
    ),
];

#[test]
fn lies_in_a_configuration_are_refused_by_name() {
    for (key, value, expected) in SETTINGS {
        let mut config = config();
        config[key] = serde_json::from_str(value).unwrap();
        refuses(
            Model::open(directory(&config, &file(&TENSORS)).path()).err(),
            expected,
        );
    }
    for json in ["[1]", "null", "{}", r#"{"architectures": []}"#] {
        assert!(
            Config::from_hub(&serde_json::from_str(json).unwrap()).is_err(),
            "{json}"
        );
    }
    let deep = tempfile::tempdir().unwrap();
    std::fs::write(deep.path().join("config.json"), "[".repeat(1 << 20)).unwrap();
    refuses(Model::open(deep.path()).err(), "recursion limit");
}

#[test]
fn windows_are_taken_only_where_the_family_uses_them() {
    let with = |model_type: &str, class: &str, settings: &[(&str, Json)]| {
        let mut config = config();
        config["model_type"] = json!(model_type);
        config["architectures"] = json!([class]);
        for (key, value) in settings {
            config[*key] = value.clone();
        }
        Config::from_hub(&config).map(|config| config.window)
    };
    let window = |size: u64| ("sliding_window", json!(size));
    let mistral = |settings: &[_]| with("mistral", "MistralForCausalLM", settings).unwrap();
    assert_eq!(mistral(&[window(8)]), Some(8));
    assert_eq!(mistral(&[("sliding_window", json!(null))]), None);
    assert_eq!(mistral(&[]), Some(4096));
    let qwen = |settings: &[_]| with("qwen2", "Qwen2ForCausalLM", settings);
    assert_eq!(
        qwen(&[window(8), ("use_sliding_window", json!(false))]).unwrap(),
        None
    );
    refuses(
        qwen(&[window(8), ("use_sliding_window", json!(true))]).err(),
        "use_sliding_window",
    );
}

/// The tensors in two files with the index `change` makes of the right one.
fn sharded(change: impl Fn(&mut Json)) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut map = json!({});
    for (name, tensors) in [
        ("one.safetensors", &TENSORS[..4]),
        ("two.safetensors", &TENSORS[4..]),
    ] {
        std::fs::write(path(name), file(tensors)).unwrap();
        for (tensor, _) in tensors {
            map[*tensor] = json!(name);
        }
    }
    change(&mut map);
    let index = json!({"metadata": {"total_size": 1}, "weight_map": map});
    std::fs::write(path("model.safetensors.index.json"), index.to_string()).unwrap();
    std::fs::write(path("config.json"), config().to_string()).unwrap();
    directory
}

#[test]
fn shards_load_as_one_and_a_lying_index_is_refused() {
    assert!(Model::open(sharded(|_| ()).path()).is_ok());
    let refused = |change: fn(&mut Json), expected: &str| {
        refuses(Hub::open(sharded(change).path()).err(), expected);
    };
    let name = "model.norm.weight";
    assert_eq!(TENSORS[1].0, name);
    refused(
        |map| map["model.norm.weight"] = json!("three.safetensors"),
        "three.safetensors",
    );
    refused(
        |map| map["model.norm.weight"] = json!("two.safetensors"),
        "`model.norm.weight` in two",
    );
    refused(
        |map| map["model.norm.weight"] = json!("../one.safetensors"),
        "not a file of this",
    );
    refused(
        |map| map["model.norm.weight"] = json!("/etc/hostname"),
        "not a file of this",
    );
    refused(
        |map| map["model.norm.weight"] = json!(""),
        "not a file of this",
    );
    refused(
        |map| map["model.norm.weight"] = json!(7),
        "invalid type: integer `7`, expected a string",
    );
    refused(
        |map| map["x"] = json!("one.safetensors"),
        "lists `x` in one.safetensors",
    );
    refused(
        |map| drop(map.as_object_mut().unwrap().remove("model.norm.weight")),
        "does not list",
    );
    refused(|map| *map = json!({}), "names 0 files");
    refused(
        |map| *map = json!([]),
        "invalid type: sequence, expected a map",
    );
    let twice = sharded(|_| ());
    let bytes = file(&[TENSORS[4], TENSORS[0]]);
    std::fs::write(twice.path().join("two.safetensors"), bytes).unwrap();
    refuses(
        Hub::open(twice.path()).err(),
        "`model.embed_tokens.weight` is in one.safetensors too",
    );
    refuses(Hub::open(Path::new("nowhere")).err(), "nowhere");
}
