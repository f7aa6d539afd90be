//! Lines of a trace whose arm is another program that serves requests, and of the trace that scores its answers.
//!
//! What the client says stands in `text` and `request` lines as in every trace. Not here: how such a program is spoken to
//! (`baselines`).
#![allow(missing_docs)] // audit/FORMAT.md documents every field

use serde::{Deserialize, Serialize};

use super::Program;

/// Who is asked, before it is known whether it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeginServer {
    pub schema: String,
    pub envelope: String,
    pub envelope_sha256: String,
    pub arm: String,
    pub rep: usize,
    pub model_sha256: String,
    pub program: Program,
}

/// It answers: its settings as it says them itself, null where it does not say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    pub settings: ServerSettings,
    /// Ids it will never answer with, since they end a text.
    pub barred: Vec<u32>,
    pub load_ns: u64,
}

/// Settings read back from a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    pub build: Option<String>,
    pub cpu: Option<String>,
    pub threads: Option<usize>,
    pub slots: Option<usize>,
    /// Positions each slot may hold.
    pub slot_positions: Option<usize>,
    pub flash_attention: Option<bool>,
    pub kv_unified: Option<bool>,
    pub kv_dtype: Option<String>,
}

/// Whether its cache does what the arm is named for, asked before anything is timed: `repeat` is a prompt it was just
/// given, `salted` the same but for its first id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    pub name: String,
    pub prompt_tokens: usize,
    pub cached: Option<usize>,
    pub computed: Option<usize>,
}

/// What was sent: `body` is it, but that the prompt's ids are left out of the one `"prompt":[]` in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    pub path: String,
    pub body: String,
    pub body_sha256: String,
}

/// A named text is handed to one slot, so that others can be given a copy of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prime {
    pub text: String,
    pub sent: Sent,
}

/// The text is in the slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Primed {
    pub text: String,
    pub status: u16,
    pub usage: String,
    pub cached: Option<usize>,
    pub computed: Option<usize>,
}

/// A slot's cache was written to a file or filled from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    pub action: String,
    pub slot: usize,
    pub tokens: usize,
    pub wall_ns: u64,
}

/// A request's whole answer, as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub request: String,
    pub sent: Sent,
    /// Null where a connection was used again.
    pub connect_ns: Option<u64>,
    pub status: u16,
    pub ids: Vec<u32>,
    /// When each piece with tokens came, from the `request` line.
    pub chunk_t_ns: Vec<u64>,
    /// How many tokens each piece had.
    pub chunk_tokens: Vec<usize>,
    pub reason: String,
    /// What the server says it did, as received.
    pub usage: String,
    pub cached: Option<usize>,
    pub computed: Option<usize>,
}

/// All requests are answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndServer {
    pub requests: usize,
    pub prompt_tokens: u64,
    pub cached_tokens: Option<u64>,
    pub computed_tokens: Option<u64>,
    pub decode_tokens: u64,
    pub warmup_ns: u64,
    pub wall_ns: u64,
    pub rss_bytes_peak: Option<u64>,
}

/// Our engine reads the answers of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeginScore {
    pub schema: String,
    pub envelope: String,
    pub envelope_sha256: String,
    pub arm: String,
    pub rep: usize,
    pub model_sha256: String,
    pub tokenizer_sha256: Option<String>,
    /// Of the bytes of the trace that is scored.
    pub trace_sha256: String,
    pub mode: String,
    pub kernels: String,
    pub threads: usize,
    pub kv_dtype: String,
    /// Ids the other program was not free to choose.
    pub barred: Vec<u32>,
}

/// By how much the greatest logit exceeds that of each id of an answer, in millionths of a nat; 0 is the greatest itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    pub request: String,
    pub margins_micronats: Vec<u64>,
}

/// Every answer is scored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndScore {
    pub requests: usize,
    pub tokens: u64,
    pub exact_tokens: u64,
    pub worst_micronats: u64,
    pub wall_ns: u64,
}
