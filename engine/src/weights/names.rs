//! Tensor names of the Llama architecture, as GGUF spells them.

/// Embedding table, and the output head where there is no other.
pub const EMBEDDING: &str = "token_embd.weight";
/// Norm before the head.
pub const OUTPUT_NORM: &str = "output_norm.weight";
/// Output head of models that do not tie it to the embedding.
pub const OUTPUT: &str = "output.weight";

/// Tensors of one layer, the part of the name after `blk.N.`.
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
}

impl Layer {
    /// All of them, in the fill order of synthetic models.
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

    /// The full name in layer `layer`.
    pub fn name(self, layer: usize) -> String {
        let part = match self {
            Self::AttentionNorm => "attn_norm",
            Self::Query => "attn_q",
            Self::Key => "attn_k",
            Self::Value => "attn_v",
            Self::AttentionOutput => "attn_output",
            Self::FeedForwardNorm => "ffn_norm",
            Self::Gate => "ffn_gate",
            Self::Up => "ffn_up",
            Self::Down => "ffn_down",
        };
        format!("blk.{layer}.{part}.weight")
    }
}
