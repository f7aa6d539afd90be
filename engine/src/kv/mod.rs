//! The KV cache: pages of 64 positions owned by one pool, page tables of sequences, a radix tree that shares them.
//!
//! Not here: what keys and values are (`model`), who may run when (`schedule`).

pub mod pool;
pub mod radix;
pub mod table;

pub use pool::{KvShape, PageId, PagePool, RowCounts, RowSource};
pub use radix::RadixTree;
pub use table::PageTable;
