//! Whole operations on explicit buffers, run on worker threads. One backend so far; the trait comes with the second.
//!
//! Sees pages as borrowed views and weights as packed matrices. Not here: who owns either, what a layer is.

mod cpu;
mod rope;

pub use cpu::{AttendRow, Cpu, Heads};
pub use rope::{Rope, RopeScaling, RopeTable};
