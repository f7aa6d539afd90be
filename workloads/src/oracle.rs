//! The token oracle: what each arm must count, in closed form, from the shape of a session alone.
//!
//! Not here: counting what an arm did (`engine`) or checking it (`audit`, with arithmetic of its own).

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::arm::{Arm, Cache};

/// The numbers of a session, in the letters of the formulas: C, T, P, D, R, W.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // as in `envelope::Workload`
pub struct Shape {
    pub agents: u64,
    pub turns: u64,
    pub prefix: u64,
    pub decode: u64,
    pub result: u64,
    pub workers: u64,
}

/// What an arm counts over a whole session.
///
/// Agents of one cache give the same first answer, since their first prompts are equal; each carries
/// the last token of it in its own second turn, for nobody waits to save a token it was to feed anyway.
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
    } = *shape;
    if turns == 0 || agents == 0 {
        return Some(Counts::default());
    }
    let later_turns = agents.checked_mul(turns - 1)?;
    let pairs_of_turns = turns.checked_mul(turns - 1)? / 2;
    let grown = decode.checked_add(result)?.checked_mul(pairs_of_turns)?;
    let logical = turns
        .checked_mul(prefix)?
        .checked_add(grown)?
        .checked_mul(agents)?;
    let caches = match (arm.cache, arm.spans_workers) {
        (Cache::None, _) => 0,
        (Cache::Session, _) => agents,
        (Cache::Shared, false) => workers.clamp(1, agents),
        (Cache::Shared, true) => 1,
    };
    let increments = later_turns.checked_mul(result)?;
    let (computed, carried, replayed) = match arm.cache {
        Cache::None => (logical, 0, 0),
        _ => (
            caches.checked_mul(prefix)?.checked_add(increments)?,
            later_turns * decode.min(1), // without an answer there is nothing to carry
            agents - caches,
        ),
    };
    Some(Counts {
        prefill_tokens_computed: computed,
        prefill_tokens_logical: logical,
        prefix_tokens_hit: logical - computed - carried,
        decode_tokens: agents.checked_mul(turns)?.checked_mul(decode)?,
        carried_tokens: carried,
        replayed_tokens: replayed,
    })
}
