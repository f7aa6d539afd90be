//! run.json: its structs. Reading is strict; writing back gives the values that `figures` compares.
//!
//! Not here: any computation.
#![allow(missing_docs)] // FORMAT.md documents every field

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ceilings::Ceilings;
use crate::format::{keyed, nullable, stated};
use crate::latencies::{Instrument, Noise};
use crate::line::Program;
use crate::line::server::ServerSettings;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    schema: String,
    envelope: String,
    envelope_sha256: String,
    complete: bool,
    pub(crate) model: Model,
    requested: Requested,
    effective: Effective,
    build: Build,
    pub(crate) machine: Machine,
    pub(crate) sittings: Vec<Sitting>,
    pub(crate) order: Vec<String>,
    #[serde(deserialize_with = "keyed")]
    arms: BTreeMap<String, Arm>,
    pub(crate) ratios: Vec<Ratio>,
    identity: Identity,
    #[serde(deserialize_with = "nullable")]
    verdict: Option<String>,
    /// Only in runs of cells.
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) cells: Option<Vec<Cell>>,
    /// Not in runs from before it was measured, as with every field below that may be left out.
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) instrument: Option<Instrument>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    name: String,
    sha256: String,
    #[serde(deserialize_with = "nullable")]
    tokenizer_sha256: Option<String>,
    label: String,
    /// Only in runs of cells.
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) numbers: Option<Numbers>,
}

/// How much work a model is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Numbers {
    pub(crate) layers: u64,
    pub(crate) hidden: u64,
    pub(crate) feed_forward: u64,
    pub(crate) heads: u64,
    pub(crate) kv_heads: u64,
    pub(crate) head_dim: u64,
    pub(crate) vocab: u64,
    pub(crate) weight_bytes: u64,
    pub(crate) quantized: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Requested {
    mode: String,
    kernels: String,
    threads: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Effective {
    mode: String,
    kernels: String,
    threads: u64,
    kv_dtype: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Build {
    version: String,
    #[serde(deserialize_with = "nullable")]
    commit: Option<String>,
    #[serde(deserialize_with = "nullable")]
    dirty: Option<bool>,
    #[serde(deserialize_with = "nullable")]
    trees: Option<Trees>,
    rustc: String,
    debug_assertions: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trees {
    engine: String,
    workloads: String,
    baselines: String,
    harness: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    class: String,
    cpu: String,
    pub(crate) isa: Vec<String>,
    cores: u64,
    pub(crate) memory_bytes: u64,
    os: String,
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) ceilings: Option<Ceilings>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cell {
    name: String,
    #[serde(deserialize_with = "keyed")]
    pub(crate) arms: BTreeMap<String, CellArm>,
    pub(crate) ratios: Vec<CellRatio>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellArm {
    provenance: String,
    reps: u64,
    completed: u64,
    #[serde(deserialize_with = "nullable")]
    error: Option<String>,
    #[serde(deserialize_with = "nullable")]
    note: Option<String>,
    pub(crate) needs: Needs,
    #[serde(deserialize_with = "nullable")]
    tokens_per_s: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    share_of_limit: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    output_sha256: Option<String>,
    #[serde(deserialize_with = "nullable")]
    logits_sha256: Option<String>,
    samples: Vec<CellSample>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outliers: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_instrument_limit: Option<bool>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Needs {
    pub(crate) bytes: u64,
    pub(crate) matrix_operations: u64,
    pub(crate) attention_operations: u64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) limit_ns: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) withheld: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellSample {
    pub(crate) rep: u64,
    pub(crate) tokens: u64,
    pub(crate) timed_ns: u64,
    pub(crate) process_ns: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellRatio {
    pub(crate) arm: String,
    pub(crate) denominator: String,
    pub(crate) pairs: u64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) speed: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) low: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) high: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) verdict: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) withheld: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outliers: Option<Vec<usize>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sitting {
    started_unix_s: u64,
    #[serde(deserialize_with = "nullable")]
    boot_id: Option<String>,
    #[serde(deserialize_with = "nullable")]
    load1_before: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    load1_after: Option<f64>,
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) noise: Option<Noise>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arm {
    reps: u64,
    completed: u64,
    #[serde(deserialize_with = "nullable")]
    error: Option<String>,
    provenance: String,
    cache: String,
    batched: bool,
    #[serde(deserialize_with = "nullable")]
    note: Option<String>,
    #[serde(deserialize_with = "nullable")]
    requests: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    prefill_tokens_computed: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    prefill_tokens_logical: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    prefix_tokens_hit: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    decode_tokens: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    carried_tokens: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    replayed_tokens: Option<u64>,
    oracle_prefill_tokens: u64,
    #[serde(deserialize_with = "nullable")]
    reuse_rate: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    wall_ns: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    prefill_ns: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    decode_ns: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    kv_bytes_peak: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    rss_bytes_peak: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    output_sha256: Option<String>,
    #[serde(deserialize_with = "nullable")]
    logits_sha256: Option<String>,
    samples: Vec<Sample>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latencies: Option<Latencies>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outliers: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_instrument_limit: Option<bool>,
    /// Only where there is an objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    goodput: Option<Goodput>,
    /// Only of arms that another engine answers, as what follows.
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    server: Option<Server>,
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    score: Option<Score>,
}

/// Another engine, as it was started and as it says it is set.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    program: Program,
    #[serde(deserialize_with = "nullable")]
    settings: Option<ServerSettings>,
}

