//! The one statistical rule: medians, the bootstrap interval of a median pair ratio, the verdict, rounding.
//!
//! Not here: which samples make a pair (`summary`), percentiles and fences (`spread`). The rule is fixed in
//! audit/FORMAT.md, to the last draw; `harness selftest statistics` says how often it errs.

use crate::splitmix::SplitMix64;

pub mod simulate;
pub mod spread;

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

/// What pair ratios say: how many times, how surely, and in one word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// Median of the ratios, as written.
    pub median: Option<f64>,
    /// The 95 % interval of that median, as written; `None` under three pairs.
    pub interval: Option<Interval>,
    /// `FASTER`, `SLOWER`, `PARITY` or `INCONCLUSIVE`.
    pub verdict: &'static str,
}

/// The draws of a bootstrap over so many ratios. The seed is fixed, so they are the same for all ratios of one length:
/// whoever judges thousands of times draws once.
pub struct Resamples {
    pairs: usize,
    /// Drawn places, `[RESAMPLES][pairs]`; none where there are too few pairs for an interval.
    places: Vec<usize>,
}

impl Resamples {
    /// The draws for `pairs` ratios.
    pub fn new(pairs: usize) -> Self {
        let mut stream = SplitMix64::new(SEED);
        let draws = if pairs < INTERVAL_PAIRS {
            0
        } else {
            RESAMPLES * pairs
        };
        Self {
            pairs,
            places: (0..draws)
                .map(|_| (stream.next() % pairs as u64) as usize)
                .collect(),
        }
    }

    /// Median, interval and verdict of `ratios`, of which there are as many as were drawn for.
    pub fn judge(&self, ratios: &[f64]) -> Judgement {
        // Judged as written, so that the printed interval and its verdict never contradict each other.
        let interval = self.interval(ratios).map(|it| Interval {
            low: round6(it.low),
            high: round6(it.high),
        });
        Judgement {
            median: median(ratios).map(round6),
            interval,
            verdict: verdict(ratios.len(), interval),
        }
    }

    /// The percentile bootstrap of the median of `ratios`; `None` under three.
    ///
    /// The median of a resample is one of the ratios or lies midway between two, so medians are counted, not sorted.
    pub fn interval(&self, ratios: &[f64]) -> Option<Interval> {
        let n = ratios.len();
        if n != self.pairs || self.places.is_empty() {
            return None;
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| ratios[a].total_cmp(&ratios[b]));
        let mut rank_of = vec![0; n];
        for (rank, &place) in order.iter().enumerate() {
            rank_of[place] = rank;
        }
        // By the ranks of the two middle ratios of a resample: how many resamples have them. [n][n]
        let mut resamples = vec![0_usize; n * n];
        let mut drawn = vec![0_usize; n];
        for draw in self.places.chunks_exact(n) {
            drawn.fill(0);
            for &place in draw {
                drawn[rank_of[place]] += 1;
            }
            let (below, above) = (rank_at(&drawn, (n - 1) / 2), rank_at(&drawn, n / 2));
            resamples[below * n + above] += 1;
        }
        let value = |rank: usize| ratios[order[rank]];
        let mut medians: Vec<(f64, usize)> = (resamples.iter().enumerate())
            .filter(|(_, times)| **times > 0)
            .map(|(cell, &times)| (value(cell / n).midpoint(value(cell % n)), times))
            .collect();
        medians.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Some(Interval {
            low: counted_at(&medians, RESAMPLES / 40 - 1)?,
            high: counted_at(&medians, RESAMPLES - RESAMPLES / 40 - 1)?,
        })
    }
}

/// The rank of the `place`-th smallest of a resample that holds rank r `drawn[r]` times.
fn rank_at(drawn: &[usize], place: usize) -> usize {
    let mut seen = 0;
    let reaches = |times: &usize| {
        seen += times;
        seen > place
    };
    drawn.iter().position(reaches).unwrap_or_default()
}

/// The `place`-th smallest of values that each stand so many times.
fn counted_at(sorted: &[(f64, usize)], place: usize) -> Option<f64> {
    let mut seen = 0;
    let reached = sorted.iter().find(|(_, times)| {
        seen += times;
        seen > place
    });
    reached.map(|(value, _)| *value)
}

/// The percentile bootstrap of the median of `ratios`; `None` under three.
pub fn bootstrap(ratios: &[f64]) -> Option<Interval> {
    Resamples::new(ratios.len()).interval(ratios)
}

/// Median, interval and verdict of pair ratios.
pub fn judge(ratios: &[f64]) -> Judgement {
    Resamples::new(ratios.len()).judge(ratios)
}

/// Denominator over arm in nanoseconds, pair by pair; `None` if a time of the arm is zero.
pub fn pair_ratios(pairs: impl Iterator<Item = (u64, u64)>) -> Option<Vec<f64>> {
    pairs
        .map(|(base_ns, arm_ns)| (arm_ns > 0).then(|| base_ns as f64 / arm_ns as f64))
        .collect()
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
