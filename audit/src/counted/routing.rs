//! A made-up fleet, counted again: families of requests, instances that hold few prefixes, three ways to choose one.
//!
//! Not here: anything that runs.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::notebook::{Layer, Notebook, quote};

/// Instances, and prefixes, families and weights, of a fleet an auditor is ready to count.
const MAX_INSTANCES: u64 = 64;
const MAX_ROUTED: u64 = 1 << 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fleet {
    instances: u64,
    capacity: u64,
    families: u64,
    hot_weight: u64,
}

/// When each family was last asked for, by instance; of one that is not held, nothing.
type Held = Vec<Vec<Option<u64>>>;

impl Fleet {
    pub(super) fn check(&self, notes: &mut Notebook) {
        let counted = [self.capacity, self.families, self.hot_weight];
        let possible = (1..=MAX_INSTANCES).contains(&self.instances)
            && counted.iter().all(|it| (1..=MAX_ROUTED).contains(it))
            && self.families <= self.hot_weight;
        notes.check(Layer::Format, possible, || {
            let fleet = quote(self);
            format!("workload.routing: {fleet} cannot be counted")
        });
    }

    /// Families as they are asked for: a request of family f comes in every round below `hot_weight` / (f + 1).
    fn requests(&self) -> Vec<u64> {
        let mut requests = Vec::new();
        for round in 1..=self.hot_weight {
            // The last family that still has a request is the one whose share is no less than this round.
            let families = (self.hot_weight / round).min(self.families);
            requests.extend(0..families);
        }
        requests
    }

    /// Who is asked for a family; `at` is the request's number.
    fn chosen(&self, router: &str, held: &Held, family: u64, at: u64) -> u64 {
        match router {
            "round-robin" => at % self.instances,
            "by-prefix" => family % self.instances,
            _ => {
                let has = |it: &&u64| held[**it as usize][family as usize].is_some();
                let holds = |it: &u64| held[*it as usize].iter().flatten().count();
                let all: Vec<u64> = (0..self.instances).collect();
                let fewest = || all.iter().min_by_key(|it| holds(it));
                all.iter().find(has).or_else(fewest).copied().unwrap_or(0)
            }
        }
    }

    fn row(&self, router: &str) -> Value {
        let requests = self.requests();
        let mut held: Held = vec![vec![None; self.families as usize]; self.instances as usize];
        let (mut hits, mut evictions) = (0_u64, 0_u64);
        for (at, family) in (0..).zip(&requests) {
            let instance = self.chosen(router, &held, *family, at);
            let here = &mut held[instance as usize];
            hits += u64::from(here[*family as usize].is_some());
            here[*family as usize] = Some(at);
            if here.iter().flatten().count() as u64 > self.capacity {
                let oldest = here.iter_mut().filter(|it| it.is_some()).min();
                if let Some(oldest) = oldest {
                    *oldest = None;
                    evictions += 1;
                }
            }
        }
        let requests = requests.len() as u64;
        json!({
            "name": router, "workers": self.instances,
            "routed": {
                "requests": requests, "hits": hits, "evictions": evictions,
                "hit_rate_millionths": (hits * 1_000_000).checked_div(requests),
            },
            "arms": {},
        })
    }
}

/// The rows of a fleet.
pub(super) fn rows(fleet: &Fleet) -> Vec<Value> {
    let routers = ["kv-aware", "by-prefix", "round-robin"];
    routers.iter().map(|router| fleet.row(router)).collect()
}
