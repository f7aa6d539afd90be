//! The session generator: which ids an agent appends at each turn, fixed by the seed alone.
//!
//! Not here: what the model answers (that is decoded, never generated) or when a turn is sent (`baselines`).

use std::ops::Range;

use crate::Error;
use crate::envelope::{Tree, Workload};
use crate::splitmix::SplitMix64;

/// Keys that keep the kinds of draw apart.
const PREFIX: u64 = 0;
const FIRST: u64 = 1;
const REST: u64 = 2;
/// As the two above, for the texts of a tree; 3 draws gaps between arrivals.
const NODE_FIRST: u64 = 4;
const NODE_REST: u64 = 5;
/// Where ordinary ids begin no later: who checks ids against the seed tries every beginning below it.
const FIRST_ORDINARY_END: u32 = 1 << 16;

/// Draws of ids by what they are for.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    seed: u64,
    ordinary: Range<u32>,
}

impl Ids {
    /// Draws of `ordinary` ids for so many agents, each of which needs a first id of its own.
    pub(crate) fn new(seed: u64, ordinary: Range<u32>, agents: usize) -> Result<Self, Error> {
        if ordinary.start >= FIRST_ORDINARY_END {
            return Err(Error::LateIds {
                first: ordinary.start,
                end: FIRST_ORDINARY_END,
            });
        }
        if ordinary.len() < agents {
            return Err(Error::TooFewIds {
                agents,
                ids: ordinary.len(),
            });
        }
        Ok(Self { seed, ordinary })
    }

    /// `count` ids for everyone.
    pub(crate) fn prefix(&self, count: usize) -> Vec<u32> {
        self.draw(&[PREFIX], count)
    }

    /// `count` ids for `agent` at `turn`; the first differs between all agents.
    pub(crate) fn own(&self, agent: usize, turn: usize, count: usize) -> Vec<u32> {
        let Some(rest) = count.checked_sub(1) else {
            return Vec::new();
        };
        let mut ids = vec![self.first_of_result(agent, turn)];
        ids.extend(self.draw(&[REST, agent as u64, turn as u64], rest));
        ids
    }

    /// `count` ids of a node of a tree; the first differs between all nodes of its level.
    fn node(&self, level: usize, node: usize, count: usize) -> Vec<u32> {
        let Some(rest) = count.checked_sub(1) else {
            return Vec::new();
        };
        let mut ids = vec![self.apart(&[NODE_FIRST, level as u64], node)];
        ids.extend(self.draw(&[NODE_REST, level as u64, node as u64], rest));
        ids
    }

    /// Agents take consecutive ids from a random start, so no two results of a turn begin alike.
    fn first_of_result(&self, agent: usize, turn: usize) -> u32 {
        self.apart(&[FIRST, turn as u64], agent)
    }

    /// Of ids that differ between all who draw with these keys, the one of the `place`th.
    fn apart(&self, keys: &[u64], place: usize) -> u32 {
        let count = self.ordinary.end - self.ordinary.start;
        let offset = self.stream(keys).below(count);
        let place = (u64::from(offset) + place as u64) % u64::from(count);
        self.ordinary.start + place as u32
    }

    fn draw(&self, keys: &[u64], count: usize) -> Vec<u32> {
        let mut stream = self.stream(keys);
        let bound = self.ordinary.end - self.ordinary.start;
        (0..count)
            .map(|_| self.ordinary.start + stream.below(bound))
            .collect()
    }

    fn stream(&self, keys: &[u64]) -> SplitMix64 {
        let keys: Vec<u64> = [self.seed].iter().chain(keys).copied().collect();
        SplitMix64::keyed(&keys)
    }
}

/// The text of a whole session, computed on demand.
#[derive(Clone, Debug)]
pub struct SessionPlan {
    workload: Workload,
    ids: Ids,
}

impl SessionPlan {
    /// A plan over the `ordinary` ids of a vocabulary (no special tokens).
    pub fn new(workload: &Workload, ordinary: Range<u32>) -> Result<Self, Error> {
        Ok(Self {
            ids: Ids::new(workload.seed, ordinary, workload.agents)?,
            workload: workload.clone(),
        })
    }

    /// The prefix every agent starts with.
    pub fn prefix(&self) -> Vec<u32> {
        let mut ids = self.ids.prefix(self.workload.prefix);
        if let (Some(first), Some(bos_id)) = (ids.first_mut(), self.workload.bos_id) {
            *first = bos_id;
        }
        ids
    }

    /// What `agent` appends at `turn` to its prompt and answer so far: at turn 0 the texts of its way through the tree, if
    /// there is one, then a result.
    pub fn append(&self, agent: usize, turn: usize) -> Vec<u32> {
        if turn == 0 {
            let tree = self.workload.tree.as_ref();
            return tree.map_or(Vec::new(), |tree| self.way(tree, agent));
        }
        self.ids.own(agent, turn, self.workload.result)
    }

    fn way(&self, tree: &Tree, agent: usize) -> Vec<u32> {
        let nodes = tree.way(agent);
        let texts = nodes.map(|(level, node)| self.ids.node(level, node, tree.tokens));
        texts.flatten().collect()
    }
}
