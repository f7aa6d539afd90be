//! The bytes and operations a cell needs, and the time the stated ceilings allow for them: FORMAT.md's formulas again.
//!
//! Not here: whether the model's numbers and the ceilings are true; the writer states them.

use std::collections::BTreeMap;

use crate::ceilings::Ceilings;
use crate::cell::Cell;
use crate::notebook::{Layer, Notebook};
use crate::record::{Needs, Numbers};

/// Bounds that keep every product below 2^128; far above any model there is.
const MAX_WIDTH: u64 = 1 << 20;
const MAX_VOCAB: u64 = 1 << 32;
const MAX_BYTES: u64 = 1 << 50;

/// What figures rest on that only the writer knows.
pub(crate) struct Grounds<'a> {
    pub(crate) numbers: &'a Numbers,
    pub(crate) ceilings: Option<&'a Ceilings>,
    pub(crate) mode: &'a str,
    pub(crate) kv_dtype: &'a str,
    pub(crate) threads: u64,
}

impl Numbers {
    /// Whether they can be calculated with.
    pub(crate) fn check(&self, notes: &mut Notebook) -> bool {
        let widths = [
            self.layers,
            self.hidden,
            self.feed_forward,
            self.heads,
            self.kv_heads,
            self.head_dim,
        ];
        let fits = widths.iter().all(|width| (1..=MAX_WIDTH).contains(width))
            && (1..=MAX_VOCAB).contains(&self.vocab)
            && (1..=MAX_BYTES).contains(&self.weight_bytes);
        notes.check(Layer::Format, fits, || {
            "model.numbers: one of them is 0 or beyond any model".to_owned()
        });
        fits
    }
}

/// What `cell` needs; `withheld` is left empty.
pub(crate) fn needs(cell: &Cell, grounds: &Grounds<'_>) -> Needs {
    let wide = u128::from;
    let numbers = grounds.numbers;
    let (c, d, s) = (wide(cell.agents), wide(cell.depth), wide(cell.shared));
    let (p, n) = (wide(cell.prompt), wide(cell.decode));
    let pairs = |count: u128| count * count.saturating_sub(1) / 2;
    let [read, attended, rows, answers, passes] = if cell.is_decode() {
        let own = n * (d + 1 - s) + pairs(n);
        [
            n * s + c * own,
            c * (n * (d + 2) + pairs(n)),
            c * n,
            c * n,
            n,
        ]
    } else {
        [s + c * (d - s), c * (p * (d + 1) + pairs(p)), c * p, c, 1]
    };
    let (layers, hidden) = (wide(numbers.layers), wide(numbers.hidden));
    let query = wide(numbers.heads) * wide(numbers.head_dim);
    let key = wide(numbers.kv_heads) * wide(numbers.head_dim);
    let per_layer = 2 * hidden * query + 2 * hidden * key + 3 * hidden * wide(numbers.feed_forward);
    let element = if grounds.kv_dtype == "f32" { 4 } else { 2 };
    let cached = 2 * layers * key * element;
    let fitted = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
    let mut needs = Needs {
        bytes: fitted(passes * wide(numbers.weight_bytes) + cached * (read + rows)),
        matrix_operations: fitted(
            2 * (rows * layers * per_layer + answers * hidden * wide(numbers.vocab)),
        ),
        attention_operations: fitted(4 * layers * query * attended),
        limit_ns: None,
        withheld: None,
    };
    needs.limit_ns = limit_ns(&needs, grounds);
    needs
}

fn limit_ns(needs: &Needs, grounds: &Grounds<'_>) -> Option<u64> {
    let ceilings = grounds.ceilings?;
    let threads = grounds.threads.to_string();
    let rate = |rates: &BTreeMap<String, u64>| {
        let rate = rates.get(&threads).filter(|rate| **rate > 0)?;
        Some(*rate as f64)
    };
    let float = rate(&ceilings.f32_flop_per_s)?;
    let integers = grounds.numbers.quantized && grounds.mode == "fast";
    let matrix = if integers {
        rate(&ceilings.int8_op_per_s)?
    } else {
        float
    };
    let moving_s = needs.bytes as f64 / rate(&ceilings.read_bytes_per_s)?;
    let matrix_s = needs.matrix_operations as f64 / matrix;
    let computing_s = matrix_s + needs.attention_operations as f64 / float;
    Some((moving_s.max(computing_s) * 1e9).round() as u64)
}
