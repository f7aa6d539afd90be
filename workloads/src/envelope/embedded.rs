//! Envelopes that come with the program, and the text a new one starts from.
//!
//! Not here: reading them (`envelope`).

use super::Envelope;
use crate::Error;

/// Names and texts of files in `envelopes/`.
macro_rules! texts {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../envelopes/", $name, ".toml")))),*]
    };
}

const EMBEDDED: &[(&str, &str)] = texts![
    "smoke",
    "session-small",
    "session-50x5",
    "session-50x5-f16",
    "fleet-8",
    "fleet-32",
    "deep-35",
    "warm-prefix-2048",
    "kv-f16",
    "kv-q8_0",
    "radix-few-shot",
    "radix-chat",
    "radix-tree-of-thought",
    "radix-agents",
    "fan-out-64",
    "fan-out-1024",
    "session-ladder-64",
    "single-turn",
    "zero-shared",
    "tiny-context",
    "one-agent",
    "engine-prefill",
    "engine-decode",
    "engine-fleet",
    "engine-q4_0",
    "engine-q4_1",
    "instrument",
    "quarantine-mid-run",
    "working-set-over-capacity",
    "working-set-within-capacity",
    "interleaved-order",
    "sequential-order",
    "admission-first-come",
    "admission-cache-aware",
    "swebench-smoke",
    "swebench-20",
    "webbench-sample",
    "webvoyager-643",
    "radix-cache-only",
    "session-ladder",
    "long-context-floor",
    "fleet-routing",
];

pub(super) fn embedded_text(name: &str) -> Result<&'static str, Error> {
    let found = EMBEDDED.iter().find(|(known, _)| *known == name);
    let (_, text) = found.ok_or_else(|| {
        let known: Vec<&str> = EMBEDDED.iter().map(|(known, _)| *known).collect();
        Error::UnknownEnvelope {
            name: name.to_owned(),
            known: known.join(", "),
        }
    })?;
    Ok(text)
}

/// The envelopes that come with the program: name and text.
pub fn embedded() -> &'static [(&'static str, &'static str)] {
    EMBEDDED
}

/// The text of a new envelope of this name: `smoke`, whose comments explain every field.
pub fn template(name: &str) -> Result<String, Error> {
    let text = EMBEDDED[0]
        .1
        .replacen("name = \"smoke\"", &format!("name = {name:?}"), 1);
    Envelope::parse(&text, name).map(|_| text)
}
