//! Requests that came by the clock: their times from when they were due, and how many kept the objective.
//!
//! Of our arms and of other engines' alike. Not here: when a request is due (`arrivals`).

use std::collections::HashMap;

use super::ArmTrace;
use super::read::Times;
use crate::arrivals::Objective;
use crate::record::{ArmRecord, Goodput};
use crate::statistics::round6;
use crate::statistics::spread::Distribution;
use crate::trace::{Body, Line};

/// A request that was answered, and how long it was due before it was sent.
struct Served {
    waited_ns: u64,
    times: Times,
}

impl Served {
    fn ttft_ns(&self) -> u64 {
        self.waited_ns.saturating_add(self.times.first_ns)
    }

    fn e2e_ns(&self) -> u64 {
        self.waited_ns.saturating_add(self.times.last_ns)
    }

    /// An answer of one token has no time per further token, and cannot keep to one.
    fn is_good(&self, slo: &Objective) -> bool {
        let within = |time_ns: Option<u64>, limit_ms: Option<u64>| {
            limit_ms.is_none_or(|ms| {
                time_ns.is_some_and(|time_ns| time_ns <= ms.saturating_mul(1_000_000))
            })
        };
        within(Some(self.ttft_ns()), slo.ttft_ms)
            && within(self.times.gap_ns(), slo.tpot_ms)
            && within(Some(self.e2e_ns()), slo.e2e_ms)
    }
}

/// Fills in what the repetitions of a completed arm say of waiting; nothing where its requests did not come by the clock.
pub(super) fn fill(record: &mut ArmRecord, own: &[&ArmTrace<'_>], slo: Option<&Objective>) {
    let mut served = Vec::new();
    let mut span_ns: u64 = 0;
    for trace in own {
        let Some((of_trace, span)) = read(trace.lines) else {
            return;
        };
        served.extend(of_trace);
        span_ns = span_ns.saturating_add(span);
    }
    if let Some(latencies) = &mut record.latencies {
        let all = |of: fn(&Served) -> u64| Distribution::new(served.iter().map(of).collect());
        latencies.scheduled_ttft_ns = all(Served::ttft_ns);
        latencies.scheduled_e2e_ns = all(Served::e2e_ns);
    }
    record.goodput = slo.map(|slo| {
        let good = served.iter().filter(|it| it.is_good(slo)).count() as u64;
        let per_s = good as f64 * 1e9 / span_ns as f64;
        Goodput {
            offered: served.len() as u64,
            good,
            good_per_s: (span_ns > 0).then(|| round6(per_s)),
        }
    });
}

/// Every answered request, and the time from when the first was due to the last answer; `None` where none was due.
fn read(lines: &[Line]) -> Option<(Vec<Served>, u64)> {
    let mut waits = HashMap::new();
    let mut served = Vec::new();
    let (mut first_due_ns, mut last_ns) = (None, 0);
    for line in lines {
        let (request, times) = match &line.body {
            Body::Request { id, due_ns, .. } => {
                let due_ns = (*due_ns)?;
                first_due_ns.get_or_insert(due_ns);
                waits.insert(id.as_str(), line.t_ns.saturating_sub(due_ns));
                continue;
            }
            Body::Finish {
                request,
                token_t_ns,
                ..
            } => (request, Times::of_tokens(token_t_ns)?),
            Body::Answer(answer) => (&answer.request, Times::of_pieces(answer)?),
            _ => continue,
        };
        last_ns = line.t_ns;
        let waited_ns = *waits.get(request.as_str())?;
        served.push(Served { waited_ns, times });
    }
    Some((served, last_ns.saturating_sub(first_due_ns?)))
}
