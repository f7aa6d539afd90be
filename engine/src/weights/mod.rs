//! Where weights come from: GGUF files, Hugging Face directories and seeded synthetic models, behind one small seam; and
//! GGUF files written.
//!
//! Not here: what a model does with its tensors (`model`), the packed layout itself (`tensor`).

pub mod file;
pub mod gguf;
pub mod hub;
pub mod names;
pub mod quantize;
pub mod safetensors;
pub mod synthetic;

use crate::error::{Error, Result};
use crate::tensor::DType;

/// A tensor as a source stores it.
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Type of its elements.
    pub dtype: DType,
    /// Shape, innermost first.
    pub shape: Vec<usize>,
    /// Its bytes, as many as type and shape say.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// That it has this shape.
    pub fn check(&self, shape: &[usize]) -> Result<()> {
        if self.shape == shape {
            return Ok(());
        }
        Err(Error::WrongShape {
            tensor: self.name.clone(),
            expected: shape.to_vec(),
            found: self.shape.clone(),
        })
    }

    /// Its elements.
    pub fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.shape.iter().product()];
        self.dtype.dequantize(&self.bytes, &mut values);
        values
    }
}

/// Where a source keeps the two dimensions of a head that rotary embedding turns as a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairLayout {
    /// 2i and 2i + 1: GGUF files of architecture `llama`.
    Neighbours,
    /// i and i + head_dim / 2: other GGUF files, and the hub.
    Halves,
}

/// Gives tensors by their GGUF names.
pub trait TensorSource: Sync {
    /// The tensor `name`.
    fn tensor(&self, name: &str) -> Result<Tensor>;
    /// Every tensor name there is.
    fn names(&self) -> Vec<&str>;
    /// How query and key rows are laid out.
    fn pair_layout(&self) -> PairLayout;
}
