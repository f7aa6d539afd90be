//! How times lie: those of requests by percentile, samples and pairs far out, results near the instrument.
//!
//! A run states all of these or none; one that states none may be from before they were recorded, and the audit says what
//! it misses. Not here: medians, intervals and verdicts (`statistics`), or whether the instrument was measured well: it
//! is asserted.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::arms::Arms;
use crate::figures::keys;
use crate::goodput;
use crate::notebook::{Layer, Notebook};
use crate::record::Record;
use crate::statistics::rounded;

/// Name, thousandths, and how many samples a percentile takes.
const PERCENTILES: [(&str, u128, usize); 5] = [
    ("p50", 500, 1),
    ("p90", 900, 64),
    ("p95", 950, 130),
    ("p99", 990, 662),
    ("p99.9", 999, 6_636),
];
/// Said of a run without an instrument.
const UNMEASURED: &str = "how long single requests took, which samples lie far out, which results are too short for the harness to time: \
    run.json states no `instrument` and none of what goes with it, as in runs from before it was measured; \
    that someone took them all out cannot be told from that";
/// A result of fewer floors of the instrument is marked.
const FLOORS: u64 = 10;
pub(crate) const MARK: &str = "at_instrument_limit";
const GOODPUT: &str = "goodput";

/// What the harness takes itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_field_names)] // the format's names, with their units
pub(crate) struct Instrument {
    clock_step_ns: u64,
    step_lag_ns: u64,
    line_write_ns: u64,
    line_parse_ns: u64,
    floor_ns: u64,
}

/// How evenly a fixed piece of work ran.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noise {
    repetitions: u64,
    least_ns: u64,
    median_ns: u64,
    p90_ns: u64,
    spread: f64,
    #[serde(deserialize_with = "crate::format::nullable")]
    load1: Option<f64>,
    waited_s: u64,
}

impl Noise {
    /// Its figures agree with each other.
    fn check(&self, notes: &mut Notebook) {
        let ascending = 0 < self.least_ns
            && self.least_ns <= self.median_ns
            && self.median_ns <= self.p90_ns
            && self.repetitions > 0;
        notes.check(Layer::Record, ascending, || {
            "noise: least_ns, median_ns, p90_ns do not ascend, or rest on nothing".to_owned()
        });
        let spread = rounded(self.p90_ns as f64 / self.least_ns.max(1) as f64 - 1.0);
        notes.same(Layer::Record, "noise.spread", &self.spread, &spread);
    }
}

impl Instrument {
    /// The floor is the sum of its parts.
    fn check(&self, notes: &mut Notebook) {
        let parts = [
            self.clock_step_ns,
            self.step_lag_ns,
            self.line_write_ns,
            self.line_parse_ns,
        ];
        let sum = parts.into_iter().fold(0, u64::saturating_add);
        notes.same(Layer::Record, "instrument.floor_ns", &self.floor_ns, &sum);
        notes.check(Layer::Record, sum > 0, || {
            "instrument: every part is 0, so nothing was measured".to_owned()
        });
    }

    fn limits(&self, time_ns: u64) -> bool {
        time_ns < self.floor_ns.saturating_mul(FLOORS)
    }

    /// Of an arm of a cell: whether the median of what is timed is too short.
    pub(crate) fn mark(&self, median_ns: Option<u64>) -> Value {
        json!(median_ns.map(|time_ns| self.limits(time_ns)))
    }
}

/// What needs no trace: instrument and noise agree with themselves, and nothing is stated without an instrument.
pub(crate) fn check(record: &Record, found: &Value, notes: &mut Notebook) {
    for noise in record.sittings.iter().filter_map(|it| it.noise.as_ref()) {
        noise.check(notes);
    }
    if let Some(instrument) = &record.instrument {
        return instrument.check(notes);
    }
    refuse_strays(found, notes);
    notes.not_checked.push(UNMEASURED.to_owned());
}

/// When one request had its first and its last output token, and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    first_ns: u64,
    last_ns: u64,
    further: u64,
    /// On the trace's clock: when it was due, if that was declared, was sent, and was answered.
    pub(crate) due_ns: Option<u64>,
    sent_t_ns: u64,
    pub(crate) answered_t_ns: u64,
}

impl Times {
    /// From the offsets of a `finish` line.
    pub(crate) fn of(token_t_ns: &[u64]) -> Self {
        Self {
            first_ns: token_t_ns.first().copied().unwrap_or_default(),
            last_ns: token_t_ns.last().copied().unwrap_or_default(),
            further: (token_t_ns.len() as u64).saturating_sub(1),
            ..Self::default()
        }
    }

