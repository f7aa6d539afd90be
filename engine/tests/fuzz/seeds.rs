//! Small valid files that the targets damage: a one-layer Llama as GGUF and as a hub directory, tokenizers, templates.
//!
//! Not here: real models; their headers would hide a field among thousands.

use engine::weights::gguf::write::{OutTensor, text_entry, u32_entry, write};
use serde_json::{Value, json};

const HIDDEN: usize = 32;
const FEED_FORWARD: usize = 64;
const TOKENS: [&str; 6] = ["a", "b", "ab", "c", "Ġ", "<|end|>"];
const CHAT: &str = "{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}";

/// Name as GGUF and as the hub spell it, and shape, innermost first.
type Shape = (&'static str, &'static str, &'static [usize]);

const TENSORS: [Shape; 12] = [
    ("token_embd", "model.embed_tokens", &[HIDDEN, TOKENS.len()]),
    ("output_norm", "model.norm", &[HIDDEN]),
    ("output", "lm_head", &[HIDDEN, TOKENS.len()]),
    (
        "blk.0.attn_norm",
        "model.layers.0.input_layernorm",
        &[HIDDEN],
    ),
    (
        "blk.0.attn_q",
        "model.layers.0.self_attn.q_proj",
        &[HIDDEN, HIDDEN],
    ),
    (
        "blk.0.attn_k",
        "model.layers.0.self_attn.k_proj",
        &[HIDDEN, HIDDEN],
    ),
    (
        "blk.0.attn_v",
        "model.layers.0.self_attn.v_proj",
        &[HIDDEN, HIDDEN],
    ),
    (
        "blk.0.attn_output",
        "model.layers.0.self_attn.o_proj",
        &[HIDDEN, HIDDEN],
    ),
    (
        "blk.0.ffn_norm",
        "model.layers.0.post_attention_layernorm",
        &[HIDDEN],
    ),
    (
        "blk.0.ffn_gate",
        "model.layers.0.mlp.gate_proj",
        &[HIDDEN, FEED_FORWARD],
    ),
    (
        "blk.0.ffn_up",
        "model.layers.0.mlp.up_proj",
        &[HIDDEN, FEED_FORWARD],
    ),
    (
        "blk.0.ffn_down",
        "model.layers.0.mlp.down_proj",
        &[FEED_FORWARD, HIDDEN],
    ),
];

fn values(shape: &[usize]) -> Vec<u8> {
    let count: usize = shape.iter().product();
    let value = |i: usize| (i as f32 * 0.37).sin().to_le_bytes();
    (0..count).flat_map(value).collect()
}

/// Type 9 is an array; `element` is the type of its `count` elements, spelled in `bytes`.
fn array_entry(key: &str, element: u32, count: usize, bytes: &[u8]) -> Vec<u8> {
    let mut entry = u32_entry(key, element);
    let type_at = 8 + key.len();
    entry[type_at..type_at + 4].copy_from_slice(&9_u32.to_le_bytes());
    entry.extend_from_slice(&(count as u64).to_le_bytes());
    entry.extend_from_slice(bytes);
    entry
}

fn texts(key: &str, texts: &[String]) -> Vec<u8> {
    let spell = |text: &String| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let bytes: Vec<u8> = texts.iter().flat_map(spell).collect();
    array_entry(key, 8, texts.len(), &bytes)
}

fn numbers(key: &str, element: u32, numbers: impl ExactSizeIterator<Item = u32>) -> Vec<u8> {
    let count = numbers.len();
    let bytes: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
    array_entry(key, element, count, &bytes)
}

/// A vocabulary as GGUF lists it: texts, types (1 normal, 2 unknown, 3 control, 6 byte).
type Tokens = (Vec<String>, Vec<u32>);

/// Byte-level BPE: every byte by the letter GPT-2 gave it.
fn byte_level() -> Tokens {
    let printable = |b: &u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut letters: Vec<char> = (0..=255).filter(printable).map(char::from).collect();
    letters.extend((0x100..0x100 + 68).filter_map(char::from_u32));
    let mut tokens: Vec<String> = letters.iter().map(char::to_string).collect();
    tokens.extend(["ab".to_owned(), "<|end|>".to_owned()]);
    (tokens, [vec![1; 257], vec![3]].concat())
}

/// SentencePiece with byte fallback.
fn sentence_piece() -> Tokens {
    let mut tokens = vec!["<unk>".to_owned(), "<s>".to_owned(), "</s>".to_owned()];
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(["▁", "a", "b", "ab", "▁a"].map(str::to_owned));
    (tokens, [vec![2, 3, 3], vec![6; 256], vec![1; 5]].concat())
}

fn tokenizer_entries(model: &str, pre: &str, (tokens, kinds): &Tokens) -> Vec<Vec<u8>> {
    let scores = (0..tokens.len()).map(|id| (-(id as f32)).to_bits());
    let last = tokens.len() as u32 - 1;
    vec![
        text_entry("general.architecture", "llama"),
        text_entry("tokenizer.ggml.model", model),
        text_entry("tokenizer.ggml.pre", pre),
        texts("tokenizer.ggml.tokens", tokens),
        texts("tokenizer.ggml.merges", &["a b".to_owned()]),
        numbers("tokenizer.ggml.token_type", 5, kinds.iter().copied()),
        numbers("tokenizer.ggml.scores", 6, scores),
        u32_entry("tokenizer.ggml.bos_token_id", 1),
        u32_entry("tokenizer.ggml.eos_token_id", last),
        text_entry("tokenizer.chat_template", CHAT),
    ]
}

fn model_entries() -> Vec<Vec<u8>> {
    let mut epsilon = u32_entry("llama.attention.layer_norm_rms_epsilon", 1e-5_f32.to_bits());
    let type_at = epsilon.len() - 8;
    epsilon[type_at] = 6;
    let numbers = [
        ("general.alignment", 32),
        ("llama.block_count", 1),
        ("llama.context_length", 64),
        ("llama.embedding_length", HIDDEN as u32),
        ("llama.feed_forward_length", FEED_FORWARD as u32),
        ("llama.attention.head_count", 4),
        ("llama.attention.head_count_kv", 4),
        ("llama.rope.dimension_count", 8),
    ];
    let numbers = numbers.map(|(key, value)| u32_entry(key, value));
    [numbers.to_vec(), vec![epsilon]].concat()
}

/// A whole model; its vocabulary is small, so that most of the file is header.
pub(crate) fn gguf() -> Vec<Vec<u8>> {
    let tensor = |(name, _, shape): &Shape| OutTensor {
        name: format!("{name}.weight"),
        shape: shape.to_vec(),
        type_number: 0,
        bytes: values(shape),
    };
    let tensors: Vec<OutTensor> = TENSORS.iter().map(tensor).collect();
    let tokens = (TOKENS.map(str::to_owned).to_vec(), vec![1, 1, 1, 1, 1, 3]);
    let entries = [model_entries(), tokenizer_entries("gpt2", "gpt-2", &tokens)].concat();
    let mut bytes = Vec::new();
    write(&mut bytes, &entries, &tensors).unwrap();
    vec![bytes]
}

/// Metadata of a tokenizer of each kind and no tensors.
pub(crate) fn gguf_metadata() -> Vec<Vec<u8>> {
    let file = |model: &str, pre: &str, tokens: &Tokens| {
        let mut bytes = Vec::new();
        write(&mut bytes, &tokenizer_entries(model, pre, tokens), &[]).unwrap();
        bytes
    };
    vec![
        file("gpt2", "gpt-2", &byte_level()),
        file("llama", "default", &sentence_piece()),
    ]
}

/// A safetensors file of the same model.
pub(crate) fn safetensors() -> Vec<Vec<u8>> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (_, name, shape) in TENSORS {
        let start = data.len();
        data.extend(values(shape));
        let outermost_first: Vec<usize> = shape.iter().rev().copied().collect();
        let entry =
            json!({"dtype": "F32", "shape": outermost_first, "data_offsets": [start, data.len()]});
        header.insert(format!("{name}.weight"), entry);
    }
    let header = Value::from(header).to_string();
    vec![
        [
            &(header.len() as u64).to_le_bytes(),
            header.as_bytes(),
            &data,
        ]
        .concat(),
    ]
}

