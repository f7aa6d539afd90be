//! The seam between a session and whoever answers it: our engine, a scripted one, later external ones.
//!
//! Not here: which caches and batches an arm's name stands for (`workloads::arm`).

use engine::{Counters, Request, Sink};
use workloads::trace::{KvNode, KvTombstone};

use crate::Error;

/// Takes requests and works on them, telling what happens in events.
pub trait Arm {
    /// Takes a request; work starts with the next step.
    fn submit(&mut self, request: Request) -> Result<(), Error>;
    /// Does one step's work; `false` when nothing was left to do.
    fn step(&mut self, sink: &mut dyn Sink) -> Result<bool, Error>;
    /// What it counted itself, to be held against the events.
    fn report(&self) -> Report;
    /// Takes the text from position `start` to the end of `ids` out of the cache, for good: nothing that begins with `ids`
    /// is found there from now on beyond `start`.
    fn quarantine(&mut self, ids: &[u32], start: usize) -> Result<Quarantined, Error>;
    /// What its cache holds now.
    fn kv(&self) -> Result<Kv, Error>;
}

/// What a quarantine did.
#[derive(Clone, Copy, Debug)]
pub struct Quarantined {
    /// Pages that left the tree.
    pub pages: usize,
    /// Requests in flight whose prompt begins with the text.
    pub running: usize,
}

/// A cache: pages, and the texts it refuses.
#[derive(Clone, Debug, Default)]
pub struct Kv {
    /// Pages, each after the one it continues.
    pub nodes: Vec<KvNode>,
    /// Refused texts.
    pub tombstones: Vec<KvTombstone>,
}

/// What an arm says of itself at the end.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Its own token counts.
    pub counters: Counters,
    /// Most bytes its KV cache held.
    pub kv_bytes_peak: u64,
}
