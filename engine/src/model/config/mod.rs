//! A model's numbers, read from metadata and checked for sense before anything is sized by them.
//!
//! What is read is listed file by file (`gguf`, `hub`); what follows from it is checked here, once. Not here: tensors.

mod gguf;
mod hub;

use crate::backend::{Heads, RopeScaling};
use crate::error::{Error, Result};
use crate::weights::names::Layer;
use crate::weights::synthetic::Shape;

/// Layers believed; published decoders have under 200.
const LAYERS_MAX: usize = 1024;
/// Widths believed: far above any published model, far below where products wrap.
const SIZE_MAX: usize = 1 << 24;
/// Positions believed; the longest published contexts have ten million.
const CONTEXT_MAX: usize = 1 << 24;
/// Rotary base where a file has none, the formats' default.
const ROPE_BASE_DEFAULT: f64 = 10_000.0;
/// YaRN's ramp where a file does not say, from its paper.
const BETA_FAST_DEFAULT: f64 = 32.0;
const BETA_SLOW_DEFAULT: f64 = 1.0;

/// The architecture's numbers.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
    /// Heads.
    pub heads: Heads,
    /// Width of the feed-forward.
    pub feed_forward: usize,
    /// Vocabulary size.
    pub vocab: usize,
    /// Positions.
    pub context: usize,
    /// Added to the mean square in norms.
    pub norm_epsilon: f32,
    /// Rotary base.
    pub rope_base: f64,
    /// Change of the rotary frequencies.
    pub rope_scaling: RopeScaling,
    /// Positions a query sees, itself included; none: all before it.
    pub window: Option<usize>,
    /// Whether query, key and value projections add a bias (Qwen2).
    pub qkv_bias: bool,
    /// Whether each head of queries and keys is normed before rotation (Qwen3).
    pub head_norm: bool,
    /// Whether the embedding is the output head.
    pub tied: bool,
    /// Token that ends a text.
    pub eos: Option<u32>,
}

impl Config {
    /// The tensors of a layer.
    pub fn layer_tensors(&self) -> impl Iterator<Item = Layer> {
        let biases = Layer::BIASES.into_iter().filter(|_| self.qkv_bias);
        let norms = Layer::HEAD_NORMS.into_iter().filter(|_| self.head_norm);
        Layer::ALL.into_iter().chain(biases).chain(norms)
    }

    /// What no single number shows; `self` if all of it holds.
    fn checked(self) -> Result<Self> {
        let Heads {
            query,
            kv,
            head_dim,
        } = self.heads;
        let refuse = |what: String| Err(Error::Inconsistent(what));
        if !query.is_multiple_of(kv) {
            return refuse(format!(
                "{query} query heads are no multiple of {kv} key and value heads"
            ));
        }
        if head_dim == 0 || !head_dim.is_multiple_of(2) {
            return refuse(format!(
                "heads of {head_dim} dimensions; rotary pairs need an even number of them"
            ));
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon >= 0.0) {
            return refuse(format!(
                "a norm epsilon of {}; it must be finite and not negative",
                self.norm_epsilon
            ));
        }
        self.check_rope()?;
        match self.eos {
            Some(id) if id as usize >= self.vocab => refuse(format!(
                "end-of-text id {id} is outside the vocabulary of {}",
                self.vocab
            )),
            _ => Ok(self),
        }
    }

    fn check_rope(&self) -> Result<()> {
        let numbers = match self.rope_scaling {
            RopeScaling::None => vec![],
            RopeScaling::Linear { factor } => vec![factor],
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                original,
            } => {
                vec![factor, low, high - low, original]
            }
            RopeScaling::Yarn {
                factor,
                original,
                beta_fast,
                beta_slow,
                magnitude,
                ..
            } => {
                // A base of 1 or less turns every pair alike, so that no ramp over pairs exists.
                vec![
                    factor,
                    original,
                    beta_fast,
                    beta_slow,
                    magnitude,
                    self.rope_base - 1.0,
                ]
            }
        };
        let usable = |number: &f64| number.is_finite() && *number > 0.0;
        if !usable(&self.rope_base) || !numbers.iter().all(usable) {
            let what = format!(
                "a rotary base of {} with {:?}: all must be finite and positive, low below high",
                self.rope_base, self.rope_scaling
            );
            return Err(Error::Inconsistent(what));
        }
        Ok(())
    }

    /// Numbers of a synthetic model; its last token ends a text.
    pub fn from_synthetic(shape: Shape) -> Self {
        Self {
            hidden: shape.hidden,
            layers: shape.layers,
            heads: Heads {
                query: shape.heads,
                kv: shape.kv_heads,
                head_dim: shape.head_dim,
            },
            feed_forward: shape.feed_forward,
            vocab: shape.vocab,
            context: shape.context,
            norm_epsilon: 1e-5,
            rope_base: ROPE_BASE_DEFAULT,
            rope_scaling: RopeScaling::None,
            window: None,
            qkv_bias: false,
            head_norm: false,
            tied: true,
            eos: Some(shape.vocab as u32 - 1),
        }
    }
}

/// YaRN's factor on cosines and sines for a stretch of `factor` (its paper, equation 22, square root).
fn yarn_magnitude(factor: f64, scale: f64) -> f64 {
    if factor <= 1.0 {
        1.0
    } else {
        0.1 * scale * libm::log(factor) + 1.0
    }
}

/// `value` if it is 1 to `max`.
fn bounded(key: &str, value: usize, max: usize) -> Result<usize> {
    if (1..=max).contains(&value) {
        return Ok(value);
    }
    Err(bad(key, format!("is {value}; it must be 1 to {max}")))
}

fn bad(key: &str, what: impl Into<String>) -> Error {
    Error::BadKey {
        key: key.to_owned(),
        what: what.into(),
    }
}
