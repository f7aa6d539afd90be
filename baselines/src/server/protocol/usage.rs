//! The usage that servers with OpenAI's interface report, and how they end a stream.
//!
//! Not here: their pieces (`completions`, `chat`).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Told, parsed, quoted};

/// The last event of a stream.
pub(super) const DONE: &str = "[DONE]";

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<usize>,
    completion_tokens: Option<usize>,
    prompt_tokens_details: Option<Prompt>,
    completion_tokens_details: Option<Completion>,
}

#[derive(Deserialize)]
struct Prompt {
    cached_tokens: Option<usize>,
}

#[derive(Deserialize)]
struct Completion {
    reasoning_tokens: Option<usize>,
}

/// Takes what a `usage` field says; null says nothing. A later one stands for the whole request, as an earlier one did.
pub(super) fn take(usage: Option<&RawValue>, told: &mut Told) -> Result<(), String> {
    let Some(usage) = usage else { return Ok(()) };
    let raw = usage.get();
    let Some(usage) = parsed::<Option<Usage>>(raw)? else {
        return Ok(());
    };
    let details = usage.prompt_tokens_details;
    raw.clone_into(&mut told.usage);
    told.prompt = usage.prompt_tokens;
    told.answered = usage.completion_tokens;
    told.cached = details.and_then(|details| details.cached_tokens);
    told.computed = told
        .prompt
        .zip(told.cached)
        .and_then(|(prompt, cached)| prompt.checked_sub(cached));
    told.reasoning = usage
        .completion_tokens_details
        .and_then(|details| details.reasoning_tokens);
    Ok(())
}

/// Refuses an event that has an `error`.
pub(super) fn refused(error: Option<&RawValue>) -> Result<(), String> {
    match error.map(RawValue::get) {
        None | Some("null") => Ok(()),
        Some(error) => Err(format!("it refuses: {}", quoted(error))),
    }
}
