//! run.json of a counted envelope: its structs, read strictly and written back for comparison.
//!
//! Not here: any computation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Counts;
use crate::format::{keyed, nullable, stated};
use crate::record::Build;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    schema: String,
    envelope: String,
    envelope_sha256: String,
    provenance: String,
    counted_unix_s: u64,
    build: Build,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    workers: u64,
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    cache: Option<Cache>,
    #[serde(
        default,
        deserialize_with = "stated",
        skip_serializing_if = "Option::is_none"
    )]
    routed: Option<Routed>,
    #[serde(deserialize_with = "keyed")]
    arms: BTreeMap<String, Counts>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Routed {
    requests: u64,
    hits: u64,
    evictions: u64,
    hit_rate_millionths: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cache {
    #[serde(deserialize_with = "nullable")]
    capacity_tokens: Option<u64>,
    order: String,
    #[serde(deserialize_with = "nullable")]
    overtaken_max: Option<u64>,
    overtaken_most: u64,
    evictions: u64,
    hit_rate_millionths: u64,
}
