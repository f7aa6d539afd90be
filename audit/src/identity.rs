//! Whether all arms answered alike: output ids and logit hashes, request by request.
//!
//! Not here: whether a model would really answer so; that takes a replay.

use std::collections::BTreeMap;

use crate::arms::Arms;
use crate::oracle::{MOCK, is_served};
use crate::record::{Divergence, Identity};
use crate::trace::{Output, Trace};

/// Compares every answer of every completed repetition, in the order they ran, with the first to the same request.
pub(crate) fn recompute(arms: &Arms<'_>, order: &[String], requests: u64) -> Identity {
    let turns = arms.session_turns();
    let mut references = BTreeMap::new();
    let first_divergence = order
        .iter()
        .filter_map(|name| arms.completed_trace(name))
        .filter(|trace| trace.begin.arm != MOCK)
        .find_map(|trace| divergence(trace, &mut references, turns));
    let arms = arms
        .completed()
        .filter(|arm| *arm != MOCK && !is_served(arm))
        .map(str::to_owned)
        .collect();
    Identity {
        equal: first_divergence.is_none(),
        arms,
        requests,
        first_divergence,
    }
}

/// The first answer of `trace` that is not its reference, where a session has `turns` and may be asked again: then what it was
/// answered before is the reference. Requests of later turns, which shorter runs before it did not
/// make, become references themselves. That a trace holds all of its own requests is checked elsewhere (`session`).
pub(crate) fn divergence<'a>(
    trace: &'a Trace,
    references: &mut BTreeMap<(u64, u64), &'a Output>,
    turns: u64,
) -> Option<Divergence> {
    trace.outputs.iter().find_map(|(place, output)| {
        let asked = (place.0, place.1 % turns.max(1));
        let reference: &Output = references.entry(asked).or_insert(output);
        if reference.answers_like(output) {
            return None;
        }
        let position = position(reference, output);
        let (arm, rep) = (trace.begin.arm.clone(), trace.begin.rep);
        Some(Divergence {
            cell: trace.begin.cell.clone(),
            arm,
            rep,
            agent: place.0,
            turn: place.1,
            position,
        })
    })
}

/// The first differing token of two unequal outputs, or `None` when it is only the logits.
fn position(a: &Output, b: &Output) -> Option<u64> {
    let common = crate::oracle::common_prefix(&a.ids, &b.ids);
    (a.ids != b.ids).then_some(common)
}
