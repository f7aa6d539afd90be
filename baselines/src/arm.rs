//! The seam between a session and whoever answers it: our engine, a scripted one, later external ones.
//!
//! Not here: which caches and batches an arm's name stands for (`workloads::arm`).

use engine::{Counters, Request, Sink};

use crate::Error;

/// Takes requests and works on them, telling what happens in events.
pub trait Arm {
    /// Takes a request; work starts with the next step.
    fn submit(&mut self, request: Request) -> Result<(), Error>;
    /// Does one step's work; `false` when nothing was left to do.
    fn step(&mut self, sink: &mut dyn Sink) -> Result<bool, Error>;
    /// What it counted itself, to be held against the events.
    fn report(&self) -> Report;
}

/// What an arm says of itself at the end.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Its own token counts.
    pub counters: Counters,
    /// Most bytes its KV cache held.
    pub kv_bytes_peak: u64,
}
