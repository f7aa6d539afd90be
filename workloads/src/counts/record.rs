//! The record of a counted envelope (`run.json`): wire types, documented field by field in audit/FORMAT.md.
//!
//! Not here: how anything is counted (`count`) or checked (`audit`, with structs of its own).
#![allow(missing_docs)] // audit/FORMAT.md documents every field

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::BuildRecord;

/// Schema tag of run.json of a counted envelope.
pub const COUNTS_SCHEMA: &str = "fak.counts/1";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountsRecord {
    pub schema: String,
    pub envelope: String,
    pub envelope_sha256: String,
    pub provenance: String,
    pub counted_unix_s: u64,
    pub build: BuildRecord,
    pub rows: Vec<CountedRow>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedRow {
    pub name: String,
    pub workers: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routed: Option<RoutedRecord>,
    pub arms: BTreeMap<String, ArmCounts>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheRecord {
    pub capacity_tokens: Option<u64>,
    pub order: String,
    pub overtaken_max: Option<u64>,
    pub overtaken_most: u64,
    pub evictions: u64,
    pub hit_rate_millionths: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutedRecord {
    pub requests: u64,
    pub hits: u64,
    pub evictions: u64,
    pub hit_rate_millionths: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmCounts {
    pub requests: u64,
    pub prefill_tokens_logical: u64,
    pub prefill_tokens_computed: u64,
    pub prefix_tokens_hit: u64,
    pub decode_tokens: u64,
    pub attended_positions: u64,
    pub held_tokens_peak: u64,
}
