//! Tensor names of the Llama family, as GGUF spells them (inside) and as the Hugging Face hub does.
//!
//! Not here: which of them a model has (`model`).

/// Embedding table, and the output head where there is no other.
pub const EMBEDDING: &str = "token_embd.weight";
/// Norm before the head.
pub const OUTPUT_NORM: &str = "output_norm.weight";
/// Output head of models that do not tie it to the embedding.
pub const OUTPUT: &str = "output.weight";
/// Divisors of the rotary frequencies; only GGUF files have it.
pub const ROPE_DIVISORS: &str = "rope_freqs.weight";

/// Names outside the layers: GGUF, hub.
const GLOBALS: [(&str, &str); 3] = [
    (EMBEDDING, "model.embed_tokens.weight"),
    (OUTPUT_NORM, "model.norm.weight"),
    (OUTPUT, "lm_head.weight"),
];

/// Tensors of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the variants are the names
pub enum Layer {
    AttentionNorm,
    Query,
    Key,
    Value,
    AttentionOutput,
    FeedForwardNorm,
    Gate,
    Up,
    Down,
    QueryBias,
    KeyBias,
    ValueBias,
    QueryNorm,
    KeyNorm,
}

impl Layer {
    /// What every model of the family has, in the fill order of synthetic models.
    pub const ALL: [Self; 9] = [
        Self::AttentionNorm,
        Self::Query,
        Self::Key,
        Self::Value,
        Self::AttentionOutput,
        Self::FeedForwardNorm,
        Self::Gate,
        Self::Up,
        Self::Down,
    ];
    /// What Qwen2 has besides.
    pub const BIASES: [Self; 3] = [Self::QueryBias, Self::KeyBias, Self::ValueBias];
    /// What Qwen3 has besides.
    pub const HEAD_NORMS: [Self; 2] = [Self::QueryNorm, Self::KeyNorm];

    /// The part of the name after `blk.N.` in GGUF, and after `model.layers.N.` on the hub.
    fn spellings(self) -> (&'static str, &'static str) {
        match self {
            Self::AttentionNorm => ("attn_norm.weight", "input_layernorm.weight"),
            Self::Query => ("attn_q.weight", "self_attn.q_proj.weight"),
            Self::Key => ("attn_k.weight", "self_attn.k_proj.weight"),
            Self::Value => ("attn_v.weight", "self_attn.v_proj.weight"),
            Self::AttentionOutput => ("attn_output.weight", "self_attn.o_proj.weight"),
            Self::FeedForwardNorm => ("ffn_norm.weight", "post_attention_layernorm.weight"),
            Self::Gate => ("ffn_gate.weight", "mlp.gate_proj.weight"),
            Self::Up => ("ffn_up.weight", "mlp.up_proj.weight"),
            Self::Down => ("ffn_down.weight", "mlp.down_proj.weight"),
            Self::QueryBias => ("attn_q.bias", "self_attn.q_proj.bias"),
            Self::KeyBias => ("attn_k.bias", "self_attn.k_proj.bias"),
            Self::ValueBias => ("attn_v.bias", "self_attn.v_proj.bias"),
            Self::QueryNorm => ("attn_q_norm.weight", "self_attn.q_norm.weight"),
            Self::KeyNorm => ("attn_k_norm.weight", "self_attn.k_norm.weight"),
        }
    }

    /// The full name in layer `layer`.
    pub fn name(self, layer: usize) -> String {
        format!("blk.{layer}.{}", self.spellings().0)
    }
}

/// The GGUF name of a tensor that the hub calls `hub`, if this family has it.
pub fn from_hub(hub: &str) -> Option<String> {
    if let Some((gguf, _)) = GLOBALS.iter().find(|(_, name)| *name == hub) {
        return Some((*gguf).to_owned());
    }
    let (number, part) = hub.strip_prefix("model.layers.")?.split_once('.')?;
    let layer: usize = number.parse().ok()?;
    let mut tensors = Layer::ALL
        .into_iter()
        .chain(Layer::BIASES)
        .chain(Layer::HEAD_NORMS);
    let tensor = tensors.find(|tensor| tensor.spellings().1 == part)?;
    // One spelling per number: `+1` and `01` are not 1.
    (layer.to_string() == number).then(|| tensor.name(layer))
}
