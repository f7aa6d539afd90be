//! The run record (`run.json`): wire types, written by `harness`, documented field by field in audit/FORMAT.md.
//!
//! Not here: how the figures are computed from traces (`summary`) or checked (`audit`, with structs of its own).
#![allow(missing_docs)] // audit/FORMAT.md documents every field

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::cells::record::{
    CellArmRecord, CellRatio, CellRecord, CellSample, ModelNumbers, Needs,
};
pub use crate::instrument::Instrument;
use crate::statistics::spread::Distribution;
use crate::trace::Program;
use crate::trace::server::ServerSettings;

/// Schema tag of run.json.
pub const RUN_SCHEMA: &str = "fak.run/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    pub schema: String,
    pub envelope: String,
    pub envelope_sha256: String,
    pub complete: bool,
    pub model: ModelRecord,
    pub requested: SettingsRecord,
    pub effective: EffectiveRecord,
    pub build: BuildRecord,
    pub machine: MachineRecord,
    pub sittings: Vec<Sitting>,
    pub order: Vec<String>,
    pub arms: BTreeMap<String, ArmRecord>,
    pub ratios: Vec<RatioRecord>,
    pub identity: IdentityRecord,
    pub verdict: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells: Option<Vec<CellRecord>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instrument: Option<Instrument>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRecord {
    pub name: String,
    pub sha256: String,
    pub tokenizer_sha256: Option<String>,
    pub label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<ModelNumbers>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsRecord {
    pub mode: String,
    pub kernels: String,
    pub threads: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectiveRecord {
    pub mode: String,
    pub kernels: String,
    pub threads: usize,
    pub kv_dtype: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildRecord {
    pub version: String,
    pub commit: Option<String>,
    pub dirty: Option<bool>,
    pub trees: Option<BTreeMap<String, String>>,
    pub rustc: String,
    pub debug_assertions: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineRecord {
    pub class: String,
    pub cpu: String,
    pub isa: Vec<String>,
    pub cores: usize,
    pub memory_bytes: u64,
    pub os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceilings: Option<CeilingsRecord>,
}

/// What the machine did at best, by number of threads, per second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CeilingsRecord {
    pub read_bytes_per_s: BTreeMap<usize, u64>,
    pub f32_flop_per_s: BTreeMap<usize, u64>,
    pub int8_op_per_s: BTreeMap<usize, u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sitting {
    pub started_unix_s: u64,
    pub boot_id: Option<String>,
    pub load1_before: Option<f64>,
    pub load1_after: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
}

/// How evenly a fixed piece of work ran before the first arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    pub repetitions: usize,
    pub least_ns: u64,
    pub median_ns: u64,
    pub p90_ns: u64,
    pub spread: f64,
    pub load1: Option<f64>,
    pub waited_s: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmRecord {
    pub reps: usize,
    pub completed: usize,
    pub error: Option<String>,
    pub provenance: String,
    pub cache: String,
    pub batched: bool,
    pub note: Option<String>,
    pub requests: Option<u64>,
    pub prefill_tokens_computed: Option<u64>,
    pub prefill_tokens_logical: Option<u64>,
    pub prefix_tokens_hit: Option<u64>,
    pub decode_tokens: Option<u64>,
    pub carried_tokens: Option<u64>,
    pub replayed_tokens: Option<u64>,
    pub oracle_prefill_tokens: u64,
    pub reuse_rate: Option<f64>,
    pub wall_ns: Option<u64>,
    pub prefill_ns: Option<u64>,
    pub decode_ns: Option<u64>,
    pub kv_bytes_peak: Option<u64>,
    pub rss_bytes_peak: Option<u64>,
    pub output_sha256: Option<String>,
    pub logits_sha256: Option<String>,
    pub samples: Vec<Sample>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies: Option<Latencies>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<Goodput>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Vec<usize>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_instrument_limit: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<ScoreRecord>,
}

/// Another engine, as it was started and as it says it is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerRecord {
    pub program: Program,
    pub settings: Option<ServerSettings>,
}

/// Another engine's answers, read by our model: all repetitions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreRecord {
    pub tokens: u64,
    pub exact_tokens: u64,
    pub exact_share: f64,
    pub worst_micronats: u64,
    pub first_divergence: Option<ScoredToken>,
    pub beyond_margin: Option<ScoredToken>,
}

/// A token of an answer that is not the greatest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoredToken {
    pub rep: usize,
    pub agent: usize,
    pub turn: usize,
    pub position: usize,
    pub micronats: u64,
}

/// Times of the requests of an arm, all repetitions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_field_names)] // the format's names, with their units
pub struct Latencies {
    pub ttft_ns: Distribution,
    pub tpot_ns: Option<Distribution>,
    pub e2e_ns: Distribution,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_ttft_ns: Option<Distribution>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_e2e_ns: Option<Distribution>,
}

/// How many requests kept the objective, of all that were due in all repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goodput {
    pub offered: u64,
    pub good: u64,
    pub good_per_s: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    pub rep: usize,
    pub load_ns: u64,
    pub warmup_ns: u64,
    pub wall_ns: u64,
    pub prefill_ns: Option<u64>,
    pub decode_ns: Option<u64>,
    pub kv_bytes_peak: Option<u64>,
    pub rss_bytes_peak: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatioRecord {
    pub arm: String,
    pub denominator: String,
    pub label: Option<String>,
    pub pairs: usize,
    pub prefill_tokens: Option<f64>,
    pub wall: Option<f64>,
    pub wall_low: Option<f64>,
    pub wall_high: Option<f64>,
    pub prefill: Option<f64>,
    pub verdict: Option<String>,
    pub withheld: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Vec<usize>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityRecord {
    pub equal: bool,
    pub arms: Vec<String>,
    pub requests: usize,
    pub first_divergence: Option<Divergence>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Divergence {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    pub arm: String,
    pub rep: usize,
    pub agent: usize,
    pub turn: usize,
    pub position: Option<usize>,
}
