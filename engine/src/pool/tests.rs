//! The pool as its callers see it; the order of its atomic steps is tests/pool_loom.rs.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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

/// Waits, without the clock, for something another thread does.
fn wait_until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

#[test]
fn a_stalled_chunk_keeps_no_other_chunk_from_finishing() {
    const CHUNKS: usize = 64;
    for threads in [2, 3, 8] {
        let pool = Pool::new(threads).unwrap();
        // Whichever thread has the stalled chunk, caller or worker, the others finish the rest while it is held.
        for stalled in [0, 1, CHUNKS / 2, CHUNKS - 1] {
            let others = AtomicUsize::new(0);
            pool.run(CHUNKS, &|chunk| {
                if chunk == stalled {
                    wait_until(|| others.load(Ordering::Relaxed) == CHUNKS - 1);
                } else {
                    others.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }
}

#[test]
fn a_region_inside_a_region_and_regions_of_two_threads_all_run() {
    let pool = Pool::new(2).unwrap();
    let inner = AtomicUsize::new(0);
    let region = || {
        pool.run(3, &|_| {
            pool.run(5, &|chunk| {
                inner.fetch_add(chunk, Ordering::Relaxed);
            });
        });
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..1_000).for_each(|_| region()));
        }
    });
    assert_eq!(inner.into_inner(), 2 * 1_000 * 3 * (1 + 2 + 3 + 4));
}

/// User and system time of a thread of this process in clock ticks, from fields 14 and 15 of its stat line.
fn cpu_ticks(thread: &Path) -> u64 {
    let stat = std::fs::read_to_string(thread.join("stat")).unwrap();
    // The name, in parentheses, may hold spaces.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields = fields.split_whitespace().skip(11).take(2);
    fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn an_idle_pool_uses_no_cpu() {
    const THREADS: usize = 4;
    const TICKS_MAX: u64 = 2;
    if !Path::new("/proc/thread-self/stat").exists() {
        eprintln!("skipped: threads' CPU time is read from /proc, which is absent");
        return;
    }
    let pool = Pool::new(THREADS).unwrap();
    let threads = Mutex::new(BTreeSet::new());
    // Each chunk holds its thread until all have one, so each thread, the caller included, is listed.
    pool.run(THREADS, &|_| {
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        threads
            .lock()
            .unwrap()
            .insert(Path::new("/proc").join(link));
        wait_until(|| threads.lock().unwrap().len() == THREADS);
    });
    let threads = threads.into_inner().unwrap();
    let ticks = || threads.iter().map(|thread| cpu_ticks(thread)).sum::<u64>();
    let before = ticks();
    std::thread::sleep(Duration::from_millis(200));
    assert!(ticks() - before <= TICKS_MAX);
}
