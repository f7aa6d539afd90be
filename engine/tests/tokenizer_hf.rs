//! Tokenizers of Hugging Face directories: the ids transformers gives, or a typed error that says why.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{shared, smollm2};
use engine::weights::gguf::Gguf;
use engine::{Error, Tokenizer};
use serde_json::{Value as Json, json};

/// A small `tokenizer.json`.
fn definition() -> Json {
    let token = |id: u32, content: &str, special: bool| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": special})
    };
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true});
    json!({
        "version": "1.0", "truncation": {"max_length": 1, "strategy": "LongestFirst", "stride": 0,
        "direction": "Right"}, "padding": null, "normalizer": null, "pre_tokenizer": byte_level.clone(),
        "added_tokens": [token(3, "<s>", true), token(4, "</s>", true), token(5, "<u>", false)],
        "post_processor": {"type": "TemplateProcessing", "single":
            [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {}},
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    })
}

fn from_hf(files: &[(&str, &Json)]) -> Result<Tokenizer, Error> {
    let directory = tempfile::tempdir().unwrap();
    for (name, json) in files {
        std::fs::write(directory.path().join(name), json.to_string()).unwrap();
    }
    Tokenizer::from_hf(directory.path())
}

#[test]
fn a_hugging_face_directory_gives_ids_and_ends() {
    let definition = definition();
    let tokenizer = from_hf(&[("tokenizer.json", &definition)]).unwrap();
    // The file's truncation to one token is for training; a prompt is never cut.
    assert_eq!(tokenizer.encode("abab<u>", false).unwrap(), [2, 2, 5]);
    assert_eq!(tokenizer.encode("ab</s>", true).unwrap(), [2, 4]);
    assert!(
        tokenizer.encode("<s>", false).is_err(),
        "this vocabulary has no token for `<`"
    );
    assert_eq!((tokenizer.bos(), tokenizer.eos_id()), (Some(3), None));
    let config =
        json!({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": false});
    let generation = json!({"bos_token_id": 0, "eos_token_id": [5, 4]});
    let files = [
        ("tokenizer.json", &definition),
        ("tokenizer_config.json", &config),
        ("generation_config.json", &generation),
    ];
    let tokenizer = from_hf(&files).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.bos_id()), (None, Some(3)));
    assert_eq!(tokenizer.eos_ids(), [4, 5]);
}

#[test]
fn configs_that_name_unknown_tokens_are_refused() {
    let definition = definition();
    for (name, lie, expected) in [
        (
            "tokenizer_config.json",
            json!({"eos_token": "<x>"}),
            "eos_token \"<x>\" is not in",
        ),
        (
            "tokenizer_config.json",
            json!({"eos_token": 4}),
            "eos_token 4 is not in",
        ),
        ("tokenizer_config.json", json!([]), "tokenizer_config.json"),
        (
            "generation_config.json",
            json!({"eos_token_id": 6}),
            "eos_token_id 6 is not below 6",
        ),
        (
            "generation_config.json",
            json!({"eos_token_id": [-1]}),
            "-1 is not below",
        ),
    ] {
        let error = from_hf(&[("tokenizer.json", &definition), (name, &lie)])
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
fn parts_of_a_tokenizer_json_we_do_not_know_are_refused() {
    for (pointer, lie, expected) in [
        ("/version", json!("2.0"), "version"),
        ("/model/type", json!("Unigram"), "model type \"Unigram\""),
        ("/model/dropout", json!(0.5), "model.dropout = 0.5"),
        (
            "/model/continuing_subword_prefix",
            json!("##"),
            "continuing_subword_prefix",
        ),
        ("/model/vocab/ab", json!(7), "`ab` cannot have id 7"),
        ("/model/vocab/ab", json!(-1), "`ab` cannot have id -1"),
        ("/model/vocab/ab", json!(1), "cannot have id 1"),
        ("/model/vocab/ab", json!(3), "cannot have id 3"),
        ("/model/vocab", json!({}), "`<s>` cannot have id 3"),
        ("/model/merges", json!(["b a"]), "ba"),
        (
            "/model/merges",
            json!([["a", "b", "ab"]]),
            "definition builds none",
        ),
        ("/normalizer", json!({"type": "Lowercase"}), "Lowercase"),
        (
            "/pre_tokenizer/add_prefix_space",
            json!(true),
            "pre_tokenizer",
        ),
        (
            "/pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated",
            "invert": false}),
            "pre_tokenizer",
        ),
        ("/decoder", Json::Null, "decoder null"),
        (
            "/added_tokens/0",
            json!({"id": 0, "content": "a"}),
            "no token has id 3 of 6",
        ),
        ("/added_tokens/0/rstrip", json!(true), "`<s>` has rstrip"),
        ("/added_tokens/0/id", json!(9), "`<s>` cannot have id 9"),
        ("/added_tokens/0/content", json!("</s>"), "occurs twice"),
        ("/added_tokens/2/content", json!(""), "token 5 is empty"),
        (
            "/post_processor/single/0/SpecialToken/id",
            json!("<x>"),
            "is no token",
        ),
        (
            "/post_processor/type",
            json!("BertProcessing"),
            "post_processor",
        ),
    ] {
        let mut definition = definition();
        *definition.pointer_mut(pointer).unwrap() = lie;
        let error = from_hf(&[("tokenizer.json", &definition)])
            .err()
            .expect(expected)
            .to_string();
        assert!(
            error.contains(expected),
            "{pointer}: {error} should mention {expected}"
        );
    }
}

