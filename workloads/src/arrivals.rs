//! Requests that come by the clock: when each is due, and what an answer must keep to be good.
//!
//! Not here: who waits for it and sends it (`baselines`), or whether an answer was good (`summary`).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::arm::is_server;
use crate::envelope::check::{Refusal, within};
use crate::envelope::{Order, RunAsked, Workload};
use crate::splitmix::SplitMix64;

/// Key that keeps these draws apart from those of ids.
const GAPS: u64 = 3;
/// Ten minutes between two requests: whoever waits longer measures nothing.
const INTERVAL_US_MAX: usize = 600_000_000;
/// Two hours, as long as another engine may take.
const OBJECTIVE_MS_MAX: usize = 7_200_000;

/// How gaps between requests are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Process {
    /// All alike.
    Constant,
    /// Exponential: as many independent users ask.
    Poisson,
}

/// Requests are due at times of their own, whatever became of those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// How gaps are drawn.
    pub process: Process,
    /// Mean time between two requests of all agents together, in microseconds.
    pub interval_us: u64,
}

/// What an answer must keep to be good; times count from when it was due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_field_names)] // the format's names, with their units
pub struct Objective {
    /// Until the first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    /// Mean time of each further token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_ms: Option<u64>,
    /// Until the last token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e2e_ms: Option<u64>,
}

impl Arrivals {
    /// When each request is due, in nanoseconds since the first; gaps are drawn as audit/FORMAT.md says ("Arrivals").
    pub fn offsets_ns(&self, seed: u64) -> impl Iterator<Item = u64> + use<> {
        let Self {
            process,
            interval_us,
        } = *self;
        let interval_ns = interval_us.saturating_mul(1000);
        let mut stream = SplitMix64::keyed(&[seed, GAPS]);
        let gap = move || match process {
            Process::Constant => interval_ns,
            Process::Poisson => {
                let uniform = (stream.next() >> 11) as f64 / (1_u64 << 53) as f64;
                (-(1.0 - uniform).ln() * interval_ns as f64).round() as u64
            }
        };
        let further = std::iter::repeat_with(gap).scan(0_u64, |due_ns, gap_ns| {
            *due_ns = due_ns.saturating_add(gap_ns);
            Some(*due_ns)
        });
        std::iter::once(0).chain(further)
    }

    /// Requests a second, on average.
    pub fn per_s(&self) -> f64 {
        1e6 / self.interval_us as f64
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.process {
            Process::Constant => "constant",
            Process::Poisson => "Poisson",
        };
        write!(f, "{:.3} requests/s ({word})", self.per_s())
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = [
            ("TTFT", self.ttft_ms),
            ("TPOT", self.tpot_ms),
            ("E2E", self.e2e_ms),
        ];
        if *self == Self::default() {
            return f.write_str("{}");
        }
        let words = limits.map(|(name, limit)| limit.map(|ms| format!("{name} <= {ms} ms")));
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// Refuses a clock nobody can keep, and objectives that cannot be held against what will be known.
pub(crate) fn check(workload: &Workload, run: &RunAsked) -> Result<(), Refusal> {
    if let Some(arrivals) = &workload.arrivals {
        let interval_us = usize::try_from(arrivals.interval_us).unwrap_or(usize::MAX);
        let field = "workload.arrivals.interval_us";
        within(field, interval_us, &(1..=INTERVAL_US_MAX))?;
        if workload.order == Order::Agents {
            let wanted = "no order = \"agents\": requests are due turn by turn";
            return Err(Refusal::new("workload.arrivals", arrivals, wanted));
        }
    }
    let Some(slo) = &workload.slo else {
        return Ok(());
    };
    let limits = [
        ("workload.slo.ttft_ms", slo.ttft_ms),
        ("workload.slo.tpot_ms", slo.tpot_ms),
        ("workload.slo.e2e_ms", slo.e2e_ms),
    ];
    for (field, limit_ms) in limits {
        let limit_ms = limit_ms.map(|ms| usize::try_from(ms).unwrap_or(usize::MAX));
        within(field, limit_ms.unwrap_or(1), &(1..=OBJECTIVE_MS_MAX))?;
    }
    let server = run.arms.iter().find(|arm| is_server(arm));
    let wanted = if *slo == Objective::default() {
        "one or more of ttft_ms, tpot_ms and e2e_ms".to_owned()
    } else if workload.arrivals.is_none() {
        "nothing, or workload.arrivals too: an objective holds from when a request is due"
            .to_owned()
    } else if let Some(server) = server.filter(|_| slo.ttft_ms.or(slo.tpot_ms).is_some()) {
        format!("e2e_ms alone: the answers of {server} come whole")
    } else {
        return Ok(());
    };
    Err(Refusal::new("workload.slo", slo, wanted))
}
