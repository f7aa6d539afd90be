//! The traces of a session seen arm by arm, whoever answers them.
//!
//! Not here: what run.json says of them (`figures`).

use std::collections::BTreeMap;

use crate::envelope::Envelope;
use crate::latencies::Times;
use crate::line::End;
use crate::oracle::is_served;
use crate::server::ServerTrace;
use crate::server::score::ScoreTrace;
use crate::trace::{Output, Trace};

/// All traces of ours, by `<arm>-<rep>`.
pub(crate) type Traces = BTreeMap<String, Trace>;

/// What one trace answered, by (agent, turn).
pub(crate) type Outputs = BTreeMap<(u64, u64), Output>;

/// All traces of other engines, by file name without ending, and what scored them by the same name.
#[derive(Default)]
pub(crate) struct Servers {
    pub(crate) traces: BTreeMap<String, ServerTrace>,
    pub(crate) scores: BTreeMap<String, ScoreTrace>,
}

/// The file name of a trace, without its ending, and what `order` calls it.
pub(crate) fn stem(arm: &str, rep: u64) -> String {
    format!("{}-{rep}", arm.replace(':', "."))
}

/// The traces, seen arm by arm.
pub(crate) struct Arms<'a> {
    pub(crate) envelope: &'a Envelope,
    pub(crate) traces: &'a Traces,
    pub(crate) servers: &'a Servers,
}

impl<'a> Arms<'a> {
    fn stems(&self, arm: &str) -> impl Iterator<Item = String> {
        let reps = self.envelope.run.arm_reps.get(arm).copied().unwrap_or(0);
        (0..reps).map(move |rep| stem(arm, rep))
    }

    /// Traces of an arm of ours.
    pub(crate) fn traces(&self, arm: &str) -> impl Iterator<Item = &'a Trace> {
        self.stems(arm).filter_map(|name| self.traces.get(&name))
    }

    /// Traces of an arm of another engine, each with its score.
    pub(crate) fn served(
        &self,
        arm: &str,
    ) -> impl Iterator<Item = (&'a ServerTrace, Option<&'a ScoreTrace>)> {
        let servers = self.servers;
        self.stems(arm)
            .filter_map(move |name| Some((servers.traces.get(&name)?, servers.scores.get(&name))))
    }

    /// The `end` lines of an arm of ours all of whose repetitions have one.
    pub(crate) fn ends(&self, arm: &str) -> Option<Vec<&'a End>> {
        all(self.traces(arm).map(|trace| trace.end.as_ref()))
    }

    /// The walls of an arm, whoever answers it, all of whose repetitions ended well.
    pub(crate) fn walls(&self, arm: &str) -> Option<Vec<u64>> {
        if is_served(arm) {
            all(self
                .served(arm)
                .map(|(trace, _)| Some(trace.end.as_ref()?.wall_ns)))
        } else {
            all(self
                .traces(arm)
                .map(|trace| Some(trace.end.as_ref()?.wall_ns)))
        }
    }

    /// What each repetition of an arm answered, whoever did.
    pub(crate) fn outputs(&self, arm: &str) -> impl Iterator<Item = &'a Outputs> {
        let ours = self.traces(arm).map(|trace| &trace.outputs);
        ours.chain(self.served(arm).map(|(trace, _)| &trace.outputs))
    }

    /// When the requests of all repetitions had their tokens.
    pub(crate) fn times(&self, arm: &str) -> Vec<Times> {
        self.outputs(arm)
            .flat_map(|it| it.values().map(|it| it.times))
            .collect()
    }

    /// Turns of the session, however often it is asked.
    pub(crate) fn session_turns(&self) -> u64 {
        self.envelope.workload.turns
    }

    /// Turns this arm plays, each as often as it is asked.
    pub(crate) fn turns(&self, arm: &str) -> u64 {
        self.envelope.workload_of(arm).turns_asked()
    }

    /// Client-supplied positions this arm computed in its first `turns` turns. They are equal in all repetitions: of ours
    /// anything else is a finding, and what another engine does not say alike in all counts as not said.
    pub(crate) fn computed(&self, arm: &str, turns: u64) -> Option<u64> {
        if !is_served(arm) {
            let by_turn = self.traces(arm).next()?.computed.range(..turns);
            let computed = by_turn.map(|(_, computed)| *computed);
            return Some(computed.fold(0, u64::saturating_add));
        }
        let told = self
            .served(arm)
            .map(|(trace, _)| trace.end.as_ref()?.computed_tokens);
        same(told)?;
        let by_turn = self.served(arm).next()?.0.computed.range(..turns);
        by_turn
            .map(|(_, computed)| *computed)
            .try_fold(0_u64, |sum, computed| Some(sum.saturating_add(computed?)))
    }

    /// By turn, the hash of what clients say in the trace that goes furthest of those that ended.
    pub(crate) fn longest_inputs(&self) -> BTreeMap<u64, String> {
        let ours = self.traces.values().filter(|it| it.end.is_some());
        let theirs = (self.servers.traces.values()).filter(|it| it.end.is_some());
        let inputs = ours.map(|it| &it.inputs_sha256);
        let inputs = inputs.chain(theirs.map(|it| &it.inputs_sha256));
        let longest = inputs.max_by_key(|it| it.len());
        longest.cloned().unwrap_or_default()
    }

    /// The arms that completed, in declared order.
    pub(crate) fn completed(&self) -> impl Iterator<Item = &'a str> {
        self.envelope
            .run
            .arms
            .iter()
            .map(String::as_str)
            .filter(|arm| self.walls(arm).is_some())
    }

    /// The trace of ours of this name, if its arm completed.
    pub(crate) fn completed_trace(&self, name: &str) -> Option<&'a Trace> {
        self.traces
            .get(name)
            .filter(|trace| self.ends(&trace.begin.arm).is_some())
    }
}

/// All values, at least one, if none is missing.
fn all<T>(values: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    let values: Vec<T> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then_some(values)
}

/// The value that all have, if none is missing.
pub(crate) fn same<T: PartialEq>(values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let mut values = all(values)?;
    let last = values.pop()?;
    values.iter().all(|it| *it == last).then_some(last)
}
