//! Ollama's `/api/generate`, raw: text in, text out, a line of JSON per piece.
//!
//! The engine was not run here: only its documented answers are replayed. It takes no ids and says none, so nothing of
//! its answers can be scored; it cannot be asked to go on past the end of a text. What it says of a prompt depends on its
//! version: older ones count only what they evaluated, and leave the count out (or say 0) when all was cached; all of them
//! cut a prompt that does not fit the context, say 200 and count what was left. So a count that differs from what was
//! sent is refused (`answer`), and one that is missing or 0 says nothing.

use serde::Deserialize;
use serde_json::json;

use super::{Ask, Framing, Piece, Prompt, Protocol, Said, Shape, Told, parsed, quoted};

static SHAPE: Shape = Shape {
    name: "Ollama",
    version: Some("/api/version"),
    path: "/api/generate",
    prompt: Prompt::Text,
    framing: Framing::Lines,
    key: ("authorization", "Bearer "),
    headers: &[],
    ignores_eos: false,
};

/// Such a server.
#[derive(Clone, Debug)]
pub struct Ollama {
    /// The model's name there.
    pub model: String,
    /// Positions of its context, the same in every request: another number loads the model anew.
    pub context_positions: usize,
}

impl Protocol for Ollama {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn completion(&self, ask: &Ask<'_>) -> Result<String, String> {
        let needed = ask.ids.len() + ask.decode;
        let available = self.context_positions;
        if needed > available {
            return Err(format!(
                "prompt and answer have {needed} positions and num_ctx is {available}: Ollama would cut the prompt and \
                 say nothing; raise num_ctx"
            ));
        }
        let body = json!({
            "model": self.model,
            "prompt": ask.text(&SHAPE)?,
            "raw": true,
            "stream": true,
            "options": { "num_predict": ask.decode, "num_ctx": available, "temperature": 0 },
        });
        Ok(body.to_string())
    }

    fn event(&self, text: &str, told: &mut Told) -> Result<Said, String> {
        let line: Line = parsed(text)?;
        if let Some(error) = line.error {
            return Err(format!("it refuses: {}", quoted(&error)));
        }
        if line.done {
            text.clone_into(&mut told.usage);
            told.reason = line.done_reason.unwrap_or_else(|| "unknown".to_owned());
            told.prompt = line.prompt_eval_count.filter(|count| *count > 0);
            told.answered = line.eval_count;
        }
        Ok(Said {
            piece: Piece::of_text(line.response.as_deref(), line.thinking.as_deref()),
            over: line.done,
        })
    }
}

#[derive(Deserialize)]
struct Line {
    response: Option<String>,
    thinking: Option<String>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<usize>,
    eval_count: Option<usize>,
    error: Option<String>,
}
