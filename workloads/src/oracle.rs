//! The token oracle: what each arm must count, in closed form, from the shape of a session alone.
//!
//! Not here: counting what an arm did (`engine`) or checking it (`audit`, with arithmetic of its own).

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::arm::{Arm, Cache};
use crate::envelope::{Order, Quarantine, Tree};

/// Positions of a page.
const PAGE_POSITIONS: u64 = 64;

/// The numbers of a session, in the letters of the formulas: C, T, P, D, R, W.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // as in `envelope::Workload`
pub struct Shape {
    pub agents: u64,
    pub turns: u64,
    pub prefix: u64,
    pub decode: u64,
    pub result: u64,
    pub workers: u64,
    #[serde(default, skip_serializing_if = "crate::envelope::kv::is_default")]
    pub order: Order,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Tree>,
    /// How often it is asked; 0 is once, as 1 is.
    #[serde(default, skip_serializing_if = "crate::envelope::kv::is_default")]
    pub passes: u64,
}

impl Shape {
    /// Pages after which no policy evicts any: for every agent those of its longest transcript, and one more, since a page
    /// that is matched in part is copied before it is extended; as often as it is asked, since what is answered again is
    /// written before it is known to be there. `None` beyond 64 bits.
    pub fn kv_pages_enough(&self) -> Option<u64> {
        let pages = self.transcript()?.div_ceil(PAGE_POSITIONS);
        let of_agent = pages.checked_add(u64::from(self.turns > 0))?;
        let once = of_agent.checked_mul(self.agents)?;
        once.checked_mul(self.passes.max(1))
    }

    /// Positions of an agent's longest transcript, its last answer with it; `None` beyond 64 bits.
    pub fn transcript(&self) -> Option<u64> {
        let Some(later) = self.turns.checked_sub(1) else {
            return Some(0);
        };
        let answers = self.turns.checked_mul(self.decode)?;
        let results = later.checked_mul(self.result)?;
        let first = self.first_prompt()?;
        first.checked_add(answers)?.checked_add(results)
    }

    /// Positions of an agent's first prompt: the prefix and its way through the tree.
    fn first_prompt(&self) -> Option<u64> {
        let way = self.tree.map_or(Some(0), |tree| tree.way_tokens())?;
        self.prefix.checked_add(way)
    }
}

/// What an arm counts over a whole session whose cache has [`Shape::kv_pages_enough`], exactly. With fewer pages it computes
/// no less and finds no more, and decodes and carries the same but for what the next paragraph says.
///
/// Agents of one cache give the same first answer, since their first prompts are equal, unless there is a tree. Each carries the last token of it in
/// its own second turn, for nobody waits to save a token it was to feed anyway; but agents that come one after the other
/// find what the first of them fed.
///
/// A session that is asked again finds every prompt whole, where anything is kept.
///
/// After a quarantine an agent's prompts match no further than where the result begins that was taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Positions of client-supplied text whose KV is newly written.
    pub prefill_tokens_computed: u64,
    /// Sum of prompt lengths.
    pub prefill_tokens_logical: u64,
    /// Positions found in a cache.
    pub prefix_tokens_hit: u64,
    /// Tokens sampled.
    pub decode_tokens: u64,
    /// Sampled tokens whose KV rides in the next turn's prefill.
    pub carried_tokens: u64,
    /// Positions run again only for logits.
    pub replayed_tokens: u64,
}

/// The closed forms of an arm for a shape.
pub fn counts(arm: &Arm, shape: &Shape) -> Result<Counts, Error> {
    checked(arm, shape).ok_or(Error::TooManyTokens)
}

fn checked(arm: &Arm, shape: &Shape) -> Option<Counts> {
    let Shape {
        agents,
        turns,
        prefix,
        decode,
        result,
        workers,
        order,
        quarantine,
        tree,
        ..
    } = *shape;
    if turns == 0 || agents == 0 {
        return Some(Counts::default());
    }
    let later_turns = agents.checked_mul(turns - 1)?;
    let pairs_of_turns = turns.checked_mul(turns - 1)? / 2;
    let grown = decode.checked_add(result)?.checked_mul(pairs_of_turns)?;
    let passes = shape.passes.max(1);
    let once = turns
        .checked_mul(shape.first_prompt()?)?
        .checked_add(grown)?
        .checked_mul(agents)?;
    let logical = once.checked_mul(passes)?;
    let asked = agents.checked_mul(turns)?.checked_mul(passes)?;
    let caches = match (arm.cache, arm.spans_workers) {
        (Cache::None, _) => 0,
        (Cache::Session, _) => agents,
        (Cache::Shared, false) => workers.clamp(1, agents),
        (Cache::Shared, true) => 1,
    };
    let increments = later_turns.checked_mul(result)?;
    let fed_before = match (arm.cache, order) {
        (Cache::Shared, Order::Agents) if turns > 1 && tree.is_none() => {
            (agents - caches) * decode.min(1)
        }
        _ => 0,
    };
    let (computed, carried, replayed) = match arm.cache {
        Cache::None => (logical, 0, 0),
        _ => (
            caches
                .checked_mul(prefix)?
                .checked_add(tree_tokens(arm, shape)?)?
                .checked_add(increments)?
                .checked_add(again(shape, quarantine)?)?,
            later_turns * decode.min(1) - fed_before, // without an answer there is nothing to carry
            whole_hits(shape, caches, asked),
        ),
    };
    Some(Counts {
        prefill_tokens_computed: computed,
        prefill_tokens_logical: logical,
        prefix_tokens_hit: logical - computed - carried,
        decode_tokens: asked.checked_mul(decode)?,
        carried_tokens: carried,
        replayed_tokens: replayed,
    })
}

/// Positions of trees' texts an arm that keeps something computes. On several workers every worker's agents are ends of
/// their own; that is not counted here, and such shapes have no tree.
fn tree_tokens(arm: &Arm, shape: &Shape) -> Option<u64> {
    let Some(tree) = shape.tree else {
        return Some(0);
    };
    match arm.cache {
        Cache::Shared => tree.tokens_in_all(),
        _ => tree.way_tokens()?.checked_mul(shape.agents),
    }
}

/// Prompts that are found whole: all that are asked again, and where there is no tree the first ones of all but one agent
/// of a cache.
fn whole_hits(shape: &Shape, caches: u64, asked: u64) -> u64 {
    let again = asked - shape.agents * shape.turns;
    let alike = if shape.tree.is_some() {
        0
    } else {
        shape.agents - caches
    };
    again + alike
}

/// Positions computed again because of a quarantine: in the j-th turn after it everything since the result was appended
/// that turn k read, but for the last token of the answer before, which is carried as ever.
fn again(shape: &Shape, quarantine: Option<Quarantine>) -> Option<u64> {
    let Some(Quarantine { turn, agents }) = quarantine else {
        return Some(0);
    };
    let after = shape.turns.saturating_sub(turn as u64 + 1);
    let pairs = after.checked_mul(after + 1)? / 2;
    let grown = (shape.decode.checked_add(shape.result)?).checked_mul(pairs)?;
    (grown - after * shape.decode.min(1)).checked_mul(agents as u64)
}
