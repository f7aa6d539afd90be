//! Loops that do nothing but read, multiply-add floats or multiply-add bytes: what this CPU can do at best.
//!
//! A kernel's share of the machine is its rate over one of these. Each function does a stated amount of work and returns
//! a value that depends on all of it. Not here: clocks and threads (the caller has them), and the kernels' answers:
//! nothing a model computes comes from this file.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // intrinsics have names of their own

use std::hint::black_box;

/// Accumulators that do not wait for each other: enough to hide a multiply-add's latency on two ports.
const CHAINS: usize = 12;
/// f32 lanes of a register.
const LANES: usize = 8;
/// Bytes of a register.
const REGISTER_BYTES: usize = 32;
/// Registers of weights in a round of [`int8`]: they stay in the first-level cache.
const WEIGHTS: usize = 128;
/// Inputs each of them meets, as in a matrix product of a few rows.
const INPUTS: usize = 4;

/// Floating-point operations in a round of [`f32_fma`]: a multiply-add is two.
pub const F32_FLOP_PER_ROUND: u64 = (CHAINS * LANES * 2) as u64;
/// Operations in a round of [`int8`]: a multiply-add is two.
pub const INT8_OP_PER_ROUND: u64 = (WEIGHTS * INPUTS * REGISTER_BYTES * 2) as u64;

/// Reads every word once, in order; bits of the result depend on all of them.
pub fn read(words: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if super::avx2().is_some() {
        // SAFETY: AVX2 and FMA were detected.
        return unsafe { x86::read(words) };
    }
    portable::read(words)
}

/// `rounds` times [`F32_FLOP_PER_ROUND`] operations in registers.
///
/// Of 256 bits everywhere: the products of `exact` have no wider kernel.
pub fn f32_fma(rounds: u64) -> f32 {
    // Hidden from the compiler: it must not know that the sums converge to 1.
    let (factor, addend) = (black_box(0.5), black_box(0.5));
    #[cfg(target_arch = "x86_64")]
    if super::avx2().is_some() {
        // SAFETY: AVX2 and FMA were detected.
        return unsafe { x86::f32_fma(rounds, factor, addend) };
    }
    portable::f32_fma(rounds, factor, addend)
}

/// `rounds` times [`INT8_OP_PER_ROUND`] operations on signed bytes, summed in 32 bits, wrapping.
///
/// By the instructions of the widest kernel set that this CPU has, whichever a run is told to use. With AVX2 alone products
/// of unsigned nibbles need fewer instructions than those of signed bytes: work on four-bit weights may exceed this rate.
pub fn int8(rounds: u64) -> i32 {
    let weights: Vec<i8> = (0..WEIGHTS * REGISTER_BYTES)
        .map(|place| (place % 255) as i8)
        .collect();
    let inputs = [[1_i8, -3, 5, -7]; INPUTS * REGISTER_BYTES / 4];
    let (weights, inputs) = (black_box(&weights[..]), black_box(inputs.as_flattened()));
    #[cfg(target_arch = "x86_64")]
    if super::avx512().is_some() {
        // SAFETY: every feature of the AVX-512 set was detected.
        return unsafe { x86::int8_vnni(rounds, weights, inputs) };
    }
    #[cfg(target_arch = "x86_64")]
    if super::avx2().is_some() {
        // SAFETY: AVX2 and FMA were detected.
        return unsafe { x86::int8(rounds, weights, inputs) };
    }
    portable::int8(rounds, weights, inputs)
}

