//! Cells: single pieces of engine work, declared by how much is cached, how much is new and for how many agents.
//!
//! A cell is asked as an ordinary session of one or two turns, so that its trace is an ordinary trace; what is timed are
//! its decode steps, or the prefill steps of its last turn. Not here: running one (`baselines`), its record (`summary`).

use serde::{Deserialize, Serialize};

use crate::envelope::check::{Refusal, named, within, word};
use crate::envelope::{Evidence, Kind, ResolvedCells, RunAsked, defaults};
use crate::envelope::{admission, kv, servers};

pub mod arm;
pub mod external;
pub mod needs;
mod plan;
pub mod record;
mod summary;

pub use plan::CellPlan;
pub use summary::{CellTrace, Grounds, Summary, summarise};

/// The word of `workload.kind`.
pub const KIND: &str = "engine";

/// More cells than this are several envelopes.
const CELLS_MAX: usize = 64;
/// One trace holds every id.
const POSITIONS_MAX: usize = 1 << 20;
const AGENTS_MAX: usize = 1024;
/// Nobody waits longer than a day for one measurement.
const LIMIT_S_MAX: usize = 86_400;

/// The `[workload]` table of kind `engine`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellWorkload {
    /// [`KIND`].
    pub kind: String,
    /// What is measured, one after another.
    pub cells: Vec<Cell>,
    /// Seconds an external program may take for one measurement.
    #[serde(default = "limit_s")]
    pub limit_s: u64,
    /// Seed of every id.
    #[serde(default = "defaults::seed")]
    pub seed: u64,
}

/// One piece of work: `agents` sequences with `depth` positions each in the cache, of which the first `shared` are common;
/// timed are `prompt` new positions per agent, or `decode` tokens per agent, all agents together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Lower-case letters, digits, dashes and underscores: it names trace files.
    pub name: String,
    /// New positions per agent.
    #[serde(default)]
    pub prompt: usize,
    /// Positions per agent that are cached before.
    #[serde(default)]
    pub depth: usize,
    /// Tokens decoded per agent.
    #[serde(default)]
    pub decode: usize,
    /// Sequences at once.
    #[serde(default = "one")]
    pub agents: usize,
    /// Positions of `depth` that all agents have in common.
    #[serde(default)]
    pub shared: usize,
}

fn one() -> usize {
    1
}

fn limit_s() -> u64 {
    900
}

impl Kind for CellWorkload {
    fn arm_names() -> Vec<&'static str> {
        arm::names()
    }

    fn check(&self, run: &RunAsked, evidence: &Evidence) -> Result<(), Refusal> {
        let arms = &run.arms;
        let cells = "workload.cells";
        word("workload.kind", &self.kind, &[KIND])?;
        within("workload.cells", self.cells.len(), &(1..=CELLS_MAX))?;
        within(
            "workload.limit_s",
            self.limit_s as usize,
            &(1..=LIMIT_S_MAX),
        )?;
        for (place, cell) in self.cells.iter().enumerate() {
            named(cells, &cell.name)?;
            if self.cells[..place].iter().any(|it| it.name == cell.name) {
                let value = format!("{:?} twice", cell.name);
                return Err(Refusal::new(
                    cells,
                    value,
                    "a name of its own to every cell",
                ));
            }
            cell.check()?;
        }
        if !arms.iter().any(|arm| arm == arm::OURS) {
            let wanted = format!(
                "{} among them: it is what the others are held against",
                arm::OURS
            );
            return Err(Refusal::new("run.arms", format!("{arms:?}"), wanted));
        }
        if !run.arm_turns.is_empty() {
            let value = format!("{:?}", run.arm_turns);
            return Err(Refusal::new(
                "run.arm_turns",
                value,
                "none: cells have no turns",
            ));
        }
        servers::refuse_for_cells(run)?;
        admission::refuse_for_cells(run)?;
        kv::refuse_for_cells(run, evidence.kv)
    }
}

impl Cell {
    fn check(&self) -> Result<(), Refusal> {
        let refuse = |field: &str, value: usize, wanted: &str| {
            let value = format!("{} with {field} = {value}", self.name);
            Err(Refusal::new("workload.cells", value, wanted))
        };
        for (field, value) in [
            ("prompt", self.prompt),
            ("depth", self.depth),
            ("decode", self.decode),
        ] {
            if value > POSITIONS_MAX {
                return refuse(field, value, "at most 1048576");
            }
        }
        if !(1..=AGENTS_MAX).contains(&self.agents) {
            return refuse("agents", self.agents, "1 to 1024");
        }
        if (self.prompt == 0) == (self.decode == 0) {
            return refuse(
                "decode",
                self.decode,
                "either prompt or decode, and the other 0",
            );
        }
        if self.shared > self.depth {
            return refuse("shared", self.shared, "at most depth");
        }
        Ok(())
    }

    /// Whether decode steps are timed, not prefill steps.
    pub fn is_decode(&self) -> bool {
        self.decode > 0
    }

    /// Turns of each agent: a prompt on cached positions needs one to cache them.
    pub fn turns(&self) -> usize {
        if self.prompt > 0 && self.depth > 0 {
            2
        } else {
            1
        }
    }

    /// Requests of one process.
    pub fn requests(&self) -> usize {
        self.agents * self.turns()
    }

    /// Positions or tokens the timed steps run.
    pub fn tokens(&self) -> u64 {
        (self.agents * (self.prompt + self.decode)) as u64
    }

    /// Ids a request of the first turn has beside the shared ones. Before decoding there is one of the agent's own beyond
    /// `depth`, so that agents part there and an empty cache has something to start from.
    pub fn first_append(&self) -> usize {
        match (self.is_decode(), self.turns()) {
            (true, _) => self.depth - self.shared + 1,
            (false, 1) => self.prompt,
            (false, _) => self.depth - self.shared,
        }
    }

    /// Tokens every request gives: the prompt's own, and one for each decode step.
    pub fn decode_max(&self) -> usize {
        self.decode + 1
    }

    /// Positions of an agent's whole transcript, its last token included.
    pub fn positions(&self) -> usize {
        self.depth + self.prompt + self.decode + 2
    }
}

/// The file name of a process's trace, without its ending: unlike arms, files do not have colons.
pub fn stem(cell: &str, arm: &str, rep: usize) -> String {
    format!("{cell}.{}-{rep}", arm.replace(':', "."))
}

/// Every (cell, arm, repetition) in the order they run: cell by cell, odd repetitions backwards, so that an arm is as
/// often early as late and a drifting machine favours none.
pub fn order(envelope: &ResolvedCells) -> Vec<(&Cell, &str, usize)> {
    let run = &envelope.run;
    let reps = |arm: &String| run.arm_reps.get(arm).copied().unwrap_or(run.reps);
    let longest = run.arms.iter().map(reps).max().unwrap_or(0);
    let mut order = Vec::new();
    for cell in &envelope.workload.cells {
        for rep in 0..longest {
            let asked = run.arms.iter().filter(|arm| rep < reps(arm));
            let mut round: Vec<_> = asked.map(|arm| (cell, arm.as_str(), rep)).collect();
            if rep % 2 == 1 {
                round.reverse();
            }
            order.extend(round);
        }
    }
    order
}
