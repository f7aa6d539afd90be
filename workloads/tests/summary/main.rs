//! Summaries of fabricated traces: our own arms, and other engines beside them.
#![allow(clippy::unwrap_used)]

mod fabricated;
mod ours;
mod servers;
