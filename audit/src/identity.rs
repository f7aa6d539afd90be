//! Whether all arms answered alike: output ids and logit hashes, request by request.
//!
//! Not here: whether a model would really answer so; that takes a replay.

use crate::figures::Arms;
use crate::record::{Divergence, Identity};
use crate::trace::{Output, Trace};

/// Compares every completed repetition, in the order they ran, with the first of them.
pub(crate) fn recompute(arms: &Arms<'_>, order: &[String], requests: u64) -> Identity {
    let mut runs = order.iter().filter_map(|name| arms.completed_trace(name));
    let first_divergence = runs
        .next()
        .and_then(|first| runs.find_map(|other| divergence(first, other)));
    let arms = arms.completed().map(str::to_owned).collect();
    Identity {
        equal: first_divergence.is_none(),
        arms,
        requests,
        first_divergence,
    }
}

/// Where `other` first answers differently.
pub(crate) fn divergence(first: &Trace, other: &Trace) -> Option<Divergence> {
    other.outputs.iter().find_map(|(place, output)| {
        let position = match first.outputs.get(place) {
            Some(reference) if reference == output => return None,
            Some(reference) => position(reference, output),
            None => Some(0),
        };
        let (arm, rep) = (other.begin.arm.clone(), other.begin.rep);
        Some(Divergence {
            cell: other.begin.cell.clone(),
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
