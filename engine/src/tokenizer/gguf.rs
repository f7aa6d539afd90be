//! The tokenizer a GGUF file's metadata describes.
//!
//! Not here: the file format (`weights::gguf`), how text is encoded (`library`, `pieces`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::library::Library;
use super::pieces::Pieces;
use super::pre::{Rule, byte_level};
use super::vocabulary::{Alphabet, Kind, Token, Vocabulary, excerpt, refuse};
use super::{Encoder, Tokenizer, late};
use crate::error::{Error, Result};
use crate::weights::gguf::Gguf;

const SCORES: &str = "tokenizer.ggml.scores";
const SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
/// Flags that would change ids or prompts in a way we do not follow.
const REFUSED_FLAGS: [&str; 3] = [
    "tokenizer.ggml.add_eos_token",
    "tokenizer.ggml.add_sep_token",
    "tokenizer.ggml.remove_extra_whitespaces",
];

pub(super) fn read(gguf: &Gguf) -> Result<Tokenizer> {
    for flag in REFUSED_FLAGS {
        refuse_flag(gguf, flag)?;
    }
    match gguf.str("tokenizer.ggml.model")? {
        "gpt2" => byte_pairs(gguf),
        "llama" => pieces(gguf),
        other => refuse(format!(
            "model `{}` is not supported; supported: gpt2 (byte-level BPE), llama (SentencePiece)",
            excerpt(other)
        )),
    }
}

fn byte_pairs(gguf: &Gguf) -> Result<Tokenizer> {
    refuse_flag(gguf, SPACE_PREFIX)?;
    let rule = Rule::named(gguf.str("tokenizer.ggml.pre")?)?;
    let vocabulary = Arc::new(Vocabulary::new(tokens(gguf)?, Alphabet::ByteLevel)?);
    let merges = gguf.texts("tokenizer.ggml.merges")?;
    check_merges(&merges, &vocabulary)?;
    let add_bos = rule.add_bos;
    let described = Arc::clone(&vocabulary);
    let definition = Arc::new(late(move || definition(&described, &merges, &rule)));
    let library = Library::new(Arc::clone(&definition), true);
    let sha256 = late(move || Sha256::digest(definition.as_bytes()).into());
    let mut tokenizer = Tokenizer::new(Encoder::Library(Box::new(library)), vocabulary, sha256);
    known_ids(gguf, &mut tokenizer, add_bos)?;
    Ok(tokenizer)
}

fn pieces(gguf: &Gguf) -> Result<Tokenizer> {
    match gguf.optional_str("tokenizer.ggml.pre")? {
        None | Some("default") => {}
        Some(other) => {
            let other = excerpt(other);
            return refuse(format!(
                "pre-tokenizer `{other}` is not one of SentencePiece; use default"
            ));
        }
    }
    if gguf.optional_str("general.architecture")? == Some("phi3") {
        return refuse(
            "the added tokens of architecture `phi3` swallow spaces after them, which is not supported"
                .to_owned(),
        );
    }
    let vocabulary = Vocabulary::new(tokens(gguf)?, Alphabet::Pieces)?;
    let scores = gguf.numbers_f32(SCORES)?;
    let space_prefix = gguf.optional_bool(SPACE_PREFIX)?.unwrap_or(true);
    let sha256 = pieces_digest(&vocabulary, &scores, space_prefix);
    let encoder = Encoder::Pieces(Pieces::new(&vocabulary, scores, space_prefix)?);
    let mut tokenizer = Tokenizer::new(encoder, Arc::new(vocabulary), late(move || sha256));
    tokenizer.strip_space = space_prefix;
    known_ids(gguf, &mut tokenizer, true)?;
    Ok(tokenizer)
}

fn refuse_flag(gguf: &Gguf, key: &str) -> Result<()> {
    match gguf.optional_bool(key)? {
        Some(true) => refuse(format!("{key} = true is not supported for this model")),
        _ => Ok(()),
    }
}

fn tokens(gguf: &Gguf) -> Result<Vec<Token>> {
    let texts = gguf.texts("tokenizer.ggml.tokens")?;
    let kinds = kinds(gguf, texts.len())?;
    let token = |(text, kind)| Token { text, kind };
    Ok(texts.into_iter().zip(kinds).map(token).collect())
}

