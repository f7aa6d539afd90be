//! How byte-level BPE cuts text before merging: the rules we know, by their GGUF names.
//!
//! A wrong cut changes every id after it, so a name or a pattern not listed here is refused, never guessed. Not here:
//! SentencePiece, which does not cut.

use serde_json::{Value as Json, json};

use super::vocabulary::{excerpt, refuse};
use crate::error::Result;

/// Digits up to three together (Llama 3's `tokenizer.json`).
const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Digits one by one (Qwen 2's and 3's `tokenizer.json`).
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The patterns a `tokenizer.json` may cut by.
pub(super) const PATTERNS: [&str; 2] = [LLAMA_3, QWEN_2];

/// What a name under `tokenizer.ggml.pre` stands for.
pub(super) struct Rule {
    /// In the `tokenizers` crate's terms.
    pub(super) pre_tokenizer: Json,
    /// A whole word that is a token is taken as it is, merges or not.
    pub(super) ignore_merges: bool,
    /// BOS goes first where the file does not say.
    pub(super) add_bos: bool,
}

impl Rule {
    pub(super) fn named(name: &str) -> Result<Self> {
        let (cut, is_llama_3) = match name {
            "gpt-2" => (vec![byte_level(true)], false),
            "smollm" => {
                let digits = json!({"individual_digits": true, "type": "Digits"});
                (vec![digits, byte_level(true)], false)
            }
            "qwen2" => (vec![split(QWEN_2), byte_level(false)], false),
            "llama-bpe" | "llama3" | "llama-v3" => (vec![split(LLAMA_3), byte_level(false)], true),
            other => {
                return refuse(format!(
                    "pre-tokenizer `{}` is not supported; supported: gpt-2, smollm, qwen2, llama-bpe",
                    excerpt(other)
                ));
            }
        };
        Ok(Self {
            pre_tokenizer: json!({"pretokenizers": cut, "type": "Sequence"}),
            ignore_merges: is_llama_3,
            add_bos: is_llama_3,
        })
    }
}

/// Bytes as characters; with `cut`, also GPT-2's own pattern.
pub(super) fn byte_level(cut: bool) -> Json {
    json!({"add_prefix_space": false, "trim_offsets": true, "type": "ByteLevel", "use_regex": cut})
}

fn split(pattern: &str) -> Json {
    json!({"behavior": "Isolated", "invert": false, "pattern": {"Regex": pattern}, "type": "Split"})
}