/// Its answers as our model reads them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Score {
    tokens: u64,
    exact_tokens: u64,
    exact_share: f64,
    worst_micronats: u64,
    #[serde(deserialize_with = "nullable")]
    first_divergence: Option<ScoredToken>,
    #[serde(deserialize_with = "nullable")]
    beyond_margin: Option<ScoredToken>,
}

/// A token of an answer that is not the greatest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScoredToken {
    pub(crate) rep: u64,
    pub(crate) agent: u64,
    pub(crate) turn: u64,
    pub(crate) position: u64,
    pub(crate) micronats: u64,
}

/// Times of the requests of an arm.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_field_names)] // the format's names, with their units
struct Latencies {
    ttft_ns: Distribution,
    #[serde(deserialize_with = "nullable")]
    tpot_ns: Option<Distribution>,
    e2e_ns: Distribution,
    /// Only of requests that come by the clock, as what follows.
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    scheduled_ttft_ns: Option<Distribution>,
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    scheduled_e2e_ns: Option<Distribution>,
}

/// Requests of an arm that kept to the objective.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Goodput {
    offered: u64,
    good: u64,
    #[serde(deserialize_with = "nullable")]
    good_per_s: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Distribution {
    count: u64,
    #[serde(deserialize_with = "keyed")]
    percentiles: BTreeMap<String, Percentile>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Percentile {
    nearest: u64,
    linear: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sample {
    pub(crate) rep: u64,
    pub(crate) load_ns: u64,
    pub(crate) warmup_ns: u64,
    pub(crate) wall_ns: u64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) prefill_ns: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) decode_ns: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) kv_bytes_peak: Option<u64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) rss_bytes_peak: Option<u64>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ratio {
    pub(crate) arm: String,
    pub(crate) denominator: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) label: Option<String>,
    pub(crate) pairs: u64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) prefill_tokens: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) wall: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) wall_low: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) wall_high: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) prefill: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) verdict: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) withheld: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outliers: Option<Vec<usize>>,
}

/// Whether all completed arms and repetitions answered alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// No output id and no logit hash differs.
    pub equal: bool,
    /// The completed arms, in declared order.
    pub arms: Vec<String>,
    /// Requests each of them answered.
    pub requests: u64,
    /// Where they first differ.
    #[serde(deserialize_with = "nullable")]
    pub first_divergence: Option<Divergence>,
}

/// The first answer that differs from the reference run's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Divergence {
    /// In which cell; only in runs of cells.
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    pub cell: Option<String>,
    /// Whose answer differs.
    pub arm: String,
    /// In which repetition.
    pub rep: u64,
    /// Which agent's.
    pub agent: u64,
    /// In which turn.
    pub turn: u64,
    /// The first differing output token; `None` when only the logits differ.
    #[serde(deserialize_with = "nullable")]
    pub position: Option<u64>,
}
