//! What the machine can do at best: bytes read, floats and bytes multiplied and added, per second.
//!
//! The loops are the engine's (`engine::ceilings`); here are their threads, their clock and their repetitions. The best
//! repetition is the ceiling: other work on the machine can only make one slower. Not here: what share of a ceiling some
//! work reached.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::ops::RangeInclusive;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use engine::ceilings;
use engine::tensor::{Arena, Buffer};
use serde_json::{Value, json};
use workloads::record::CeilingsRecord;

use super::{cache_bytes, kibibytes};
use crate::table::{Table, counted};

/// Times the last-level cache, so that next to nothing of one pass is still there in the next.
const CACHES: u64 = 8;
/// Bytes of the buffer that is read, whatever the cache.
const BUFFER_BYTES: RangeInclusive<u64> = (256 << 20)..=(2 << 30);
/// Rounds of one repetition: a few milliseconds, short enough to fit between other programs' slices.
const F32_ROUNDS: u64 = 1 << 20;
const INT8_ROUNDS: u64 = 1 << 14;
/// Repetitions of each loop, however slow the machine.
const REPETITIONS_MIN: usize = 5;
/// The loops, for dividing the budget.
const LOOPS: u32 = 3;

/// Rates of one loop with one number of threads, per second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Ascending; never empty.
    per_s: Vec<u64>,
}

impl Rates {
    /// The ceiling.
    pub fn best(&self) -> u64 {
        self.per_s.last().copied().unwrap_or(0)
    }

    fn median(&self) -> u64 {
        self.per_s.get(self.per_s.len() / 2).copied().unwrap_or(0)
    }

    fn least(&self) -> u64 {
        self.per_s.first().copied().unwrap_or(0)
    }
}

/// Every ceiling, by number of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceilings {
    read_bytes: BTreeMap<usize, Rates>,
    f32_flop: BTreeMap<usize, Rates>,
    int8_op: BTreeMap<usize, Rates>,
}

/// Measures with one thread and with `threads`, in about `budget` and the time it takes to fill a buffer.
pub fn measure(threads: usize, budget: Duration) -> Ceilings {
    let words = buffer();
    let counts = BTreeSet::from([1, threads.max(1)]);
    let share = budget / LOOPS / counts.len() as u32;
    let over_counts = |one: &dyn Fn(usize) -> Rates| {
        counts
            .iter()
            .map(|&threads| (threads, one(threads)))
            .collect()
    };
    Ceilings {
        read_bytes: over_counts(&|threads| {
            let part = words.len() / threads;
            let bytes = (part * threads * size_of::<u64>()) as u64;
            repeat(threads, bytes, share, &|thread| {
                black_box(ceilings::read(&words[thread * part..][..part]));
            })
        }),
        f32_flop: over_counts(&|threads| {
            let operations = threads as u64 * F32_ROUNDS * ceilings::F32_FLOP_PER_ROUND;
            repeat(threads, operations, share, &|_| {
                black_box(ceilings::f32_fma(black_box(F32_ROUNDS)));
            })
        }),
        int8_op: over_counts(&|threads| {
            let operations = threads as u64 * INT8_ROUNDS * ceilings::INT8_OP_PER_ROUND;
            repeat(threads, operations, share, &|_| {
                black_box(ceilings::int8(black_box(INT8_ROUNDS)));
            })
        }),
    }
}

/// Words enough to leave every cache, at most a quarter of the memory, each written: untouched pages would all be one.
///
/// From an arena, as the engine's weights and cached keys and values are: in pages of 4 KiB half the rate would be lost.
fn buffer() -> Buffer<u64> {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let quarter = kibibytes(&memory, "MemAvailable").map_or(u64::MAX, |bytes| bytes / 4);
    let wanted = cache_bytes().unwrap_or(0).saturating_mul(CACHES);
    let bytes = wanted.clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end());
    let mut words = Arena::default().zeroed(bytes.min(quarter) as usize / size_of::<u64>());
    for (place, word) in words.iter_mut().enumerate() {
        *word = place as u64;
    }
    words
}

/// Rates of `amount` of work, done by `threads` at once, until `share` is used up.
fn repeat(threads: usize, amount: u64, share: Duration, work: &(dyn Fn(usize) + Sync)) -> Rates {
    let start = Instant::now();
    let mut per_s = Vec::new();
    while per_s.len() < REPETITIONS_MIN || start.elapsed() < share {
        let seconds = once(threads, work).as_secs_f64();
        per_s.push((amount as f64 / seconds) as u64);
    }
    per_s.sort_unstable();
    Rates { per_s }
}

