//! The KV cache: pages of 64 positions owned by one pool, page tables of sequences, a radix tree that shares them.
//!
//! Not here: what keys and values are (`model`), who may run when (`schedule`).

pub mod image;
pub mod key;
mod page;
pub mod policy;
pub mod pool;
pub mod radix;
pub mod table;
pub mod tombstone;

pub use image::{CheckedPage, Layout, PageCopy, PageImage};
pub use key::{Domain, Namespace, PageKey, Public, Scope};
pub use page::KvShape;
pub use policy::{Eviction, EvictionPolicy};
pub use pool::{Occupancy, PageId, PagePool, RowCounts, RowSource};
pub use radix::{NodeId, Owner, RadixTree, Writer};
pub use table::PageTable;
pub use tombstone::Tombstones;
