//! The session generator: fixed by the seed, within the ordinary ids, never alike by accident.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use proptest::prelude::*;
use workloads::Error;
use workloads::envelope::{Envelope, Workload};
use workloads::session::SessionPlan;

fn workload(agents: usize, seed: u64) -> Workload {
    Workload {
        agents,
        seed,
        ..Envelope::named("smoke").unwrap().workload
    }
}

proptest! {
    #[test]
    fn results_of_a_turn_all_begin_differently(
        agents in 1usize..40, spare in 0u32..20, turn in 1usize..9, seed: u64,
    ) {
        let ordinary = 7..7 + agents as u32 + spare;
        let plan = SessionPlan::new(&workload(agents, seed), ordinary).unwrap();
        let firsts: HashSet<u32> = (0..agents).map(|agent| plan.append(agent, turn)[0]).collect();
        prop_assert_eq!(firsts.len(), agents);
    }

    #[test]
    fn ids_are_ordinary_and_lengths_are_as_asked(seed: u64, first in 0u32..9, count in 3u32..99) {
        let workload = workload(3, seed);
        let plan = SessionPlan::new(&workload, first..first + count).unwrap();
        prop_assert_eq!(plan.prefix().len(), workload.prefix);
        prop_assert!(plan.append(1, 0).is_empty());
        prop_assert_eq!(plan.append(1, 2).len(), workload.result);
        let ids = plan.prefix().into_iter().chain(plan.append(2, 3));
        prop_assert!(ids.into_iter().all(|id| (first..first + count).contains(&id)));
    }
}

#[test]
fn the_same_seed_gives_the_same_ids_and_another_seed_others() {
    let plan = |seed| SessionPlan::new(&workload(3, seed), 0..50_000).unwrap();
    assert_eq!(plan(1).prefix(), plan(1).prefix());
    assert_eq!(plan(1).append(2, 3), plan(1).append(2, 3));
    assert_ne!(plan(1).prefix(), plan(2).prefix());
    let results: HashSet<Vec<u32>> = (0..3)
        .flat_map(|agent| (1..4).map(move |turn| plan(1).append(agent, turn)))
        .collect();
    assert_eq!(results.len(), 9);
}

#[test]
fn ids_spread_over_the_whole_vocabulary() {
    let workload = Workload {
        prefix: 4096,
        ..workload(1, 1)
    };
    let prefix = SessionPlan::new(&workload, 0..16).unwrap().prefix();
    for id in 0..16 {
        let count = prefix.iter().filter(|&&other| other == id).count();
        assert!(
            (180..=340).contains(&count),
            "id {id} drawn {count} times, expected about 256"
        );
    }
}

#[test]
fn more_agents_than_ordinary_ids_are_refused() {
    let refused = SessionPlan::new(&workload(3, 1), 10..12);
    assert!(matches!(
        refused,
        Err(Error::TooFewIds { agents: 3, ids: 2 })
    ));
    #[allow(clippy::reversed_empty_ranges)]
    let empty = SessionPlan::new(&workload(3, 1), 12..10);
    assert!(matches!(empty, Err(Error::TooFewIds { agents: 3, ids: 0 })));
}

#[test]
fn ordinary_ids_that_begin_beyond_what_an_audit_tries_are_refused() {
    let plan = |first: u32| SessionPlan::new(&workload(3, 1), first..first + 50);
    assert!(plan((1 << 16) - 1).is_ok());
    let refused = plan(1 << 16).unwrap_err().to_string();
    assert!(refused.contains("begin at 65536"), "{refused}");
}

#[test]
fn a_text_may_begin_with_the_models_own_first_id_and_keeps_its_other_ids() {
    let plain = SessionPlan::new(&workload(3, 1), 17..500).unwrap();
    let opened = Workload {
        bos_id: Some(1),
        ..workload(3, 1)
    };
    let opened = SessionPlan::new(&opened, 17..500).unwrap();
    assert_eq!(opened.prefix()[0], 1);
    assert_eq!(opened.prefix()[1..], plain.prefix()[1..]);
    assert_eq!(opened.append(2, 1), plain.append(2, 1));
}
