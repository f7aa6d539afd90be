//! Agents as the ends of a tree of texts: what each reads at its first turn, some of which others read too.
//!
//! With one level every agent has a text of its own: questions behind one preamble, or parts of one task handed out. With
//! more, agents share the texts of the branches they come from. Not here: the ids (`session`).

use serde::{Deserialize, Serialize};

use super::Workload;
use super::check::{Refusal, within};

/// More levels than branches of two reach within the agents a session may have.
const LEVELS: std::ops::RangeInclusive<usize> = 1..=10;

/// Where a tree parts, how often, and how long its texts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// B: branches of every node.
    pub branches: usize,
    /// L: levels below the prefix. There are B^L ends.
    pub levels: usize,
    /// S: ids of a node's text.
    pub tokens: usize,
}

impl Tree {
    /// Ends of the tree; `None` beyond what can be counted.
    pub fn ends(&self) -> Option<usize> {
        self.branches.checked_pow(u32::try_from(self.levels).ok()?)
    }

    /// The nodes on the way to an agent's end, level by level from 1: each level's nodes are numbered from 0.
    pub fn way(&self, agent: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let Self {
            branches, levels, ..
        } = *self;
        (1..=levels).map(move |level| {
            let below = branches.saturating_pow((levels - level) as u32).max(1);
            (level, agent / below)
        })
    }

    /// Ids an agent reads on its way.
    pub fn way_tokens(&self) -> Option<u64> {
        (self.levels as u64).checked_mul(self.tokens as u64)
    }

    /// Ids of all nodes: S·(B + B² + ... + B^L).
    pub fn tokens_in_all(&self) -> Option<u64> {
        let mut nodes = 0_u64;
        for level in 1..=self.levels {
            let of_level = (self.branches as u64).checked_pow(u32::try_from(level).ok()?)?;
            nodes = nodes.checked_add(of_level)?;
        }
        nodes.checked_mul(self.tokens as u64)
    }
}

/// Refuses a tree that has other ends than there are agents.
pub(super) fn check(
    workload: &Workload,
    tokens: &std::ops::RangeInclusive<usize>,
) -> Result<(), Refusal> {
    let Some(tree) = &workload.tree else {
        return Ok(());
    };
    within("workload.tree.levels", tree.levels, &LEVELS)?;
    within("workload.tree.tokens", tree.tokens, tokens)?;
    if tree.ends() == Some(workload.agents) {
        return Ok(());
    }
    let Tree {
        branches, levels, ..
    } = tree;
    let wanted = format!(
        "a number whose power of {levels} (workload.tree.levels) is {} (workload.agents): every end of the tree is an agent",
        workload.agents
    );
    Err(Refusal::new("workload.tree.branches", branches, wanted))
}
