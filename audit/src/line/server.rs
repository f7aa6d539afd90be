//! Lines of a trace whose requests another engine answers, and of the trace that scores those answers.
//!
//! Not here: whether they are true (`server`).
#![allow(missing_docs)] // FORMAT.md documents every field

use serde::{Deserialize, Serialize};

use super::Program;
use crate::format::nullable;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginServer {
    pub(crate) schema: String,
    pub(crate) envelope: String,
    pub(crate) envelope_sha256: String,
    pub(crate) arm: String,
    pub(crate) rep: u64,
    pub(crate) model_sha256: String,
    pub(crate) program: Program,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ready {
    pub(crate) settings: ServerSettings,
    pub(crate) barred: Vec<u32>,
    pub(crate) load_ns: u64,
}

/// Settings as a server says them itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSettings {
    #[serde(deserialize_with = "nullable")]
    build: Option<String>,
    #[serde(deserialize_with = "nullable")]
    cpu: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) threads: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) slots: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) slot_positions: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) flash_attention: Option<bool>,
    #[serde(deserialize_with = "nullable")]
    kv_unified: Option<bool>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) kv_dtype: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    pub(crate) name: String,
    pub(crate) prompt_tokens: u64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) cached: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) computed: Option<u64>,
}

/// A request's body without the ids of its prompt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sent {
    pub(crate) path: String,
    pub(crate) body: String,
    pub(crate) body_sha256: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prime {
    pub(crate) text: String,
    pub(crate) sent: Sent,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Primed {
    pub(crate) text: String,
    pub(crate) status: u64,
    pub(crate) usage: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) cached: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) computed: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_field_names)] // the format's names
pub(crate) struct Slot {
    pub(crate) action: String,
    pub(crate) slot: u64,
    pub(crate) tokens: u64,
    pub(crate) wall_ns: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    pub(crate) request: String,
    pub(crate) sent: Sent,
    #[serde(deserialize_with = "nullable")]
    pub(crate) connect_ns: Option<u64>,
    pub(crate) status: u64,
    pub(crate) ids: Vec<u32>,
    pub(crate) chunk_t_ns: Vec<u64>,
    pub(crate) chunk_tokens: Vec<u64>,
    pub(crate) reason: String,
    pub(crate) usage: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) cached: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) computed: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndServer {
    pub(crate) requests: u64,
    pub(crate) prompt_tokens: u64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) cached_tokens: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) computed_tokens: Option<u64>,
    pub(crate) decode_tokens: u64,
    pub(crate) warmup_ns: u64,
    pub(crate) wall_ns: u64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) rss_bytes_peak: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginScore {
    pub(crate) schema: String,
    pub(crate) envelope: String,
    pub(crate) envelope_sha256: String,
    pub(crate) arm: String,
    pub(crate) rep: u64,
    pub(crate) model_sha256: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) tokenizer_sha256: Option<String>,
    pub(crate) trace_sha256: String,
    pub(crate) mode: String,
    pub(crate) kernels: String,
    pub(crate) threads: u64,
    pub(crate) kv_dtype: String,
    pub(crate) barred: Vec<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Score {
    pub(crate) request: String,
    pub(crate) margins_micronats: Vec<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndScore {
    pub(crate) requests: u64,
    pub(crate) tokens: u64,
    pub(crate) exact_tokens: u64,
    pub(crate) worst_micronats: u64,
    pub(crate) wall_ns: u64,
}
