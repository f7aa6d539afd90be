//! The pool as its callers see it; the order of its atomic steps is tests/pool_loom.rs.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

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
