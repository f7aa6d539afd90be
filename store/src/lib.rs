//! What outlives an engine: its pages, its sessions, the texts it bars, kept where other processes find them.
//!
//! Strings of bytes under names, behind one small trait (`object`). Not here: what a page's bytes say (`engine::kv::image`),
//! when a request is run (`engine`).

pub mod directory;
pub mod faulty;
pub mod memory;
pub mod object;
#[cfg(feature = "redis")]
pub mod redis;

pub use directory::{Directory, DirectoryOptions};
pub use faulty::Faulty;
pub use memory::Memory;
pub use object::{Entry, Fault, Kind, Name, OBJECT_BYTES_MAX, Store};
#[cfg(feature = "redis")]
pub use redis::{Redis, RedisOptions};
