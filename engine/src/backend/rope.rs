//! Rotary position embedding (Su et al. 2021) and the ways models stretch it over longer texts.
//!
//! Frequencies and angles are f64 through the `libm` crate; each cosine and sine is rounded once. A table is made for the
//! positions of a batch, never for a whole context, so no number in a file can size one. Pairs are neighbours; `model`
//! reorders the rows of files that keep them half a head apart. Not here: reading any file.

use std::f64::consts::PI;

/// How frequencies are changed for texts longer than the model was first trained on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All divided by `factor` (position interpolation, Chen et al. 2023).
    Linear {
        /// Stretch.
        factor: f64,
    },
    /// Slow ones divided, fast ones kept, a straight transition between (Llama 3.1).
    Llama3 {
        /// Stretch.
        factor: f64,
        /// Turns within `original` positions below which a pair is stretched whole.
        low: f64,
        /// Turns above which it is kept.
        high: f64,
        /// Positions of the first training.
        original: f64,
    },
    /// YaRN (Peng et al. 2023): a ramp over the pairs, and a factor on cosines and sines.
    Yarn {
        /// Stretch.
        factor: f64,
        /// Positions of the first training.
        original: f64,
        /// Turns at which the ramp begins.
        beta_fast: f64,
        /// Turns at which the ramp ends.
        beta_slow: f64,
        /// Whether the ramp's ends are rounded outwards to whole pairs.
        truncate: bool,
        /// Factor on cosines and sines.
        magnitude: f64,
    },
}

/// The frequencies of a model.
pub struct Rope {
    frequencies: Vec<f64>, // [head_dim / 2]
    magnitude: f64,
}

impl Rope {
    /// Frequency of pair i: base^(-2i / head_dim), scaled; then divided by `divisors[i]` where a file brings its own.
    pub fn new(base: f64, head_dim: usize, scaling: RopeScaling, divisors: Option<&[f32]>) -> Self {
        let plain = |i: usize| libm::pow(base, -2.0 * i as f64 / head_dim as f64);
        let mut frequencies: Vec<f64> = (0..head_dim / 2).map(plain).collect();
        let mut magnitude = 1.0;
        match scaling {
            RopeScaling::None => {}
            RopeScaling::Linear { factor } => frequencies.iter_mut().for_each(|f| *f /= factor),
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                original,
            } => {
                for frequency in &mut frequencies {
                    let turns = original * *frequency / (2.0 * PI);
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    *frequency = (1.0 - kept) * *frequency / factor + kept * *frequency;
                }
            }
            RopeScaling::Yarn {
                factor,
                magnitude: given,
                ..
            } => {
                magnitude = given;
                let (start, width) = yarn_ramp(base, head_dim, scaling);
                for (i, frequency) in frequencies.iter_mut().enumerate() {
                    let stretched = ((i as f64 - start) / width).clamp(0.0, 1.0);
                    *frequency = *frequency / factor * stretched + *frequency * (1.0 - stretched);
                }
            }
        }
        for (frequency, &divisor) in frequencies.iter_mut().zip(divisors.unwrap_or_default()) {
            *frequency /= f64::from(divisor);
        }
        Self {
            frequencies,
            magnitude,
        }
    }

    /// Radians per position, `[head_dim / 2]`.
    pub fn frequencies(&self) -> &[f64] {
        &self.frequencies
    }

    /// Cosines and sines that turn keys back by so many positions, `[head_dim / 2][2]`.
    ///
    /// A turn's length is its frequency times the positions whatever the scaling; the factor on cosines and sines is in the
    /// keys already.
    pub fn back(&self, positions: usize) -> Vec<f32> {
        let angles = self.frequencies.iter().map(|it| -(positions as f64) * it);
        angles
            .flat_map(|angle| [libm::cos(angle) as f32, libm::sin(angle) as f32])
            .collect()
    }

    /// Cosines and sines for `positions`.
    pub fn table(&self, positions: impl Iterator<Item = usize>) -> RopeTable {
        let mut turns = Vec::new();
        for position in positions {
            for frequency in &self.frequencies {
                let angle = position as f64 * frequency;
                turns.push((libm::cos(angle) * self.magnitude) as f32);
                turns.push((libm::sin(angle) * self.magnitude) as f32);
            }
        }
        RopeTable {
            head_dim: 2 * self.frequencies.len(),
            turns,
        }
    }
}

/// First pair and width of YaRN's ramp, in pairs.
fn yarn_ramp(base: f64, head_dim: usize, scaling: RopeScaling) -> (f64, f64) {
    let RopeScaling::Yarn {
        original,
        beta_fast,
        beta_slow,
        truncate,
        ..
    } = scaling
    else {
        return (0.0, 1.0);
    };
    let dim = head_dim as f64;
    let pair_of =
        |turns: f64| dim * libm::log(original / (turns * 2.0 * PI)) / (2.0 * libm::log(base));
    let (mut start, mut end) = (pair_of(beta_fast), pair_of(beta_slow));
    if truncate {
        (start, end) = (libm::floor(start), libm::ceil(end));
    }
    let (start, end) = (start.max(0.0), end.min(dim - 1.0));
    // The reference implementations part an empty ramp by this much.
    (
        start,
        if end - start == 0.0 {
            0.001
        } else {
            end - start
        },
    )
}

/// Cosine and sine of every pair of neighbours in a head, `[positions][head_dim / 2][2]`.
pub struct RopeTable {
    head_dim: usize,
    turns: Vec<f32>,
}

impl RopeTable {
    /// The turns of entry `index`, `[head_dim]`.
    pub fn entry(&self, index: usize) -> &[f32] {
        &self.turns[index * self.head_dim..][..self.head_dim]
    }
}
