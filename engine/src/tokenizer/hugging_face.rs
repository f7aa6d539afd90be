//! The tokenizer of a Hugging Face directory: `tokenizer.json` checked part by part, then given to its own library.
//!
//! BOS and EOS come from the template of the post-processor, `tokenizer_config.json` and `generation_config.json`. Not
//! here: which parts we know (`parts`), chat templates.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use super::library::Library;
use super::parts::{self, shown};
use super::vocabulary::{Alphabet, Kind, Token, Vocabulary, excerpt, refuse};
use super::{Encoder, Tokenizer, late};
use crate::error::{Error, Result};

/// Three times the largest `tokenizer.json` of a published model (a quarter million tokens).
const BYTES_MAX: u64 = 100 << 20;

pub(super) fn read(directory: &Path) -> Result<Tokenizer> {
    let path = directory.join("tokenizer.json");
    let Some(bytes) = bytes(&path)? else {
        return refuse(format!("{} does not exist", path.display()));
    };
    let mut root = object(&path, &bytes)?;
    // Cut or padded prompts are never wanted, and what a template adds is the caller's to add.
    root.insert("truncation".to_owned(), Json::Null);
    root.insert("padding".to_owned(), Json::Null);
    let template = root
        .insert("post_processor".to_owned(), Json::Null)
        .unwrap_or_default();
    let spelling = parts::check(&root)?;
    let vocabulary = Vocabulary::new(tokens(&root, spelling.alphabet)?, spelling.alphabet)?;
    let definition = Json::Object(root).to_string();
    let library = Library::new(Arc::new(late(move || definition)), spelling.verbatim);
    library.build(&vocabulary)?; // a definition of anyone's may fail here, one made from checked parts hardly can
    let sha256 = Sha256::digest(&bytes).into();
    let encoder = Encoder::Library(Box::new(library));
    let mut tokenizer = Tokenizer::new(encoder, Arc::new(vocabulary), late(move || sha256));
    tokenizer.strip_space = spelling.strip_space;
    known_ids(directory, &template, &mut tokenizer)?;
    Ok(tokenizer)
}

fn bytes(path: &Path) -> Result<Option<Vec<u8>>> {
    let io = |source| Error::Io {
        path: path.to_owned(),
        source,
    };
    if !path.try_exists().map_err(io)? {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    if bytes.len() as u64 > BYTES_MAX {
        return refuse(format!(
            "{} has more than {BYTES_MAX} bytes",
            path.display()
        ));
    }
    Ok(Some(bytes))
}

fn object(path: &Path, bytes: &[u8]) -> Result<Map<String, Json>> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::Tokenizer(format!("{}: {error}", path.display())))
}

/// The tokens by id, without gaps: the model's, then the added ones, which may name tokens of the model.
fn tokens(root: &Map<String, Json>, alphabet: Alphabet) -> Result<Vec<Token>> {
    let none = (Map::new(), Vec::new());
    let model = root
        .get("model")
        .and_then(|model| model["vocab"].as_object());
    let added = root.get("added_tokens").and_then(Json::as_array);
    let (model, added) = (model.unwrap_or(&none.0), added.unwrap_or(&none.1));
    let mut tokens: Vec<Option<Token>> = Vec::new();
    tokens.resize_with(model.len() + added.len(), || None);
    let mut place = |id: &Json, token: Token| {
        let index = id.as_u64().and_then(|id| usize::try_from(id).ok());
        match index.and_then(|index| tokens.get_mut(index)) {
            Some(slot) if slot.as_ref().is_none_or(|other| other.text == token.text) => {
                *slot = Some(token);
                Ok(())
            }
            _ => refuse(format!(
                "token `{}` cannot have id {id}",
                excerpt(&token.text)
            )),
        }
    };
    for (text, id) in model {
        let kind = match alphabet {
            Alphabet::Pieces if text.starts_with("<0x") && text.len() == 6 => Kind::Byte,
            _ => Kind::Normal,
        };
        place(
            id,
            Token {
                text: text.clone(),
                kind,
            },
        )?;
    }
    let mut seen = HashSet::new();
    for json in added {
        let token = added_token(json)?;
        if !seen.insert(token.text.clone()) {
            return refuse(format!(
                "added token `{}` occurs twice",
                excerpt(&token.text)
            ));
        }
        place(&json["id"], token)?;
    }
    let count = tokens
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |last| last + 1);
    tokens.truncate(count);
    let gap = |(id, token): (usize, Option<Token>)| match token {
        Some(token) => Ok(token),
        None => refuse(format!("no token has id {id} of {count}")),
    };
    tokens.into_iter().enumerate().map(gap).collect()
}

