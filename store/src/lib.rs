//! What outlives an engine: its pages, its sessions, the texts it bars, kept where other processes find them.
//!
//! Strings of bytes under names, behind one small trait (`object`); two threads that talk to it (`keeper`); an engine with
//! that behind it (`worker`). Not here: what a page's bytes say (`engine::kv::image`), when a request is run (`engine`).

pub mod announced;
pub mod barred;
mod bytes;
pub mod directory;
pub mod faulty;
mod fetcher;
pub mod keeper;
pub mod lease;
pub mod memory;
pub mod object;
mod open;
#[cfg(feature = "redis")]
pub mod redis;
pub mod sealed;
pub mod told;
pub mod worker;
mod writer;

pub use announced::Announced;
pub use barred::{Barred, NotOurs};
pub use directory::{Directory, DirectoryOptions};
pub use faulty::Faulty;
pub use keeper::{Clock, KeeperOptions};
pub use memory::Memory;
pub use object::{Entry, Fault, Kind, Name, OBJECT_BYTES_MAX, Store};
#[cfg(feature = "redis")]
pub use redis::{Redis, RedisOptions};
pub use sealed::Sealed;
pub use told::{Told, What, WorkerSink};
pub use worker::Worker;
