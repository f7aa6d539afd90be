//! A Llama model's numbers, read from metadata and checked for sense before anything is sized by them.
//!
//! Not here: tensors.

use crate::backend::Heads;
use crate::error::{Error, Result};
use crate::weights::gguf::Gguf;
use crate::weights::synthetic::Shape;

/// Layers believed; published decoders have under 200.
const LAYERS_MAX: usize = 1024;
/// Widths believed: far above any published model, far below where products wrap.
const SIZE_MAX: usize = 1 << 24;
/// Positions believed: the rotary table is sized by them.
const CONTEXT_MAX: usize = 1 << 20;
/// Rotary base where the file has none, the format's default.
const ROPE_BASE_DEFAULT: f32 = 10_000.0;

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
    pub rope_base: f32,
    /// Token that ends a text.
    pub eos: Option<u32>,
}

impl Config {
    /// Numbers of a GGUF file of the Llama architecture.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self> {
        let architecture = gguf.str("general.architecture")?;
        if architecture != "llama" {
            return Err(Error::UnsupportedArchitecture(architecture.to_owned()));
        }
        let bounded = |key: &str, max: usize| {
            gguf.usize(key).and_then(|value| {
                let what = || format!("is {value}; it must be 1 to {max}");
                (1..=max)
                    .contains(&value)
                    .then_some(value)
                    .ok_or_else(|| bad(key, what()))
            })
        };
        let hidden = bounded("llama.embedding_length", SIZE_MAX)?;
        let query = bounded("llama.attention.head_count", SIZE_MAX)?;
        let kv = match gguf.optional_usize("llama.attention.head_count_kv")? {
            None => query,
            Some(_) => bounded("llama.attention.head_count_kv", SIZE_MAX)?,
        };
        let head_dim = match gguf.optional_usize("llama.attention.key_length")? {
            Some(_) => bounded("llama.attention.key_length", SIZE_MAX)?,
            None => hidden / query,
        };
        let vocab = gguf.array("tokenizer.ggml.tokens")?.len();
        let config = Self {
            hidden,
            layers: bounded("llama.block_count", LAYERS_MAX)?,
            heads: Heads {
                query,
                kv,
                head_dim,
            },
            feed_forward: bounded("llama.feed_forward_length", SIZE_MAX)?,
            vocab,
            context: bounded("llama.context_length", CONTEXT_MAX)?,
            norm_epsilon: gguf
                .optional_f32("llama.attention.layer_norm_rms_epsilon")?
                .ok_or_else(|| {
                    Error::MissingKey("llama.attention.layer_norm_rms_epsilon".to_owned())
                })?,
            rope_base: gguf
                .optional_f32("llama.rope.freq_base")?
                .unwrap_or(ROPE_BASE_DEFAULT),
            eos: gguf
                .optional_usize("tokenizer.ggml.eos_token_id")?
                .map(|id| id as u32),
        };
        config.check(gguf)?;
        Ok(config)
    }

    fn check(&self, gguf: &Gguf) -> Result<()> {
        let Heads {
            query,
            kv,
            head_dim,
        } = self.heads;
        if !query.is_multiple_of(kv) {
            let what = format!("is {query}, no multiple of the {kv} key and value heads");
            return Err(bad("llama.attention.head_count", what));
        }
        if head_dim == 0 || !head_dim.is_multiple_of(2) {
            let what =
                format!("gives heads of {head_dim} dimensions; rotary pairs need an even number");
            return Err(bad("llama.embedding_length", what));
        }
        if let Some(rotated) = gguf.optional_usize("llama.rope.dimension_count")?
            && rotated != head_dim
        {
            let what = format!("is {rotated}; partial rotation of {head_dim} is not supported");
            return Err(bad("llama.rope.dimension_count", what));
        }
        if let Some(kind) = gguf.optional_str("llama.rope.scaling.type")?
            && kind != "none"
        {
            return Err(bad(
                "llama.rope.scaling.type",
                format!("`{kind}` is not supported; none is"),
            ));
        }
        if !(self.rope_base.is_finite() && self.rope_base > 0.0) {
            return Err(bad(
                "llama.rope.freq_base",
                format!("is {}; it must be positive", self.rope_base),
            ));
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon >= 0.0) {
            let what = format!(
                "is {}; it must be finite and not negative",
                self.norm_epsilon
            );
            return Err(bad("llama.attention.layer_norm_rms_epsilon", what));
        }
        match self.eos {
            Some(id) if id as usize >= self.vocab => {
                let what = format!("is {id}, outside the vocabulary of {}", self.vocab);
                Err(bad("tokenizer.ggml.eos_token_id", what))
            }
            _ => Ok(()),
        }
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
            eos: Some(shape.vocab as u32 - 1),
        }
    }
}

fn bad(key: &str, what: String) -> Error {
    Error::BadKey {
        key: key.to_owned(),
        what,
    }
}