/// Eight registers of words at a time, folded into one word at the end.
#[inline(always)] // takes the instruction set of whoever calls it
#[allow(clippy::inline_always)]
fn fold(words: &[u64]) -> u64 {
    let (groups, rest) = words.as_chunks::<32>();
    let mut folded = [0_u64; 32];
    for group in groups {
        for (into, word) in folded.iter_mut().zip(group) {
            *into ^= word;
        }
    }
    folded.iter().chain(rest).fold(0, |all, word| all ^ word)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::{CHAINS, INPUTS, REGISTER_BYTES};

    /// Registers of weights that [`int8_vnni`] takes at once: times the inputs, sums enough to hide two ports' latency.
    const VNNI_WEIGHTS: usize = 4;
    /// Bytes of a register of 512 bits.
    const WIDE_BYTES: usize = 2 * REGISTER_BYTES;

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn read(words: &[u64]) -> u64 {
        super::fold(words)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn f32_fma(rounds: u64, factor: f32, addend: f32) -> f32 {
        let (factor, addend) = (_mm256_set1_ps(factor), _mm256_set1_ps(addend));
        let mut chains = [_mm256_setzero_ps(); CHAINS];
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = _mm256_fmadd_ps(*chain, factor, addend);
            }
        }
        let sum = chains
            .into_iter()
            .fold(_mm256_setzero_ps(), |sum, chain| _mm256_add_ps(sum, chain));
        _mm256_cvtss_f32(sum)
    }

    /// Signed bytes by the one exact way AVX2 has: magnitudes times inputs that took the weights' signs.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn int8(rounds: u64, weights: &[i8], inputs: &[i8]) -> i32 {
        let ones = _mm256_set1_epi16(1);
        let inputs: [__m256i; INPUTS] =
            std::array::from_fn(|n| load(&inputs[n * REGISTER_BYTES..]));
        let mut sums = [_mm256_setzero_si256(); INPUTS];
        for _ in 0..rounds {
            // Read anew every round, or the loop could be run once and its sums multiplied.
            for weights in black_box(weights).chunks_exact(REGISTER_BYTES) {
                let weights = load(weights);
                let magnitudes = _mm256_abs_epi8(weights);
                for (sum, input) in sums.iter_mut().zip(inputs) {
                    let signed = _mm256_sign_epi8(input, weights);
                    let pairs = _mm256_maddubs_epi16(magnitudes, signed);
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
                }
            }
        }
        let sum = sums.into_iter().fold(_mm256_setzero_si256(), |all, sum| {
            _mm256_add_epi32(all, sum)
        });
        let mut lanes = [0_i32; 8];
        // SAFETY: eight lanes are 32 bytes.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sum) };
        lanes.into_iter().fold(0, i32::wrapping_add)
    }

    /// Signed bytes as unsigned ones, 128 too large; what that adds to the sum is taken off at the end.
    ///
    /// The weights are moved before the rounds: a kernel may find them so in memory, and a ceiling has no work of its own.
    #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) fn int8_vnni(rounds: u64, weights: &[i8], inputs: &[i8]) -> i32 {
        let moved: Vec<u8> = weights.iter().map(|w| w.cast_unsigned() ^ 0x80).collect();
        let registers: [__m512i; INPUTS] =
            std::array::from_fn(|n| _mm512_broadcast_i64x4(load(&inputs[n * REGISTER_BYTES..])));
        let mut sums = [[_mm512_setzero_si512(); INPUTS]; VNNI_WEIGHTS];
        for _ in 0..rounds {
            // Read anew every round, as above.
            for group in black_box(&moved[..])
                .as_chunks::<WIDE_BYTES>()
                .0
                .as_chunks()
                .0
            {
                let group: &[[u8; WIDE_BYTES]; VNNI_WEIGHTS] = group;
                for (sums, weights) in sums.iter_mut().zip(group) {
                    // SAFETY: the array has 64 bytes.
                    let weights = unsafe { _mm512_loadu_si512(weights.as_ptr().cast()) };
                    for (sum, input) in sums.iter_mut().zip(registers) {
                        *sum = _mm512_dpbusd_epi32(*sum, weights, input);
                    }
                }
            }
        }
        let sums = sums.as_flattened().iter();
        let sum = sums.fold(_mm512_setzero_si512(), |all, sum| {
            _mm512_add_epi32(all, *sum)
        });
        let input_sum: i32 = inputs.iter().map(|x| i32::from(*x)).sum();
        let meetings = (rounds as i32).wrapping_mul((weights.len() / REGISTER_BYTES) as i32);
        let surplus = input_sum.wrapping_mul(128).wrapping_mul(meetings);
        _mm512_reduce_add_epi32(sum).wrapping_sub(surplus)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn load(bytes: &[i8]) -> __m256i {
        let bytes = &bytes[..REGISTER_BYTES];
        // SAFETY: the slice has 32 bytes.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }
}

