//! When a worker may take a chunk and when the caller may go on: the whole synchronisation of the pool.
//!
//! A region is a number of chunks not yet taken and a number not yet finished. Whoever takes a chunk takes it from the
//! region that is open at that moment, and that region cannot end before the chunk is finished; so what a thread reads
//! about the region *after* taking a chunk is about the right one, however late the thread is. Nobody waits for a thread
//! that holds no chunk. Not here: what a chunk is, threads, panics. The file is also the loom model's subject
//! (engine/tests/pool_loom.rs), so it takes its primitives from `super::sync`.
#![forbid(unsafe_code)]

use super::sync::{
    AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError, fence, spin_loop,
    yield_now,
};

/// In place of the chunks not yet taken: there will be no more regions.
const CLOSED: usize = usize::MAX;

/// A value alone on its cache lines (two, as the prefetcher fetches pairs), so that threads looking at one are not
/// disturbed by threads writing another.
#[repr(align(128))]
struct Alone<T>(T);

/// Where one caller hands out the chunks of one region at a time.
pub(super) struct Gate {
    /// Chunks not yet taken, or `CLOSED`. All that waiting workers look at.
    untaken: Alone<AtomicUsize>,
    /// Chunks not yet finished. All that the waiting caller looks at.
    unfinished: Alone<AtomicUsize>,
    /// Chunks of the open region.
    chunks: AtomicUsize,
    /// Whether a thread may be asleep that nobody has woken. Written under the lock.
    somebody_sleeps: AtomicBool,
    /// Held from a sleeper's last look at `untaken` until it sleeps.
    falling_asleep: Mutex<()>,
    wake: Condvar,
    spins: usize,
}

impl Gate {
    /// A gate without a region. Whoever waits looks `spins` times before it gives up its core.
    pub(super) fn new(spins: usize) -> Self {
        Self {
            untaken: Alone(AtomicUsize::new(0)),
            unfinished: Alone(AtomicUsize::new(0)),
            chunks: AtomicUsize::new(0),
            somebody_sleeps: AtomicBool::new(false),
            falling_asleep: Mutex::new(()),
            wake: Condvar::new(),
            spins,
        }
    }

    /// Opens a region of `chunks` chunks. The region before must have ended ([`Gate::wait_for_end`]).
    pub(super) fn open(&self, chunks: usize) {
        debug_assert!(chunks < CLOSED);
        self.chunks.store(chunks, Ordering::Relaxed);
        self.unfinished.0.store(chunks, Ordering::Relaxed);
        self.publish(chunks);
    }

    /// Sends the workers home. No region may be open.
    pub(super) fn close(&self) {
        self.publish(CLOSED);
    }

    /// Release: who takes a chunk sees everything that was written before the region opened.
    fn publish(&self, untaken: usize) {
        self.untaken.0.store(untaken, Ordering::Release);
        // Between the two fences, here and in `sleep`, one comes first: either we see the sleeper or it sees the region.
        fence(Ordering::SeqCst);
        if self.somebody_sleeps.load(Ordering::Relaxed) {
            // A sleeper that looked too early holds the lock until it can be woken. Once woken it is not woken again,
            // however long it takes to run: waking can cost more than a region.
            let falling_asleep = self.lock();
            self.somebody_sleeps.store(false, Ordering::Relaxed);
            drop(falling_asleep);
            self.wake.notify_all();
        }
    }

    /// The number of a chunk that is now the calling thread's to run, ascending; none when all are taken.
    pub(super) fn take(&self) -> Option<usize> {
        let one_less = |untaken| (untaken != 0 && untaken != CLOSED).then(|| untaken - 1);
        let untaken = self
            .untaken
            .0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, one_less);
        // Read after the chunk was taken, so it belongs to the region the chunk came from.
        untaken
            .ok()
            .map(|untaken| self.chunks.load(Ordering::Relaxed) - untaken)
    }

    /// Gives back a finished chunk. What the thread wrote is seen by the caller once it goes on.
    pub(super) fn finish(&self) {
        self.unfinished.0.fetch_sub(1, Ordering::Release);
    }

    /// Returns when every chunk of the region is finished; the caller has seen that none is left to take.
    pub(super) fn wait_for_end(&self) {
        let mut looks = 0;
        while self.unfinished.0.load(Ordering::Acquire) > 0 {
            if looks < self.spins {
                looks += 1;
                spin_loop();
            } else {
                // Perhaps the holder of the last chunk wants this very core.
                yield_now();
            }
        }
    }

    /// Returns true when there may be chunks to take, false when there will be no more.
    pub(super) fn wait_for_region(&self) -> bool {
        let mut looks = 0;
        loop {
            match self.untaken.0.load(Ordering::Relaxed) {
                CLOSED => return false,
                0 if looks < self.spins => {
                    looks += 1;
                    spin_loop();
                }
                0 => {
                    self.sleep();
                    // The region we were woken for may be over, but regions come in series.
                    looks = 0;
                }
                _ => return true,
            }
        }
    }

    /// Sleeps until woken, unless there is a region to look at; wakes for no reason at times.
    fn sleep(&self) {
        let awake = self.lock();
        self.somebody_sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.untaken.0.load(Ordering::Relaxed) == 0 {
            drop(
                self.wake
                    .wait(awake)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.falling_asleep
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
