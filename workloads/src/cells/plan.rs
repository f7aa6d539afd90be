//! The ids of a cell, fixed by the seed alone: drawn as a session's are, agents' own ids beginning differently.
//!
//! Not here: when a request is made (`baselines`).

use std::ops::Range;

use super::Cell;
use crate::Error;
use crate::session::Ids;

/// The text of one cell.
#[derive(Clone, Debug)]
pub struct CellPlan {
    cell: Cell,
    ids: Ids,
}

impl CellPlan {
    /// A plan over the `ordinary` ids of a vocabulary.
    pub fn new(cell: &Cell, seed: u64, ordinary: Range<u32>) -> Result<Self, Error> {
        Ok(Self {
            cell: cell.clone(),
            ids: Ids::new(seed, ordinary, cell.agents)?,
        })
    }

    /// The ids all agents start with; none if nothing is shared.
    pub fn shared(&self) -> Vec<u32> {
        self.ids.prefix(self.cell.shared)
    }

    /// What `agent` appends at `turn`. In a second turn the first new position is the token the first turn gave.
    pub fn append(&self, agent: usize, turn: usize) -> Vec<u32> {
        let count = if turn == 0 {
            self.cell.first_append()
        } else {
            self.cell.prompt - 1
        };
        self.ids.own(agent, turn, count)
    }
}
