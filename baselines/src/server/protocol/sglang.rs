//! SGLang's own `/generate`, which takes token ids and says what it found in its cache.
//!
//! As its documentation of the native interface has it. The engine was not run here: only its documented answers are
//! replayed. A chunk repeats all ids so far unless the server was started with `--incremental-streaming-output`; its
//! count of them says which.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::usage::{DONE, refused};
use super::{Ask, Framing, Piece, Prompt, Protocol, Said, Shape, Told, parsed, quoted};

/// Where it forgets its cache (POST, no body).
pub const FLUSH: &str = "/flush_cache";

static SHAPE: Shape = Shape {
    name: "SGLang",
    version: Some("/get_server_info"),
    path: "/generate",
    prompt: Prompt::Ids("input_ids"),
    framing: Framing::Events,
    key: ("authorization", "Bearer "),
    headers: &[],
    ignores_eos: true,
};

/// Such a server.
#[derive(Clone, Copy, Debug)]
pub struct Sglang;

impl Protocol for Sglang {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn completion(&self, ask: &Ask<'_>) -> Result<String, String> {
        let body = json!({
            "input_ids": [],
            "sampling_params": {
                "max_new_tokens": ask.decode,
                "temperature": 0,
                "ignore_eos": true,
            },
            "stream": true,
        });
        Ok(body.to_string())
    }

    fn event(&self, text: &str, told: &mut Told) -> Result<Said, String> {
        if text == DONE {
            return Ok(Said::OVER);
        }
        let event: Event<'_> = parsed(text)?;
        refused(event.error)?;
        let Some(raw) = event.meta_info else {
            return Err(format!("an event has no meta_info: {}", quoted(text)));
        };
        let meta: Meta = parsed(raw.get())?;
        let before = told.answered.unwrap_or(0);
        raw.get().clone_into(&mut told.usage);
        told.prompt = meta.prompt_tokens;
        told.cached = meta.cached_tokens;
        told.computed = told
            .prompt
            .zip(told.cached)
            .and_then(|(prompt, cached)| prompt.checked_sub(cached));
        told.answered = meta.completion_tokens;
        if let Some(finish) = meta.finish_reason {
            told.reason = finish.kind;
        }
        Ok(Said::piece(match (event.output_ids, told.answered) {
            (Some(ids), Some(answered)) => Piece::of_ids(new_ids(ids, before, answered)?),
            (Some(_), None) => return Err("an event has ids and no completion_tokens".to_owned()),
            (None, Some(answered)) if answered == before => None,
            (None, _) => Piece::of_text(event.text.as_deref(), None),
        }))
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    text: Option<String>,
    output_ids: Option<Vec<u32>>,
    #[serde(borrow)]
    meta_info: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Meta {
    prompt_tokens: Option<usize>,
    completion_tokens: Option<usize>,
    cached_tokens: Option<usize>,
    finish_reason: Option<Finish>,
}

#[derive(Deserialize)]
struct Finish {
    #[serde(rename = "type")]
    kind: String,
}

/// The ids that are new in a chunk of an answer that had `before` of them and now has `answered`.
fn new_ids(mut ids: Vec<u32>, before: usize, answered: usize) -> Result<Vec<u32>, String> {
    let new = answered.checked_sub(before);
    if ids.len() == answered && new.is_some() {
        ids.drain(..before);
        return Ok(ids);
    }
    if Some(ids.len()) == new {
        return Ok(ids);
    }
    let found = ids.len();
    Err(format!(
        "completion_tokens went from {before} to {answered} in an event with {found} ids"
    ))
}

/// Whether it forgot its cache, as the answer to [`FLUSH`] says. It does not while requests run.
pub fn flushed(answer: &str) -> Result<(), String> {
    if answer.starts_with("Cache flushed.") {
        return Ok(());
    }
    let said = quoted(answer);
    Err(format!("{FLUSH}: the cache was not flushed: {said}"))
}
