//! The closed forms against published totals and a slow twin that walks a session id by id.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use workloads::Error;
use workloads::arm::{ARMS, Arm, Cache, named};
use workloads::envelope::{Order, Quarantine, Tree};
use workloads::oracle::{Counts, Shape, counts};

fn computed(shape: Shape) -> Vec<u64> {
    ARMS.iter()
        .map(|arm| counts(arm, &shape).unwrap().prefill_tokens_computed)
        .collect()
}

#[test]
fn gives_the_golden_totals() {
    let fleet = Shape {
        agents: 5,
        turns: 50,
        prefix: 2048,
        decode: 32,
        result: 64,
        workers: 1,
        ..Shape::default()
    };
    assert_eq!(computed(fleet), [1_100_000, 25_920, 25_920, 17_728, 17_728]);
    assert_eq!(
        computed(Shape {
            workers: 2,
            ..fleet
        })[3..],
        [19_776, 17_728]
    );
    assert_eq!(
        computed(Shape {
            workers: 9,
            ..fleet
        })[3..],
        [25_920, 17_728]
    );
    let small = Shape {
        agents: 3,
        turns: 6,
        prefix: 512,
        decode: 16,
        result: 32,
        workers: 1,
        ..Shape::default()
    };
    assert_eq!(computed(small), [11_376, 2_016, 2_016, 992, 992]);
}

#[test]
fn a_shape_beyond_counting_is_an_error_and_an_empty_one_counts_nothing() {
    let huge = Shape {
        agents: u64::MAX,
        turns: u64::MAX,
        prefix: u64::MAX,
        decode: u64::MAX,
        result: u64::MAX,
        workers: u64::MAX,
        ..Shape::default()
    };
    let empty = Shape {
        agents: 0,
        turns: 0,
        ..huge
    };
    for arm in &ARMS {
        assert!(matches!(counts(arm, &huge), Err(Error::TooManyTokens)));
        assert_eq!(counts(arm, &empty).unwrap(), Counts::default());
    }
}

/// Every (agent, turn) in the order they come.
fn in_order(shape: &Shape) -> Vec<(u64, u64)> {
    let turns = 0..shape.turns * shape.passes.max(1);
    match shape.order {
        Order::Turns => turns
            .flat_map(|turn| (0..shape.agents).map(move |agent| (agent, turn)))
            .collect(),
        Order::Agents => (0..shape.agents)
            .flat_map(|agent| turns.clone().map(move |turn| (agent, turn)))
            .collect(),
    }
}

/// A session walked request by request, with every prompt and every cache written out.
///
/// An answer is a function of its prompt, as greedy decoding is; ids carry where they came from.
fn walk(arm: &Arm, shape: &Shape) -> Counts {
    let mut caches: Vec<Vec<Vec<u64>>> = vec![Vec::new(); shape.agents as usize];
    let mut transcripts = vec![(0..shape.prefix).collect::<Vec<u64>>(); shape.agents as usize];
    // Texts that no prompt may match, by where they begin.
    let mut barred: Vec<(Vec<u64>, usize)> = Vec::new();
    let mut total = Counts::default();
    for (agent, request) in in_order(shape) {
        let turn = request % shape.turns;
        let transcript = &mut transcripts[agent as usize];
        if turn == 0 {
            *transcript = (0..shape.prefix).collect();
            for (level, node) in shape.tree.iter().flat_map(|tree| tree.way(agent as usize)) {
                let unique = (1 << 45) + level as u64 * 10_000_000 + node as u64 * 10_000;
                transcript.extend(unique..unique + shape.tree.unwrap().tokens as u64);
            }
        }
        let last_sampled = transcript.len() - 1;
        let start = transcript.len();
        if turn > 0 {
            let unique = (1 << 40) + turn * 10_000_000 + agent * 10_000;
            transcript.extend(unique..unique + shape.result);
        }
        let bad = transcript.clone();
        let cache = match (arm.cache, arm.spans_workers) {
            (Cache::Shared, true) => 0,
            (Cache::Shared, false) => agent % shape.workers,
            _ => agent,
        };
        let cache = &mut caches[cache as usize];
        let common = |other: &Vec<u64>| {
            let pairs = transcript.iter().zip(other);
            pairs.take_while(|(a, b)| a == b).count()
        };
        let hits = barred
            .iter()
            .filter(|(text, _)| transcript.starts_with(text));
        let barred_at = hits.map(|(_, start)| *start).min().unwrap_or(usize::MAX);
        let matched = cache.iter().map(common).max().unwrap_or(0).min(barred_at);
        let carries = turn > 0 && arm.cache != Cache::None && last_sampled >= matched;
        let carried = usize::from(carries);
        total.prefill_tokens_logical += transcript.len() as u64;
        total.prefix_tokens_hit += matched as u64;
        total.carried_tokens += carried as u64;
        total.prefill_tokens_computed += (transcript.len() - matched - carried) as u64;
        total.replayed_tokens += u64::from(matched == transcript.len());
        for _ in 0..shape.decode {
            let state = transcript.iter().fold(7u64, |state, id| {
                (state ^ id).wrapping_mul(0x0000_0100_0000_01b3)
            });
            transcript.push((1 << 50) + (state >> 20));
        }
        total.decode_tokens += shape.decode;
        if arm.cache != Cache::None {
            cache.push(transcript[..transcript.len() - 1].to_vec());
        }
        let asked = shape.quarantine;
        if asked.is_some_and(|it| it.turn as u64 == turn && agent < it.agents as u64) {
            barred.push((bad, start));
        }
    }
    total
}