fn kinds(gguf: &Gguf, tokens: usize) -> Result<Vec<Kind>> {
    const KEY: &str = "tokenizer.ggml.token_type";
    if gguf.entry(KEY).is_none() {
        return Ok(vec![Kind::Normal; tokens]);
    }
    let kinds = gguf.scalars(KEY, "integers 1 to 6", |value| {
        value.as_usize().and_then(Kind::from_number)
    })?;
    if kinds.len() != tokens {
        return refuse(format!(
            "{KEY} has {} entries for {tokens} tokens",
            kinds.len()
        ));
    }
    Ok(kinds)
}

/// That each merge is a pair of tokens whose join is a token.
fn check_merges(texts: &[String], vocabulary: &Vocabulary) -> Result<()> {
    let mut join = String::new();
    for (rank, merge) in texts.iter().enumerate() {
        let Some((left, right)) = merge.split_once(' ') else {
            let merge = excerpt(merge);
            return refuse(format!(
                "merge {rank} `{merge}` is not two tokens with a space between"
            ));
        };
        join.clear();
        join.extend([left, right]);
        for part in [left, right, &join] {
            if vocabulary.id(part).is_none() {
                let (merge, part) = (excerpt(merge), excerpt(part));
                return refuse(format!(
                    "merge {rank} `{merge}`: `{part}` is not in the vocabulary"
                ));
            }
        }
    }
    Ok(())
}

/// A `tokenizer.json`. Keys stand in alphabetical order whatever map `serde_json` is built with: the
/// digest of this text names the tokenizer in records.
fn definition(vocabulary: &Vocabulary, merges: &[String], rule: &Rule) -> String {
    let merges: Vec<_> = merges.iter().map(|merge| merge.split_once(' ')).collect();
    let tokens = || (0_u32..).zip(vocabulary.tokens());
    let added: Vec<Json> = tokens()
        .filter(|(_, token)| token.kind.is_added())
        .map(|(id, token)| {
            json!({"content": token.text, "id": id, "lstrip": false, "normalized": false, "rstrip": false,
                   "single_word": false, "special": token.kind.is_special()})
        })
        .collect();
    let ids: BTreeMap<&str, u32> = tokens()
        .map(|(id, token)| (token.text.as_str(), id))
        .collect();
    let mut model = json!({
        "byte_fallback": false, "continuing_subword_prefix": null, "dropout": null,
        "end_of_word_suffix": null, "fuse_unk": false,
    });
    if rule.ignore_merges {
        model["ignore_merges"] = json!(true);
    }
    model["merges"] = json!(merges);
    model["type"] = json!("BPE");
    model["unk_token"] = Json::Null;
    model["vocab"] = json!(ids);
    json!({
        "added_tokens": added, "decoder": byte_level(true), "model": model, "normalizer": null,
        "post_processor": null, "pre_tokenizer": rule.pre_tokenizer, "version": "1.0",
    })
    .to_string()
}

/// Digest of all that decides a SentencePiece encoding, each text with its length before it.
fn pieces_digest(vocabulary: &Vocabulary, scores: &[f32], space_prefix: bool) -> [u8; 32] {
    let mut sha256 = Sha256::new();
    sha256.update(b"sentencepiece");
    sha256.update([u8::from(space_prefix)]);
    for (token, score) in vocabulary.tokens().iter().zip(scores) {
        sha256.update((token.text.len() as u64).to_le_bytes());
        sha256.update(&token.text);
        sha256.update([token.kind as u8]);
        sha256.update(score.to_le_bytes());
    }
    sha256.finalize().into()
}

fn known_ids(gguf: &Gguf, tokenizer: &mut Tokenizer, add_bos_default: bool) -> Result<()> {
    let vocab = tokenizer.vocabulary.len();
    let id = |name: &str| {
        let key = format!("tokenizer.ggml.{name}_token_id");
        match gguf.optional_usize(&key)? {
            Some(id) if id >= vocab => Err(Error::BadKey {
                key,
                what: format!("id {id} is outside the vocabulary of {vocab}"),
            }),
            found => Ok(found.map(|id| id as u32)),
        }
    };
    tokenizer.bos_id = id("bos")?;
    for name in ["eos", "eot", "eom"] {
        tokenizer.ends_with(id(name)?);
    }
    let asked = gguf.optional_bool("tokenizer.ggml.add_bos_token")?;
    tokenizer.add_bos = asked.unwrap_or(add_bos_default);
    if tokenizer.add_bos && tokenizer.bos_id.is_none() {
        return Err(Error::MissingKey("tokenizer.ggml.bos_token_id".to_owned()));
    }
    Ok(())
}
