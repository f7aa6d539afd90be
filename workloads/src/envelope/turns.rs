//! Arms that play only the first turns of a session: a floor whose cost grows with the square of the turns need not be
//! paid in full. What such an arm shows holds for its own turns; nothing is extrapolated.
//!
//! Not here: how arms of unequal turns compare (`summary`).

use super::{ResolvedEnvelope, Workload};
use crate::arm::{MOCK, is_server};

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
        workload.agents * workload.turns
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
