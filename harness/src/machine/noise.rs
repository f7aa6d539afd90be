//! How noisy the machine is now: one fixed piece of work, again and again on every thread a run will use.
//!
//! Not here: what a run makes of it (`run`), or what the machine can do at best (`ceilings`).

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use workloads::record::Noise;
use workloads::statistics::round6;
use workloads::statistics::spread::Distribution;

use crate::table::duration;
use crate::world::World;

/// Dependent multiplications of one repetition: some milliseconds, so that being set aside for a moment shows.
const WORK: u64 = 1 << 21;
/// Enough for a 90th percentile.
const REPETITIONS_MIN: usize = 64;
/// What a verdict calls a difference: with more noise than that, few pairs show none.
const SPREAD_MAX: f64 = 0.05;
/// Seconds between two looks.
const PAUSE: Duration = Duration::from_secs(5);

/// Measures for `budget`, again until the machine is quiet or `wait` is over, and warns if it never was.
pub fn guard(threads: usize, budget: Duration, wait: Duration, world: &World) -> Noise {
    let start = Instant::now();
    loop {
        let mut noise = measure(threads, budget);
        let waited = start.elapsed().saturating_sub(budget);
        noise.waited_s = if wait.is_zero() { 0 } else { waited.as_secs() };
        let quiet = is_quiet(&noise, world.cores);
        if quiet || waited >= wait {
            if !quiet {
                let words = words(&noise, world.cores);
                world.say(&format!(
                    "noisy machine: {words}; --wait-quiet SECONDS waits for less"
                ));
            }
            return noise;
        }
        world.say(&format!(
            "waiting for quiet: {}",
            words(&noise, world.cores)
        ));
        thread::sleep(PAUSE.min(wait.saturating_sub(waited)));
    }
}

/// Whether times measured then are worth comparing.
pub fn is_quiet(noise: &Noise, cores: usize) -> bool {
    let busy = noise.load1.is_some_and(|load1| load1 > cores as f64 / 2.0);
    noise.spread <= SPREAD_MAX && !busy
}

/// The reading in words.
pub fn words(noise: &Noise, cores: usize) -> String {
    let load = noise.load1.map_or(String::new(), |load1| {
        format!(", 1-minute load {load1} on {cores} cores")
    });
    format!(
        "one repetition in ten of a fixed piece of work takes {:.0} % more than the best, {}{load}",
        noise.spread * 100.0,
        duration(noise.least_ns),
    )
}

/// Repeats the work on `threads` threads at once, for `budget` and not too few times.
fn measure(threads: usize, budget: Duration) -> Noise {
    let threads = threads.max(1);
    let load1 = super::load1();
    let repeat = || {
        let (start, mut times_ns) = (Instant::now(), Vec::new());
        while start.elapsed() < budget || times_ns.len() * threads < REPETITIONS_MIN {
            let begun = Instant::now();
            work();
            times_ns.push(begun.elapsed().as_nanos() as u64);
        }
        times_ns
    };
    let times_ns: Vec<u64> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(repeat)).collect();
        let own = repeat();
        let joined = others.into_iter().filter_map(|other| other.join().ok());
        joined.flatten().chain(own).collect()
    });
    reading(times_ns, load1)
}

/// What these times say.
fn reading(times_ns: Vec<u64>, load1: Option<f64>) -> Noise {
    let repetitions = times_ns.len();
    let least_ns = times_ns.iter().copied().min().unwrap_or_default().max(1);
    let distribution = Distribution::new(times_ns);
    let percentile = |name: &str| {
        let found = distribution
            .as_ref()
            .and_then(|it| it.percentiles.get(name));
        found.map_or(least_ns, |it| it.nearest)
    };
    let p90_ns = percentile("p90");
    Noise {
        repetitions,
        least_ns,
        median_ns: percentile("p50"),
        p90_ns,
        spread: round6(p90_ns as f64 / least_ns as f64 - 1.0),
        load1,
        waited_s: 0,
    }
}

fn work() {
    let chain = (0..WORK).fold(1_u64, |x, step| {
        x.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ step
    });
    black_box(chain);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_what_one_in_ten_takes_beyond_the_best() {
        let noise = reading((1..=100).map(|i| 1000 + i).collect(), Some(0.5));
        assert_eq!(
            (noise.least_ns, noise.median_ns, noise.p90_ns),
            (1001, 1050, 1090)
        );
        assert_eq!(format!("{:?}", noise.spread), "0.088911");
        assert!(!is_quiet(&noise, 2));
    }

    #[test]
    fn a_loaded_machine_is_not_quiet_however_evenly_it_runs() {
        let even = |load1| reading(vec![1000; 100], load1);
        assert!(is_quiet(&even(None), 2) && is_quiet(&even(Some(1.0)), 2));
        assert!(!is_quiet(&even(Some(1.1)), 2));
    }

    #[test]
    fn every_thread_contributes_and_there_are_enough_for_the_percentile() {
        let noise = measure(2, Duration::ZERO);
        assert!(noise.repetitions >= REPETITIONS_MIN);
        assert!(noise.least_ns <= noise.median_ns && noise.median_ns <= noise.p90_ns);
    }
}
