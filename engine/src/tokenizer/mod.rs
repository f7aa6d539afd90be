//! Text to token ids and back, built from a GGUF file's own metadata over the `tokenizers` crate.
//!
//! A pre-tokenizer we do not know is an error, never a guess: a wrong split changes every id after it. Not here: chat
//! templates, BOS policy beyond what the file says.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::weights::gguf::{Gguf, Value};

/// GGUF token type of ordinary tokens.
const NORMAL: usize = 1;
/// GGUF token type of control tokens.
const CONTROL: usize = 3;
/// GGUF token type of tokens a user added.
const USER_DEFINED: usize = 4;

/// A tokenizer of a model.
pub struct Tokenizer {
    /// Takes special tokens in the text as such.
    special: tokenizers::Tokenizer,
    /// Takes them as plain text.
    plain: tokenizers::Tokenizer,
    bos: Option<u32>,
    ordinary: Range<u32>,
    sha256: [u8; 32],
}

impl Tokenizer {
    /// The tokenizer a GGUF file describes.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self> {
        let model = gguf.str("tokenizer.ggml.model")?;
        if model != "gpt2" {
            return fail(format!(
                "model `{model}` is not supported; supported: gpt2 (byte-level BPE)"
            ));
        }
        let tokens = texts(gguf, "tokenizer.ggml.tokens")?;
        let types = types(gguf, tokens.len())?;
        let pairs = merges(gguf, &tokens)?;
        let json = json!({
            "version": "1.0",
            "added_tokens": added_tokens(&tokens, &types),
            "normalizer": null,
            "pre_tokenizer": pre_tokenizer(gguf.str("tokenizer.ggml.pre")?)?,
            "post_processor": null,
            "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                "vocab": vocabulary(&tokens)?, "merges": pairs,
            },
        });
        let bytes = json.to_string();
        let special = tokenizers::Tokenizer::from_bytes(&bytes)
            .map_err(|error| Error::Tokenizer(format!("the metadata builds none: {error}")))?;
        let mut plain = special.clone();
        plain.set_encode_special_tokens(true);
        let (bos, ordinary) = (bos(gguf, tokens.len())?, longest_normal_run(&types));
        Ok(Self {
            special,
            plain,
            bos,
            ordinary,
            sha256: Sha256::digest(&bytes).into(),
        })
    }

    /// Token ids of `text`, nothing added. With `special`, special tokens in the text become their ids.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let tokenizer = if special { &self.special } else { &self.plain };
        let encoding = tokenizer
            .encode_fast(text, false)
            .map_err(|error| Error::Tokenizer(format!("cannot encode: {error}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Text of `ids`, special tokens spelled out.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.special
            .decode(ids, false)
            .map_err(|error| Error::Tokenizer(format!("cannot decode: {error}")))
    }

    /// The id to put before a prompt, where the file asks for one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The longest run of ids that are neither control nor user-defined tokens.
    pub fn ordinary_ids(&self) -> Range<u32> {
        self.ordinary.clone()
    }

    /// SHA-256 of the tokenizer's definition.
    pub fn sha256(&self) -> [u8; 32] {
        self.sha256
    }
}

fn fail<T>(what: String) -> Result<T> {
    Err(Error::Tokenizer(what))
}

fn texts<'a>(gguf: &'a Gguf, key: &str) -> Result<Vec<&'a str>> {
    let wrong = || Error::BadKey {
        key: key.to_owned(),
        what: "expected strings only".to_owned(),
    };
    gguf.array(key)?
        .iter()
        .map(|value| value.as_str().ok_or_else(wrong))
        .collect()
}

fn types(gguf: &Gguf, tokens: usize) -> Result<Vec<usize>> {
    const KEY: &str = "tokenizer.ggml.token_type";
    if gguf.entry(KEY).is_none() {
        return Ok(vec![NORMAL; tokens]);
    }
    let types: Vec<usize> = gguf
        .array(KEY)?
        .iter()
        .filter_map(Value::as_usize)
        .collect();
    if types.len() != tokens {
        return fail(format!(
            "{KEY} has {} entries for {tokens} tokens",
            types.len()
        ));
    }
    Ok(types)
}

fn vocabulary(tokens: &[&str]) -> Result<serde_json::Map<String, Json>> {
    let mut vocabulary = serde_json::Map::new();
    for (id, token) in tokens.iter().enumerate() {
        if vocabulary.insert((*token).to_owned(), json!(id)).is_some() {
            return fail(format!(
                "token {id} `{token}` occurs twice in tokenizer.ggml.tokens"
            ));
        }
    }
    Ok(vocabulary)
}

/// The merges as pairs; both parts and their join must be tokens.
fn merges<'a>(gguf: &'a Gguf, tokens: &[&str]) -> Result<Vec<[&'a str; 2]>> {
    let known: HashSet<&str> = tokens.iter().copied().collect();
    let mut pairs = Vec::new();
    for (rank, merge) in texts(gguf, "tokenizer.ggml.merges")?
        .into_iter()
        .enumerate()
    {
        let Some((left, right)) = merge.split_once(' ') else {
            return fail(format!(
                "merge {rank} `{merge}` is not two tokens with a space between"
            ));
        };
        for part in [left, right, &format!("{left}{right}")] {
            if !known.contains(part) {
                return fail(format!(
                    "merge {rank} `{merge}`: `{part}` is not in the vocabulary"
                ));
            }
        }
        pairs.push([left, right]);
    }
    Ok(pairs)
}

fn added_tokens(tokens: &[&str], types: &[usize]) -> Vec<Json> {
    let added = |(id, (token, kind)): (usize, (&&str, &usize))| {
        matches!(*kind, CONTROL | USER_DEFINED).then(|| {
            json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": *kind == CONTROL})
        })
    };
    tokens
        .iter()
        .zip(types)
        .enumerate()
        .filter_map(added)
        .collect()
}

fn pre_tokenizer(name: &str) -> Result<Json> {
    match name {
        "smollm" => Ok(json!({"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": true},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        ]})),
        other => fail(format!(
            "pre-tokenizer `{other}` is not supported; supported: smollm"
        )),
    }
}

fn bos(gguf: &Gguf, tokens: usize) -> Result<Option<u32>> {
    if !gguf
        .optional_bool("tokenizer.ggml.add_bos_token")?
        .unwrap_or(false)
    {
        return Ok(None);
    }
    match gguf.usize("tokenizer.ggml.bos_token_id")? {
        id if id < tokens => Ok(Some(id as u32)),
        id => fail(format!("BOS id {id} is outside the vocabulary of {tokens}")),
    }
}

fn longest_normal_run(types: &[usize]) -> Range<u32> {
    let (mut best, mut start) = (0..0, 0);
    for end in 0..=types.len() {
        if types.get(end) != Some(&NORMAL) {
            if end - start > best.len() {
                best = start..end;
            }
            start = end + 1;
        }
    }
    best.start as u32..best.end as u32
}
