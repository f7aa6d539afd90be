//! The numbers of a hub `config.json`, in the style found there (`rope_theta`, `rope_scaling`) and in the one transformers 5
//! writes (`rope_parameters`). Defaults are those of transformers' configuration classes; `null` is absence.

use serde_json::{Map, Value as Json};

use super::{
    BETA_FAST_DEFAULT, BETA_SLOW_DEFAULT, CONTEXT_MAX, Config, LAYERS_MAX, ROPE_BASE_DEFAULT,
    SIZE_MAX, bad, bounded, yarn_magnitude,
};
use crate::backend::{Heads, RopeScaling};
use crate::error::{Error, Result};

/// Window of a Mistral configuration that does not mention one.
const MISTRAL_WINDOW_DEFAULT: usize = 4096;
/// Head size of a Qwen3 configuration that does not mention one.
const QWEN3_HEAD_DIM_DEFAULT: usize = 128;
/// What a rotary object may hold.
const ROPE_FIELDS: [&str; 15] = [
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "finetuned",
    "high_freq_factor",
    "low_freq_factor",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_theta",
    "rope_type",
    "truncate",
    "type",
];

/// An object of the file and where it stands in it, for messages.
#[derive(Clone, Copy)]
struct Fields<'a> {
    place: &'static str,
    object: &'a Map<String, Json>,
}

impl<'a> Fields<'a> {
    fn name(self, key: &str) -> String {
        format!("{}{key}", self.place)
    }

    fn get(self, key: &str) -> Option<&'a Json> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn typed<T>(
        self,
        key: &str,
        expected: &str,
        cast: impl Fn(&'a Json) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let wrong = || {
            bad(
                &self.name(key),
                format!("expected {expected}, found {}", kind(value)),
            )
        };
        cast(value).map(Some).ok_or_else(wrong)
    }

    fn optional_size(self, key: &str, max: usize) -> Result<Option<usize>> {
        let value = self.typed(key, "an unsigned integer", Json::as_u64)?;
        let bounded = |value| {
            bounded(
                &self.name(key),
                usize::try_from(value).unwrap_or(usize::MAX),
                max,
            )
        };
        value.map(bounded).transpose()
    }

    fn size(self, key: &str, max: usize) -> Result<usize> {
        self.require(key, self.optional_size(key, max)?)
    }

    fn optional_number(self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "a number", Json::as_f64)
    }

    fn number(self, key: &str) -> Result<f64> {
        self.require(key, self.optional_number(key)?)
    }

    fn number_or(self, key: &str, default: f64) -> Result<f64> {
        Ok(self.optional_number(key)?.unwrap_or(default))
    }

    fn flag(self, key: &str, default: bool) -> Result<bool> {
        Ok(self
            .typed(key, "a boolean", Json::as_bool)?
            .unwrap_or(default))
    }

    fn text(self, key: &str) -> Result<Option<&'a str>> {
        self.typed(key, "a string", Json::as_str)
    }

    fn require<T>(self, key: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| Error::MissingKey(self.name(key)))
    }
}

impl Config {
    /// Numbers of the directory whose `config.json` is `json`.
    pub fn from_hub(json: &Json) -> Result<Self> {
        let Json::Object(object) = json else {
            return Err(bad(
                "config.json",
                format!("expected an object, found {}", kind(json)),
            ));
        };
        let fields = Fields {
            place: "config.json: ",
            object,
        };
        let family = family(fields)?;
        refuse_unsupported(fields, family)?;
        let hidden = fields.size("hidden_size", SIZE_MAX)?;
        let query = fields.size("num_attention_heads", SIZE_MAX)?;
        let kv = match fields.optional_size("num_key_value_heads", SIZE_MAX)? {
            // The other families' classes have a default of their own, which no real file relies on.
            None if family == "llama" => query,
            kv => fields.require("num_key_value_heads", kv)?,
        };
        let head_dim = match fields.optional_size("head_dim", SIZE_MAX)? {
            Some(head_dim) => head_dim,
            None if family == "qwen3" => QWEN3_HEAD_DIM_DEFAULT,
            None => hidden / query,
        };
        let context = fields.size("max_position_embeddings", CONTEXT_MAX)?;
        let (rope_base, rope_scaling) = rope(fields, context)?;
        Self {
            hidden,
            layers: fields.size("num_hidden_layers", LAYERS_MAX)?,
            heads: Heads {
                query,
                kv,
                head_dim,
            },
            feed_forward: fields.size("intermediate_size", SIZE_MAX)?,
            vocab: fields.size("vocab_size", SIZE_MAX)?,
            context,
            norm_epsilon: fields.number("rms_norm_eps")? as f32,
            rope_base,
            rope_scaling,
            window: window(fields, family)?,
            qkv_bias: family == "qwen2",
            head_norm: family == "qwen3",
            tied: fields.flag("tie_word_embeddings", false)?,
            eos: eos(fields)?,
        }
        .checked()
    }
}

/// The id that ends a text, the first where there are several.
fn eos(fields: Fields<'_>) -> Result<Option<u32>> {
    let first = |value: &Json| match value {
        Json::Array(ids) => ids.first().and_then(Json::as_u64),
        id => id.as_u64(),
    };
    let id = fields.typed("eos_token_id", "an id or a list of them", first)?;
    Ok(id.map(|id| u32::try_from(id).unwrap_or(u32::MAX)))
}

