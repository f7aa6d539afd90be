//! The pool's gate under loom: every order of its atomic steps that a bounded number of preemptions can make, and every
//! stale value the memory model allows. A lost wake-up shows as a deadlock. Not here: jobs and tiles (src/pool/tests.rs).
#![allow(clippy::unwrap_used)] // tests

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

#[path = "../src/pool/gate.rs"]
mod gate;

/// What `pool/sync.rs` is in the crate.
mod sync {
    pub(super) use loom::hint::spin_loop;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use loom::thread::yield_now;
    pub(super) use std::sync::PoisonError;
}

use gate::Gate;

/// Preemptions per execution; unforced switches (sleeping, yielding) are not counted.
const PREEMPTIONS: usize = 2;
/// Looking twice is looking once with more orders to try.
const SPINS: usize = 0;

/// A gate with what the pool keeps beside it, all relaxed: only the gate orders them.
struct Model {
    gate: Gate,
    /// Number of the open region, standing for its job.
    region: AtomicUsize,
    /// Times each chunk ran, per region.
    ran: [[AtomicUsize; 3]; 2],
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            gate: Gate::new(SPINS),
            region: AtomicUsize::new(usize::MAX),
            ran: std::array::from_fn(|_| std::array::from_fn(|_| AtomicUsize::new(0))),
        })
    }

    fn open(&self, region: usize, chunks: usize) {
        self.region.store(region, Ordering::Relaxed);
        self.gate.open(chunks);
    }

    fn run_chunks(&self) {
        while let Some(chunk) = self.gate.take() {
            let ran = &self.ran[self.region.load(Ordering::Relaxed)][chunk];
            // Not a fetch_add: a chunk's result is an ordinary write.
            ran.store(ran.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.gate.finish();
        }
    }

    /// Each of the region's `chunks` ran once, as the caller sees it, and no other did.
    fn check(&self, region: usize, chunks: usize) {
        for (chunk, ran) in self.ran[region].iter().enumerate() {
            assert_eq!(ran.load(Ordering::Relaxed), usize::from(chunk < chunks));
        }
    }
}

fn spawn_worker(model: &Arc<Model>) -> thread::JoinHandle<()> {
    let model = Arc::clone(model);
    thread::spawn(move || {
        while model.gate.wait_for_region() {
            model.run_chunks();
        }
    })
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

#[test]
fn two_regions_run_each_chunk_once_and_the_worker_goes_home() {
    explore(|| {
        let model = Model::new();
        let worker = spawn_worker(&model);
        for (region, chunks) in [(0, 2), (1, 3)] {
            model.open(region, chunks);
            model.run_chunks();
            model.gate.wait_for_end();
            model.check(region, chunks);
        }
        model.gate.close();
        worker.join().unwrap();
    });
}

#[test]
fn a_worker_is_always_woken_for_chunks_the_caller_leaves() {
    explore(|| {
        let model = Model::new();
        let worker = spawn_worker(&model);
        for (region, chunks) in [(0, 2), (1, 2)] {
            model.open(region, chunks);
            model.gate.wait_for_end();
            model.check(region, chunks);
        }
        model.gate.close();
        worker.join().unwrap();
    });
}

#[test]
fn two_workers_and_the_caller_share_a_region() {
    explore(|| {
        let model = Model::new();
        let workers = [spawn_worker(&model), spawn_worker(&model)];
        model.open(0, 2);
        model.run_chunks();
        model.gate.wait_for_end();
        model.check(0, 2);
        model.gate.close();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

#[test]
fn the_caller_never_waits_for_a_worker_without_a_chunk() {
    explore(|| {
        let model = Model::new();
        let ended = Arc::new(AtomicUsize::new(0));
        let stalled = {
            let (model, ended) = (Arc::clone(&model), Arc::clone(&ended));
            thread::spawn(move || {
                // Saw a region, and is not heard of again before the caller is through with it.
                let _ = model.gate.wait_for_region();
                while ended.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
                model.run_chunks();
            })
        };
        model.open(0, 2);
        model.run_chunks();
        model.gate.wait_for_end();
        ended.store(1, Ordering::Relaxed);
        model.open(1, 2);
        model.run_chunks();
        model.gate.wait_for_end();
        model.check(0, 2);
        model.check(1, 2);
        model.gate.close();
        stalled.join().unwrap();
    });
}
