//! Worker threads and the disjoint outputs they write.
//!
//! A region hands out chunk numbers from one atomic cursor; the caller is a worker too and can finish a region alone, so a
//! descheduled thread delays only the chunk it holds. Which thread takes a chunk never changes a result: chunks are
//! ranges of outputs and nothing is summed across them. Not here: what the chunks compute.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// How often a thread looks again before it sleeps: some 20 us, longer than the gap between two regions of a layer.
const SPINS: usize = 4_000;

type Job = dyn Fn(usize) + Sync;

#[derive(Clone, Copy)]
struct Region {
    job: *const Job,
    chunks: usize,
}
// SAFETY: the pointer is only dereferenced while `Pool::run` keeps the closure alive and the closure is Sync.
unsafe impl Send for Region {}

#[derive(Default)]
struct State {
    region: Option<Region>,
    active: usize,
    sleeping: usize,
    closed: bool,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    epoch: AtomicU64,
    cursor: AtomicUsize,
    panicked: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_chunks(&self, region: Region) {
        loop {
            let chunk = self.cursor.fetch_add(1, Ordering::Relaxed);
            if chunk >= region.chunks {
                return;
            }
            // SAFETY: `Pool::run` does not return, and so keeps the closure alive, while any worker is active.
            let job = unsafe { &*region.job };
            if catch_unwind(AssertUnwindSafe(|| job(chunk))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
        }
    }

    fn work(&self) {
        let mut seen = 0;
        loop {
            for _ in 0..SPINS {
                if self.epoch.load(Ordering::Acquire) != seen {
                    break;
                }
                std::hint::spin_loop();
            }
            let mut state = self.lock();
            while self.epoch.load(Ordering::Relaxed) == seen && !state.closed {
                state.sleeping += 1;
                state = self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.sleeping -= 1;
            }
            if state.closed {
                return;
            }
            seen = self.epoch.load(Ordering::Relaxed);
            let Some(region) = state.region else { continue };
            state.active += 1;
            drop(state);
            self.take_chunks(region);
            self.lock().active -= 1;
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
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            wake: Condvar::new(),
            epoch: AtomicU64::new(0),
            cursor: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
        });
        let mut pool = Self {
            shared,
            workers: Vec::new(),
            one_region_at_a_time: Mutex::new(()),
        };
        for _ in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let worker = std::thread::Builder::new().spawn(move || shared.work());
            pool.workers
                .push(worker.map_err(|source| Error::Threads { threads, source })?);
        }
        Ok(pool)
    }

    /// Worker threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `job(0..chunks)`, each number once, and returns when all are done.
    ///
    /// # Panics
    /// If a job panicked.
    pub fn run(&self, chunks: usize, job: &(dyn Fn(usize) + Sync)) {
        if self.workers.is_empty() || chunks <= 1 {
            (0..chunks).for_each(job);
            return;
        }
        let _one = self
            .one_region_at_a_time
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // SAFETY: only the lifetime is erased; this function waits for every worker that took the pointer.
        let job: *const Job =
            unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static Job>(job) };
        let region = Region { job, chunks };
        self.open(region);
        self.shared.take_chunks(region);
        self.close();
        assert!(
            !self.shared.panicked.swap(false, Ordering::Relaxed),
            "a job of a region panicked"
        );
    }

    fn open(&self, region: Region) {
        let shared = &self.shared;
        let mut state = shared.lock();
        shared.cursor.store(0, Ordering::Relaxed);
        state.region = Some(region);
        shared.epoch.fetch_add(1, Ordering::Release);
        if state.sleeping > 0 {
            shared.wake.notify_all();
        }
    }

    /// Withdraws the region, so that a late worker finds nothing, and waits for those inside it.
    fn close(&self) {
        let shared = &self.shared;
        let mut state = shared.lock();
        state.region = None;
        while state.active > 0 {
            drop(state);
            std::hint::spin_loop();
            std::thread::yield_now();
            state = shared.lock();
        }
    }

    /// Splits `out`, rows of `stride` elements, into tiles of `tile_rows` x `tile_cols` and runs `job` on each.
    ///
    /// # Panics
    /// If `out` is not whole rows or a tile size is zero.
    pub fn tiles<F>(&self, out: &mut [f32], stride: usize, size: TileSize, job: F)
    where
        F: Fn(Tile<'_>) + Sync,
    {
        let TileSize {
            rows: tile_rows,
            cols: tile_cols,
        } = size;
        assert!(stride > 0 && tile_rows > 0 && tile_cols > 0 && out.len().is_multiple_of(stride));
        let rows = out.len() / stride;
        let across = stride.div_ceil(tile_cols);
        let base = Base(out.as_mut_ptr());
        self.run(rows.div_ceil(tile_rows) * across, &|index| {
            let (row, col) = (index / across * tile_rows, index % across * tile_cols);
            job(Tile {
                base: base.get(),
                stride,
                first_row: row,
                rows: tile_rows.min(rows - row),
                first_col: col,
                cols: tile_cols.min(stride - col),
                lifetime: PhantomData,
            });
        });
    }
}

