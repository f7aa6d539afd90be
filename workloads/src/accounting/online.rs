//! An order of requests that knows the cache, decided while they wait: whoever finds most goes first, and nobody is overtaken
//! more often than is declared.
//!
//! A turn can be asked only once the one before it is answered, so of each conversation one request waits. An order worked
//! out beforehand over all requests knows what nobody can know; this one stands between it and first come, first served.
//! Not here: how the engine schedules.

use std::collections::{BTreeMap, VecDeque};

use super::{Account, CacheModel, Caches, Request};

/// A request that waits, and how many that came later were served before it.
struct Waiting {
    arrival: usize,
    overtaken: usize,
    request: Request,
}

/// What an order costs, and what it asks of those that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordered {
    /// What was counted.
    pub account: Account,
    /// Arrivals, in the order they were served.
    pub order: Vec<usize>,
    /// The most often any request was overtaken.
    pub overtaken_most: usize,
}

/// Serves `requests`, which come in this order and all wait from the beginning, but for turns whose predecessor is unanswered.
/// With `overtaken_max` 0 it is first come, first served among those that may be asked.
pub fn replay(model: &CacheModel, requests: Vec<Request>, overtaken_max: usize) -> Ordered {
    let mut waiting: BTreeMap<u64, VecDeque<Waiting>> = BTreeMap::new();
    for (arrival, request) in requests.into_iter().enumerate() {
        let of_session = waiting.entry(request.session).or_default();
        of_session.push_back(Waiting {
            arrival,
            overtaken: 0,
            request,
        });
    }
    let mut caches = Caches::new(*model);
    let mut served = Ordered::default();
    while let Some(session) = next(&waiting, &caches, overtaken_max) {
        let Some(chosen) = waiting.get_mut(&session).and_then(VecDeque::pop_front) else {
            break;
        };
        waiting.retain(|_, of_session| !of_session.is_empty());
        for passed in waiting.values_mut().filter_map(VecDeque::front_mut) {
            passed.overtaken += usize::from(passed.arrival < chosen.arrival);
        }
        served.overtaken_most = served.overtaken_most.max(chosen.overtaken);
        served.order.push(chosen.arrival);
        caches.serve(&chosen.request);
    }
    served.account = caches.account();
    served
}

/// The conversation whose request is next: the first come of those that may not be overtaken again, else the one that finds
/// most, the first come of equals.
fn next(
    waiting: &BTreeMap<u64, VecDeque<Waiting>>,
    caches: &Caches,
    overtaken_max: usize,
) -> Option<u64> {
    let heads = || {
        waiting
            .iter()
            .filter_map(|(session, all)| Some((*session, all.front()?)))
    };
    let patient = heads().filter(|(_, it)| it.overtaken >= overtaken_max);
    let first = patient.min_by_key(|(_, it)| it.arrival);
    let finds_most = || {
        heads().max_by_key(|(_, it)| {
            (
                caches.would_find(&it.request),
                std::cmp::Reverse(it.arrival),
            )
        })
    };
    first.or_else(finds_most).map(|(session, _)| session)
}
