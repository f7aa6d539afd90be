//! Answers that kept to the declared objective, of all that were asked for, and how many came in a second.
//!
//! Not here: how their times are spread (`latencies`), or when they were due (`arrivals`).

use serde_json::{Value, json};

use crate::arms::Arms;
use crate::envelope::Slo;
use crate::latencies::Times;
use crate::statistics::rounded;

const NS_OF_MS: u64 = 1_000_000;
const NS_OF_S: u64 = 1_000_000_000;

/// What run.json must say of a completed arm.
pub(crate) fn of_arm(slo: &Slo, arm: &str, arms: &Arms<'_>) -> Value {
    let (mut offered, mut good, mut span_ns) = (0_u64, 0_u64, 0_u64);
    for outputs in arms.outputs(arm) {
        let times = || outputs.values().map(|it| &it.times);
        offered += times().count() as u64;
        good += times().filter(|it| slo.is_kept(it)).count() as u64;
        let first = times().next().and_then(|it| it.due_ns); // agent 0, turn 0
        let last = times().map(|it| it.answered_t_ns).max();
        let span = first.zip(last).map(|(from, to)| to.saturating_sub(from));
        span_ns = span_ns.saturating_add(span.unwrap_or(0));
    }
    let per_s = good.saturating_mul(NS_OF_S) as f64 / span_ns as f64;
    json!({
        "offered": offered, "good": good,
        "good_per_s": (span_ns > 0).then(|| rounded(per_s)),
    })
}

impl Slo {
    /// Whether one answer is within everything this says.
    fn is_kept(&self, times: &Times) -> bool {
        let within = |time: Option<u64>, most_ms: Option<u64>| {
            most_ms.is_none_or(|most| time.is_some_and(|it| it <= most.saturating_mul(NS_OF_MS)))
        };
        within(times.scheduled_ttft_ns(), self.ttft_ms)
            && within(times.tpot_ns(), self.tpot_ms)
            && within(times.scheduled_e2e_ns(), self.e2e_ms)
    }
}
