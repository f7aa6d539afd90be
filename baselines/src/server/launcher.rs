//! A stand-in for llama.cpp's server, out of a Python package.
//!
//! Not here: where either is found (`harness`).

/// The package and the version the launcher was written for.
pub const PACKAGE: &str = "xllamacpp==2026.10.11549";

/// A program that takes the arguments of llama.cpp's server and serves through that package.
pub const PROGRAM: &str = include_str!("launcher.py");
