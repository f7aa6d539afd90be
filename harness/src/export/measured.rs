//! One repetition of an arm as load tools see one: its requests, how long it took, how its latencies lie.
//!
//! Not here: in whose words that is written down (`vllm`, `aiperf`).

use workloads::record::{ArmRecord, Sample};
use workloads::statistics::spread::{Distribution, not_licensed};

use crate::error::Error;
use crate::requests::{self, Request};
use crate::sealed::{SealedRun, Trace};

/// One completed repetition.
pub(super) struct Measured<'a> {
    pub(super) arm: &'a str,
    pub(super) record: &'a ArmRecord,
    pub(super) sample: &'a Sample,
    pub(super) requests: Vec<Request>,
    /// How many answers the client let be open at once.
    pub(super) concurrency: u64,
}

impl<'a> Measured<'a> {
    /// Every completed repetition of `arms`, of all arms if none is named, by arm and repetition.
    pub(super) fn all(run: &'a SealedRun, arms: &[String]) -> Result<Vec<Self>, Error> {
        let traces: Vec<&Trace> = run.traces.iter().chain(&run.servers).collect();
        let mut all = Vec::new();
        for (arm, record) in &run.record.arms {
            if !arms.is_empty() && !arms.contains(arm) {
                continue;
            }
            for sample in &record.samples {
                let trace = traces
                    .iter()
                    .find(|it| it.arm == *arm && it.rep == sample.rep);
                let trace = trace.ok_or_else(|| {
                    Error::Broken(format!("no trace of {arm}, repetition {}", sample.rep))
                })?;
                all.push(Self {
                    arm,
                    record,
                    sample,
                    requests: requests::of(&trace.lines),
                    concurrency: concurrency(run, record),
                });
            }
        }
        Ok(all)
    }

    /// `fak`, or the other engine's name.
    pub(super) fn engine(&self) -> &str {
        let server = self.record.server.as_ref();
        server.map_or("fak", |server| &server.program.name)
    }

    /// How long it took, in seconds; `None` where no time passed.
    pub(super) fn duration_s(&self) -> Option<f64> {
        let wall_ns = self.sample.wall_ns;
        (wall_ns > 0).then(|| wall_ns as f64 / 1e9)
    }

    /// So many a second of it.
    pub(super) fn per_second(&self, count: u64) -> Option<f64> {
        self.duration_s().map(|seconds| count as f64 / seconds)
    }

    /// Requests that were answered.
    pub(super) fn answered(&self) -> u64 {
        let answered = self.requests.iter().filter(|it| it.output_tokens.is_some());
        answered.count() as u64
    }

    /// Tokens of all prompts.
    pub(super) fn input_tokens(&self) -> u64 {
        self.requests.iter().map(|it| it.prompt_len as u64).sum()
    }

    /// Tokens of all answers.
    pub(super) fn output_tokens(&self) -> u64 {
        let tokens = self.requests.iter().filter_map(|it| it.output_tokens);
        tokens.map(|it| it as u64).sum()
    }

    /// Time to first token; `None` unless it was seen of every request.
    pub(super) fn ttft(&self) -> Option<Lie> {
        self.of_every(|it| it.ttft_ns)
    }

    /// Time per token after the first, over the requests that have one; `None` unless it was seen of all of those.
    pub(super) fn tpot(&self) -> Option<Lie> {
        let several = self.requests.iter().filter(|it| it.output_tokens > Some(1));
        let gaps: Option<Vec<u64>> = several.map(|it| it.tpot_ns).collect();
        Lie::of(gaps?)
    }

    /// From request to last token.
    pub(super) fn e2e(&self) -> Option<Lie> {
        self.of_every(|it| it.e2e_ns)
    }

    /// Gaps between tokens of all requests; `None` where tokens came together.
    pub(super) fn itl(&self) -> Option<Lie> {
        let gaps: Option<Vec<_>> = self.requests.iter().map(|it| it.gaps_ns.clone()).collect();
        Lie::of(gaps?.concat())
    }

    fn of_every(&self, time: impl Fn(&Request) -> Option<u64>) -> Option<Lie> {
        let times: Option<Vec<u64>> = self.requests.iter().map(time).collect();
        Lie::of(times?)
    }
}

/// Agents that an arm lets wait for answers at once: all where it batches, else one request at a time.
fn concurrency(run: &SealedRun, record: &ArmRecord) -> u64 {
    let workload = &run.asked["workload"];
    if record.batched && workload["order"] != "agents" {
        workload["agents"].as_u64().unwrap_or(1)
    } else {
        1
    }
}

/// How times lie, in nanoseconds.
pub(super) struct Lie {
    pub(super) count: usize,
    pub(super) sum: u64,
    pub(super) least: u64,
    pub(super) most: u64,
    /// Of all values, not of a sample of them: the squares are divided by their number.
    pub(super) deviation: f64,
    distribution: Distribution,
}

impl Lie {
    fn of(values: Vec<u64>) -> Option<Self> {
        let (count, sum) = (values.len(), values.iter().sum::<u64>());
        let (least, most) = (*values.iter().min()?, *values.iter().max()?);
        let mean = sum as f64 / count as f64;
        let squares: f64 = values.iter().map(|&it| (it as f64 - mean).powi(2)).sum();
        Some(Self {
            count,
            sum,
            least,
            most,
            deviation: (squares / count as f64).sqrt(),
            distribution: Distribution::new(values)?,
        })
    }

    /// Their mean.
    pub(super) fn mean(&self) -> f64 {
        self.sum as f64 / self.count as f64
    }

    /// The percentiles that so many values allow, as numpy computes them; p50 is the median.
    pub(super) fn percentiles(&self) -> impl Iterator<Item = (&str, f64)> {
        let them = self.distribution.percentiles.iter();
        them.map(|(name, it)| (name.as_str(), it.linear))
    }

    /// The others, each with how many values it takes.
    pub(super) fn withheld(&self) -> impl Iterator<Item = (&'static str, usize)> {
        not_licensed(self.count)
    }
}
