//! Why an arm could not answer, in words that name the field to change.
//!
//! Not here: what the harness makes of it (a failed record, not a lost run).

/// The error of an arm.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// The envelope does not fit the arm or the model.
    #[error(transparent)]
    Envelope(#[from] workloads::Error),
    /// The envelope names kernels the engine does not have.
    #[error("run.kernels: {0}")]
    Kernels(String),
    /// The envelope names a mode that does not exist.
    #[error("run: {0}")]
    Mode(String),
    /// The last turn would not fit the model.
    #[error(
        "an agent's transcript grows to {needed} positions and model {model} has {available}; lower \
         workload.turns, prefix, decode or result"
    )]
    Context {
        /// The model's name.
        model: String,
        /// Positions of the longest transcript.
        needed: u64,
        /// Positions the model has.
        available: u64,
    },
    /// Not even one agent's transcript fits the pool.
    #[error(
        "arm {arm} needs up to {needed} KV pages for one agent and run.kv_pages = {available}; raise \
         run.kv_pages or lower workload.turns"
    )]
    Pages {
        /// The arm's name.
        arm: String,
        /// Pages it may need.
        needed: u64,
        /// Pages there are.
        available: u64,
    },
    /// The arm's events do not add up: a bug in it, not in the envelope.
    #[error("the arm contradicts itself: {0}; please report this with the trace")]
    Contradiction(String),
    /// A cell would not fit the model or the pool.
    #[error("cell {cell} needs {needed} {what} and {available} are there; lower {lower}")]
    Cell {
        /// The cell's name.
        cell: String,
        /// What there is too little of.
        what: &'static str,
        /// How much it may need.
        needed: usize,
        /// How much there is.
        available: usize,
        /// What to change.
        lower: &'static str,
    },
    /// Another program is not there, failed, or did not answer what was asked.
    #[error("{0}")]
    External(String),
    /// The trace could not be written.
    #[error("cannot write the trace: {0}")]
    Write(#[from] std::io::Error),
    /// The envelope could not be written as JSON.
    #[error("cannot write the envelope as JSON: {0}")]
    Json(serde_json::Error),
}
