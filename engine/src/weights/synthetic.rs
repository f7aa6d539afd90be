//! Models made from a seed: no download, the same bits everywhere, labelled synthetic in every result.
//!
//! A linear congruential generator (multiplier and increment: Knuth's MMIX) gives u in [0, 1) from its top 24 bits;
//! a weight is (2u - 1) times 0.1, an embedding times 0.2, a norm weight is 1. Tensors are filled in the order
//! embedding, then per layer q, k, v, o, gate, up, down. Not here: any claim that such a model says something.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::names::{EMBEDDING, Layer, OUTPUT_NORM};
use super::quantize::encode;
use super::{Bytes, PairLayout, Tensor, TensorSource};
use crate::error::{Error, Result};
use crate::tensor::DType;

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

/// Shape, innermost first, and values.
type Filled = (Vec<usize>, Vec<f32>);

/// The tensors of a synthetic model.
pub struct Synthetic {
    /// Its sizes.
    pub shape: Shape,
    dtype: DType,
    tensors: HashMap<String, Filled>,
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
            for value in &self.tensors[&name].1 {
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

fn fill(shape: Shape) -> HashMap<String, Filled> {
    let mut state = SEED;
    let mut draw = |cols: usize, rows: usize, scale: f32| -> Filled {
        let mut next = || {
            state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
            (2.0 * ((state >> 40) as f32 / (1 << 24) as f32) - 1.0) * scale
        };
        let values = (0..rows * cols).map(|_| next()).collect();
        (vec![cols, rows], values)
    };
    let Shape {
        hidden,
        feed_forward,
        ..
    } = shape;
    let (queries, keys) = (
        shape.heads * shape.head_dim,
        shape.kv_heads * shape.head_dim,
    );
    let norm = || (vec![hidden], vec![1.0; hidden]);
    let mut tensors = HashMap::new();
    let embedding = draw(hidden, shape.vocab, EMBEDDING_SCALE);
    tensors.insert(EMBEDDING.to_owned(), embedding);
    for i in 0..shape.layers {
        for tensor in Layer::ALL {
            let filled = match tensor {
                Layer::Query => draw(hidden, queries, WEIGHT_SCALE),
                Layer::Key | Layer::Value => draw(hidden, keys, WEIGHT_SCALE),
                Layer::AttentionOutput => draw(queries, hidden, WEIGHT_SCALE),
                Layer::Gate | Layer::Up => draw(hidden, feed_forward, WEIGHT_SCALE),
                Layer::Down => draw(feed_forward, hidden, WEIGHT_SCALE),
                _ => norm(),
            };
            tensors.insert(tensor.name(i), filled);
        }
    }
    tensors.insert(OUTPUT_NORM.to_owned(), norm());
    tensors
}

impl TensorSource for Synthetic {
    fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        let filled = self.tensors.get(name);
        let (shape, values) = filled.ok_or_else(|| Error::MissingTensor(name.to_owned()))?;
        // Norms stay f32, as in files.
        let dtype = if shape.len() == 1 {
            DType::F32
        } else {
            self.dtype
        };
        Ok(Tensor {
            name: name.to_owned(),
            dtype,
            shape: shape.clone(),
            bytes: Bytes::Held(encode(dtype, values)),
        })
    }

    fn names(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }

    fn pair_layout(&self) -> PairLayout {
        PairLayout::Neighbours
    }
}
