//! Whole operations on explicit buffers, run on worker threads. One backend so far; the trait comes with the second.
//!
//! Each operation is cut into tiles of its output, every tile computed by one thread start to end: cutting outputs and
//! never sums is what makes the thread count invisible in the bits.
//!
//! Sees pages as borrowed views and weights as packed matrices. Not here: who owns either, what a layer is.

mod attend;
mod cpu;
mod in_order;
mod product;
mod rope;

pub use attend::{AttendRow, Heads, Pages};
pub use cpu::{Cpu, Projection};
pub use product::{Inputs, Stack};
pub use rope::{Rope, RopeScaling, RopeTable};
