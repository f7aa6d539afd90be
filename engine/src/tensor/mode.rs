//! Numeric modes and the element types of cached keys and values: names that stand in every result.
//!
//! Not here: what a mode computes (`kernels`).

use std::fmt;
use std::str::FromStr;

use super::dtype::BLOCK;

/// How quantised weights are multiplied. Both modes give the same bits on every path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Weights dequantised, activations f32: comparable with an f32 reference.
    #[default]
    Exact,
    /// Activations rounded to bytes per block of 32, integer dot products.
    Fast,
}

impl Mode {
    /// Element type of keys and values where nothing else is asked for.
    pub fn kv_type(self) -> KvType {
        match self {
            Self::Exact => KvType::F32,
            Self::Fast => KvType::F16,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Fast => "fast",
        })
    }
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Exact, Self::Fast]
            .into_iter()
            .find(|mode| mode.to_string() == text)
            .ok_or_else(|| format!("mode `{text}` is unknown; use exact or fast"))
    }
}

/// Element type of cached keys and values; part of every result, since it changes the bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvType {
    /// As computed.
    F32,
    /// Rounded once, to nearest even, when written.
    F16,
    /// Rounded once, to bytes, when written: 32 dimensions of a head share a half-precision scale.
    Q8_0,
}

impl KvType {
    /// Every type, the smaller the later.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Q8_0];

    /// Bytes of the keys, or of the values, of one head at one position.
    pub fn row_bytes(self, head_dim: usize) -> usize {
        match self {
            Self::F32 => 4 * head_dim,
            Self::F16 => 2 * head_dim,
            Self::Q8_0 => head_dim + 2 * head_dim.div_ceil(BLOCK),
        }
    }

    /// Name as recorded in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
        }
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KvType {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|element| element.name() == text)
            .ok_or_else(|| format!("KV type `{text}` is unknown; use f32, f16 or q8_0"))
    }
}
