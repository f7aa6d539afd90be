//! From counted tokens to operations and bytes of a model, quadratic attention included.
//!
//! As audit/FORMAT.md has it for engine work ("Needs"). Not here: what a machine makes of them.

use serde::{Deserialize, Serialize};

use super::Account;

/// The numbers of a decoder whose layers are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // the field's own words
pub struct Geometry {
    pub layers: u64,
    pub hidden: u64,
    pub feed_forward: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub vocab: u64,
}

/// What an account takes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations {
    /// Multiplications and additions of weights: of every computed position, and of the head for every answered one.
    pub matrix: u128,
    /// Those of attention.
    pub attention: u128,
    /// Bytes of the keys and values that were held at once, at most.
    pub kv_bytes_peak: u128,
}

impl Geometry {
    /// SmolLM2-135M: 30 layers of 576, 9 heads that share 3 (config.json of HuggingFaceTB/SmolLM2-135M).
    pub const SMOLLM2_135M: Self = Self {
        layers: 30,
        hidden: 576,
        feed_forward: 1536,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        vocab: 49_152,
    };

    /// What `account` takes, with keys and values of `element_bytes` each.
    pub fn operations(&self, account: &Account, element_bytes: u64) -> Operations {
        let wide = u128::from;
        let queries = self.heads * self.head_dim;
        let keys = self.kv_heads * self.head_dim;
        let of_layer = 2 * self.hidden * (queries + keys) + 3 * self.hidden * self.feed_forward;
        let rows = wide(account.computed_tokens) + wide(account.decode_tokens);
        let head = wide(account.decode_tokens) * wide(self.hidden * self.vocab);
        Operations {
            matrix: 2 * (rows * wide(self.layers * of_layer) + head),
            attention: 4 * wide(self.layers * queries) * account.attended_positions,
            kv_bytes_peak: wide(2 * self.layers * keys * element_bytes)
                * wide(account.held_tokens_peak),
        }
    }
}
