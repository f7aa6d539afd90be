//! splitmix64: the one generator of this crate, small enough to be written again by whoever checks us.
//!
//! Not here: sampling of tokens (`engine`) or anything that must be unpredictable.

/// A stream of 64-bit numbers fixed by its seed.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The stream of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The stream of a tuple of keys: every key passes through the generator before the next joins.
    pub(crate) fn keyed(keys: &[u64]) -> Self {
        keys.iter().fold(Self::new(0), |mut stream, key| {
            Self::new(stream.next() ^ key)
        })
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, by the high half of a product (bias below 2^-32 for ids).
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn gives_the_published_first_numbers_of_seed_zero() {
        let mut stream = SplitMix64::new(0);
        let first: Vec<u64> = (0..3).map(|_| stream.next()).collect();
        assert_eq!(
            first,
            [
                0xE220_A839_7B1D_CDAF,
                0x6E78_9E6A_A1B9_65F4,
                0x06C4_5D18_8009_454F
            ]
        );
    }

    #[test]
    fn orders_of_keys_give_different_streams() {
        assert_ne!(
            SplitMix64::keyed(&[1, 2]).next(),
            SplitMix64::keyed(&[2, 1]).next()
        );
        assert_ne!(
            SplitMix64::keyed(&[1]).next(),
            SplitMix64::keyed(&[1, 0]).next()
        );
    }
}
