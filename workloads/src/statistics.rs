//! The one statistical rule: medians, the bootstrap interval of a median pair ratio, the verdict, rounding.
//!
//! Not here: which samples make a pair (`summary`). The rule is fixed in audit/FORMAT.md, to the last draw.

use crate::splitmix::SplitMix64;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 10_000;
/// "fak" in ASCII.
const SEED: u64 = 0x66_616b;
/// Fewest pairs that get an interval.
const INTERVAL_PAIRS: usize = 3;
/// Fewest pairs that get a verdict other than inconclusive.
const VERDICT_PAIRS: usize = 5;

/// A 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The 2.5 percentile.
    pub low: f64,
    /// The 97.5 percentile.
    pub high: f64,
}

/// The median of integers; of an even number, the mean of the two middle ones rounded down.
pub fn median_u64(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(sorted[middle - 1].midpoint(sorted[middle])),
    }
}

/// The median of reals; of an even number, the mean of the two middle ones.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| middle_of(&sorted))
}

fn middle_of(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        sorted[middle - 1].midpoint(sorted[middle])
    }
}

/// The percentile bootstrap of the median of `ratios`; `None` under three.
pub fn bootstrap(ratios: &[f64]) -> Option<Interval> {
    if ratios.len() < INTERVAL_PAIRS {
        return None;
    }
    let mut stream = SplitMix64::new(SEED);
    let mut resample = vec![0.0; ratios.len()];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for slot in &mut resample {
            *slot = ratios[(stream.next() % ratios.len() as u64) as usize];
        }
        resample.sort_unstable_by(f64::total_cmp);
        medians.push(middle_of(&resample));
    }
    medians.sort_unstable_by(f64::total_cmp);
    Some(Interval {
        low: medians[RESAMPLES / 40 - 1],
        high: medians[RESAMPLES - RESAMPLES / 40 - 1],
    })
}

/// What an interval of `pairs` pair ratios allows to be said.
pub fn verdict(pairs: usize, interval: Option<Interval>) -> &'static str {
    match interval {
        Some(Interval { low, .. }) if pairs >= VERDICT_PAIRS && low > 1.05 => "FASTER",
        Some(Interval { high, .. }) if pairs >= VERDICT_PAIRS && high < 0.95 => "SLOWER",
        Some(Interval { low, high }) if pairs >= VERDICT_PAIRS && low >= 0.95 && high <= 1.05 => {
            "PARITY"
        }
        _ => "INCONCLUSIVE",
    }
}

/// Six decimals, half away from zero: how every ratio and rate is written.
pub fn round6(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