proptest! {
    #[test]
    fn the_closed_forms_are_what_a_walk_counts(
        (branches, levels) in (1u64..5, 1u32..3), (turns, tree, passes) in (1u64..7, proptest::option::of(1usize..5), 1u64..4), (prefix, decode, result) in (1u64..30, 1u64..6, 1u64..6),
        workers in 1u64..8, arm in 0usize..5, one_by_one: bool, bad in proptest::option::of((1usize..6, 1usize..6)),
    ) {
        let agents = branches.pow(levels);
        let order = if one_by_one { Order::Agents } else { Order::Turns };
        let tree = tree.map(|tokens| Tree { branches: branches as usize, levels: levels as usize, tokens });
        // Where one text is read by all, workers have it each; of a tree only one worker is counted. What is asked again is plain.
        let workers = if tree.is_some() { 1 } else { workers };
        let plain = !one_by_one && bad.is_none();
        let passes = if plain { passes } else { 1 };
        let quarantine = bad.filter(|bad| bad.1 as u64 <= agents);
        let quarantine = quarantine.map(|(turn, agents)| Quarantine { turn, agents });
        let shape = Shape { agents, turns, prefix, decode, result, workers, order, quarantine, tree, passes };
        let arm = &ARMS[arm];
        let (closed, walked) = (counts(arm, &shape).unwrap(), walk(arm, &shape));
        // First answers coincide within a cache; a walk in this order finds all but the first
        // agent's last token of them, which agents that take turns do not.
        let caches = if arm.spans_workers { 1 } else { workers.min(agents) };
        let coincide = if arm.cache == Cache::Shared && turns > 1 && !one_by_one && tree.is_none() { agents - caches } else { 0 };
        let expected = Counts {
            carried_tokens: closed.carried_tokens - coincide,
            prefix_tokens_hit: closed.prefix_tokens_hit + coincide,
            ..closed
        };
        prop_assert_eq!(walked, expected);
    }
}

#[test]
fn enough_pages_are_those_of_every_transcript_and_one_more_for_each() {
    let shape = Shape {
        agents: 5,
        turns: 50,
        prefix: 2048,
        decode: 32,
        result: 64,
        workers: 1,
        ..Shape::default()
    };
    assert_eq!(shape.kv_pages_enough(), Some(535)); // 6784 positions are 106 pages
    assert_eq!(Shape { turns: 0, ..shape }.kv_pages_enough(), Some(0));
    let huge = Shape {
        agents: u64::MAX,
        ..shape
    };
    assert_eq!(huge.kv_pages_enough(), None);
}

#[test]
fn an_unknown_arm_is_refused_with_the_known_ones() {
    let error = named("fast").unwrap_err().to_string();
    assert!(
        error.contains("`fast`") && error.contains("instance-shared"),
        "{error}"
    );
}
