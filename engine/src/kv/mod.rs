//! The KV cache: pages of 64 positions owned by one pool, page tables of sequences, a radix tree that shares them.
//!
//! Not here: what keys and values are (`model`), who may run when (`schedule`).

mod page;
pub mod pool;
pub mod radix;
pub mod table;

pub use page::KvShape;
pub use pool::{PageId, PagePool, RowCounts, RowSource};
pub use radix::RadixTree;
pub use table::PageTable;