/// The family, named alike by `model_type` and `architectures`.
fn family(fields: Fields<'_>) -> Result<&'static str> {
    let architectures = fields.typed("architectures", "an array", Json::as_array)?;
    let class = architectures.and_then(|list| list.first()?.as_str());
    let model_type = fields.text("model_type")?;
    let families = [
        ("llama", "LlamaForCausalLM"),
        ("mistral", "MistralForCausalLM"),
        ("qwen2", "Qwen2ForCausalLM"),
        ("qwen3", "Qwen3ForCausalLM"),
    ];
    let named = |(family, expected): &&(&str, &str)| {
        (class.is_some() || model_type.is_some())
            && class.is_none_or(|class| class == *expected)
            && model_type.is_none_or(|model_type| model_type == *family)
    };
    match families.iter().find(named) {
        Some((family, _)) => Ok(family),
        None => Err(Error::UnsupportedArchitecture(format!(
            "{} ({})",
            model_type.unwrap_or("no model_type"),
            class.unwrap_or("no architectures")
        ))),
    }
}

/// Settings that change what is computed, in ways this decoder does not know.
fn refuse_unsupported(fields: Fields<'_>, family: &str) -> Result<()> {
    if let Some(other) = fields.text("hidden_act")?.filter(|name| *name != "silu") {
        let what = format!("activation `{other}` is not supported; supported: silu");
        return Err(bad(&fields.name("hidden_act"), what));
    }
    for flag in ["attention_bias", "mlp_bias"] {
        if fields.flag(flag, false)? {
            return Err(bad(
                &fields.name(flag),
                format!("biases of {family} are not supported"),
            ));
        }
    }
    if fields.get("quantization_config").is_some() {
        let what = "quantised checkpoints are not supported; supported: F32, F16, BF16 tensors";
        return Err(bad(&fields.name("quantization_config"), what));
    }
    whole_rotation(fields)
}

/// That heads are rotated whole.
fn whole_rotation(fields: Fields<'_>) -> Result<()> {
    match fields.optional_number("partial_rotary_factor")? {
        Some(part) if (part - 1.0).abs() > 0.0 => {
            let what = format!("is {part}; heads can only be rotated whole");
            Err(bad(&fields.name("partial_rotary_factor"), what))
        }
        _ => Ok(()),
    }
}

/// The sliding window, if every layer has it.
fn window(fields: Fields<'_>, family: &str) -> Result<Option<usize>> {
    let qwen = family.starts_with("qwen");
    if qwen && fields.flag("use_sliding_window", false)? {
        let what = "windows on some layers only are not supported; false is";
        return Err(bad(&fields.name("use_sliding_window"), what));
    }
    let window = match family {
        "mistral" if !fields.object.contains_key("sliding_window") => Some(MISTRAL_WINDOW_DEFAULT),
        "mistral" => fields.optional_size("sliding_window", usize::MAX)?,
        _ => None,
    };
    let kinds = fields.typed("layer_types", "an array", Json::as_array)?;
    let expected = if window.is_some() {
        "sliding_attention"
    } else {
        "full_attention"
    };
    match kinds.and_then(|kinds| kinds.iter().find(|kind| *kind != expected)) {
        None => Ok(window),
        Some(other) => {
            let what = format!("a layer of {other} is not supported; here all are {expected}");
            Err(bad(&fields.name("layer_types"), what))
        }
    }
}

/// Rotary base and scaling.
fn rope(fields: Fields<'_>, context: usize) -> Result<(f64, RopeScaling)> {
    let base = fields.number_or("rope_theta", ROPE_BASE_DEFAULT)?;
    let object = |key| fields.typed(key, "an object", Json::as_object);
    let (place, object) = match (object("rope_parameters")?, object("rope_scaling")?) {
        (Some(object), _) => ("config.json: rope_parameters.", object),
        (None, Some(object)) => ("config.json: rope_scaling.", object),
        (None, None) => return Ok((base, RopeScaling::None)),
    };
    let fields = Fields { place, object };
    whole_rotation(fields)?;
    let known = |key: &&String| ROPE_FIELDS.contains(&key.as_str());
    if let Some(key) = object.keys().find(|key| !known(key)) {
        return Err(bad(
            &fields.name(key),
            "this rotary setting is not supported",
        ));
    }
    let base = fields.number_or("rope_theta", base)?;
    let kind = match fields.text("rope_type")? {
        None => fields.text("type")?,
        kind => kind,
    };
    let scaling = match kind.unwrap_or("default") {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear {
            factor: fields.number("factor")?,
        },
        "llama3" => RopeScaling::Llama3 {
            factor: fields.number("factor")?,
            low: fields.number("low_freq_factor")?,
            high: fields.number("high_freq_factor")?,
            original: fields.number("original_max_position_embeddings")?,
        },
        "yarn" => yarn(fields, context)?,
        other => {
            let what =
                format!("`{other}` is not supported; supported: default, linear, llama3, yarn");
            return Err(bad(&fields.name("rope_type"), what));
        }
    };
    Ok((base, scaling))
}

fn yarn(fields: Fields<'_>, context: usize) -> Result<RopeScaling> {
    let factor = fields.number("factor")?;
    let scales = (
        fields.number_or("mscale", 0.0)?,
        fields.number_or("mscale_all_dim", 0.0)?,
    );
    let magnitude = match (fields.optional_number("attention_factor")?, scales) {
        (Some(given), _) => given,
        (None, (one, all)) if one > 0.0 && all > 0.0 => {
            yarn_magnitude(factor, one) / yarn_magnitude(factor, all)
        }
        _ => yarn_magnitude(factor, 1.0),
    };
    Ok(RopeScaling::Yarn {
        factor,
        original: fields.number_or("original_max_position_embeddings", context as f64)?,
        beta_fast: fields.number_or("beta_fast", BETA_FAST_DEFAULT)?,
        beta_slow: fields.number_or("beta_slow", BETA_SLOW_DEFAULT)?,
        truncate: fields.flag("truncate", true)?,
        magnitude,
    })
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number of another kind",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}
