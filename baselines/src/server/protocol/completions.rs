//! Servers with OpenAI's `/v1/completions` that take token ids; vLLM among them, its cache's reset and its counters.
//!
//! As vLLM 0.32 documents it (`return_token_ids`, `ignore_eos`, `stream_options`). The engine was not run here: only its
//! documented answers are replayed. A vLLM says what it found in its cache if started with
//! `--enable-prompt-tokens-details`, and some versions then leave out a 0; it forgets its cache when asked at [`RESET`]
//! if started with `VLLM_SERVER_DEV_MODE=1`, and does not say whether it did.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::usage::{DONE, refused, take};
use super::{Ask, Framing, Piece, Prompt, Protocol, Said, Shape, Told, parsed};

/// Where vLLM forgets its cache (POST, no body).
pub const RESET: &str = "/reset_prefix_cache";
/// Where vLLM counts what it found (GET).
pub const METRICS: &str = "/metrics";

static VLLM: Shape = Shape {
    name: "vLLM",
    version: Some("/version"),
    path: "/v1/completions",
    prompt: Prompt::Ids("prompt"),
    framing: Framing::Events,
    key: ("authorization", "Bearer "),
    headers: &[],
    ignores_eos: true,
};

static PLAIN: Shape = Shape {
    name: "a server with OpenAI's completions",
    version: None,
    ignores_eos: false,
    ..VLLM
};

/// Such a server.
#[derive(Clone, Debug)]
pub struct Completions {
    /// The name it serves the model under.
    pub model: String,
    /// Whether it knows vLLM's own fields; others refuse or ignore them.
    pub vllm: bool,
}

impl Protocol for Completions {
    fn shape(&self) -> &'static Shape {
        if self.vllm { &VLLM } else { &PLAIN }
    }

    fn completion(&self, ask: &Ask<'_>) -> Result<String, String> {
        let mut body = json!({
            "model": self.model,
            "prompt": [],
            "max_tokens": ask.decode,
            "temperature": 0,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        if self.vllm {
            body["ignore_eos"] = true.into();
            body["return_token_ids"] = true.into();
        }
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
        if let Some(ids) = choice.prompt_token_ids {
            told.accepted = Some(ids);
        }
        let said = choice.token_ids.or_else(|| choice.logprobs.and_then(ids));
        Ok(Said::piece(match said {
            Some(ids) => Piece::of_ids(ids),
            None => Piece::of_text(choice.text.as_deref(), None),
        }))
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
    text: Option<String>,
    token_ids: Option<Vec<u32>>,
    prompt_token_ids: Option<Vec<u32>>,
    logprobs: Option<Logprobs>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Logprobs {
    tokens: Option<Vec<String>>,
}

/// Ids as servers write them that were set to `return_tokens_as_token_ids`.
fn ids(logprobs: Logprobs) -> Option<Vec<u32>> {
    let id = |token: &String| token.strip_prefix("token_id:")?.parse().ok();
    logprobs.tokens?.iter().map(id).collect()
}

/// What a vLLM counts since it started, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixCache {
    /// Looked up.
    pub queries: u64,
    /// Found.
    pub hits: u64,
}

/// The counters of its prefix cache, from [`METRICS`]; summed over its engines.
pub fn prefix_cache(metrics: &str) -> Result<PrefixCache, String> {
    Ok(PrefixCache {
        queries: counter(metrics, "vllm:prefix_cache_queries_total")?,
        hits: counter(metrics, "vllm:prefix_cache_hits_total")?,
    })
}

/// A counter's value, summed over its labels.
fn counter(metrics: &str, name: &str) -> Result<u64, String> {
    let mut sum = None;
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix(name) else {
            continue;
        };
        let values = match rest.strip_prefix('{') {
            Some(labelled) => labelled.rsplit_once('}').map(|(_, values)| values),
            None => rest.starts_with(' ').then_some(rest), // else a longer name
        };
        let Some(values) = values else { continue };
        let word = values.split_whitespace().next().unwrap_or_default();
        let value = word.parse::<f64>().ok();
        let whole = value.filter(|value| (0.0..9e15).contains(value) && value.fract() == 0.0);
        let value = whole.ok_or_else(|| format!("{METRICS}: {name} is {word:?}, no count"))?;
        sum = Some(sum.unwrap_or(0) + value as u64);
    }
    sum.ok_or_else(|| format!("{METRICS} has no {name}; is it a vLLM with prefix caching on?"))
}
