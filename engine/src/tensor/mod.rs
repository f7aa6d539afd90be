//! Plain data the kernels work on: element types, aligned buffers, packed weights, page views, partial attention.
//!
//! Not here: files (`weights`), ownership of pages (`kv`), arithmetic (`kernels`).

pub mod activations;
pub mod buffer;
pub mod dtype;
pub mod mode;
pub mod packed;
pub mod view;

pub use activations::{Activations, RoundedRows};
pub use buffer::{Arena, Buffer};
pub use dtype::DType;
pub use mode::{KvType, Mode};
pub use packed::{PackedMatrix, Panel};
pub use view::{LayerView, PAGE_POSITIONS, PageView, Partials, PartialsMut, Quants, Span};
