//! The independent verifier: recomputes every figure of a run directory from its traces and says what it could
//! not know.
//!
//! It follows `FORMAT.md` and nothing else: no code is shared with the crates that write the evidence, so that a bug
//! in their arithmetic cannot hide in ours. Not here: running a model, fetching anything, or repairing what is broken.

mod admission;
mod arms;
mod arrivals;
mod attest;
mod ceilings;
mod cell;
mod cells;
mod chain;
mod counted;
mod declared;
mod demands;
mod envelope;
mod external;
mod figures;
mod format;
mod goodput;
mod hash;
mod identity;
mod index;
mod latencies;
mod line;
mod locate;
mod needs;
mod notebook;
mod oracle;
mod possible;
mod radix;
mod ratios;
mod record;
mod report;
mod run;
mod schema;
mod seal;
mod seeded;
mod server;
mod session;
mod statistics;
mod toml;
mod trace;
mod tree;

pub use attest::{Attestation, KeyRefused, audit_attested, audit_attested_with};
pub use index::{IndexReport, audit_index, audit_index_with};
pub use notebook::{Checks, Finding, Layer, Site};
pub use record::{Divergence, Identity};
pub use report::Report;
pub use run::{audit_run, audit_run_with};
