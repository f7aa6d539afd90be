//! Where weights come from: GGUF files and seeded synthetic models, behind one small seam; and GGUF files written.
//!
//! Not here: what a model does with its tensors (`model`), the packed layout itself (`tensor`).

pub mod gguf;
pub mod map;
pub mod names;
pub mod quantize;
pub mod synthetic;

use crate::error::Result;
use crate::tensor::PackedMatrix;

/// Gives tensors by name, shape checked.
pub trait TensorSource {
    /// The matrix `name` of `rows` outputs and `cols` inputs, packed.
    fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<PackedMatrix>;
    /// The vector `name`.
    fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>>;
    /// Every tensor name there is.
    fn names(&self) -> Vec<&str>;
}
