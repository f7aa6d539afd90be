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

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::tensor::DType;
use file::ModelFile;

/// A tensor as a source stores it.
pub struct Tensor<'a> {
    /// Its name.
    pub name: String,
    /// Type of its elements.
    pub dtype: DType,
    /// Shape, innermost first.
    pub shape: Vec<usize>,
    /// Its bytes, as many as type and shape say.
    pub bytes: Bytes<'a>,
}

/// Where the bytes of a tensor are.
pub enum Bytes<'a> {
    /// In memory.
    Held(Vec<u8>),
    /// In a file, to be read when wanted.
    InFile {
        /// The file.
        file: &'a ModelFile,
        /// First byte.
        start: u64,
        /// How many.
        len: usize,
    },
}

impl Bytes<'_> {
    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.len(),
            Self::InFile { len, .. } => *len,
        }
    }

    /// All of them.
    pub fn all(&self) -> Result<Cow<'_, [u8]>> {
        match self {
            Self::Held(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::InFile { file, start, len } => file.read_at(*start, *len).map(Cow::Owned),
        }
    }

    /// Hands over `strip` bytes after `strip` bytes, the last ones fewer. Of a file no more than one strip is in memory.
    pub fn strips(&self, strip: usize, mut take: impl FnMut(&[u8])) -> Result<()> {
        match self {
            Self::Held(bytes) => bytes.chunks(strip).for_each(take),
            Self::InFile { file, start, len } => {
                let mut bytes = vec![0; strip.min(*len)];
                for at in (0..*len).step_by(strip) {
                    let bytes = &mut bytes[..strip.min(len - at)];
                    file.read_into(start + at as u64, bytes)?;
                    take(bytes);
                }
            }
        }
        Ok(())
    }
}

impl Tensor<'_> {
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
    pub fn values(&self) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.shape.iter().product()];
        self.dtype.dequantize(&self.bytes.all()?, &mut values);
        Ok(values)
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
    fn tensor(&self, name: &str) -> Result<Tensor<'_>>;
    /// Every tensor name there is.
    fn names(&self) -> Vec<&str>;
    /// How query and key rows are laid out.
    fn pair_layout(&self) -> PairLayout;
}
