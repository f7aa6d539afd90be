//! Requests that come by the clock: when each is due, worked out again from what was declared, and which goes first.
//!
//! Not here: what they ask (`session`), or how long their answers took (`latencies`).

use std::collections::{BTreeMap, BTreeSet};

use crate::envelope::{Arrivals, Workload};
use crate::line::Request;
use crate::notebook::{Layer, Notebook};
use crate::seeded::{GAPS, stream};
use crate::statistics::splitmix64;

/// Said of a run whose requests come by the clock.
pub(crate) const UNSEEN: &str = "whether requests were sent as soon as they might be: an arm that is kept waiting answers late, and nothing shows who waited";
/// Numbers of the generator have so many bits in a gap's fraction.
const FRACTION_BITS: u32 = 53;

/// When the requests of one trace are due, and which of them may be sent.
pub(crate) struct Schedule {
    arrivals: Arrivals,
    agents: u64,
    turns: u64,
    /// Where the stream of gaps stands.
    state: u64,
    /// By request: nanoseconds from when the first is due, as far as they were asked for.
    offsets_ns: Vec<u64>,
    /// When the first is due.
    start_ns: Option<u64>,
    /// What agents that wait for no answer ask next.
    ready: BTreeSet<u64>,
    /// Requests that were not answered, by their ids.
    open: BTreeMap<String, u64>,
}

impl Schedule {
    /// Of a session that declares arrivals.
    pub(crate) fn of(work: &Workload) -> Option<Self> {
        let arrivals = work.arrivals.clone()?;
        Some(Self {
            arrivals,
            agents: work.agents,
            turns: work.turns_asked(),
            state: stream(work.seed, &[GAPS]),
            offsets_ns: vec![0],
            start_ns: None,
            ready: (0..work.agents).collect(),
            open: BTreeMap::new(),
        })
    }

    /// Holds a request to when it is due and to those that go before it. The clock is that of the line before and its own.
    pub(crate) fn request(
        &mut self,
        request: &Request,
        (before_t_ns, t_ns): (u64, u64),
        notes: &mut Notebook,
    ) {
        let Request { agent, turn, .. } = *request;
        if agent >= self.agents || turn >= self.turns {
            return; // outside the declared shape, which is a finding
        }
        let number = turn * self.agents + agent;
        self.follow(number, notes);
        self.open.insert(request.id.clone(), number);
        let Some(due_ns) = request.due_ns else {
            return; // a finding too
        };
        let offset_ns = self.offset_ns(number);
        let first = self.start_ns.is_none();
        let start_ns = *self
            .start_ns
            .get_or_insert(due_ns.saturating_sub(offset_ns));
        notes.check(Layer::Clock, !first || start_ns >= before_t_ns, || {
            format!("the first request is due at {start_ns}, before the line before it, of {before_t_ns}")
        });
        let declared_ns = start_ns.saturating_add(offset_ns);
        // Logarithms differ in their last bit, and so may every gap by one.
        let off_ns = if self.arrivals.are_drawn() { number } else { 0 };
        let as_declared = due_ns.abs_diff(declared_ns) <= off_ns;
        notes.check(Layer::Clock, as_declared, || {
            format!("due_ns is {due_ns}, the declared arrivals give {declared_ns}, to {off_ns}")
        });
        notes.check(Layer::Clock, t_ns >= due_ns, || {
            format!("is sent at {t_ns}, before it is due at {due_ns}")
        });
        notes.recomputed("due times", 1);
    }

    /// Of requests that may be sent the lowest goes first; a lower one is due whenever a higher one is.
    fn follow(&mut self, number: u64, notes: &mut Notebook) {
        let lowest = self.ready.first().copied().unwrap_or(number);
        notes.check(Layer::Prompt, lowest >= number, || {
            let (agent, turn) = (lowest % self.agents, lowest / self.agents);
            format!("goes before agent {agent}, turn {turn}, which is due and waits for no answer")
        });
        self.ready.remove(&number);
    }

    /// The agent of a request that was answered may ask again.
    pub(crate) fn answered(&mut self, request: &str) {
        let next = self.open.remove(request).map(|it| it + self.agents);
        let in_time = next.filter(|next| next / self.agents < self.turns);
        self.ready.extend(in_time);
    }

    /// Nanoseconds from when the first request is due to when this one is.
    fn offset_ns(&mut self, number: u64) -> u64 {
        let mean_ns = self.arrivals.interval_us.saturating_mul(1000);
        if !self.arrivals.are_drawn() {
            return mean_ns.saturating_mul(number);
        }
        let place = number as usize; // below the most requests an envelope may have due
        let mut last_ns = self.offsets_ns.last().copied().unwrap_or(0);
        while self.offsets_ns.len() <= place {
            last_ns = last_ns.saturating_add(gap_ns(splitmix64(&mut self.state), mean_ns));
            self.offsets_ns.push(last_ns);
        }
        self.offsets_ns[place]
    }
}

/// An exponential gap of this mean, of one number of the generator.
fn gap_ns(number: u64, mean_ns: u64) -> u64 {
    let below_one = (number >> (u64::BITS - FRACTION_BITS)) as f64;
    let fraction = below_one / (1_u64 << FRACTION_BITS) as f64;
    (-(1.0 - fraction).ln() * mean_ns as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_those_of_the_formula_worked_out_elsewhere() {
        assert_eq!(gap_ns(0, 1_000_000), 0);
        // Half of the range: the natural logarithm of 2.
        assert_eq!(gap_ns(1 << 63, 1_000_000_000), 693_147_181);
        // The greatest number: 53 of them.
        assert_eq!(gap_ns(u64::MAX, 1_000_000_000), 36_736_800_570);
    }

    #[test]
    fn gaps_have_the_declared_mean() {
        let mut state = stream(1, &[GAPS]);
        let sum: u64 = (0..100_000)
            .map(|_| gap_ns(splitmix64(&mut state), 1_000_000))
            .sum();
        assert!((sum / 100_000).abs_diff(1_000_000) < 10_000, "{sum}");
    }
}
