//! Models made from a seed: no download, the same bits everywhere, labelled synthetic in every result.
//!
//! A linear congruential generator (multiplier and increment: Knuth's MMIX) gives u in [0, 1) from its top 24 bits;
//! a weight is (2u - 1) times 0.1, an embedding times 0.2, a norm weight is 1. Tensors are filled in the order
//! embedding, then per layer q, k, v, o, gate, up, down. Not here: any claim that such a model says something.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::TensorSource;
use super::names::{EMBEDDING, Layer, OUTPUT_NORM};
use super::quantize::q8_0;
use crate::error::{Error, Result};
use crate::tensor::{DType, PackedMatrix};

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;
const WEIGHT_SCALE: f32 = 0.1;
const EMBEDDING_SCALE: f32 = 0.2;

/// The models there are. `-q8_0` and `-q4_1` store the matrices of `synthetic-tiny` in these types.
pub const NAMES: [&str; 3] = [
    "synthetic-tiny",
    "synthetic-tiny-q8_0",
    "synthetic-tiny-q4_1",
];

/// Sizes of a synthetic model.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the names are the field's
pub struct Shape {
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub feed_forward: usize,
    pub vocab: usize,
    pub context: usize,
}

/// `synthetic-tiny`: small enough that a whole envelope of five arms takes seconds.
pub const TINY: Shape = Shape {
    hidden: 64,
    layers: 4,
    heads: 8,
    kv_heads: 2,
    head_dim: 8,
    feed_forward: 128,
    vocab: 256,
    context: 8192,
};

/// The tensors of a synthetic model.
pub struct Synthetic {
    /// Its sizes.
    pub shape: Shape,
    dtype: DType,
    tensors: HashMap<String, Vec<f32>>,
}

impl Synthetic {
    /// The model `name`.
    pub fn new(name: &str) -> Result<Self> {
        let dtype = match name {
            "synthetic-tiny" => DType::F32,
            "synthetic-tiny-q8_0" => DType::Q8_0,
            "synthetic-tiny-q4_1" => DType::Q4_1,
            _ => {
                let (name, known) = (name.to_owned(), NAMES.join(", "));
                return Err(Error::UnknownSynthetic { name, known });
            }
        };
        Ok(Self {
            shape: TINY,
            dtype,
            tensors: fill(TINY),
        })
    }

    /// SHA-256 over shape, type and every tensor in fill order.
    pub fn sha256(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(format!("{:?} {}", self.shape, self.dtype));
        for name in order(self.shape) {
            for value in &self.tensors[&name] {
                hasher.update(value.to_le_bytes());
            }
        }
        hasher.finalize().into()
    }
}

fn order(shape: Shape) -> Vec<String> {
    let layers = (0..shape.layers).flat_map(|i| Layer::ALL.map(|tensor| tensor.name(i)));
    std::iter::once(EMBEDDING.to_owned())
        .chain(layers)
        .chain([OUTPUT_NORM.to_owned()])
        .collect()
}

fn fill(shape: Shape) -> HashMap<String, Vec<f32>> {
    let mut state = SEED;
    let mut draw = |len: usize, scale: f32| -> Vec<f32> {
        let mut next = || {
            state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
            (2.0 * ((state >> 40) as f32 / (1 << 24) as f32) - 1.0) * scale
        };
        (0..len).map(|_| next()).collect()
    };
    let Shape {
        hidden,
        heads,
        kv_heads,
        head_dim,
        feed_forward,
        vocab,
        ..
    } = shape;
    let mut tensors = HashMap::new();
    tensors.insert(EMBEDDING.to_owned(), draw(vocab * hidden, EMBEDDING_SCALE));
    for i in 0..shape.layers {
        for tensor in Layer::ALL {
            let values = match tensor {
                Layer::AttentionNorm | Layer::FeedForwardNorm => vec![1.0; hidden],
                Layer::Query | Layer::AttentionOutput => {
                    draw(heads * head_dim * hidden, WEIGHT_SCALE)
                }
                Layer::Key | Layer::Value => draw(kv_heads * head_dim * hidden, WEIGHT_SCALE),
                Layer::Gate | Layer::Up | Layer::Down => draw(feed_forward * hidden, WEIGHT_SCALE),
            };
            tensors.insert(tensor.name(i), values);
        }
    }
    tensors.insert(OUTPUT_NORM.to_owned(), vec![1.0; hidden]);
    tensors
}

impl TensorSource for Synthetic {
    fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<PackedMatrix> {
        let values = self.vector(name, rows * cols)?;
        let bytes = match self.dtype {
            DType::F32 => return Ok(PackedMatrix::from_f32(rows, cols, &values)),
            DType::Q8_0 => q8_0(&values),
            DType::Q4_1 => q4_1(&values),
        };
        Ok(PackedMatrix::pack(self.dtype, rows, cols, &bytes))
    }

    fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        let values = self
            .tensors
            .get(name)
            .ok_or_else(|| Error::MissingTensor(name.to_owned()))?;
        if values.len() != len {
            let (tensor, found) = (name.to_owned(), vec![values.len()]);
            return Err(Error::WrongShape {
                tensor,
                expected: vec![len],
                found,
            });
        }
        Ok(values.clone())
    }

    fn names(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }
}

/// Rounds whole blocks to Q4_1: scale = (greatest - least) / 15, minimum = least, nibbles rounded to nearest.
fn q4_1(values: &[f32]) -> Vec<u8> {
    use crate::tensor::dtype::BLOCK;
    let mut bytes = Vec::new();
    for block in values.chunks_exact(BLOCK) {
        let least = block
            .iter()
            .fold(f32::INFINITY, |a, &x| if x < a { x } else { a });
        let greatest = block
            .iter()
            .fold(f32::NEG_INFINITY, |a, &x| if x > a { x } else { a });
        let scale = (greatest - least) / 15.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let nibble = |x: f32| ((x - least) * inverse + 0.5).clamp(0.0, 15.0) as u8;
        bytes.extend_from_slice(&half::f16::from_f32(scale).to_le_bytes());
        bytes.extend_from_slice(&half::f16::from_f32(least).to_le_bytes());
        bytes.extend((0..BLOCK / 2).map(|i| nibble(block[i]) | nibble(block[i + BLOCK / 2]) << 4));
    }
    bytes
}
