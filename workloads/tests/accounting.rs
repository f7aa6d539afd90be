//! The one account: published figures by counting requests, closed forms on random shapes, caches that are too small.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use workloads::accounting::online::{self, Ordered};
use workloads::accounting::streams::{Radix, session};
use workloads::accounting::{Account, CacheModel, Geometry, Request, Scope, Span, replay};
use workloads::arm::named;
use workloads::envelope::Tree;
use workloads::oracle::{Shape, counts};

fn under(scope: Scope, shape: &Shape) -> Account {
    replay(&CacheModel::unbounded(scope), session(shape, 0))
}

proptest! {
    #[test]
    fn counting_requests_gives_the_closed_forms_of_every_arm(
        (branches, levels) in (1_u64..5, 1_u32..3), turns in 1_u64..9, prefix in 1_u64..200, decode in 0_u64..40, result in 1_u64..40,
        workers in 1_u64..4, tree in proptest::option::of(1_usize..20), passes in 1_u64..4,
    ) {
        let agents = branches.pow(levels);
        let tree = tree.map(|tokens| Tree { branches: branches as usize, levels: levels as usize, tokens });
        let workers = if tree.is_some() { 1 } else { workers }; // a tree's closed form is of one
        let shape = Shape { agents, turns, prefix, decode, result, workers, tree, passes, ..Shape::default() };
        for (scope, arm) in [
            (Scope::None, "naive"),
            (Scope::Session, "agent-kv-batched"),
            (Scope::Worker, "instance-shared"),
        ] {
            let found = under(scope, &shape);
            let expected = counts(named(arm).unwrap(), &shape).unwrap();
            prop_assert_eq!(found.computed_tokens, expected.prefill_tokens_computed, "{}", arm);
            prop_assert_eq!(found.prompt_tokens, expected.prefill_tokens_logical);
            prop_assert_eq!(found.decode_tokens, expected.decode_tokens);
            prop_assert_eq!(found.requests, agents * turns * passes);
        }
        let fleet = under(Scope::Fleet, &shape);
        let one = Shape { workers: 1, ..shape };
        prop_assert_eq!(fleet.computed_tokens, under(Scope::Worker, &one).computed_tokens);
    }

    #[test]
    fn a_tree_finds_what_the_longest_common_beginning_with_anything_said_is(
        texts in prop::collection::vec(prop::collection::vec(0_u64..3, 1..12), 1..20)
    ) {
        let request = |text: &Vec<u64>| Request {
            prompt: text.iter().map(|&id| Span { id, tokens: 1 }).collect(),
            ..Request::default()
        };
        let model = CacheModel::unbounded(Scope::Fleet);
        let found = replay(&model, texts.iter().map(request));
        let common = |a: &[u64], b: &[u64]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let slow: usize = (0..texts.len())
            .map(|place| texts[..place].iter().map(|it| common(it, &texts[place])).max().unwrap_or(0))
            .sum();
        prop_assert_eq!(found.reused_tokens, slow as u64);
        // Everything distinct is held once.
        let mut beginnings = std::collections::BTreeSet::new();
        for text in &texts {
            beginnings.extend((1..=text.len()).map(|end| text[..end].to_vec()));
        }
        prop_assert_eq!(found.held_tokens_peak, beginnings.len() as u64);
    }

    #[test]
    fn a_smaller_cache_holds_no_more_than_it_may_and_computes_no_less(
        capacity in 1_u64..500, which in 0_usize..4
    ) {
        let requests = Radix::ALL[which].requests();
        let model = CacheModel { scope: Scope::Fleet, capacity_tokens: Some(capacity) };
        let bounded = replay(&model, requests.clone());
        let free = replay(&CacheModel::unbounded(Scope::Fleet), requests);
        prop_assert!(bounded.held_tokens_peak <= capacity);
        prop_assert!(bounded.computed_tokens >= free.computed_tokens);
        prop_assert_eq!(bounded.prompt_tokens, free.prompt_tokens);
    }
}

/// fak-facts 1.5: computed of all, and edges split.
#[test]
fn the_four_radix_streams_give_their_published_counts() {
    for (stream, requests, computed, prompt, splits) in [
        (Radix::FewShot, 16, 512, 4352, 1),
        (Radix::Chat, 8, 288, 1408, 0),
        (Radix::TreeOfThought, 27, 688, 3024, 13),
        (Radix::Agents, 30, 848, 6360, 1),
    ] {
        let found = replay(&CacheModel::unbounded(Scope::Fleet), stream.requests());
        let name = stream.name();
        assert_eq!(
            (found.requests, found.prompt_tokens),
            (requests, prompt),
            "{name}"
        );
        assert_eq!(
            (found.computed_tokens, found.splits),
            (computed, splits),
            "{name}"
        );
    }
}

