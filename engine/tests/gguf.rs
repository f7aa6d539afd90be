//! GGUF files from hostile hands: whatever is wrong is a typed error that says where, never a panic.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

use std::path::Path;

use engine::weights::gguf::Gguf;
use engine::weights::gguf::write::{OutTensor, text_entry, u32_entry, write};
use engine::{Error, Model};

fn f32_tensor(name: &str, shape: &[usize]) -> OutTensor {
    let len = shape.iter().product::<usize>();
    let bytes = (0..len)
        .flat_map(|i| (i as f32 * 0.01).sin().to_le_bytes())
        .collect();
    OutTensor {
        name: name.to_owned(),
        shape: shape.to_vec(),
        type_number: 0,
        bytes,
    }
}

fn text_array(key: &str, values: &[&str]) -> Vec<u8> {
    let mut entry = text_entry(key, "");
    entry.truncate(8 + key.len());
    entry.extend_from_slice(&9_u32.to_le_bytes());
    entry.extend_from_slice(&8_u32.to_le_bytes());
    entry.extend_from_slice(&(values.len() as u64).to_le_bytes());
    for value in values {
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
        entry.extend_from_slice(value.as_bytes());
    }
    entry
}

fn f32_entry(key: &str, value: f32) -> Vec<u8> {
    let mut entry = u32_entry(key, value.to_bits());
    entry[8 + key.len()] = 6;
    entry
}

/// A whole one-layer Llama of width 32; optional keys are left out on purpose.
fn tiny(entries: &mut Vec<Vec<u8>>, tensors: &mut Vec<OutTensor>) {
    for (key, value) in [
        ("llama.block_count", 1),
        ("llama.context_length", 64),
        ("llama.embedding_length", 32),
        ("llama.feed_forward_length", 64),
        ("llama.attention.head_count", 4),
        ("tokenizer.ggml.eos_token_id", 1),
    ] {
        entries.push(u32_entry(key, value));
    }
    entries.push(text_entry("general.architecture", "llama"));
    entries.push(f32_entry("llama.attention.layer_norm_rms_epsilon", 1e-5));
    entries.push(text_entry("tokenizer.ggml.model", "gpt2"));
    entries.push(text_entry("tokenizer.ggml.pre", "smollm"));
    entries.push(text_array("tokenizer.ggml.tokens", &["a", "b", "ab", "c"]));
    entries.push(text_array("tokenizer.ggml.merges", &["a b"]));
    tensors.push(f32_tensor("token_embd.weight", &[32, 4]));
    tensors.push(f32_tensor("output_norm.weight", &[32]));
    for (name, shape) in [
        ("attn_norm", &[32][..]),
        ("attn_q", &[32, 32]),
        ("attn_k", &[32, 32]),
        ("attn_v", &[32, 32]),
        ("attn_output", &[32, 32]),
        ("ffn_norm", &[32]),
        ("ffn_gate", &[32, 64]),
        ("ffn_up", &[32, 64]),
        ("ffn_down", &[64, 32]),
    ] {
        tensors.push(f32_tensor(&format!("blk.0.{name}.weight"), shape));
    }
}

fn built(change: impl Fn(&mut Vec<Vec<u8>>, &mut Vec<OutTensor>)) -> Vec<u8> {
    let (mut entries, mut tensors, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    tiny(&mut entries, &mut tensors);
    change(&mut entries, &mut tensors);
    write(&mut bytes, &entries, &tensors).unwrap();
    bytes
}

fn open(directory: &Path, bytes: &[u8]) -> Result<Model, Error> {
    let path = directory.join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    Model::open_gguf(&path)
}

/// Puts `new` in the place of the entry with its key.
fn replace(entries: &mut [Vec<u8>], new: Vec<u8>) {
    let key_len = 8 + u64::from_le_bytes(new[..8].try_into().unwrap()) as usize;
    let entry = entries
        .iter_mut()
        .find(|entry| entry[..key_len] == new[..key_len])
        .unwrap();
    *entry = new;
}

#[test]
fn absent_optional_keys_take_the_formats_defaults() {
    let directory = tempfile::tempdir().unwrap();
    let model = open(directory.path(), &built(|_, _| {})).unwrap();
    let config = model.config();
    assert!((config.rope_base - 10_000.0).abs() < f32::EPSILON);
    assert_eq!((config.heads.kv, config.heads.head_dim), (4, 8));
    let tokenizer = model.tokenizer().unwrap();
    assert_eq!(tokenizer.bos(), None);
    assert_eq!(tokenizer.encode("abc", false).unwrap(), [2, 3]);
}

#[test]
fn every_truncation_is_a_typed_error() {
    let directory = tempfile::tempdir().unwrap();
    let whole = built(|_, _| {});
    for len in (0..whole.len()).step_by(7) {
        assert!(
            open(directory.path(), &whole[..len]).is_err(),
            "accepted {len} of {} bytes",
            whole.len()
        );
    }
}

#[test]
fn no_flipped_header_byte_panics() {
    let directory = tempfile::tempdir().unwrap();
    let whole = built(|_, _| {});
    let header = 1400.min(whole.len());
    for position in 0..header {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[position] ^= flip;
            // Some flips rename a general key and are harmless; none may panic or hang.
            let _ = open(directory.path(), &bytes);
        }
    }
    assert!(open(directory.path(), &whole).is_ok());
}

