//! The statistical rule against values computed elsewhere and against sorting by hand.
#![allow(clippy::unwrap_used)] // tests

use proptest::prelude::*;
use workloads::statistics::simulate::{self, Scene, rate_interval};
use workloads::statistics::spread::{Distribution, not_licensed, outliers};
use workloads::statistics::{
    Interval, bootstrap, judge, median, median_u64, pair_ratios, round6, verdict,
};

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

/// splitmix64 as the format page has it.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The bootstrap as the format page has it: every resample drawn, sorted, and its median sorted among the others.
fn plain_bootstrap(ratios: &[f64]) -> Interval {
    let mut state = 0x66_616b;
    let mut medians: Vec<f64> = (0..10_000)
        .map(|_| {
            let draw = |_| ratios[(splitmix64(&mut state) % ratios.len() as u64) as usize];
            let resample: Vec<f64> = (0..ratios.len()).map(draw).collect();
            median(&resample).unwrap()
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    interval(medians[249], medians[9749])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn counting_medians_gives_the_bits_of_sorting_them(
        ratios in prop::collection::vec(prop_oneof![0.5f64..2.0, Just(1.0), Just(1.05)], 3..14),
    ) {
        prop_assert_eq!(bootstrap(&ratios), Some(plain_bootstrap(&ratios)));
    }
}

proptest! {
    #[test]
    fn a_nearest_percentile_is_the_least_sample_that_enough_do_not_exceed(
        samples in prop::collection::vec(0..5_000_u64, 64..140),
    ) {
        let found = Distribution::new(samples.clone()).unwrap();
        for (name, share) in [("p50", 500), ("p90", 900), ("p95", 950)] {
            let enough = |value: u64| {
                let not_above = samples.iter().filter(|&&it| it <= value).count();
                not_above * 1000 >= samples.len() * share
            };
            let least = samples.iter().copied().filter(|&it| enough(it)).min();
            if let Some(percentile) = found.percentiles.get(name) {
                prop_assert_eq!(Some(percentile.nearest), least);
            } else {
                prop_assert!(name == "p95" && samples.len() < 130);
            }
        }
    }

    #[test]
    fn fences_follow_the_scale_and_never_point_inside_the_quartiles(
        values in prop::collection::vec(1..1_000_u32, 1..12),
    ) {
        let reals = |times: f64| values.iter().map(|&it| f64::from(it) * times).collect::<Vec<_>>();
        let found = outliers(&reals(1.0));
        prop_assert_eq!(&found, &outliers(&reals(4.0)));
        let middle = median(&reals(1.0)).unwrap();
        let far = |place: &usize| (f64::from(values[*place]) - middle).abs() > 0.0;
        prop_assert!(found.iter().all(far));
        prop_assert!(found.len() <= values.len() / 2);
    }
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

#[test]
fn percentiles_are_those_of_numpy_and_wait_for_enough_samples() {
    // numpy.percentile(range(0, 1000, 10)) of 100 samples.
    let hundred = Distribution::new((0..100).map(|it| it * 10).collect()).unwrap();
    let at = |name: &str| {
        (
            hundred.percentiles[name].nearest,
            hundred.percentiles[name].linear,
        )
    };
    assert_eq!((at("p50"), at("p90")), ((490, 495.0), (890, 891.0)));
    assert_eq!(hundred.percentiles.len(), 2, "95 % takes 130");
    let names = |count| {
        not_licensed(count)
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(129), ["p95", "p99", "p99.9"]);
    assert_eq!(names(6636), [""; 0]);
    assert_eq!(Distribution::new(Vec::new()), None);
    let large = Distribution::new(vec![u64::MAX, u64::MAX]).unwrap();
    assert_eq!(large.percentiles["p50"].nearest, u64::MAX);
}

#[test]
fn fences_point_at_what_lies_beyond_them() {
    assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 7.0]), [0; 0], "on the fence");
    assert_eq!(outliers(&[1.0, 7.1, 2.0, 3.0, 4.0]), [1]);
    assert_eq!(outliers(&[]), [0; 0]);
}

#[test]
fn a_judgement_is_the_rounded_interval_and_its_verdict() {
    let ratios = pair_ratios([(12, 10), (13, 10), (14, 10), (12, 9), (13, 9)].into_iter()).unwrap();
    let judged = judge(&ratios);
    assert_eq!(judged.interval, Some(interval(1.2, 1.444_444)));
    assert_eq!((judged.median, judged.verdict), (Some(1.333_333), "FASTER"));
    assert_eq!(pair_ratios([(1, 0)].into_iter()), None);
}

#[test]
fn simulated_runs_are_the_same_for_the_same_seed_and_find_what_is_plain() {
    let scene = |times, noise| Scene {
        times,
        noise,
        pairs: 5,
    };
    let plain = simulate::judge(scene(1.5, 0.01), 50, 7);
    assert_eq!(plain.faster, 50);
    assert_eq!(simulate::judge(scene(1.0, 0.001), 50, 7).parity, 50);
    let noisy = |seed| simulate::judge(scene(1.0, 0.3), 200, seed);
    assert_eq!(noisy(1), noisy(1));
    let all = noisy(2);
    assert_eq!(all.faster + all.slower + all.parity + all.inconclusive, 200);
}

#[test]
fn the_interval_of_a_rate_is_wilsons() {
    // From the closed form worked out elsewhere: 5 of 50.
    let (low, high) = rate_interval(5, 50);
    assert_eq!((round6(low), round6(high)), (0.043_476, 0.213_602));
    assert!(rate_interval(0, 100).0.abs() < 1e-12);
}
