//! The primitives the gate is built from. The loom test builds the same gate over loom's.
//!
//! Not here: any code of ours.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
pub(super) use std::thread::yield_now;