    /// From pieces of several tokens each: what came with the first piece had no time of its own.
    pub(crate) fn of_pieces(chunk_t_ns: &[u64], chunk_tokens: &[u64]) -> Self {
        let further = chunk_tokens.iter().skip(1).copied();
        Self {
            first_ns: chunk_t_ns.first().copied().unwrap_or_default(),
            last_ns: chunk_t_ns.last().copied().unwrap_or_default(),
            further: further.fold(0, u64::saturating_add),
            ..Self::default()
        }
    }

    /// The same of a request that was due and sent then, and answered at `answered_t_ns`.
    pub(crate) fn within(self, clock: (Option<u64>, u64), answered_t_ns: u64) -> Self {
        let (due_ns, sent_t_ns) = clock;
        Self {
            due_ns,
            sent_t_ns,
            answered_t_ns,
            ..self
        }
    }

    /// Time per output token after the first; `None` where there are none.
    pub(crate) fn tpot_ns(&self) -> Option<u64> {
        let rest_ns = self.last_ns.saturating_sub(self.first_ns);
        rest_ns.checked_div(self.further)
    }

    /// From when it was due to its first token.
    pub(crate) fn scheduled_ttft_ns(&self) -> Option<u64> {
        self.since_due_ns(self.first_ns)
    }

    /// From when it was due to its last token.
    pub(crate) fn scheduled_e2e_ns(&self) -> Option<u64> {
        self.since_due_ns(self.last_ns)
    }

    fn since_due_ns(&self, offset_ns: u64) -> Option<u64> {
        let late_ns = self.sent_t_ns.saturating_sub(self.due_ns?);
        Some(late_ns.saturating_add(offset_ns))
    }
}

/// Adds to the expected run.json what a run with an `instrument` states of every arm and ratio.
pub(crate) fn expect(
    expected: &mut Value,
    found: &Value,
    arms: &Arms<'_>,
    instrument: Option<&Instrument>,
    notes: &mut Notebook,
) {
    let Some(instrument) = instrument else {
        return;
    };
    let work = &arms.envelope.workload;
    let scheduled = work.arrivals.is_some();
    for (name, figures) in expected["arms"].as_object_mut().into_iter().flatten() {
        let walls = arms.walls(name);
        let wall_ns = figures["wall_ns"].as_u64();
        let latencies = (walls.as_ref()).map(|_| distributions(&arms.times(name), scheduled));
        let p50 = |kind: &str| latencies.as_ref()?[kind]["percentiles"]["p50"]["nearest"].as_u64();
        let of_requests = [p50("ttft_ns"), p50("tpot_ns"), p50("e2e_ns")];
        let times = of_requests.into_iter().chain([wall_ns]).flatten();
        let near = wall_ns.map(|_| times.min().is_some_and(|least| instrument.limits(least)));
        if let (Some(latencies), Some(stated)) = (&latencies, found["arms"][name].get("latencies"))
        {
            let what = format!("times in latencies of {name}");
            notes.same(Layer::Record, &what, &keys(stated), &keys(latencies));
        }
        let stray = work.slo.is_none() && found["arms"][name].get(GOODPUT).is_some();
        notes.check(Layer::Record, !stray, || {
            format!("arms.{name}.goodput is stated, but no workload.slo is declared")
        });
        if let Some(slo) = &work.slo {
            let of_arm = walls.as_ref().map(|_| goodput::of_arm(slo, name, arms));
            figures[GOODPUT] = json!(of_arm);
        }
        for kind in latencies.iter().flat_map(keys) {
            let stated = &found["arms"][name]["latencies"][kind]["percentiles"];
            let allowed = &latencies.as_ref().unwrap_or(&Value::Null)[kind]["percentiles"];
            let what = format!("percentiles of {name}, {kind}");
            notes.same(Layer::Record, &what, &keys(stated), &keys(allowed));
        }
        figures["outliers"] = json!(walls.map(|walls| far_out(&walls, |ns| *ns as f64)));
        figures["latencies"] = json!(latencies);
        figures[MARK] = json!(near);
    }
    for ratio in expected["ratios"].as_array_mut().into_iter().flatten() {
        let name = |key: &str| ratio[key].as_str().unwrap_or_default().to_owned();
        let (ours, theirs) = (arms.walls(&name("arm")), arms.walls(&name("denominator")));
        let pairs = theirs.into_iter().flatten().zip(ours.into_iter().flatten());
        let walls: Vec<f64> = pairs
            .map(|(theirs, ours)| theirs as f64 / ours as f64)
            .collect();
        let judged = !ratio["verdict"].is_null();
        ratio["outliers"] = json!(judged.then(|| far_out(&walls, |ratio| *ratio)));
    }
}

