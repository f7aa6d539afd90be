//! A made-up fleet: instances that hold few prefixes each, families of requests that begin alike, and who is asked.
//!
//! No time passes and nothing is computed: a request finds its family's prefix on the instance that it is sent to, or it
//! does not. Not here: any router that runs.

use super::RoutingAsked;
use super::record::{CountedRow, RoutedRecord};

/// How an instance is chosen.
#[derive(Clone, Copy)]
enum Router {
    /// One that holds the prefix, else the one that holds fewest.
    KvAware,
    /// By the family's number, whatever anybody holds.
    ByPrefix,
    /// The next one.
    RoundRobin,
}

const ROUTERS: [(&str, Router); 3] = [
    ("kv-aware", Router::KvAware),
    ("by-prefix", Router::ByPrefix),
    ("round-robin", Router::RoundRobin),
];

/// A row for each router.
pub(super) fn rows(asked: &RoutingAsked) -> Vec<CountedRow> {
    let requests = requests(asked);
    let row = |(name, router): (&str, Router)| CountedRow {
        name: name.to_owned(),
        workers: asked.instances,
        cache: None,
        routed: Some(route(asked, &requests, router)),
        arms: std::collections::BTreeMap::new(),
    };
    ROUTERS.into_iter().map(row).collect()
}

/// Families in the order they are asked for, the hottest 0: family k as often as the weight over k + 1 says, rounded down, in
/// rounds that ask every family once which has requests left.
fn requests(asked: &RoutingAsked) -> Vec<u64> {
    let left = |family: u64, round: u64| asked.hot_weight / (family + 1) > round;
    let rounds = 0..asked.hot_weight;
    let of_round = |round| (0..asked.families).filter(move |family| left(*family, round));
    rounds.flat_map(of_round).collect()
}

fn route(asked: &RoutingAsked, requests: &[u64], router: Router) -> RoutedRecord {
    // Of each instance the families it holds, the one asked for longest ago first.
    let mut held: Vec<Vec<u64>> = vec![Vec::new(); asked.instances as usize];
    let (mut hits, mut evictions) = (0, 0);
    for (place, family) in requests.iter().enumerate() {
        let holder = held.iter().position(|it| it.contains(family));
        let instance = match router {
            Router::KvAware => holder.unwrap_or_else(|| emptiest(&held)),
            Router::ByPrefix => (family % asked.instances) as usize,
            Router::RoundRobin => place % held.len(),
        };
        let here = &mut held[instance];
        let before = here.len();
        here.retain(|it| it != family);
        hits += u64::from(here.len() < before);
        here.push(*family);
        if here.len() as u64 > asked.capacity {
            here.remove(0);
            evictions += 1;
        }
    }
    let requests = requests.len() as u64;
    RoutedRecord {
        requests,
        hits,
        evictions,
        hit_rate_millionths: hits * 1_000_000 / requests.max(1),
    }
}

/// The first of those that hold fewest.
fn emptiest(held: &[Vec<u64>]) -> usize {
    let fewest = held.iter().enumerate().min_by_key(|it| it.1.len());
    fewest.map_or(0, |it| it.0)
}
