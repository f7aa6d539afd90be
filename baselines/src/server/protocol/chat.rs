//! OpenAI's `/v1/chat/completions`, as many others speak it too: a message in, text out.
//!
//! The service was not asked here: only its documented answers are replayed. It puts the message between words of its
//! own, so its count of the prompt is not that of the text. Reasoning comes in a field that servers call
//! `reasoning_content` or `reasoning`, or is counted and never shown.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::usage::{DONE, refused, take};
use super::{Ask, Framing, Piece, Prompt, Protocol, Said, Shape, Told, parsed};

static SHAPE: Shape = Shape {
    name: "OpenAI's chat",
    version: None,
    path: "/v1/chat/completions",
    prompt: Prompt::Message,
    framing: Framing::Events,
    key: ("authorization", "Bearer "),
    headers: &[],
    ignores_eos: false,
};

/// Such a server.
#[derive(Clone, Debug)]
pub struct Chat {
    /// The model's name there.
    pub model: String,
}

impl Protocol for Chat {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn completion(&self, ask: &Ask<'_>) -> Result<String, String> {
        let body = json!({
            "model": self.model,
            "messages": [{ "role": "user", "content": ask.text(&SHAPE)? }],
            "max_completion_tokens": ask.decode,
            "temperature": 0,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        Ok(body.to_string())
    }

    fn event(&self, text: &str, told: &mut Told) -> Result<Said, String> {
        if text == DONE {
            return Ok(Said::OVER);
        }
        let event: Event<'_> = parsed(text)?;
        refused(event.error)?;
        take(event.usage, told)?;
        let Some(choice) = event.choices.into_iter().next() else {
            return Ok(Said::NOTHING); // the last chunk has only usage
        };
        if let Some(reason) = choice.finish_reason {
            told.reason = reason;
        }
        let delta = choice.delta.unwrap_or_default();
        let reasoning = [&delta.reasoning_content, &delta.reasoning];
        let reasoning = reasoning.into_iter().flatten().find(|it| !it.is_empty());
        let piece = Piece::of_text(delta.content.as_deref(), reasoning.map(String::as_str));
        Ok(Said::piece(piece)) // the first chunk has only a role
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delta {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
}
