//! What reuse can be at most, and what the token counts must be: from token ids and the declared shape alone.
//!
//! Not here: what an engine reported (`trace`).

use crate::envelope::{Quarantine, Workload};
use crate::tree::Tree;

/// The arms of sessions.
pub(crate) const LADDER: [&str; 5] = [
    "naive",
    "agent-kv",
    "agent-kv-batched",
    "instance-shared",
    "fused",
];

/// The arm whose times are scripted; it stands beside the ladder.
pub(crate) const MOCK: &str = "mock";

/// Whether the engine behind an arm's name uses its fused attention; `None` for arms that no other engine answers.
pub(crate) fn served_with_flash(arm: &str) -> Option<bool> {
    let way = arm.strip_prefix("llama-server:")?;
    let (way, fused) = way
        .strip_suffix("-fa1")
        .map_or((way, false), |way| (way, true));
    matches!(way, "agent" | "agent-batched" | "shared").then_some(fused)
}

/// Whether another engine answers this arm's requests.
pub(crate) fn is_served(arm: &str) -> bool {
    served_with_flash(arm).is_some()
}

/// Positions of a page.
pub(crate) const PAGE_POSITIONS: u64 = 64;

/// Where an arm may look for a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Nowhere.
    None,
    /// In what the same session computed.
    Session,
    /// In anything the same process computed.
    Shared,
}

impl Cache {
    /// The policy an arm's name stands for, and whether it batches.
    pub(crate) fn of_arm(arm: &str) -> Option<(Self, bool)> {
        match arm {
            "naive" | MOCK => Some((Self::None, false)),
            "agent-kv" => Some((Self::Session, false)),
            "agent-kv-batched" => Some((Self::Session, true)),
            "instance-shared" | "fused" | "fak" | "fak-unshared" => Some((Self::Shared, true)),
            _ if !is_served(arm) => None,
            _ if arm.contains(":shared") => Some((Self::Shared, true)),
            _ => Some((Self::Session, arm.contains("-batched"))),
        }
    }

    /// The word the evidence uses.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Session => "session",
            Self::Shared => "shared",
        }
    }

    /// Client-supplied positions this policy must compute, by closed form, while it need not evict; `None` beyond 64 bits.
    pub(crate) fn prefill_tokens(self, work: &Workload) -> Option<u64> {
        let results = work.turns.checked_sub(1)?.checked_mul(work.result)?;
        let texts = match &work.tree {
            Some(tree) => tree.all_tokens()?.checked_add(work.prefix)?,
            None => work.prefix,
        };
        let once = match self {
            Self::None => return logical_tokens(work),
            Self::Session => first_prompt(work)?
                .checked_add(results)?
                .checked_mul(work.agents),
            Self::Shared => results.checked_mul(work.agents)?.checked_add(texts),
        };
        once?.checked_add(again(work)?)
    }
}

/// Ids of an agent's first prompt: the text, and its way through the tree.
pub(crate) fn first_prompt(work: &Workload) -> Option<u64> {
    let way = work.tree.as_ref().map_or(Some(0), Tree::way_tokens)?;
    work.prefix.checked_add(way)
}

/// What a quarantine at turn k makes agents compute again: at each turn after it all that came since the result began
/// which is taken out, (t - k)(D + R) + R positions, less what they compute anyway, R, and the one that is carried.
fn again(work: &Workload) -> Option<u64> {
    let Some(Quarantine { turn, agents }) = work.quarantine else {
        return Some(0);
    };
    let after = work.turns.saturating_sub(turn.checked_add(1)?);
    let pairs = after.checked_mul(after.checked_add(1)?)? / 2;
    let growth = work.decode.checked_add(work.result)?.checked_mul(pairs)?;
    growth.checked_sub(after)?.checked_mul(agents)
}

/// Pages of which no policy evicts any: for every agent those of its longest transcript, and one; as often as it is asked.
pub(crate) fn pages_enough(work: &Workload) -> Option<u64> {
    let results = work.turns.checked_sub(1)?.checked_mul(work.result)?;
    let answers = work.turns.checked_mul(work.decode)?;
    let longest = first_prompt(work)?
        .checked_add(results)?
        .checked_add(answers)?;
    let pages = longest.div_ceil(PAGE_POSITIONS).checked_add(1)?;
    pages.checked_mul(work.agents)?.checked_mul(work.passes)
}

/// Sum of all prompt lengths, with P the ids of a first prompt: C(T·P + (D+R)·T(T-1)/2), as often as it is asked.
pub(crate) fn logical_tokens(work: &Workload) -> Option<u64> {
    let pairs = work.turns.checked_mul(work.turns.checked_sub(1)?)? / 2;
    let growth = work.decode.checked_add(work.result)?.checked_mul(pairs)?;
    work.turns
        .checked_mul(first_prompt(work)?)?
        .checked_add(growth)?
        .checked_mul(work.agents)?
        .checked_mul(work.passes)
}

/// Sum of all outputs: C·T·D.
pub(crate) fn decode_tokens(work: &Workload) -> Option<u64> {
    work.agents
        .checked_mul(work.turns)?
        .checked_mul(work.passes)?
        .checked_mul(work.decode)
}

/// How many leading ids the two sequences share.
pub(crate) fn common_prefix(a: &[u32], b: &[u32]) -> u64 {
    a.iter().zip(b).take_while(|(x, y)| x == y).count() as u64
}
