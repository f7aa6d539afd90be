//! What the harness itself takes, measured against the scripted arm, and which results stand too near to it.
//!
//! Not here: measuring (`harness`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::{ArmRecord, CellRecord};
use crate::statistics::median_u64;
use crate::statistics::spread::Distribution;

/// A time of this many floors or more is told from the instrument's own work.
const FLOORS: u64 = 10;

/// What the instrument takes, each the median of many: `instrument` of run.json.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_field_names)] // the format's names, with their units
pub struct Instrument {
    /// Between two readings of the clock.
    pub clock_step_ns: u64,
    /// What a step was recorded to take beyond its script.
    pub step_lag_ns: u64,
    /// Writing a trace line into a pipe.
    pub line_write_ns: u64,
    /// Reading one.
    pub line_parse_ns: u64,
    /// The sum of these.
    pub floor_ns: u64,
}

impl Instrument {
    /// The instrument of these four measurements.
    pub fn new(
        clock_step_ns: u64,
        step_lag_ns: u64,
        line_write_ns: u64,
        line_parse_ns: u64,
    ) -> Self {
        let parts = [clock_step_ns, step_lag_ns, line_write_ns, line_parse_ns];
        Self {
            clock_step_ns,
            step_lag_ns,
            line_write_ns,
            line_parse_ns,
            floor_ns: parts.into_iter().fold(0, u64::saturating_add),
        }
    }

    /// Whether a time is too short to be told from the instrument's own.
    pub fn limits(&self, time_ns: u64) -> bool {
        time_ns < self.floor_ns.saturating_mul(FLOORS)
    }

    /// Marks the completed arms of a session: by their whole time and by every median time of a request. A step takes
    /// the instrument about a floor, so it is the time per token that comes near first.
    pub fn mark_arms(&self, arms: &mut BTreeMap<String, ArmRecord>) {
        for arm in arms.values_mut() {
            let of_requests = arm.latencies.iter().flat_map(|it| {
                let kinds = [Some(&it.ttft_ns), it.tpot_ns.as_ref(), Some(&it.e2e_ns)];
                kinds.into_iter().flatten().filter_map(Distribution::p50)
            });
            let least_ns = of_requests.chain(arm.wall_ns).min();
            arm.at_instrument_limit = arm
                .wall_ns
                .and(least_ns)
                .map(|least_ns| self.limits(least_ns));
        }
    }

    /// Marks the completed arms of cells, by what is timed of them.
    pub fn mark_cells(&self, cells: &mut [CellRecord]) {
        for arm in cells.iter_mut().flat_map(|cell| cell.arms.values_mut()) {
            let times: Vec<u64> = arm.samples.iter().map(|sample| sample.timed_ns).collect();
            let completed = arm.completed == arm.reps;
            arm.at_instrument_limit = median_u64(&times)
                .filter(|_| completed)
                .map(|timed_ns| self.limits(timed_ns));
        }
    }
}
