//! Answers that kept to the declared objective, of all that were asked for, and how many came in a second.
//!
//! Not here: how their times are spread (`latencies`), or when they were due (`arrivals`).

use serde::Deserialize;
use serde_json::{Value, json};

use crate::arms::Arms;
use crate::envelope::{Plan, Workload};
use crate::format::stated;
use crate::latencies::Times;
use crate::notebook::{Layer, Notebook};
use crate::oracle::is_served;
use crate::statistics::rounded;

const NS_OF_MS: u64 = 1_000_000;
const NS_OF_S: u64 = 1_000_000_000;

/// The longest objective.
const MAX_SLO_MS: u64 = 7_200_000;

/// What an answer must keep to be good, in milliseconds, each where it says anything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_field_names)] // the format's names, with their units
pub(crate) struct Slo {
    #[serde(default, deserialize_with = "stated")]
    pub(crate) ttft_ms: Option<u64>,
    #[serde(default, deserialize_with = "stated")]
    pub(crate) tpot_ms: Option<u64>,
    #[serde(default, deserialize_with = "stated")]
    pub(crate) e2e_ms: Option<u64>,
}

/// An objective of something, that answers which come by the clock and token by token can keep.
pub(crate) fn check(work: &Workload, run: &Plan, notes: &mut Notebook) {
    let Some(slo) = &work.slo else {
        return;
    };
    for (name, value) in [
        ("workload.slo.ttft_ms", slo.ttft_ms),
        ("workload.slo.tpot_ms", slo.tpot_ms),
        ("workload.slo.e2e_ms", slo.e2e_ms),
    ] {
        let fits = value.is_none_or(|value| (1..=MAX_SLO_MS).contains(&value));
        notes.check(Layer::Format, fits, || {
            let value = value.unwrap_or_default();
            format!("{name} is {value}, expected 1 to {MAX_SLO_MS}")
        });
    }
    let by_token = slo.ttft_ms.or(slo.tpot_ms);
    let says = by_token.or(slo.e2e_ms).is_some();
    notes.check(Layer::Format, says, || {
        "workload.slo says nothing: one of ttft_ms, tpot_ms and e2e_ms is stated".to_owned()
    });
    notes.check(Layer::Format, work.arrivals.is_some(), || {
        "workload.slo is counted from when requests are due: workload.arrivals are missing"
            .to_owned()
    });
    let whole = run.arms.iter().any(|arm| is_served(arm));
    notes.check(Layer::Format, by_token.is_none() || !whole, || {
        "workload.slo: answers of other engines come whole, and ttft_ms and tpot_ms are not for them"
            .to_owned()
    });
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// First and last token 1 and 3 ms after a request that was sent 1 ms late.
    fn late() -> Times {
        Times::of(&[NS_OF_MS, 3 * NS_OF_MS]).within((Some(7), 7 + NS_OF_MS), 0)
    }

    fn slo(ttft_ms: Option<u64>, tpot_ms: Option<u64>, e2e_ms: Option<u64>) -> Slo {
        Slo {
            ttft_ms,
            tpot_ms,
            e2e_ms,
        }
    }

    #[test]
    fn an_objective_is_kept_up_to_its_last_nanosecond_and_from_when_the_request_was_due() {
        assert!(slo(Some(2), Some(2), Some(4)).is_kept(&late()));
        assert!(!slo(Some(1), None, None).is_kept(&late()));
        assert!(!slo(None, Some(1), None).is_kept(&late()));
        assert!(!slo(None, None, Some(3)).is_kept(&late()));
        let later = Times::of(&[NS_OF_MS, 3 * NS_OF_MS]).within((Some(6), 7 + NS_OF_MS), 0);
        assert!(!slo(Some(2), None, None).is_kept(&later));
        assert!(!slo(None, None, Some(4)).is_kept(&later));
        assert!(slo(None, Some(2), None).is_kept(&later));
    }

    #[test]
    fn an_answer_of_one_token_keeps_to_no_time_per_token() {
        let single = Times::of(&[NS_OF_MS]).within((Some(7), 7), 0);
        assert!(!slo(None, Some(7_200_000), None).is_kept(&single));
        assert!(slo(Some(1), None, Some(1)).is_kept(&single));
    }
}
