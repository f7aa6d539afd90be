//! Element types of GGUF tensors: numbers, names, block sizes, and how a block becomes f32.
//!
//! Dequantisation multiplies and then adds, each rounded, never fused: the bits of the format's own reference.
//! Not here: types we cannot compute. They have a name for the error message and nothing else.

use half::f16;

/// Elements per quantised block of the types here.
pub const BLOCK: usize = 32;

/// An element type this engine computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DType {
    /// IEEE single.
    F32,
    /// 32 weights: f16 scale, 32 signed bytes.
    Q8_0,
    /// 32 weights: f16 scale, f16 minimum, 16 bytes of nibbles (element i low, i + 16 high).
    Q4_1,
}

impl DType {
    /// The type with this GGUF number, if we compute it.
    pub fn from_gguf(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::F32),
            3 => Some(Self::Q4_1),
            8 => Some(Self::Q8_0),
            _ => None,
        }
    }

    /// The GGUF number of this type.
    pub fn gguf(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::Q4_1 => 3,
            Self::Q8_0 => 8,
        }
    }

    /// Elements per block.
    pub fn block_elements(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Q8_0 | Self::Q4_1 => BLOCK,
        }
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Q8_0 => 2 + BLOCK,
            Self::Q4_1 => 4 + BLOCK / 2,
        }
    }

    /// Decodes whole blocks of `bytes` into `out`.
    ///
    /// # Panics
    /// If the lengths do not belong together; callers size both from the same shape.
    pub fn dequantize(self, bytes: &[u8], out: &mut [f32]) {
        assert_eq!(
            bytes.len() / self.block_bytes() * self.block_elements(),
            out.len()
        );
        let blocks = bytes.chunks_exact(self.block_bytes());
        for (block, out) in blocks.zip(out.chunks_exact_mut(self.block_elements())) {
            match self {
                Self::F32 => out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]),
                Self::Q8_0 => {
                    let scale = f16_at(block, 0);
                    for (value, &quant) in out.iter_mut().zip(&block[2..]) {
                        *value = f32::from(quant.cast_signed()) * scale;
                    }
                }
                Self::Q4_1 => {
                    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
                    for (i, &pair) in block[4..].iter().enumerate() {
                        out[i] = f32::from(pair & 15) * scale + minimum;
                        out[i + BLOCK / 2] = f32::from(pair >> 4) * scale + minimum;
                    }
                }
            }
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&gguf_type_name(self.gguf()))
    }
}

/// The f16 at byte `offset`, widened.
pub fn f16_at(bytes: &[u8], offset: usize) -> f32 {
    f16::from_le_bytes([bytes[offset], bytes[offset + 1]]).to_f32()
}

/// Name of a GGUF tensor type, its number if it has none.
pub fn gguf_type_name(number: u32) -> String {
    const NAMES: [&str; 40] = [
        "F32", "F16", "Q4_0", "Q4_1", "", "", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K",
        "Q4_K", "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
        "IQ2_S", "IQ4_XS", "I8", "I16", "I32", "I64", "F64", "IQ1_M", "BF16", "", "", "", "TQ1_0",
        "TQ2_0", "", "", "", "MXFP4",
    ];
    match NAMES.get(number as usize) {
        Some(name) if !name.is_empty() => (*name).to_owned(),
        _ => format!("number {number}"),
    }
}
