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

    /// Elements of the queries of a position in a layer.
    fn queries(&self) -> u128 {
        u128::from(self.heads) * u128::from(self.head_dim)
    }

    /// Elements of the keys of a position in a layer, and as many of its values.
    fn keys(&self) -> u128 {
        u128::from(self.kv_heads) * u128::from(self.head_dim)
    }

    /// Multiplications and additions of weights: of so many positions, of which so many have logits.
    pub(crate) fn matrix_operations(&self, rows: u128, logit_rows: u128) -> u128 {
        let hidden = u128::from(self.hidden);
        let attended = 2 * hidden * (self.queries() + self.keys());
        let of_layer = attended + 3 * hidden * u128::from(self.feed_forward);
        let head = logit_rows * hidden * u128::from(self.vocab);
        2 * (rows * u128::from(self.layers) * of_layer + head)
    }

    /// Multiplications and additions of attention, for so many pairs of a query and a position it attends to.
    pub(crate) fn attention_operations(&self, attended_positions: u128) -> u128 {
        4 * u128::from(self.layers) * self.queries() * attended_positions
    }

    /// Bytes of the keys and values of a position, with elements of so many bytes.
    pub(crate) fn position_bytes(&self, element_bytes: u128) -> u128 {
        2 * u128::from(self.layers) * self.keys() * element_bytes
    }

    /// What `account` takes, with keys and values of `element_bytes` each.
    pub fn operations(&self, account: &Account, element_bytes: u64) -> Operations {
        let wide = u128::from;
        let decoded = wide(account.decode_tokens);
        let held = wide(account.held_tokens_peak);
        Operations {
            matrix: self.matrix_operations(wide(account.computed_tokens) + decoded, decoded),
            attention: self.attention_operations(account.attended_positions),
            kv_bytes_peak: self.position_bytes(wide(element_bytes)) * held,
        }
    }
}
