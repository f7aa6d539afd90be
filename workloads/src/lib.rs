//! What is asked and how the answer is written down: envelopes, generators, the token oracle, record types.
//!
//! Not here: anything that runs a model (`engine`, `baselines`), measures time, or verifies evidence (`audit`).

pub mod accounting;
pub mod arm;
pub mod arrivals;
pub mod cells;
pub mod counts;
pub mod datasets;
pub mod envelope;
mod error;
pub mod fanout;
pub mod instrument;
pub mod mock;
pub mod models;
pub mod oracle;
pub mod prices;
pub mod record;
pub mod session;
mod splitmix;
pub mod statistics;
pub mod summary;
pub mod trace;

pub use error::Error;
