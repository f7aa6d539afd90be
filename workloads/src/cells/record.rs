//! Engine work in the run record: wire types, documented field by field in audit/FORMAT.md.
//!
//! Not here: how the figures are computed (`summary`, `needs`).
#![allow(missing_docs)] // audit/FORMAT.md documents every field

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::accounting::Geometry;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelNumbers {
    pub layers: u64,
    pub hidden: u64,
    pub feed_forward: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub vocab: u64,
    pub weight_bytes: u64,
    pub quantized: bool,
}

impl ModelNumbers {
    /// Its shape alone.
    pub(crate) fn geometry(&self) -> Geometry {
        let Self {
            layers,
            hidden,
            feed_forward,
            heads,
            kv_heads,
            head_dim,
            vocab,
            weight_bytes: _,
            quantized: _,
        } = *self;
        Geometry {
            layers,
            hidden,
            feed_forward,
            heads,
            kv_heads,
            head_dim,
            vocab,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellRecord {
    pub name: String,
    pub arms: BTreeMap<String, CellArmRecord>,
    pub ratios: Vec<CellRatio>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellArmRecord {
    pub provenance: String,
    pub reps: usize,
    pub completed: usize,
    pub error: Option<String>,
    pub note: Option<String>,
    pub needs: Needs,
    pub tokens_per_s: Option<f64>,
    pub share_of_limit: Option<f64>,
    pub output_sha256: Option<String>,
    pub logits_sha256: Option<String>,
    pub samples: Vec<CellSample>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Vec<usize>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_instrument_limit: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    pub bytes: u64,
    pub matrix_operations: u64,
    pub attention_operations: u64,
    pub limit_ns: Option<u64>,
    pub withheld: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSample {
    pub rep: usize,
    pub tokens: u64,
    pub timed_ns: u64,
    pub process_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellRatio {
    pub arm: String,
    pub denominator: String,
    pub pairs: usize,
    pub speed: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub verdict: Option<String>,
    pub withheld: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Vec<usize>>,
}