/// Configurations that fit it, plain and with a scaled rotary embedding.
pub(crate) fn configs() -> Vec<Vec<u8>> {
    let config = |scaling: Value| {
        json!({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": TOKENS.len(),
            "hidden_size": HIDDEN, "intermediate_size": FEED_FORWARD, "num_hidden_layers": 1,
            "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8, "hidden_act": "silu",
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "rope_scaling": scaling, "tie_word_embeddings": false, "eos_token_id": [5], "torch_dtype": "float32",
        })
    };
    let scalings = [
        Value::Null,
        json!({"rope_type": "linear", "factor": 2.0}),
        json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}),
        json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
    ];
    let text = |scaling| config(scaling).to_string().into_bytes();
    scalings.into_iter().map(text).collect()
}

/// Byte-level BPE in the hub's format.
pub(crate) fn tokenizers() -> Vec<Vec<u8>> {
    let (tokens, _) = byte_level();
    let ids = tokens.into_iter().zip(0..);
    let vocabulary: serde_json::Map<String, Value> =
        ids.map(|(token, id)| (token, Value::from(id))).collect();
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{"id": 257, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
                          "normalized": false, "special": true}],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": vocabulary, "merges": [["a", "b"]]},
    });
    vec![json.to_string().into_bytes()]
}

/// The templates of the rendering cases.
pub(crate) fn templates() -> Vec<Vec<u8>> {
    let cases: Value = serde_json::from_str(include_str!("../data/template_cases.json")).unwrap();
    let cases = cases["cases"].as_array().unwrap().iter();
    cases
        .map(|case| case["template"].as_str().unwrap().as_bytes().to_vec())
        .collect()
}