/// Without an instrument nothing that follows from it may be stated.
fn refuse_strays(found: &Value, notes: &mut Notebook) {
    let arms = found["arms"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, arm)| arm);
    let cells = || found["cells"].as_array().into_iter().flatten();
    let of_cells = cells().flat_map(|cell| {
        cell["arms"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(_, arm)| arm)
    });
    let ratios = cells()
        .chain([found])
        .flat_map(|it| it["ratios"].as_array().into_iter().flatten());
    for part in arms.chain(of_cells).chain(ratios) {
        for name in ["latencies", "outliers", "at_instrument_limit", "goodput"] {
            notes.check(Layer::Record, part.get(name).is_none(), || {
                format!("{name} is stated without an instrument: a run states both or neither")
            });
        }
    }
}

/// The times of all requests of all repetitions, `scheduled` also from when they were due.
fn distributions(times: &[Times], scheduled: bool) -> Value {
    let of =
        |time: fn(&Times) -> Option<u64>| distribution(times.iter().filter_map(time).collect());
    let mut all = json!({
        "ttft_ns": of(|it| Some(it.first_ns)),
        "tpot_ns": of(Times::tpot_ns),
        "e2e_ns": of(|it| Some(it.last_ns)),
    });
    if scheduled {
        all["scheduled_ttft_ns"] = of(Times::scheduled_ttft_ns);
        all["scheduled_e2e_ns"] = of(Times::scheduled_e2e_ns);
    }
    all
}

fn distribution(mut samples: Vec<u64>) -> Value {
    samples.sort_unstable();
    let count = samples.len();
    let allowed = PERCENTILES.iter().filter(|(_, _, least)| count >= *least);
    let percentiles: Map<String, Value> = allowed
        .map(|(name, thousandths, _)| ((*name).to_owned(), percentile(&samples, *thousandths)))
        .collect();
    if percentiles.is_empty() {
        return Value::Null;
    }
    json!({ "count": count, "percentiles": percentiles })
}

/// Of samples in ascending order, at least one.
fn percentile(samples: &[u64], thousandths: u128) -> Value {
    let n = samples.len();
    let covers = |place: &usize| (*place as u128 + 1) * 1000 >= n as u128 * thousandths;
    let nearest = (0..n)
        .find(covers)
        .map_or(samples[n - 1], |place| samples[place]);
    let position = (n as u128 - 1) * thousandths;
    let place = (position / 1000) as usize;
    let (low, high) = (samples[place], samples[(place + 1).min(n - 1)]);
    let beyond = u128::from(high - low) * (position % 1000);
    let linear = (u128::from(low) * 1000 + beyond) as f64 / 1000.0;
    json!({ "nearest": nearest, "linear": linear })
}

/// Places of the values beyond Tukey's fences.
pub(crate) fn far_out<T>(samples: &[T], value: impl Fn(&T) -> f64) -> Vec<usize> {
    let values: Vec<f64> = samples.iter().map(value).collect();
    let mut sorted = values.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return Vec::new();
    };
    let quartile = |quarters: usize| {
        let (whole, rest) = (last * quarters / 4, last * quarters % 4);
        let (low, high) = (sorted[whole], sorted[(whole + 1).min(last)]);
        low + (high - low) * (rest as f64 / 4.0)
    };
    let reach = 1.5 * (quartile(3) - quartile(1));
    let (low, high) = (quartile(1) - reach, quartile(3) + reach);
    let outside = |place: &usize| values[*place] < low || values[*place] > high;
    (0..values.len()).filter(outside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_equal_those_worked_out_by_hand_and_wait_for_enough_samples() {
        let ten: Vec<u64> = (1..=10).map(|i| i * 10).collect();
        assert_eq!(
            percentile(&ten, 500),
            json!({ "nearest": 50, "linear": 55.0 })
        );
        assert_eq!(
            percentile(&ten, 900),
            json!({ "nearest": 90, "linear": 91.0 })
        );
        let named = |n: u64| {
            let found = distribution((0..n).collect());
            found["percentiles"].as_object().map_or(0, Map::len)
        };
        let counts = [0, 1, 63, 64, 129, 130, 661, 662, 6_635, 6_636].map(named);
        assert_eq!(counts, [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]);
    }

    #[test]
    fn fences_point_at_what_lies_beyond_and_at_nothing_on_them() {
        assert_eq!(
            far_out(&[1.0, 2.0, 3.0, 4.0, 7.0], |it| *it),
            Vec::<usize>::new()
        );
        assert_eq!(far_out(&[7.001, 1.0, 2.0, 3.0, 4.0], |it| *it), [0]);
        assert_eq!(far_out(&[5_u64], |it| *it as f64), Vec::<usize>::new());
    }
}