type Change = fn(&mut Vec<Vec<u8>>, &mut Vec<OutTensor>);

/// What is done to the tensors of a good file, and what the refusal must say.
const TENSOR_LIES: [(Change, &str); 9] = [
    (
        |_, t| t[3].type_number = 12,
        "tensor `blk.0.attn_q.weight` has type Q4_K",
    ),
    (|_, t| t[3].type_number = 999, "number 999"),
    (
        |_, t| t[3].shape = vec![1 << 40, 1 << 40],
        "is not whole F32 blocks",
    ),
    (
        |_, t| t[3].shape = vec![64, 16],
        "the architecture needs [32, 32]",
    ),
    (|_, t| t[3].shape = vec![0], "dimension of 0"),
    (|_, t| t[3].shape = vec![1; 5], "5 dimensions"),
    (
        |_, t| drop(t.remove(3)),
        "tensor `blk.0.attn_q.weight` is missing",
    ),
    (|_, t| t[4].name = t[3].name.clone(), "occurs twice"),
    (
        |_, t| t.push(f32_tensor("blk.0.attn_q.bias", &[32])),
        "`blk.0.attn_q.bias` is not part",
    ),
];

/// The same for metadata.
const KEY_LIES: [(Change, &str); 7] = [
    (
        |e, _| e.push(u32_entry("llama.block_count", 1)),
        "`llama.block_count` occurs twice",
    ),
    (
        |e, _| replace(e, u32_entry("llama.block_count", 0)),
        "must be 1 to",
    ),
    (
        |e, _| replace(e, text_entry("general.architecture", "gpt9")),
        "`gpt9`",
    ),
    (
        |e, _| replace(e, text_entry("tokenizer.ggml.pre", "x")),
        "pre-tokenizer `x`",
    ),
    (
        |e, _| replace(e, text_array("tokenizer.ggml.merges", &["b a"])),
        "`ba` is not in",
    ),
    (
        |e, _| e.push(u32_entry("general.alignment", 3)),
        "power of two",
    ),
    (
        |e, _| e.push(text_entry("llama.rope.scaling.type", "yarn")),
        "`yarn` is not supported",
    ),
];

#[test]
fn lies_about_shape_type_and_keys_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    for (change, expected) in TENSOR_LIES.into_iter().chain(KEY_LIES) {
        let error = open(directory.path(), &built(change))
            .err()
            .expect(expected)
            .to_string();
        assert!(
            error.contains(expected),
            "{error} should mention {expected}"
        );
    }
}

#[test]
fn forged_counts_are_refused_before_anything_is_allocated() {
    let directory = tempfile::tempdir().unwrap();
    let header = |tensors: u64, keys: u64| {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend_from_slice(&tensors.to_le_bytes());
        bytes.extend_from_slice(&keys.to_le_bytes());
        bytes
    };
    let mut long_key = header(0, 1);
    long_key.extend_from_slice(&u64::MAX.to_le_bytes());
    let mut nested = header(0, 1);
    nested.extend_from_slice(&text_entry("k", "")[..9]);
    nested.extend_from_slice(&9_u32.to_le_bytes());
    for _ in 0..100_000 {
        nested.extend_from_slice(&9_u32.to_le_bytes());
        nested.extend_from_slice(&1_u64.to_le_bytes());
    }
    for (bytes, expected) in [
        (header(u64::MAX, 0), "tensor count"),
        (header(0, u64::MAX), "key count"),
        (long_key, "is believed"),
        (nested, "nest deeper"),
        (b"GGUF\x09\0\0\0".to_vec(), "version 9"),
        (b"GGML".to_vec(), "does not begin"),
        (Vec::new(), ""),
    ] {
        let error = open(directory.path(), &bytes)
            .err()
            .expect(expected)
            .to_string();
        assert!(
            error.contains(expected),
            "{error} should mention {expected}"
        );
    }
}

#[test]
fn a_quantised_copy_keeps_metadata_and_rounds_as_ggml_does() {
    let directory = tempfile::tempdir().unwrap();
    let (input, output) = (
        directory.path().join("in.gguf"),
        directory.path().join("out.gguf"),
    );
    std::fs::write(
        &input,
        built(|entries, _| entries.push(u32_entry("general.file_type", 0))),
    )
    .unwrap();
    let report = engine::quantize_gguf(&input, &output).unwrap();
    assert_eq!((report.converted, report.copied), (8, 3));
    let (before, after) = (Gguf::open(&input).unwrap(), Gguf::open(&output).unwrap());
    assert_eq!(before.keys(), after.keys());
    assert_eq!(after.usize("general.file_type").unwrap(), 7);
    assert_eq!(
        after.tensor("blk.0.attn_norm.weight").unwrap().2,
        before.tensor("blk.0.attn_norm.weight").unwrap().2
    );
    Model::open_gguf(&output).unwrap();
    let again = engine::quantize_gguf(&input, &output)
        .unwrap_err()
        .to_string();
    assert!(again.contains("exists"), "{again}");
}
