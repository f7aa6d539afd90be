//! GGUF files from hostile hands: whatever is wrong is a typed error that says where, never a panic.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use std::path::Path;

use common::{options, overwrite};
use engine::backend::RopeScaling;
use engine::weights::TensorSource;
use engine::weights::file::ModelFile;
use engine::weights::gguf::Gguf;
use engine::weights::gguf::write::{
    OutTensor, f32_entry, text_entry, texts_entry, u32_entry, write,
};
use engine::{Engine, Error, KernelChoice, Model, NullSink, Request};

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
    entries.push(texts_entry("tokenizer.ggml.tokens", &["a", "b", "ab", "c"]));
    entries.push(texts_entry("tokenizer.ggml.merges", &["a b"]));
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
    overwrite(&path, bytes);
    Model::open_gguf(&path)
}

/// Puts `new` in the place of the entry with its key.
fn replace(entries: &mut [Vec<u8>], new: Vec<u8>) {
    let key_len = 8 + u64::from_le_bytes(new[..8].try_into().unwrap()) as usize;
    let entry = entries
        .iter_mut()
        .find(|entry| entry.starts_with(&new[..key_len]))
        .unwrap();
    *entry = new;
}

#[test]
fn absent_optional_keys_take_the_formats_defaults() {
    let directory = tempfile::tempdir().unwrap();
    let model = open(directory.path(), &built(|_, _| {})).unwrap();
    let config = model.config();
    assert!((config.rope_base - 10_000.0).abs() < f64::EPSILON);
    assert_eq!(config.rope_scaling, RopeScaling::None);
    assert_eq!((config.tied, config.window), (true, None));
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
const KEY_LIES: [(Change, &str); 20] = [
    (
        |e, _| e.push(u32_entry("llama.block_count", 1)),
        "`llama.block_count` occurs twice",
    ),
    (
        |e, _| replace(e, u32_entry("llama.block_count", 0)),
        "must be 1 to",
    ),
    (
        |e, _| replace(e, u32_entry("llama.block_count", 1_000_000_000)),
        "`llama.block_count`: is 1000000000",
    ),
    (
        |e, _| replace(e, u32_entry("llama.block_count", 1024)),
        "tensor `blk.1.attn_norm.weight` is missing",
    ),
    (
        |e, _| replace(e, u32_entry("llama.embedding_length", 1 << 24)),
        "the architecture needs [16777216, 4]",
    ),
    (
        |e, _| replace(e, u32_entry("llama.attention.head_count", 0)),
        "`llama.attention.head_count`: is 0",
    ),
    (
        |e, _| e.push(u32_entry("llama.attention.head_count_kv", 3)),
        "4 query heads are no multiple of 3",
    ),
    (
        |e, _| e.push(u32_entry("llama.attention.key_length", 7)),
        "heads of 7 dimensions",
    ),
    (
        |e, _| e.push(u32_entry("llama.attention.sliding_window", 16)),
        "`llama.attention.sliding_window`: is 16",
    ),
    (
        |e, _| e.push(u32_entry("llama.rope.dimension_count", 4)),
        "`llama.rope.dimension_count`: is 4",
    ),
    (
        |e, _| e.push(u32_entry("llama.expert_count", 8)),
        "`llama.expert_count`: is 8",
    ),
    (
        |e, _| e.push(f32_entry("llama.logit_scale", 0.5)),
        "`llama.logit_scale`: nothing here reads it",
    ),
    (
        |e, _| e.push(u32_entry("split.count", 2)),
        "split over 2 files",
    ),
    (
        |e, _| e.push(f32_entry("llama.rope.freq_base", f32::NAN)),
        "a rotary base of NaN",
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
        |e, _| replace(e, texts_entry("tokenizer.ggml.merges", &["b a"])),
        "`ba` is not in",
    ),
    (
        |e, _| e.push(u32_entry("general.alignment", 3)),
        "power of two",
    ),
    (
        |e, _| e.push(text_entry("llama.rope.scaling.type", "longrope")),
        "`longrope` is not supported",
    ),
    (
        |e, _| e.push(text_entry("llama.rope.scaling.type", "yarn")),
        "`llama.rope.scaling.factor` is missing",
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
fn a_file_that_shrinks_while_open_is_an_error_and_not_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    std::fs::write(&path, built(|_, _| {})).unwrap();
    let gguf = Gguf::open(&path).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(2048).unwrap();
    for error in [
        gguf.tensor("blk.0.ffn_down.weight")
            .unwrap()
            .values()
            .unwrap_err(),
        gguf.sha256().unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(error.contains("it shrank while read"), "{error}");
    }
}

#[test]
fn a_long_context_sizes_nothing_at_load() {
    let directory = tempfile::tempdir().unwrap();
    let context = |e: &mut Vec<Vec<u8>>, _: &mut Vec<OutTensor>| {
        replace(e, u32_entry("llama.context_length", 1 << 24));
    };
    let before = common::peak_bytes();
    let model = open(directory.path(), &built(context)).unwrap();
    assert_eq!(model.context_length(), 1 << 24);
    // A table of that many positions would hold half a gigabyte: eight 4-byte values for each.
    match (before, common::peak_bytes()) {
        (Some(before), Some(after)) => assert!(after - before < 128 << 20, "{before} to {after}"),
        _ => common::skip("this system does not tell a process's peak memory"),
    }
}

#[test]
fn nothing_is_allocated_for_bytes_the_file_never_had() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("short");
    std::fs::write(&path, [1, 2, 3]).unwrap();
    let file = ModelFile::open(&path).unwrap();
    assert_eq!(file.read_at(1, 2).unwrap(), [2, 3]);
    for (offset, len) in [(0, usize::MAX), (u64::MAX, 1), (3, 1)] {
        assert!(file.read_at(offset, len).is_err(), "{len} from {offset}");
    }
    assert!(ModelFile::open(directory.path()).is_err());
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
    let array_of = |element: u32, len: u64| {
        let mut bytes = header(0, 1);
        bytes.extend_from_slice(&text_entry("k", "")[..9]);
        bytes.extend_from_slice(&9_u32.to_le_bytes());
        bytes.extend_from_slice(&element.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&[0xff; 64]);
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
        (array_of(4, 1 << 40), "array length"),
        (array_of(4, 1000), "the file ends inside an array"),
        (array_of(8, 1000), "a string value"),
        (array_of(13, 1), "value type 13 is unknown"),
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
fn an_array_is_decoded_when_asked_for_and_only_as_what_it_holds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let mut torn = texts_entry("torn", &["ok", "xy"]);
    *torn.last_mut().unwrap() = 0xff;
    let entries = [texts_entry("words", &["one", "", "zwölf"]), torn];
    let mut bytes = Vec::new();
    write(&mut bytes, &entries, &[]).unwrap();
    overwrite(&path, &bytes);
    let gguf = Gguf::open(&path).unwrap();
    assert_eq!(gguf.array("words").unwrap().len(), 3);
    assert_eq!(gguf.texts("words").unwrap(), ["one", "", "zwölf"]);
    for (error, expected) in [
        (gguf.numbers_f32("words").unwrap_err(), "numbers only"),
        (gguf.texts("torn").unwrap_err(), "is not UTF-8"),
        (gguf.texts("none").unwrap_err(), "`none` is missing"),
    ] {
        let error = error.to_string();
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
    let report = engine::quantize_gguf(&input, &output, engine::DType::Q8_0).unwrap();
    assert_eq!((report.converted, report.copied), (8, 3));
    let (before, after) = (Gguf::open(&input).unwrap(), Gguf::open(&output).unwrap());
    assert_eq!(before.keys(), after.keys());
    assert_eq!(after.usize("general.file_type").unwrap(), 7);
    let norm = |gguf: &Gguf| {
        let norm = gguf.tensor("blk.0.attn_norm.weight").unwrap();
        norm.bytes.all().unwrap().into_owned()
    };
    assert_eq!(norm(&after), norm(&before));
    Model::open_gguf(&output).unwrap();
    let again = engine::quantize_gguf(&input, &output, engine::DType::Q8_0)
        .unwrap_err()
        .to_string();
    assert!(again.contains("exists"), "{again}");
}

#[test]
fn a_weight_that_is_not_finite_is_a_typed_error_on_every_kernel() {
    let directory = tempfile::tempdir().unwrap();
    for bad in [f32::NAN, f32::INFINITY] {
        let bytes = built(|_, tensors| tensors[4].bytes[..4].copy_from_slice(&bad.to_le_bytes()));
        for kernels in [KernelChoice::Scalar, KernelChoice::Auto] {
            let model = open(directory.path(), &bytes).unwrap();
            let mut engine = Engine::new(model, &options(kernels, 1)).unwrap();
            let prompt = vec![0, 1, 2];
            engine
                .submit(Request {
                    id: 5,
                    prompt,
                    decode_max: 2,
                    ..Request::default()
                })
                .unwrap();
            let error = engine.step(&mut NullSink).unwrap_err();
            assert!(
                matches!(error, Error::NonFinite { request: 5, .. }),
                "{error}"
            );
        }
    }
}
