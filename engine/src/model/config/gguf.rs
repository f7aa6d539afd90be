//! The numbers of a GGUF file. Keys as llama.cpp names and defaults them; a key of the architecture that nobody here reads
//! is refused, since it changes what the model computes.

use super::{
    BETA_FAST_DEFAULT, BETA_SLOW_DEFAULT, CONTEXT_MAX, Config, LAYERS_MAX, ROPE_BASE_DEFAULT,
    SIZE_MAX, bad, bounded, yarn_magnitude,
};
use crate::backend::{Heads, RopeScaling};
use crate::error::{Error, Result};
use crate::weights::TensorSource;
use crate::weights::gguf::{Gguf, Value};
use crate::weights::names::OUTPUT;

/// Keys read, and keys that change nothing, after the architecture's name.
const KNOWN_KEYS: [&str; 23] = [
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_used_count",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "tensor_data_layout",
    "vocab_size",
];

/// A file and the prefix of its architecture's keys.
struct Keys<'a> {
    gguf: &'a Gguf,
    architecture: &'a str,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn optional_size(&self, key: &str, max: usize) -> Result<Option<usize>> {
        let name = self.name(key);
        let value = self.gguf.optional_usize(&name)?;
        value.map(|value| bounded(&name, value, max)).transpose()
    }

    fn size(&self, key: &str, max: usize) -> Result<usize> {
        self.optional_size(key, max)?
            .ok_or_else(|| Error::MissingKey(self.name(key)))
    }

    fn optional_number(&self, key: &str) -> Result<Option<f64>> {
        let value = self.gguf.optional_f32(&self.name(key))?;
        Ok(value.map(f64::from))
    }

    fn number(&self, key: &str) -> Result<f64> {
        self.optional_number(key)?
            .ok_or_else(|| Error::MissingKey(self.name(key)))
    }

    /// That `key`, if it is there, is `only`.
    fn holds(&self, key: &str, only: usize) -> Result<()> {
        match self.gguf.optional_usize(&self.name(key))? {
            Some(value) if value != only => Err(bad(
                &self.name(key),
                format!("is {value}; supported here: {only}"),
            )),
            _ => Ok(()),
        }
    }
}

impl Config {
    /// Numbers of a GGUF file of the Llama family.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self> {
        let architecture = gguf.str("general.architecture")?;
        let (qkv_bias, head_norm) = match architecture {
            "llama" => (false, false),
            "qwen2" => (true, false),
            "qwen3" => (false, true),
            other => return Err(Error::UnsupportedArchitecture(other.to_owned())),
        };
        let keys = Keys { gguf, architecture };
        refuse_unknown_keys(&keys)?;
        let hidden = keys.size("embedding_length", SIZE_MAX)?;
        let query = keys.size("attention.head_count", SIZE_MAX)?;
        let kv = keys.optional_size("attention.head_count_kv", SIZE_MAX)?;
        let head_dim = keys.optional_size("attention.key_length", SIZE_MAX)?;
        let head_dim = head_dim.unwrap_or(hidden / query);
        keys.holds("attention.value_length", head_dim)?;
        keys.holds("rope.dimension_count", head_dim)?;
        keys.holds("expert_count", 0)?;
        // llama.cpp ignores it for these architectures, so what a file means by it is not settled.
        keys.holds("attention.sliding_window", 0)?;
        let context = keys.size("context_length", CONTEXT_MAX)?;
        Self {
            hidden,
            layers: keys.size("block_count", LAYERS_MAX)?,
            heads: Heads {
                query,
                kv: kv.unwrap_or(query),
                head_dim,
            },
            feed_forward: keys.size("feed_forward_length", SIZE_MAX)?,
            vocab: gguf.array("tokenizer.ggml.tokens")?.len(),
            context,
            norm_epsilon: keys.number("attention.layer_norm_rms_epsilon")? as f32,
            rope_base: keys
                .optional_number("rope.freq_base")?
                .unwrap_or(ROPE_BASE_DEFAULT),
            rope_scaling: rope_scaling(&keys, context)?,
            window: None,
            qkv_bias,
            head_norm,
            tied: !gguf.names().contains(&OUTPUT),
            eos: gguf
                .optional_usize("tokenizer.ggml.eos_token_id")?
                .map(|id| u32::try_from(id).unwrap_or(u32::MAX)),
        }
        .checked()
    }
}

fn rope_scaling(keys: &Keys<'_>, context: usize) -> Result<RopeScaling> {
    let name = keys.name("rope.scaling.type");
    let factor = keys.optional_number("rope.scaling.factor")?;
    let kind = keys.gguf.optional_str(&name)?;
    Ok(match (kind, factor) {
        (Some("none"), _) | (None, None) => RopeScaling::None,
        (Some("linear") | None, _) => RopeScaling::Linear {
            factor: keys.number("rope.scaling.factor")?,
        },
        (Some("yarn"), _) => {
            let factor = keys.number("rope.scaling.factor")?;
            let original =
                keys.optional_size("rope.scaling.original_context_length", CONTEXT_MAX)?;
            let or = |key, default| Ok::<_, Error>(keys.optional_number(key)?.unwrap_or(default));
            RopeScaling::Yarn {
                factor,
                original: original.unwrap_or(context) as f64,
                beta_fast: or("rope.scaling.yarn_beta_fast", BETA_FAST_DEFAULT)?,
                beta_slow: or("rope.scaling.yarn_beta_slow", BETA_SLOW_DEFAULT)?,
                truncate: true,
                magnitude: or("rope.scaling.attn_factor", 1.0)? * yarn_magnitude(factor, 1.0),
            }
        }
        (Some(other), _) => {
            let what = format!("`{other}` is not supported; supported: none, linear, yarn");
            return Err(bad(&name, what));
        }
    })
}

fn refuse_unknown_keys(keys: &Keys<'_>) -> Result<()> {
    let prefix = keys.name("");
    let unknown = keys.gguf.keys().iter().find(|key| {
        let rest = key.strip_prefix(&prefix);
        rest.is_some_and(|rest| !KNOWN_KEYS.contains(&rest))
    });
    if let Some(key) = unknown {
        return Err(bad(
            key,
            "nothing here reads it, so the model would be computed wrong",
        ));
    }
    match keys.gguf.entry("split.count").map(|entry| &entry.value) {
        Some(Value::Unsigned(files)) if *files > 1 => Err(bad(
            "split.count",
            format!("the model is split over {files} files; join them"),
        )),
        _ => Ok(()),
    }
}