impl Pool {
    /// Runs `job` on each item, once.
    pub fn each<T: Send>(&self, items: &mut [T], job: impl Fn(usize, &mut T) + Sync) {
        let base = Base(items.as_mut_ptr());
        self.run(items.len(), &|index| {
            // SAFETY: `run` gives each index below the length to one job, once, so no two hold the same item.
            job(index, unsafe { &mut *base.get().add(index) });
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.epoch.fetch_add(1, Ordering::Release);
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker cannot panic: jobs are caught.
            let _ = worker.join();
        }
    }
}

/// Rows and columns of a tile.
#[derive(Clone, Copy, Debug)]
pub struct TileSize {
    /// Output rows per tile.
    pub rows: usize,
    /// Output columns per tile.
    pub cols: usize,
}

/// The address of the first of many things, to be dealt out without overlap.
struct Base<T>(*mut T);
// SAFETY: parts made from it never overlap, so sharing the address between threads is sound; the parts move to
// other threads, hence Send.
unsafe impl<T: Send> Sync for Base<T> {}

impl<T> Base<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

/// A rectangle of an output matrix, writable by one job only.
pub struct Tile<'a> {
    base: *mut f32,
    stride: usize,
    /// First row of the whole output.
    pub first_row: usize,
    /// Rows in this tile.
    pub rows: usize,
    /// First column of the whole output.
    pub first_col: usize,
    /// Columns in this tile.
    pub cols: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

impl Tile<'_> {
    /// Row `row` of the tile, `[cols]`.
    ///
    /// # Panics
    /// If the tile has no such row.
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows);
        let start = (self.first_row + row) * self.stride + self.first_col;
        // SAFETY: `Pool::tiles` made the tile inside the output and gave no other tile these elements; `&mut self`
        // keeps two rows of one tile from being borrowed at once.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(start), self.cols) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_runs_once_whatever_the_threads() {
        for threads in [1, 2, 3, 8] {
            let pool = Pool::new(threads).unwrap();
            for chunks in [0, 1, 2, 7, 1000] {
                let counts: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(chunks, &|chunk| {
                    counts[chunk].fetch_add(1, Ordering::Relaxed);
                });
                assert!(
                    counts
                        .iter()
                        .all(|count| count.load(Ordering::Relaxed) == 1)
                );
            }
        }
    }

    #[test]
    fn many_short_regions_do_not_mix() {
        let pool = Pool::new(3).unwrap();
        for round in 0..20_000_usize {
            let sum = AtomicUsize::new(0);
            pool.run(3, &|chunk| {
                sum.fetch_add(chunk + round, Ordering::Relaxed);
            });
            assert_eq!(sum.load(Ordering::Relaxed), 3 + 3 * round);
        }
    }

    #[test]
    fn tiles_cover_the_output_without_overlap() {
        let pool = Pool::new(2).unwrap();
        for (rows, stride, size) in [
            (5, 7, TileSize { rows: 2, cols: 3 }),
            (1, 1, TileSize { rows: 9, cols: 9 }),
            (4, 16, TileSize { rows: 4, cols: 16 }),
        ] {
            let mut out = vec![0.0_f32; rows * stride];
            pool.tiles(&mut out, stride, size, |mut tile| {
                for row in 0..tile.rows {
                    let first = ((tile.first_row + row) * stride + tile.first_col) as f32;
                    for (i, value) in tile.row(row).iter_mut().enumerate() {
                        *value += first + i as f32;
                    }
                }
            });
            assert!(
                out.iter()
                    .enumerate()
                    .all(|(i, &x)| x.to_bits() == (i as f32).to_bits())
            );
        }
    }

    #[test]
    fn a_panicking_job_reaches_the_caller_and_the_pool_survives() {
        let pool = Pool::new(2).unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(8, &|chunk| assert_ne!(chunk, 5, "on purpose"));
        }));
        assert!(caught.is_err());
        pool.run(4, &|_| {});
    }
}
