//! Which parts of a `tokenizer.json` we know: any that could change ids or text unseen is refused by name.
//!
//! Not here: tokens and ids (`hugging_face`), running the parts (`library`).

use serde_json::{Map, Value as Json};

use super::pre::PATTERNS;
use super::vocabulary::{Alphabet, SPACE_MARK, excerpt, refuse};
use crate::error::Result;

/// What the parts say about the text tokens stand for.
pub(super) struct Spelling {
    pub(super) alphabet: Alphabet,
    /// Decoding drops a space at the very start.
    pub(super) strip_space: bool,
    /// Tokens spell the text itself, not a normalised one.
    pub(super) verbatim: bool,
}

/// Refuses what we do not know.
pub(super) fn check(root: &Map<String, Json>) -> Result<Spelling> {
    let part = |name: &str| root.get(name).unwrap_or(&Json::Null);
    check_model(part("model"))?;
    let normalizers = "NFC, Prepend and Replace of the space mark";
    each(
        part("normalizer"),
        "normalizer",
        normalizers,
        is_known_normalizer,
    )?;
    let cuts = "ByteLevel without prefix space, Digits, Metaspace, Split by the patterns of Llama 3 or Qwen 2";
    each(part("pre_tokenizer"), "pre_tokenizer", cuts, is_known_cut)?;
    let decoder = part("decoder");
    if decoder["type"] == "ByteLevel" {
        let verbatim = part("normalizer").is_null();
        let alphabet = Alphabet::ByteLevel;
        return Ok(Spelling {
            alphabet,
            strip_space: false,
            verbatim,
        });
    }
    if decoder["type"] != "Sequence" || part("model")["byte_fallback"] != true {
        let decoder = shown(decoder);
        return refuse(format!(
            "decoder {decoder} is not supported; supported: ByteLevel, Sequence with byte fallback"
        ));
    }
    let decoders = "Replace of the space mark, ByteFallback, Fuse, Strip of one space at the start";
    each(decoder, "decoder", decoders, is_known_decoder)?;
    let strips = |step: &Json| step["type"] == "Strip";
    Ok(Spelling {
        alphabet: Alphabet::Pieces,
        strip_space: steps(decoder).iter().any(strips),
        verbatim: false,
    })
}

fn check_model(model: &Json) -> Result<()> {
    // Files of GPT-2's time name no type.
    if !matches!(model["type"].as_str(), Some("BPE") | None) {
        let kind = shown(&model["type"]);
        return refuse(format!(
            "model type {kind} is not supported; supported: BPE"
        ));
    }
    for name in ["continuing_subword_prefix", "end_of_word_suffix", "dropout"] {
        let value = &model[name];
        if !(value.is_null() || value == "" || value.as_f64() == Some(0.0)) {
            let value = shown(value);
            return refuse(format!(
                "model.{name} = {value} is not supported; supported: null"
            ));
        }
    }
    Ok(())
}

fn is_known_normalizer(step: &Json) -> bool {
    match step["type"].as_str() {
        Some("NFC") => true,
        Some("Prepend") => is_mark(&step["prepend"]),
        Some("Replace") => step["pattern"]["String"] == " " && is_mark(&step["content"]),
        _ => false,
    }
}

fn is_known_cut(step: &Json) -> bool {
    match step["type"].as_str() {
        Some("ByteLevel") => step["add_prefix_space"] == false,
        Some("Digits") => true,
        Some("Metaspace") => is_mark(&step["replacement"]),
        Some("Split") => {
            let pattern = step["pattern"]["Regex"].as_str();
            let isolated = step["behavior"] == "Isolated" && step["invert"] == false;
            isolated && pattern.is_some_and(|pattern| PATTERNS.contains(&pattern))
        }
        _ => false,
    }
}

fn is_known_decoder(step: &Json) -> bool {
    match step["type"].as_str() {
        Some("ByteFallback" | "Fuse") => true,
        Some("Replace") => is_mark(&step["pattern"]["String"]) && step["content"] == " ",
        Some("Strip") => step["content"] == " " && step["start"] == 1 && step["stop"] == 0,
        _ => false,
    }
}

fn each(part: &Json, name: &str, supported: &str, is_known: fn(&Json) -> bool) -> Result<()> {
    match steps(part).iter().find(|step| !is_known(step)) {
        Some(step) => {
            let step = shown(step);
            refuse(format!(
                "{name} {step} is not supported; supported: {supported}"
            ))
        }
        None => Ok(()),
    }
}

/// The steps of a part: those of a sequence, the part itself, or none.
fn steps(part: &Json) -> &[Json] {
    let inner = ["normalizers", "pretokenizers", "decoders"]
        .into_iter()
        .find_map(|name| part[name].as_array());
    match inner {
        Some(steps) if part["type"] == "Sequence" => steps,
        _ if part.is_null() => &[],
        _ => std::slice::from_ref(part),
    }
}

fn is_mark(value: &Json) -> bool {
    let text = value.as_str();
    text.is_some_and(|text| text.chars().eq([SPACE_MARK]))
}

/// The beginning of a value, for a message.
pub(super) fn shown(value: &Json) -> String {
    excerpt(&value.to_string()).to_owned()
}