/// fak-facts 1.5: a budget of one and a half times the longest request, first come, first served; rates in ten thousandths.
#[test]
fn under_a_budget_the_four_streams_give_their_published_hit_rates_and_evictions() {
    for (stream, budget, hit_rate, evictions) in [
        (Radix::FewShot, 408, 8824, 7),
        (Radix::Chat, 432, 7955, 0),
        (Radix::TreeOfThought, 168, 7725, 33),
        (Radix::Agents, 408, 6214, 29),
    ] {
        let model = CacheModel {
            scope: Scope::Fleet,
            capacity_tokens: Some(budget),
        };
        let found = replay(&model, stream.requests());
        let name = stream.name();
        assert_eq!((found.hit_rate() * 1e4).round() as u64, hit_rate, "{name}");
        assert_eq!(found.evictions, evictions, "{name}");
    }
}

#[test]
fn attention_is_counted_position_by_position() {
    let shape = Shape {
        agents: 1,
        turns: 2,
        prefix: 3,
        decode: 2,
        result: 1,
        workers: 1,
        ..Shape::default()
    };
    // Turn 0 computes positions 0 to 4, turn 1 finds these 5 and computes 5 to 7: 1 to 8 attended in all.
    let kept = under(Scope::Session, &shape);
    assert_eq!(kept.attended_positions, (1..=8).sum::<u128>());
    // Without a cache turn 1 computes positions 0 to 7 again.
    let naive = under(Scope::None, &shape);
    assert_eq!(
        naive.attended_positions,
        (1..=5).sum::<u128>() + (1..=8).sum::<u128>()
    );
    let operations = Geometry::SMOLLM2_135M.operations(&kept, 2);
    assert_eq!(operations.attention, 4 * 30 * 576 * 36);
    assert_eq!(operations.kv_bytes_peak, 2 * 30 * 192 * 2 * 8);
    // 8 positions through all layers, 4 answered through the head.
    let of_layer = 2 * 576 * (576 + 192) + 3 * 576 * 1536;
    assert_eq!(
        operations.matrix,
        2 * (8 * 30 * of_layer + 4 * 576 * 49_152)
    );
}

/// A stream in 1.5 times its longest request, in an order that knows the cache.
fn ordered(stream: Radix, overtaken_max: usize) -> (Account, Ordered) {
    let requests = stream.requests();
    let longest = requests.iter().map(Request::prompt_tokens).max().unwrap();
    let model = CacheModel {
        scope: Scope::Fleet,
        capacity_tokens: Some(longest * 3 / 2),
    };
    let first_come = replay(&model, requests.clone());
    (first_come, online::replay(&model, requests, overtaken_max))
}

#[test]
fn an_order_that_overtakes_nobody_is_first_come_first_served() {
    for stream in Radix::ALL {
        let (first_come, found) = ordered(stream, 0);
        assert_eq!(found.account, first_come, "{}", stream.name());
        assert!(found.order.is_sorted() && found.overtaken_most == 0);
    }
}

#[test]
fn an_order_that_knows_the_cache_lies_between_first_come_and_the_best_that_hindsight_finds() {
    for stream in Radix::ALL {
        let best = replay(&CacheModel::unbounded(Scope::Fleet), stream.requests());
        for overtaken_max in [4, 8, usize::MAX] {
            let (first_come, found) = ordered(stream, overtaken_max);
            let name = stream.name();
            assert!(
                found.account.reused_tokens >= first_come.reused_tokens,
                "{name} {overtaken_max}"
            );
            assert!(
                found.account.reused_tokens <= best.reused_tokens,
                "{name} {overtaken_max}"
            );
            assert!(
                found.overtaken_most <= overtaken_max,
                "{name} {overtaken_max}"
            );
        }
    }
    // Interleaved agents lose a quarter of it to first come; without a bound nothing is lost.
    let (first_come, free) = ordered(Radix::Agents, usize::MAX);
    assert!(first_come.hit_rate() < 0.63 && free.account.hit_rate() > 0.866);
}

proptest! {
    #[test]
    fn no_turn_comes_before_the_one_it_needs_and_nobody_waits_longer_than_declared(
        agents in 1_u64..6, turns in 1_u64..6, capacity in 1_u64..400, overtaken_max in 0_usize..9,
    ) {
        let shape = Shape { agents, turns, prefix: 50, decode: 5, result: 7, workers: 1, ..Shape::default() };
        let requests: Vec<Request> = session(&shape, 0).collect();
        let model = CacheModel { scope: Scope::Fleet, capacity_tokens: Some(capacity) };
        let found = online::replay(&model, requests.clone(), overtaken_max);
        prop_assert!(found.overtaken_most <= overtaken_max);
        let mut seen: Vec<usize> = found.order.clone();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..requests.len()).collect::<Vec<_>>());
        for agent in 0..agents {
            let own: Vec<usize> = found.order.iter().copied().filter(|&it| requests[it].session == agent).collect();
            prop_assert!(own.is_sorted());
        }
    }
}