/// An added token; one that swallows text around it would not spell what it was found in.
fn added_token(json: &Json) -> Result<Token> {
    let text = json["content"].as_str().unwrap_or_default();
    for flag in ["lstrip", "rstrip", "single_word"] {
        if json[flag] == true {
            let text = excerpt(text);
            return refuse(format!(
                "added token `{text}` has {flag} = true; only false is supported"
            ));
        }
    }
    let kind = if json["special"] == true {
        Kind::Control
    } else {
        Kind::UserDefined
    };
    Ok(Token {
        text: text.to_owned(),
        kind,
    })
}

fn known_ids(directory: &Path, template: &Json, tokenizer: &mut Tokenizer) -> Result<()> {
    let read = |name: &str| {
        let path = directory.join(name);
        bytes(&path)?.map_or_else(|| Ok(Map::new()), |bytes| object(&path, &bytes))
    };
    let config = read("tokenizer_config.json")?;
    let generation = read("generation_config.json")?;
    if config.get("add_eos_token") == Some(&Json::Bool(true)) {
        return refuse("add_eos_token = true is not supported".to_owned());
    }
    let named = |key: &str| match config.get(key) {
        None | Some(Json::Null) => Ok(None),
        // Some files spell the token with its flags.
        Some(token) => match token.as_str().or(token["content"].as_str()) {
            Some(text) if tokenizer.id(text).is_some() => Ok(tokenizer.id(text)),
            _ => refuse(format!("{key} {} is not in the vocabulary", shown(token))),
        },
    };
    let numbered = |key: &str| {
        let ids = match generation.get(key) {
            None | Some(Json::Null) => &[],
            Some(Json::Array(ids)) => ids.as_slice(),
            Some(id) => std::slice::from_ref(id),
        };
        let vocab = tokenizer.vocab() as u64;
        let id = |id: &Json| match id.as_u64() {
            Some(id) if id < vocab => Ok(id as u32),
            _ => refuse(format!("{key} {} is not below {vocab}", shown(id))),
        };
        ids.iter().map(id).collect::<Result<Vec<u32>>>()
    };
    let before = before_text(template, tokenizer)?;
    let bos = before
        .or(named("bos_token")?)
        .or(numbered("bos_token_id")?.first().copied());
    let ends: Vec<u32> = named("eos_token")?
        .into_iter()
        .chain(numbered("eos_token_id")?)
        .collect();
    let asked = config.get("add_bos_token").and_then(Json::as_bool);
    tokenizer.bos_id = bos;
    tokenizer.add_bos = asked.unwrap_or(before.is_some());
    for id in ends {
        tokenizer.ends_with(Some(id));
    }
    if tokenizer.add_bos && bos.is_none() {
        return refuse("add_bos_token is set, but no bos_token is named".to_owned());
    }
    Ok(())
}

/// The token a post-processor's template puts before a text, if it does nothing else.
fn before_text(template: &Json, tokenizer: &Tokenizer) -> Result<Option<u32>> {
    let steps = template["processors"]
        .as_array()
        .map_or(std::slice::from_ref(template), Vec::as_slice);
    let Some(step) = steps
        .iter()
        .find(|step| !step.is_null() && step["type"] != "ByteLevel")
    else {
        return Ok(None);
    };
    let single = step["single"].as_array().map_or(&[][..], Vec::as_slice);
    match (step["type"].as_str(), single) {
        (Some("TemplateProcessing"), [text]) if text["Sequence"].is_object() => Ok(None),
        (Some("TemplateProcessing"), [bos, text]) if text["Sequence"].is_object() => {
            let name = bos["SpecialToken"]["id"].as_str().unwrap_or_default();
            match tokenizer.id(name) {
                Some(id) => Ok(Some(id)),
                None => refuse(format!(
                    "post_processor adds {}, which is no token",
                    shown(bos)
                )),
            }
        }
        _ => refuse(format!("post_processor {} is not supported", shown(step))),
    }
}
