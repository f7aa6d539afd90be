//! Worker threads and the disjoint outputs they write.
//!
//! A region is a job run once for each chunk number. The caller is a worker too and can finish a region alone, so a
//! descheduled thread delays only the chunk it holds; idle workers sleep. Which thread takes a chunk never changes a
//! result: chunks are ranges of outputs and nothing is summed across them. Not here: what the chunks compute, and whether
//! work is worth sharing: a region costs under a microsecond, waking sleepers some 25, so tiny work is one chunk.
#![allow(unsafe_code)]

mod gate;
mod sync;
#[cfg(test)]
mod tests;
mod tile;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use gate::Gate;
pub use tile::{Tile, TileSize};

/// How often a thread looks again before it gives up its core. One look is a pause instruction, some 15 to 60 ns by
/// processor: 10 to 50 us together, which is longer than the gap between two regions of a layer and about what it costs to
/// sleep and be woken.
const SPINS: usize = 800;

/// The work of a region.
type Job<'a> = &'a (dyn Fn(usize) + Sync);

struct Shared {
    gate: Gate,
    /// The open region's job, on the stack of the caller.
    job: AtomicPtr<Job<'static>>,
    panicked: AtomicBool,
}

impl Shared {
    fn run_chunks(&self) {
        while let Some(chunk) = self.gate.take() {
            // SAFETY: the caller stored the pointer before it opened the region this chunk was taken from, and keeps the
            // job alive and the pointer unchanged until the chunk is finished, which is below.
            let job = unsafe { *self.job.load(Ordering::Relaxed) };
            if catch_unwind(AssertUnwindSafe(|| job(chunk))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.gate.finish();
        }
    }
}

/// A fixed set of worker threads. The thread that calls [`Pool::run`] is one of them.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    one_region_at_a_time: Mutex<()>,
}

impl Pool {
    /// A pool of `threads` workers, the caller included.
    pub fn new(threads: usize) -> Result<Self> {
        let mut pool = Self {
            shared: Arc::new(Shared {
                gate: Gate::new(SPINS),
                job: AtomicPtr::default(),
                panicked: AtomicBool::new(false),
            }),
            workers: Vec::new(),
            one_region_at_a_time: Mutex::new(()),
        };
        for _ in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let worker = std::thread::Builder::new().spawn(move || {
                while shared.gate.wait_for_region() {
                    shared.run_chunks();
                }
            });
            pool.workers
                .push(worker.map_err(|source| Error::Threads { threads, source })?);
        }
        Ok(pool)
    }

    /// Worker threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `job(0..chunks)`, each number once, and returns when all are done. While the pool is busy with another region
    /// (of another thread, or the one this call is made from) the calling thread runs all chunks itself.
    ///
    /// # Panics
    /// If a job panicked.
    pub fn run(&self, chunks: usize, job: &(dyn Fn(usize) + Sync)) {
        if self.workers.is_empty() || chunks <= 1 || !self.run_shared(chunks, job) {
            (0..chunks).for_each(job);
        }
    }

    /// [`Pool::run`] with the workers; false, and nothing done, if they have another region.
    fn run_shared(&self, chunks: usize, job: Job<'_>) -> bool {
        let Ok(region) = self.one_region_at_a_time.try_lock() else {
            return false;
        };
        let shared = &self.shared;
        // Only the lifetime is erased: no chunk outlives the wait below.
        let job = (&raw const job).cast::<Job<'static>>().cast_mut();
        shared.job.store(job, Ordering::Relaxed);
        shared.gate.open(chunks);
        shared.run_chunks();
        shared.gate.wait_for_end();
        let panicked = shared.panicked.swap(false, Ordering::Relaxed);
        // Given back first: a panic would poison it.
        drop(region);
        assert!(!panicked, "a job of a region panicked");
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.gate.close();
        for worker in self.workers.drain(..) {
            // A worker cannot panic: jobs are caught.
            let _ = worker.join();
        }
    }
}
