//! How samples lie: percentiles, which of them so few samples allow, and which samples lie far out.
//!
//! A sample that lies far out is pointed at and never removed. Not here: the rule that judges ratios (`statistics`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A percentile, in thousandths, and how many samples it takes before it may be printed.
///
/// So many that, were one of them beyond a limit, the percentile would still be known to keep it with 99 % confidence:
/// the binomial rule by which MLPerf stops early.
const LICENCES: [(&str, u64, usize); 5] = [
    ("p50", 500, 1),
    ("p90", 900, 64),
    ("p95", 950, 130),
    ("p99", 990, 662),
    ("p99.9", 999, 6636),
];

/// One percentile, by both definitions in use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percentile {
    /// A sample: the smallest that at least this share of samples does not exceed.
    pub nearest: u64,
    /// Between two samples, as numpy computes it.
    pub linear: f64,
}

/// How many samples there are, and the percentiles that so many allow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// Samples.
    pub count: usize,
    /// By name, such as `p50`.
    pub percentiles: BTreeMap<String, Percentile>,
}

impl Distribution {
    /// The distribution of `samples`; `None` of none.
    pub fn new(mut samples: Vec<u64>) -> Option<Self> {
        samples.sort_unstable();
        let allowed = LICENCES.iter().filter(|it| it.2 <= samples.len());
        let percentiles: BTreeMap<_, _> = allowed
            .map(|&(name, thousandths, _)| {
                let percentile = Percentile {
                    nearest: nearest_rank(&samples, thousandths),
                    linear: linear(&samples, thousandths),
                };
                (name.to_owned(), percentile)
            })
            .collect();
        (!percentiles.is_empty()).then_some(Self {
            count: samples.len(),
            percentiles,
        })
    }

    /// The median, a sample.
    pub fn p50(&self) -> Option<u64> {
        self.percentiles.get("p50").map(|it| it.nearest)
    }
}

/// Percentiles that `count` samples do not allow, each with how many it takes.
pub fn not_licensed(count: usize) -> impl Iterator<Item = (&'static str, usize)> {
    let missing = LICENCES.iter().filter(move |it| it.2 > count);
    missing.map(|&(name, _, samples)| (name, samples))
}

/// The ceil(n p)-th smallest of `sorted`, which is not empty.
fn nearest_rank(sorted: &[u64], thousandths: u64) -> u64 {
    let rank = (sorted.len() as u64 * thousandths).div_ceil(1000).max(1);
    sorted[rank as usize - 1]
}

/// At (n - 1) p between the samples beside it; exact up to the last conversion.
fn linear(sorted: &[u64], thousandths: u64) -> f64 {
    let place = (sorted.len() as u64 - 1) * thousandths;
    let (below, rest) = ((place / 1000) as usize, u128::from(place % 1000));
    let low = u128::from(sorted[below]);
    let high = u128::from(sorted[(below + 1).min(sorted.len() - 1)]);
    (low * 1000 + (high - low) * rest) as f64 / 1000.0
}

/// Places of the values beyond Tukey's fences: more than one and a half times the distance of the quartiles below the
/// first or above the third.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (Some(first), Some(third)) = (quartile(&sorted, 1), quartile(&sorted, 3)) else {
        return Vec::new();
    };
    let reach = 1.5 * (third - first);
    let (low, high) = (first - reach, third + reach);
    let places = values.iter().enumerate();
    places
        .filter(|(_, value)| **value < low || **value > high)
        .map(|(place, _)| place)
        .collect()
}

/// The quartile by linear interpolation.
fn quartile(sorted: &[f64], quarters: usize) -> Option<f64> {
    let place = sorted.len().checked_sub(1)? * quarters;
    let (below, rest) = (place / 4, (place % 4) as f64 / 4.0);
    let low = sorted[below];
    let high = sorted[(below + 1).min(sorted.len() - 1)];
    Some(low + (high - low) * rest)
}
