//! Anthropic's `/v1/messages`: a message in, text out, with reads of its cache and writes to it counted apart.
//!
//! The service was not asked here: only its documented answers are replayed. Its `input_tokens` leave out what was read
//! from the cache and what was written to it; the prompt is all three, and unknown where one of them is.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Ask, Framing, Piece, Prompt, Protocol, Said, Shape, Told, parsed, quoted};

static SHAPE: Shape = Shape {
    name: "Anthropic's messages",
    version: None,
    path: "/v1/messages",
    prompt: Prompt::Message,
    framing: Framing::Events,
    key: ("x-api-key", ""),
    headers: &[("anthropic-version", "2023-06-01")],
    ignores_eos: false,
};

/// Such a server.
#[derive(Clone, Debug)]
pub struct Anthropic {
    /// The model's name there.
    pub model: String,
}

impl Protocol for Anthropic {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn completion(&self, ask: &Ask<'_>) -> Result<String, String> {
        let content = json!([{
            "type": "text",
            "text": ask.text(&SHAPE)?,
            "cache_control": { "type": "ephemeral" },
        }]);
        let body = json!({
            "model": self.model,
            "messages": [{ "role": "user", "content": content }],
            "max_tokens": ask.decode,
            "temperature": 0,
            "stream": true,
        });
        Ok(body.to_string())
    }

    fn event(&self, text: &str, told: &mut Told) -> Result<Said, String> {
        let event: Event<'_> = parsed(text)?;
        let delta = event.delta.unwrap_or_default();
        match event.kind {
            "message_start" => take(event.message.and_then(|message| message.usage), told)?,
            "content_block_delta" => {
                let piece = Piece::of_text(delta.text.as_deref(), delta.thinking.as_deref());
                return Ok(Said::piece(piece));
            }
            "message_delta" => {
                if let Some(reason) = delta.stop_reason {
                    told.reason = match reason.as_str() {
                        "max_tokens" => "length".to_owned(),
                        _ => reason,
                    };
                }
                take(event.usage, told)?;
            }
            "message_stop" => return Ok(Said::OVER),
            "error" => {
                let error = event.error.map_or("", RawValue::get);
                return Err(format!("it refuses: {}", quoted(error)));
            }
            _ => {} // pings, and whatever comes to be
        }
        Ok(Said::NOTHING)
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    delta: Option<Delta>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Delta {
    text: Option<String>,
    thinking: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(rename = "input_tokens")]
    fresh: Option<usize>,
    #[serde(rename = "cache_read_input_tokens")]
    cached: Option<usize>,
    #[serde(rename = "cache_creation_input_tokens")]
    written: Option<usize>,
    #[serde(rename = "output_tokens")]
    answered: Option<usize>,
}

/// Takes what a `usage` field says. Later ones count from the beginning too, and leave out what has not changed.
fn take(usage: Option<&RawValue>, told: &mut Told) -> Result<(), String> {
    let Some(usage) = usage else { return Ok(()) };
    let raw = usage.get();
    let Some(usage) = parsed::<Option<Usage>>(raw)? else {
        return Ok(());
    };
    told.usage = match told.usage.lines().next() {
        Some(first) => format!("{first}\n{raw}"),
        None => raw.to_owned(),
    };
    told.cached = usage.cached.or(told.cached);
    told.written = usage.written.or(told.written);
    told.answered = usage.answered.or(told.answered);
    if let Some(fresh) = usage.fresh {
        told.computed = told.written.and_then(|written| fresh.checked_add(written));
    }
    told.prompt = told
        .computed
        .zip(told.cached)
        .and_then(|(computed, cached)| computed.checked_add(cached));
    Ok(())
}
