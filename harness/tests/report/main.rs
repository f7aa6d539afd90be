//! The pages against fabricated anchored runs, with the repository's own templates and claims.
//!
//! Not here: how one number is written or one line linted; unit tests beside that code do this.
#![cfg(feature = "report")]
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod claims;
mod classes;
mod evidence;
mod fixture;
mod pages;
mod runs;
mod scorecard;
mod serving;
mod values;
mod witness;
