//! Turns that are played, and how often.
//!
//! An arm may play only the first turns of a session: a floor whose cost grows with the square of the turns need not be paid
//! in full. What it shows holds for its own turns; nothing is extrapolated. And a session may be asked again of the same
//! cache, which is warm then.
//!
//! Not here: how arms of unequal turns compare (`summary`).

use super::check::{Refusal, within};
use super::{Order, ResolvedEnvelope, RunAsked, Workload};
use crate::arm::{MOCK, is_server};

/// The first time is cold and the second warm; more of them only steady a figure.
const PASSES: std::ops::RangeInclusive<usize> = 1..=16;

/// Whether a session is asked once, as it was before it could be asked again.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
pub(super) fn is_one(passes: &usize) -> bool {
    *passes == 1
}

/// Refuses to ask again what would not be the same session, or not of the same cache.
pub(super) fn check_passes(workload: &Workload, run: &RunAsked) -> Result<(), Refusal> {
    within("workload.passes", workload.passes, &PASSES)?;
    let besides = [
        (workload.quarantine.is_some(), "workload.quarantine"),
        (workload.arrivals.is_some(), "workload.arrivals"),
        (workload.order == Order::Agents, "workload.order agents"),
        (!run.arm_turns.is_empty(), "run.arm_turns"),
        (
            run.arms.iter().any(|arm| is_server(arm)),
            "arms of other engines",
        ),
    ];
    let beside = besides.iter().find(|(there, _)| *there);
    match beside {
        Some((_, what)) if workload.passes > 1 => {
            let wanted = format!("1 beside {what}");
            Err(Refusal::new("workload.passes", workload.passes, wanted))
        }
        _ => Ok(()),
    }
}

/// Fewer turns for some arms of the run, at least one.
pub(super) fn check_fewer(workload_turns: usize, run: &RunAsked) -> Result<(), Refusal> {
    for (arm, turns) in &run.arm_turns {
        let wanted = if !run.arms.contains(arm) {
            format!("turns of arms of this run only: {}", run.arms.join(", "))
        } else if !(1..workload_turns).contains(turns) {
            format!("1 or more, and fewer than workload.turns, which is {workload_turns}")
        } else {
            continue;
        };
        let value = format!("{{ {arm} = {turns} }}");
        return Err(Refusal::new("run.arm_turns", value, wanted));
    }
    Ok(())
}

impl ResolvedEnvelope {
    /// The workload as `arm` plays it.
    pub fn workload_of(&self, arm: &str) -> Workload {
        let mut workload = self.workload.clone();
        if let Some(&turns) = self.run.arm_turns.get(arm) {
            workload.turns = turns;
        }
        workload
    }

    /// Requests `arm` makes: one per agent and turn.
    pub fn requests_of(&self, arm: &str) -> usize {
        let workload = self.workload_of(arm);
        workload.agents * workload.turns_asked()
    }

    /// Requests of the arm that makes most.
    pub fn requests(&self) -> usize {
        let requests = self.run.arms.iter().map(|arm| self.requests_of(arm));
        requests.max().unwrap_or(0)
    }

    /// Requests whose answers are compared bit by bit: the scripted arm's are made up, and another engine's are scored.
    pub fn requests_compared(&self) -> usize {
        let ours = (self.run.arms.iter()).filter(|arm| *arm != MOCK.name && !is_server(arm));
        ours.map(|arm| self.requests_of(arm)).max().unwrap_or(0)
    }
}
