//! Agents as the ends of a tree of texts: FORMAT.md's numbers of it again, and what an envelope may say of it.
//!
//! Not here: the ids of its texts (`seeded`).

use serde::Deserialize;

use crate::envelope::Workload;
use crate::notebook::{Layer, Notebook, quote};

/// Levels an auditor is ready to follow: more than branches of two have within the agents of a session.
const MAX_LEVELS: u64 = 32;

/// B branches of every node, L levels, S ids of each node's text.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tree {
    pub(crate) branches: u64,
    pub(crate) levels: u64,
    pub(crate) tokens: u64,
}

impl Tree {
    /// Nodes of a level, B^level; `None` beyond 64 bits.
    fn nodes(&self, level: u64) -> Option<u64> {
        self.branches.checked_pow(u32::try_from(level).ok()?)
    }

    /// Ids an agent appends at its first turn.
    pub(crate) fn way_tokens(&self) -> Option<u64> {
        self.levels.checked_mul(self.tokens)
    }

    /// Ids of all texts.
    pub(crate) fn all_tokens(&self) -> Option<u64> {
        let levels = 1..=self.levels.min(MAX_LEVELS);
        let mut nodes = levels.map(|level| self.nodes(level));
        let all = nodes.try_fold(0_u64, |sum, nodes| sum.checked_add(nodes?));
        all?.checked_mul(self.tokens)
    }

    /// An agent's node of each level from 1 on.
    pub(crate) fn way(&self, agent: u64) -> impl Iterator<Item = (u64, u64)> {
        let (tree, levels) = (*self, self.levels.min(MAX_LEVELS));
        (1..=levels).map(move |level| {
            let below = tree.nodes(levels - level).unwrap_or(u64::MAX).max(1);
            (level, agent / below)
        })
    }
}

/// Notes a tree that nobody can mean, or that has other ends than there are agents.
pub(crate) fn check(work: &Workload, notes: &mut Notebook) {
    let Some(tree) = &work.tree else {
        return;
    };
    let fits = (1..=MAX_LEVELS).contains(&tree.levels) && tree.tokens > 0;
    let ends = tree.nodes(tree.levels);
    notes.check(Layer::Format, fits && ends == Some(work.agents), || {
        let asked = quote(&work.tree);
        format!("workload.tree is {asked}: it has levels, its nodes have texts, and its ends are the agents")
    });
}
