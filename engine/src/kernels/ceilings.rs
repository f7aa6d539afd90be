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
    if avx2() {
        // SAFETY: AVX2 and FMA were detected.
        return unsafe { x86::read(words) };
    }
    portable::read(words)
}

/// `rounds` times [`F32_FLOP_PER_ROUND`] operations in registers.
pub fn f32_fma(rounds: u64) -> f32 {
    // Hidden from the compiler: it must not know that the sums converge to 1.
    let (factor, addend) = (black_box(0.5), black_box(0.5));
    #[cfg(target_arch = "x86_64")]
    if avx2() {
        // SAFETY: AVX2 and FMA were detected.
        return unsafe { x86::f32_fma(rounds, factor, addend) };
    }
    portable::f32_fma(rounds, factor, addend)
}

/// `rounds` times [`INT8_OP_PER_ROUND`] operations on signed bytes, summed in 32 bits, wrapping.
///
/// Products of unsigned nibbles need fewer instructions; work on four-bit weights may exceed this rate.
pub fn int8(rounds: u64) -> i32 {
    let weights: Vec<i8> = (0..WEIGHTS * REGISTER_BYTES)
        .map(|place| (place % 255) as i8)
        .collect();
    let inputs = [[1_i8, -3, 5, -7]; INPUTS * REGISTER_BYTES / 4];
    let (weights, inputs) = (black_box(&weights[..]), black_box(inputs.as_flattened()));
    #[cfg(target_arch = "x86_64")]
    if avx2() {
        // SAFETY: AVX2 and FMA were detected.
        return unsafe { x86::int8(rounds, weights, inputs) };
    }
    portable::int8(rounds, weights, inputs)
}

#[cfg(target_arch = "x86_64")]
fn avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
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
    fn a_round_of_bytes_is_the_sum_of_its_products() {
        let products = (0..WEIGHTS * REGISTER_BYTES).map(|place| {
            let input = [1, -3, 5, -7][place % 4];
            i32::from((place % 255) as i8) * input * INPUTS as i32
        });
        assert_eq!(int8(1), products.sum::<i32>());
    }
}