#[test]
fn a_directory_without_a_tokenizer_says_which_file_is_missing() {
    let error = from_hf(&[]).err().unwrap().to_string();
    assert!(error.contains("does not exist"), "{error}");
}

#[test]
fn no_damaged_tokenizer_json_panics() {
    let directory = tempfile::tempdir().unwrap();
    let whole = definition().to_string().into_bytes();
    let open = |bytes: &[u8]| {
        std::fs::write(directory.path().join("tokenizer.json"), bytes).unwrap();
        Tokenizer::from_hf(directory.path())
    };
    for len in 0..whole.len() {
        assert!(
            open(&whole[..len]).is_err(),
            "accepted {len} of {} bytes",
            whole.len()
        );
    }
    for position in 0..whole.len() {
        for flip in [0x01, 0x03, 0x10, 0x80] {
            let mut bytes = whole.clone();
            bytes[position] ^= flip;
            // Many flips rename a token and are harmless; whatever opens must also run.
            if let Ok(tokenizer) = open(&bytes) {
                let _ = tokenizer.encode("ab <s> ba</s><u>", true);
            }
        }
    }
    let mut nested = b"[".repeat(1 << 20);
    nested.extend(b"]".repeat(1 << 20));
    assert!(open(&nested).is_err());
    assert!(open(&whole).is_ok());
}

#[test]
fn the_published_tokenizer_json_gives_the_ids_of_transformers_and_of_the_gguf_file() {
    let files = [
        shared("golden/real/tokenizer.json"),
        shared("golden/real/tokenizer_cases.json"),
        smollm2(),
    ];
    let [Some(json), Some(cases), Some(model)] = files else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(json, directory.path().join("tokenizer.json")).unwrap();
    let tokenizer = Tokenizer::from_hf(directory.path()).unwrap();
    let from_gguf = Tokenizer::from_gguf(&Gguf::open(&model).unwrap()).unwrap();
    let cases: Json = serde_json::from_slice(&std::fs::read(cases).unwrap()).unwrap();
    let cases = cases["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 80);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let ids = tokenizer.encode(text, true).unwrap();
        assert_eq!(json!(ids), case["ids"], "{text:?}");
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        assert_eq!(
            tokenizer.encode(text, false).unwrap(),
            from_gguf.encode(text, false).unwrap()
        );
    }
    assert_eq!(tokenizer.ordinary_ids(), from_gguf.ordinary_ids());
}

/// The `tokenizer.json` that transformers makes of a SentencePiece model: merges are all pairs of
/// tokens that make a token, best score first.
fn converted(gguf: &Gguf, tokenizer: &Tokenizer) -> Json {
    let scores = gguf.numbers_f32("tokenizer.ggml.scores").unwrap();
    let mut merges = Vec::new();
    for id in 259..tokenizer.vocab() as u32 {
        let text = tokenizer.token(id).unwrap();
        for (at, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(at);
            if tokenizer.id(left).is_some() && tokenizer.id(right).is_some() {
                let score = scores[id as usize];
                merges.push((-score, [left.to_owned(), right.to_owned()]));
            }
        }
    }
    merges.sort_by(|a, b| a.0.total_cmp(&b.0));
    let merges: Vec<[String; 2]> = merges.into_iter().map(|(_, pair)| pair).collect();
    let vocab: serde_json::Map<String, Json> = (0..tokenizer.vocab() as u32)
        .map(|id| (tokenizer.token(id).unwrap().to_owned(), json!(id)))
        .collect();
    let mut json = definition();
    json["added_tokens"] = json!([]);
    json["post_processor"] = Json::Null;
    json["pre_tokenizer"] = Json::Null;
    json["normalizer"] = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u{2581}"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]});
    json["decoder"] = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
    json["model"]["byte_fallback"] = json!(true);
    json["model"]["unk_token"] = json!("<unk>");
    json["model"]["merges"] = json!(merges);
    json["model"]["vocab"] = Json::Object(vocab);
    json
}

#[test]
fn sentencepiece_from_hugging_face_agrees_with_llama_cpp() {
    let vocabulary = |end| {
        shared(&format!(
            "tokenizers/ggml-vocab/ggml-vocab-llama-spm.gguf{end}"
        ))
    };
    let (Some(path), Some(inputs)) = (vocabulary(""), vocabulary(".inp")) else {
        return;
    };
    let gguf = Gguf::open(&path).unwrap();
    let from_gguf = Tokenizer::from_gguf(&gguf).unwrap();
    let tokenizer = from_hf(&[("tokenizer.json", &converted(&gguf, &from_gguf))]).unwrap();
    for text in std::fs::read_to_string(inputs)
        .unwrap()
        .split("\n__ggml_vocab_test__\n")
    {
        let ids = from_gguf.encode(text, false).unwrap();
        assert_eq!(tokenizer.encode(text, false).unwrap(), ids, "{text:?}");
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
    }
}
