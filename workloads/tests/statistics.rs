//! The statistical rule against values computed elsewhere and against sorting by hand.

use proptest::prelude::*;
use workloads::statistics::{Interval, bootstrap, median, median_u64, round6, verdict};

fn interval(low: f64, high: f64) -> Interval {
    Interval { low, high }
}

/// The n-th smallest, by counting instead of sorting.
fn nth(values: &[u64], n: usize) -> u64 {
    let below = |value: u64| values.iter().filter(|&&other| other < value).count();
    let not_above = |value: u64| values.iter().filter(|&&other| other <= value).count();
    let found = values
        .iter()
        .find(|&&value| below(value) <= n && n < not_above(value));
    *found.unwrap_or(&0)
}

proptest! {
    #[test]
    fn the_median_is_the_middle_found_by_counting(
        values in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let (low, high) = (nth(&values, (values.len() - 1) / 2), nth(&values, values.len() / 2));
        let expected = u128::midpoint(low.into(), high.into()) as u64;
        prop_assert_eq!(median_u64(&values), Some(expected));
    }

    #[test]
    fn an_interval_lies_within_the_samples(values in prop::collection::vec(0.1f64..10.0, 3..9)) {
        let Some(Interval { low, high }) = bootstrap(&values) else { panic!("three suffice") };
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = values.iter().copied().fold(0.0, f64::max);
        prop_assert!(smallest <= low && low <= high && high <= largest);
    }
}

#[test]
fn bootstraps_as_the_format_page_says_to_the_last_draw() {
    // From a separate program written after audit/FORMAT.md.
    assert_eq!(
        bootstrap(&[1.1, 1.3, 1.2, 1.6, 0.9]),
        Some(interval(0.9, 1.6))
    );
    assert_eq!(bootstrap(&[1.0, 2.0, 4.0]), Some(interval(1.0, 4.0)));
    let many: Vec<f64> = (0..24)
        .map(|i| 1.0 + f64::from(i * i * 7 % 101) / 128.0)
        .collect();
    assert_eq!(bootstrap(&many), Some(interval(1.3125, 1.492_187_5)));
}

#[test]
fn gives_no_interval_under_three_pairs_and_no_median_of_nothing() {
    assert_eq!(bootstrap(&[1.0, 1.0]), None);
    assert_eq!((median(&[]), median_u64(&[])), (None, None));
    assert_eq!(median(&[4.0, 1.0]), Some(2.5));
}

#[test]
fn needs_five_pairs_and_the_whole_interval_for_a_verdict() {
    assert_eq!(verdict(5, Some(interval(1.050_001, 2.0))), "FASTER");
    assert_eq!(verdict(5, Some(interval(1.05, 2.0))), "INCONCLUSIVE");
    assert_eq!(verdict(4, Some(interval(1.5, 2.0))), "INCONCLUSIVE");
    assert_eq!(verdict(5, Some(interval(0.5, 0.949_999))), "SLOWER");
    assert_eq!(verdict(5, Some(interval(0.5, 0.95))), "INCONCLUSIVE");
    assert_eq!(verdict(5, Some(interval(0.95, 1.05))), "PARITY");
    assert_eq!(verdict(4, Some(interval(1.0, 1.0))), "INCONCLUSIVE");
    assert_eq!(verdict(5, None), "INCONCLUSIVE");
}

#[test]
fn rounds_to_six_decimals_half_away_from_zero() {
    let written = |value: f64| format!("{:?}", round6(value));
    assert_eq!(written(0.000_000_5), "1e-6");
    assert_eq!(written(2.0 / 3.0), "0.666667");
    assert_eq!(written(11.467_741_935), "11.467742");
}
