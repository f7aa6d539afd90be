//! The arithmetic of FORMAT.md's statistics, written from that page: medians, the bootstrap interval, the verdict.
//!
//! Not here: which samples go in (`ratios`).

/// Resamples of the bootstrap.
const RESAMPLES: usize = 10_000;
/// Positions of the 2.5 and 97.5 percentiles among the sorted resamples.
const LOW: usize = 249;
const HIGH: usize = 9_749;
/// Seed of the bootstrap: the bytes of "fak".
const SEED: u64 = 0x66_61_6b;
/// Pairs without which there is no interval, and without which there is no verdict.
const PAIRS_FOR_INTERVAL: usize = 3;
const PAIRS_FOR_VERDICT: usize = 5;

/// Median of integers; of an even number the mean of the two middle ones, rounded down. `None` of none.
pub(crate) fn median_integer(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let (below, above) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some(u64::midpoint(sorted[below], sorted[above]))
}

/// Median of floats; of an even number the mean of the two middle ones. `None` of none.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (below, above) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some(if below == above {
        sorted[below]
    } else {
        sorted[below].midpoint(sorted[above])
    })
}

/// Six decimals, half away from zero. The scaled value is an f64: a half that f64 cannot hold is not a half here.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// 95 % interval of the median pair ratio, unrounded.
pub(crate) fn interval(ratios: &[f64]) -> Option<(f64, f64)> {
    if ratios.len() < PAIRS_FOR_INTERVAL {
        return None;
    }
    let mut state = SEED;
    let mut resample = vec![0.0; ratios.len()];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for slot in &mut resample {
            *slot = ratios[(splitmix64(&mut state) % ratios.len() as u64) as usize];
        }
        medians.push(median(&resample)?);
    }
    medians.sort_unstable_by(f64::total_cmp);
    Some((medians[LOW], medians[HIGH]))
}

/// The three-state verdict, or none of them.
pub(crate) fn verdict(pairs: usize, interval: Option<(f64, f64)>) -> &'static str {
    match interval {
        Some((low, _)) if pairs >= PAIRS_FOR_VERDICT && low > 1.05 => "FASTER",
        Some((_, high)) if pairs >= PAIRS_FOR_VERDICT && high < 0.95 => "SLOWER",
        Some((low, high)) if pairs >= PAIRS_FOR_VERDICT && low >= 0.95 && high <= 1.05 => "PARITY",
        _ => "INCONCLUSIVE",
    }
}

pub(crate) fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_sequence() {
        let mut state = 1_234_567;
        let drawn: Vec<u64> = (0..3).map(|_| splitmix64(&mut state)).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(drawn, published);
    }

    #[test]
    fn medians_of_even_counts_take_the_mean_of_the_middle() {
        assert_eq!(median_integer(&[9, 2, 5, 4]), Some(4));
        assert_eq!(median_integer(&[u64::MAX, u64::MAX]), Some(u64::MAX));
        assert_eq!(median(&[9.0, 2.0, 5.0, 4.0]), Some(4.5));
        assert_eq!((median_integer(&[]), median(&[])), (None, None));
    }

    #[test]
    fn halves_round_away_from_zero() {
        assert_eq!(
            (rounded(0.000_000_5), rounded(-0.000_000_5)),
            (0.000_001, -0.000_001)
        );
    }

    #[test]
    fn an_interval_lies_within_its_samples_and_a_verdict_needs_all_of_it() {
        let ratios = [1.2, 1.4, 1.3, 1.25, 1.35];
        let (low, high) = interval(&ratios).unwrap();
        assert!((1.2..=1.3).contains(&low) && (1.3..=1.4).contains(&high));
        assert_eq!(verdict(5, Some((low, high))), "FASTER");
        assert_eq!(verdict(4, Some((low, high))), "INCONCLUSIVE");
        assert_eq!(verdict(5, Some((0.9, 0.94))), "SLOWER");
        assert_eq!(verdict(5, Some((0.95, 1.05))), "PARITY");
        assert_eq!(verdict(5, Some((0.94, 1.05))), "INCONCLUSIVE");
        assert_eq!(interval(&ratios[..2]), None);
    }

    #[test]
    fn intervals_equal_those_of_an_implementation_in_another_language() {
        assert_eq!(interval(&[1.0, 2.0, 4.0]), Some((1.0, 4.0)));
        assert_eq!(
            interval(&[1.01, 1.5, 1.25, 1.125, 0.75, 1.0]),
            Some((0.875, 1.375))
        );
        let many = [
            1.07, 1.21, 0.98, 1.11, 1.02, 1.3, 1.25, 0.91, 1.17, 1.05, 1.33, 1.28,
        ];
        let limits = interval(&many).map(|(low, high)| (rounded(low), rounded(high)));
        assert_eq!(limits, Some((1.035, 1.265)));
    }
}
