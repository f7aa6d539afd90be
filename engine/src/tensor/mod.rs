//! Plain data the kernels work on: element types, aligned buffers, packed weights, page views, partial attention.
//!
//! Not here: files (`weights`), ownership of pages (`kv`), arithmetic (`kernels`).

pub mod buffer;
pub mod dtype;
pub mod packed;
pub mod view;

pub use buffer::Buffer;
pub use dtype::DType;
pub use packed::{PackedMatrix, Panel};
pub use view::{PAGE_POSITIONS, PageView, Partials};
