//! The scripted arm: how long each of its steps shall take, as the envelope says.
//!
//! It computes nothing. What it is for is the harness: a time that is known beforehand shows what recording adds to it.
//! Not here: waiting for that long (`baselines`).

use serde::{Deserialize, Serialize};

use crate::splitmix::SplitMix64;

/// The `[mock]` table: a step takes `step_ns`, more for each of its rows, and up to so much more or less by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Of every step.
    pub step_ns: u64,
    /// Of every position of a prompt besides.
    #[serde(default)]
    pub prefill_ns_per_token: u64,
    /// Of every decoded token besides.
    #[serde(default)]
    pub decode_ns_per_token: u64,
    /// Most a step departs from that either way, in thousandths of it; drawn anew for every step.
    #[serde(default)]
    pub jitter_thousandths: u32,
}

/// Which step of which repetition: what the chance of a step depends on.
#[derive(Clone, Copy, Debug)]
pub struct StepKey {
    /// The workload's seed.
    pub seed: u64,
    /// The repetition.
    pub rep: usize,
    /// The how manieth step of it, from 0.
    pub step: u64,
}

impl Script {
    /// Nanoseconds of a prefill step of so many rows.
    pub fn prefill_ns(&self, rows: usize, key: StepKey) -> u64 {
        self.scripted_ns(self.prefill_ns_per_token, rows, key)
    }

    /// Nanoseconds of a decode step of so many rows.
    pub fn decode_ns(&self, rows: usize, key: StepKey) -> u64 {
        self.scripted_ns(self.decode_ns_per_token, rows, key)
    }

    fn scripted_ns(&self, row_ns: u64, rows: usize, key: StepKey) -> u64 {
        let plain_ns = row_ns
            .saturating_mul(rows as u64)
            .saturating_add(self.step_ns);
        let mut stream = SplitMix64::keyed(&[key.seed, key.rep as u64, key.step]);
        let either_way = self.jitter_thousandths;
        let thousandths =
            1000 - u64::from(either_way) + u64::from(stream.below(2 * either_way + 1));
        let scripted_ns = u128::from(plain_ns) * u128::from(thousandths) / 1000;
        u64::try_from(scripted_ns).unwrap_or(u64::MAX)
    }
}
