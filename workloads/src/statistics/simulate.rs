//! How often the rule errs: pairs of made-up times, judged by the function that judges real ones.
//!
//! Not here: what is promised of it (`harness selftest`).

use std::f64::consts::TAU;

use super::{Resamples, pair_ratios};
use crate::splitmix::SplitMix64;

/// Nanoseconds of the faster side without noise; long enough that whole nanoseconds round nothing away.
const PLAIN_NS: f64 = 1e9;

/// What is simulated: the truth, and how it is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scene {
    /// Time of the denominator over that of the arm, without noise.
    pub times: f64,
    /// Standard deviation of the logarithm of a sample: 0.1 is about 10 %.
    pub noise: f64,
    /// Pairs of a run.
    pub pairs: usize,
}

/// How many runs got which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// The arm needs less time.
    pub faster: usize,
    /// It needs more.
    pub slower: usize,
    /// Neither.
    pub parity: usize,
    /// Nothing can be said.
    pub inconclusive: usize,
}

/// Judges `trials` runs of `scene`; the same seed gives the same runs.
pub fn judge(scene: Scene, trials: usize, seed: u64) -> Verdicts {
    let resamples = Resamples::new(scene.pairs);
    let keys = [seed, scene.times.to_bits(), scene.noise.to_bits()];
    let mut stream = SplitMix64::keyed(&[&keys[..], &[scene.pairs as u64]].concat());
    let mut sample_ns =
        |plain_ns: f64| (plain_ns * (scene.noise * normal(&mut stream)).exp()) as u64;
    let mut verdicts = Verdicts::default();
    for _ in 0..trials {
        let pairs = (0..scene.pairs).map(|_| {
            let base_ns = sample_ns(PLAIN_NS * scene.times);
            (base_ns, sample_ns(PLAIN_NS))
        });
        let judged = pair_ratios(pairs).map(|ratios| resamples.judge(&ratios).verdict);
        *match judged {
            Some("FASTER") => &mut verdicts.faster,
            Some("SLOWER") => &mut verdicts.slower,
            Some("PARITY") => &mut verdicts.parity,
            _ => &mut verdicts.inconclusive,
        } += 1;
    }
    verdicts
}

/// A normal number, by the polar angle and radius of two uniform ones.
fn normal(stream: &mut SplitMix64) -> f64 {
    let mut uniform = || ((stream.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let radius = (-2.0 * uniform().ln()).sqrt();
    radius * (TAU * uniform()).cos()
}

/// The 95 % interval of a rate seen `hits` times in `trials` (Wilson's).
pub fn rate_interval(hits: usize, trials: usize) -> (f64, f64) {
    const Z: f64 = 1.959_963_984_540_054;
    let (n, rate) = (trials as f64, hits as f64 / trials as f64);
    let centre = (rate + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let reach = Z / (1.0 + Z * Z / n) * (rate * (1.0 - rate) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((centre - reach).max(0.0), (centre + reach).min(1.0))
}