/// The same loops for a compiler to vectorise as it can.
mod portable {
    use std::hint::black_box;

    use super::{CHAINS, LANES, REGISTER_BYTES};

    pub(super) fn read(words: &[u64]) -> u64 {
        super::fold(words)
    }

    pub(super) fn f32_fma(rounds: u64, factor: f32, addend: f32) -> f32 {
        let mut chains = [0.0_f32; CHAINS * LANES];
        for _ in 0..rounds {
            for chain in &mut chains {
                // A fused step without the instruction is a library call; two operations are what such a CPU has.
                *chain = if cfg!(target_arch = "aarch64") {
                    chain.mul_add(factor, addend)
                } else {
                    *chain * factor + addend
                };
            }
        }
        chains.iter().step_by(LANES).sum()
    }

    pub(super) fn int8(rounds: u64, weights: &[i8], inputs: &[i8]) -> i32 {
        let mut sum = 0_i32;
        for _ in 0..rounds {
            for weights in black_box(weights).chunks_exact(REGISTER_BYTES) {
                for input in inputs.chunks_exact(REGISTER_BYTES) {
                    for (&weight, &input) in weights.iter().zip(input) {
                        sum = sum.wrapping_add(i32::from(weight) * i32::from(input));
                    }
                }
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_read_counts() {
        for len in [0, 1, 31, 32, 33, 1000] {
            let mut words = vec![0_u64; len];
            assert_eq!((read(&words), portable::read(&words)), (0, 0));
            for place in 0..len {
                words[place] = 1 << (place % 64);
                assert_eq!(read(&words), words[place], "word {place} of {len}");
                words[place] = 0;
            }
        }
    }

    #[test]
    fn the_wide_loops_do_the_rounds_of_the_portable_ones() {
        for rounds in 0..40 {
            let slow = portable::f32_fma(rounds, 0.5, 0.5);
            assert_eq!(f32_fma(rounds).to_bits(), slow.to_bits(), "{rounds} rounds");
        }
        let one = int8(1);
        assert_ne!(one, 0);
        for rounds in 0..5 {
            assert_eq!(int8(rounds), one * rounds as i32, "{rounds} rounds");
        }
    }

    #[test]
    fn every_loop_over_bytes_sums_their_products() {
        let number = |i: usize| ((i * 7919 + 31) % 256) as u8;
        let weights: Vec<i8> = (0..WEIGHTS * REGISTER_BYTES)
            .map(|i| number(i).cast_signed())
            .collect();
        // -128 is no input: `fast` rounds to -127..=127.
        let inputs: Vec<i8> = (0..INPUTS * REGISTER_BYTES)
            .map(|i| number(3 * i).cast_signed().max(-127))
            .collect();
        let products = inputs.iter().enumerate().map(|(place, input)| {
            let met = weights.iter().skip(place % REGISTER_BYTES);
            let met = met.step_by(REGISTER_BYTES);
            met.map(|weight| i32::from(*weight) * i32::from(*input))
                .sum::<i32>()
        });
        let expected = products.sum::<i32>();
        assert_eq!(portable::int8(1, &weights, &inputs), expected);
        #[cfg(target_arch = "x86_64")]
        for rounds in [0, 1, 7] {
            let expected = expected.wrapping_mul(rounds as i32);
            if crate::kernels::avx2().is_some() {
                // SAFETY: AVX2 and FMA were detected.
                let found = unsafe { x86::int8(rounds, &weights, &inputs) };
                assert_eq!(found, expected, "AVX2, {rounds} rounds");
            }
            if crate::kernels::avx512().is_some() {
                // SAFETY: every feature of the AVX-512 set was detected.
                let found = unsafe { x86::int8_vnni(rounds, &weights, &inputs) };
                assert_eq!(found, expected, "VNNI, {rounds} rounds");
            }
        }
    }
}
