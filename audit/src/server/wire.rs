//! What went over the wire: the body put together again around the prompt's ids, and the server's own words beside the
//! counts taken from them.
//!
//! Not here: which prompt it is (`answers`, `prepare`).

use serde_json::Value;

use crate::hash;
use crate::line::Request;
use crate::line::server::Sent;
use crate::notebook::{Layer, Notebook, quote};

/// Where the prompt's ids were left out.
const PLACE: &str = "\"prompt\":[]";

/// What was sent is this body around these ids.
pub(super) fn check_sent(sent: &Sent, ids: &[u32], notes: &mut Notebook) {
    let body: Option<Value> = serde_json::from_str(&sent.body).ok();
    let prompt = body.as_ref().and_then(|body| body.get("prompt"));
    let once = |text: &str| sent.body.matches(text).count() == 1;
    let one_place = prompt.is_some_and(|it| it.as_array().is_some_and(Vec::is_empty))
        && once(PLACE)
        && once("\"prompt\"");
    notes.check(Layer::Prompt, one_place, || {
        format!("sent.body is no object with one {PLACE}, for the prompt's ids")
    });
    let place = sent.body.find(PLACE).map_or(0, |at| at + PLACE.len() - 1);
    let (before, after) = sent.body.split_at(place);
    let whole = hash::of_ids_within(before, ids, after);
    let stated = sent.body_sha256.as_str();
    notes.same(Layer::Prompt, "sent.body_sha256", stated, whole.as_str());
    let plain = sent.path.starts_with('/') && !sent.path.contains(char::is_whitespace);
    notes.check(Layer::Format, plain, || {
        format!("sent.path is {}, expected /...", quote(&sent.path))
    });
    notes.recomputed("bodies sent", 1);
}

/// What a body says of the output is what the request says, where it says it in llama.cpp's words.
pub(super) fn check_asks(sent: &Sent, request: &Request, notes: &mut Notebook) {
    let body: Value = serde_json::from_str(&sent.body).unwrap_or_default();
    for (what, asked) in [
        ("n_predict", Value::from(request.decode_max)),
        ("ignore_eos", Value::from(request.ignore_eos)),
    ] {
        let stated = body.get(what).unwrap_or(&asked);
        notes.check(Layer::Prompt, *stated == asked, || {
            format!(
                "sent.body asks for {what} {}, the request for {asked}",
                quote(stated)
            )
        });
    }
}

/// The server took it.
pub(super) fn check_status(status: u64, notes: &mut Notebook) {
    notes.same(Layer::Format, "status", &status, &200);
}

/// Counts are those of the server's own words, where these are llama.cpp's: what it found, computed and answered.
pub(super) fn check_usage(usage: &str, counts: [Option<u64>; 3], notes: &mut Notebook) {
    let said: Value = serde_json::from_str(usage).unwrap_or_default();
    let words = ["cache_n", "prompt_n", "predicted_n"];
    let differs = |(word, count): &(&str, Option<u64>)| {
        let found = said.get(word).or_else(|| said.get("timings")?.get(word));
        let answered = *word == "predicted_n" && count.is_none();
        !answered && found.is_some_and(|found| found.as_u64() != *count)
    };
    let other = words.into_iter().zip(counts).find(differs);
    notes.check(Layer::Count, other.is_none(), || {
        let (word, count) = other.unwrap_or_default();
        format!("{word} of usage is not the {count:?} that is stated")
    });
}
