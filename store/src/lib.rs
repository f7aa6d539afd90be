//! What outlives an engine: its pages, its sessions, the texts it bars, kept where other processes find them.
//!
//! Strings of bytes under names, behind one small trait (`object`). Not here: what a page's bytes say (`engine::kv::image`),
//! when a request is run (`engine`).

pub mod object;

pub use object::{Entry, Fault, Kind, Name, Store};