/// From the first thread's start to the last one's end; starting them is not counted.
fn once(threads: usize, work: &(dyn Fn(usize) + Sync)) -> Duration {
    let together = Barrier::new(threads);
    let timed = |thread: usize| {
        together.wait();
        let start = Instant::now();
        work(thread);
        (start, Instant::now())
    };
    let spans: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|thread| scope.spawn(move || timed(thread)))
            .collect();
        let own = timed(0);
        let joined = others.into_iter().filter_map(|other| other.join().ok());
        joined.chain([own]).collect()
    });
    let start = spans.iter().map(|span| span.0).min();
    let end = spans.iter().map(|span| span.1).max();
    let wall = start.zip(end).map(|(start, end)| end - start);
    wall.unwrap_or_default().max(Duration::from_nanos(1))
}

impl Ceilings {
    fn rows(&self) -> [(&'static str, &'static str, &BTreeMap<usize, Rates>); 3] {
        [
            ("read", "GB/s", &self.read_bytes),
            ("f32 multiply-add", "GFLOP/s", &self.f32_flop),
            ("int8 multiply-add", "GOP/s", &self.int8_op),
        ]
    }

    /// The best of each, as run.json has it.
    pub fn record(&self) -> CeilingsRecord {
        let best = |rates: &BTreeMap<usize, Rates>| {
            rates
                .iter()
                .map(|(&threads, rates)| (threads, rates.best()))
                .collect()
        };
        CeilingsRecord {
            read_bytes_per_s: best(&self.read_bytes),
            f32_flop_per_s: best(&self.f32_flop),
            int8_op_per_s: best(&self.int8_op),
        }
    }

    /// How far the repetitions fell short of the best, under the record's names.
    pub fn spread(&self) -> Value {
        let spread = |rates: &BTreeMap<usize, Rates>| -> Value {
            let by_threads = rates.iter().map(|(threads, rates)| {
                let (median, least) = (rates.median(), rates.least());
                let repetitions = rates.per_s.len();
                let value = json!({ "median": median, "least": least, "repetitions": repetitions });
                (threads.to_string(), value)
            });
            Value::Object(by_threads.collect())
        };
        json!({
            "read_bytes_per_s": spread(&self.read_bytes),
            "f32_flop_per_s": spread(&self.f32_flop),
            "int8_op_per_s": spread(&self.int8_op),
        })
    }

    /// A table for people.
    pub fn render(&self) -> String {
        let mut table = Table::new(&[
            "ceiling",
            "with",
            "unit",
            "best",
            "median",
            "least",
            "repetitions",
        ])
        .left(3);
        let shown = |per_s: u64| format!("{:.1}", per_s as f64 / 1e9);
        for (name, unit, by_threads) in self.rows() {
            for (&threads, rates) in by_threads {
                table.row([
                    name.to_owned(),
                    counted(threads, "thread"),
                    unit.to_owned(),
                    shown(rates.best()),
                    shown(rates.median()),
                    shown(rates.least()),
                    rates.per_s.len().to_string(),
                ]);
            }
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_thread_works_in_every_repetition_and_the_best_is_the_ceiling() {
        let worked: [AtomicUsize; 3] = Default::default();
        let rates = repeat(3, 6_000, Duration::ZERO, &|thread| {
            worked[thread].fetch_add(1, Ordering::Relaxed);
        });
        let worked = worked.map(AtomicUsize::into_inner);
        assert_eq!(worked, [REPETITIONS_MIN; 3]);
        assert_eq!(rates.per_s.len(), REPETITIONS_MIN);
        assert!(rates.per_s.iter().all(|&rate| rate <= rates.best()));
        assert!(rates.least() <= rates.median() && rates.median() <= rates.best());
    }

    #[test]
    fn a_repetition_lasts_from_the_first_start_to_the_last_end() {
        let slow = Duration::from_millis(20);
        let wall = once(2, &|thread| thread::sleep(slow * thread as u32));
        assert!(wall >= slow, "{wall:?}");
    }

    #[test]
    fn the_record_holds_the_best_of_each_thread_count() {
        let rates = |per_s: &[u64]| Rates {
            per_s: per_s.to_vec(),
        };
        let by_threads = BTreeMap::from([(1, rates(&[1, 2, 9])), (2, rates(&[4]))]);
        let ceilings = Ceilings {
            read_bytes: by_threads.clone(),
            f32_flop: by_threads.clone(),
            int8_op: by_threads,
        };
        let record = json!(ceilings.record());
        for name in ["read_bytes_per_s", "f32_flop_per_s", "int8_op_per_s"] {
            assert_eq!(record[name], json!({ "1": 9, "2": 4 }));
            let one = &ceilings.spread()[name]["1"];
            assert_eq!(*one, json!({ "median": 2, "least": 1, "repetitions": 3 }));
        }
        assert_eq!(ceilings.render().lines().count(), 2 + 6);
    }
}
