//! The counter-based generator behind every draw: a number for each (seed, position), in any order.
//!
//! Number `position` of SplitMix64 (Steele, Lea and Flood 2014) whose state starts at mix(seed); mixing the seed keeps
//! the streams of neighbouring seeds apart. The position is the token's own in the whole text, prompt included: the
//! turns of a session do not repeat each other's numbers, and a text fed again as a prompt goes on as it would have.
//! Not here: anything that must be unpredictable.

/// Increment of SplitMix64: 2^64 over the golden ratio, odd.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// 64 bits for a seed and a position.
pub fn bits(seed: u64, position: u64) -> u64 {
    mix(mix(seed).wrapping_add(GAMMA.wrapping_mul(position.wrapping_add(1))))
}

/// A number in [0, 1): the upper 53 bits over 2^53.
pub fn uniform(seed: u64, position: u64) -> f64 {
    (bits(seed, position) >> 11) as f64 / (1_u64 << 53) as f64
}

/// The output function of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_zero_is_the_published_stream() {
        // mix(0) is 0, so these are the first outputs of SplitMix64 from state 0, as in its reference code.
        let expected = [
            0xE220_A839_7B1D_CDAF,
            0x6E78_9E6A_A1B9_65F4,
            0x06C4_5D18_8009_454F,
        ];
        for (position, expected) in expected.into_iter().enumerate() {
            assert_eq!(bits(0, position as u64), expected);
        }
    }

    #[test]
    fn numbers_lie_in_the_unit_interval_even_at_the_ends_of_the_counters() {
        for (seed, position) in [(0, 0), (u64::MAX, u64::MAX), (1, u64::MAX), (u64::MAX, 0)] {
            assert!((0.0..1.0).contains(&uniform(seed, position)));
        }
    }
}
