//! Element types of GGUF tensors: numbers, names, block sizes, and how a block becomes f32.
//!
//! Dequantisation multiplies and then adds, each rounded, never fused: the bits of the format's own reference.
//! Not here: types we cannot compute. They have a name for the error message and nothing else.

use half::f16;

/// Elements per quantised block of the types here.
pub const BLOCK: usize = 32;
/// Nibble pairs of a block: byte i holds element i low and element i + 16 high.
const HALF: usize = BLOCK / 2;

/// An element type this engine computes with. Quantised ones hold blocks of 32 weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DType {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// The upper half of an IEEE single.
    BF16,
    /// f16 scale, nibbles; weight = (nibble - 8) * scale.
    Q4_0,
    /// f16 scale and minimum, nibbles; weight = nibble * scale + minimum.
    Q4_1,
    /// f16 scale, fifth bits, nibbles; weight = (five bits - 16) * scale.
    Q5_0,
    /// f16 scale and minimum, fifth bits, nibbles; weight = five bits * scale + minimum.
    Q5_1,
    /// f16 scale, signed bytes; weight = byte * scale.
    Q8_0,
}

/// A quantised block taken apart: weight i = quants[i] * scale (+ minimum).
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Scale of the block.
    pub scale: f32,
    /// Added after scaling, for the types that have one.
    pub minimum: Option<f32>,
    /// Integer weights, offsets of the type already subtracted.
    pub quants: [i8; BLOCK],
}

impl DType {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
    ];

    /// The type with this GGUF number, if we compute it.
    pub fn from_gguf(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.gguf() == number)
    }

    /// The GGUF number of this type.
    pub fn gguf(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q5_0 => 6,
            Self::Q5_1 => 7,
            Self::Q8_0 => 8,
            Self::BF16 => 30,
        }
    }

    /// Whether weights come in blocks of integers with a scale.
    pub fn is_quantized(self) -> bool {
        self.block_elements() > 1
    }

    /// Elements per block.
    pub fn block_elements(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => BLOCK,
        }
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q4_0 => 2 + HALF,
            Self::Q4_1 => 4 + HALF,
            Self::Q5_0 => 2 + 4 + HALF,
            Self::Q5_1 => 4 + 4 + HALF,
            Self::Q8_0 => 2 + BLOCK,
        }
    }

    /// Takes a quantised block apart. `bytes` is one block; types without blocks give zeros.
    pub fn unpack(self, bytes: &[u8]) -> Block {
        let scale = if self.is_quantized() {
            f16_at(bytes, 0)
        } else {
            0.0
        };
        let has_minimum = matches!(self, Self::Q4_1 | Self::Q5_1);
        let minimum = has_minimum.then(|| f16_at(bytes, 2));
        let body = &bytes[bytes.len().min(if has_minimum { 4 } else { 2 })..];
        let mut quants = [0; BLOCK];
        match self {
            Self::F32 | Self::F16 | Self::BF16 => {}
            Self::Q8_0 => quants
                .iter_mut()
                .zip(body)
                .for_each(|(q, byte)| *q = byte.cast_signed()),
            Self::Q4_0 => nibbles(&mut quants, body, 0, -8),
            Self::Q4_1 => nibbles(&mut quants, body, 0, 0),
            Self::Q5_0 | Self::Q5_1 => {
                let fifth = u32::from_le_bytes([body[0], body[1], body[2], body[3]]);
                nibbles(
                    &mut quants,
                    &body[4..],
                    fifth,
                    if has_minimum { 0 } else { -16 },
                );
            }
        }
        Block {
            scale,
            minimum,
            quants,
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
                Self::F16 => out[0] = f16_at(block, 0),
                Self::BF16 => out[0] = widen_bf16(u16::from_le_bytes([block[0], block[1]])),
                quantized => {
                    let block = quantized.unpack(block);
                    for (value, quant) in out.iter_mut().zip(block.quants) {
                        *value = block.value(quant);
                    }
                }
            }
        }
    }
}

impl Block {
    /// The weight an integer of this block stands for.
    pub fn value(&self, quant: i8) -> f32 {
        let scaled = f32::from(quant) * self.scale;
        self.minimum.map_or(scaled, |minimum| scaled + minimum)
    }
}

/// Nibbles of 16 bytes, a fifth bit each from `fifth`, plus `offset`.
fn nibbles(quants: &mut [i8; BLOCK], bytes: &[u8], fifth: u32, offset: i8) {
    for (i, &pair) in bytes.iter().enumerate().take(HALF) {
        let bit = |i: usize| (fifth >> i & 1) as u8 * 16;
        quants[i] = (pair & 15 | bit(i)).cast_signed() + offset;
        quants[i + HALF] = (pair >> 4 | bit(i + HALF)).cast_signed() + offset;
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&gguf_type_name(self.gguf()))
    }
}

impl std::str::FromStr for DType {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let named = |dtype: &Self| dtype.to_string().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(named).ok_or_else(|| {
            let names = Self::ALL.map(|dtype| dtype.to_string().to_lowercase());
            format!("type `{text}` is unknown; use one of {}", names.join(", "))
        })
    }
}

/// The f16 at byte `offset`, widened.
fn f16_at(bytes: &[u8], offset: usize) -> f32 {
    f16::from_le_bytes([bytes[offset], bytes[offset + 1]]).to_f32()
}

/// The single whose upper half is `bits`; a NaN keeps its payload.
pub fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
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
