//! Agents at the ends of a tree, and sessions that are asked again: what their texts are, and which of them are refused.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;
use workloads::envelope::{Envelope, Tree, Workload, embedded};
use workloads::session::SessionPlan;

/// The refusal of `smoke`, which has three agents, with these lines more in its workload and this text in place of another.
fn refusal(lines: &str, (from, to): (&str, &str)) -> Option<String> {
    let smoke = embedded().iter().find(|(name, _)| *name == "smoke");
    let text = smoke.unwrap().1;
    let text = text.replacen("[run]\n", &format!("{lines}\n\n[run]\n"), 1);
    assert!(text.contains(from));
    let text = text.replacen(from, to, 1);
    let read = Envelope::parse(&text, "x.toml");
    read.err().map(|error| error.to_string())
}

fn plan(tree: Tree, seed: u64) -> SessionPlan {
    let workload = Workload {
        agents: tree.ends().unwrap(),
        tree: Some(tree),
        seed,
        ..Envelope::named("smoke").unwrap().workload
    };
    SessionPlan::new(&workload, 3..900).unwrap()
}

proptest! {
    #[test]
    fn agents_read_the_same_as_far_as_their_ways_go_together_and_part_at_once_where_they_part(
        branches in 1_usize..5, levels in 1_usize..4, tokens in 1_usize..6, seed: u64,
    ) {
        let tree = Tree { branches, levels, tokens };
        let (plan, ends) = (plan(tree, seed), tree.ends().unwrap());
        let mut distinct = HashSet::new();
        for agent in 0..ends {
            let way = plan.append(agent, 0);
            prop_assert_eq!(way.len() as u64, tree.way_tokens().unwrap());
            distinct.extend((1..=way.len()).map(|end| way[..end].to_vec()));
            for other in 0..agent {
                let together = tree.way(agent).zip(tree.way(other)).take_while(|(a, b)| a == b).count();
                let theirs = plan.append(other, 0);
                let common = way.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
                prop_assert_eq!(common, together * tokens, "agents {} and {}", agent, other);
            }
        }
        prop_assert_eq!(distinct.len() as u64, tree.tokens_in_all().unwrap());
    }
}

#[test]
fn nodes_of_a_level_are_numbered_from_left_to_right() {
    let tree = Tree {
        branches: 3,
        levels: 3,
        tokens: 16,
    };
    let way = |agent| tree.way(agent).collect::<Vec<_>>();
    assert_eq!(way(0), [(1, 0), (2, 0), (3, 0)]);
    assert_eq!(way(14), [(1, 1), (2, 4), (3, 14)]);
    assert_eq!(way(26), [(1, 2), (2, 8), (3, 26)]);
    let all: BTreeMap<(usize, usize), usize> =
        (0..27)
            .flat_map(way)
            .fold(BTreeMap::new(), |mut seen, node| {
                *seen.entry(node).or_default() += 1;
                seen
            });
    assert_eq!(all.len() * 16, tree.tokens_in_all().unwrap() as usize);
    let huge = Tree {
        branches: usize::MAX,
        levels: 2,
        tokens: 1,
    };
    assert_eq!((huge.ends(), huge.tokens_in_all()), (None, None));
}

#[test]
fn trees_and_passes_that_can_be_asked_are_taken() {
    let none = ("threads", "threads");
    for lines in [
        "tree = { branches = 3, levels = 1, tokens = 5 }",
        "tree = { branches = 3, levels = 1, tokens = 5 }\npasses = 2\nbos_id = 1",
        "passes = 16",
    ] {
        assert_eq!(refusal(lines, none), None, "{lines}");
    }
}

#[test]
fn trees_and_passes_that_cannot_be_asked_are_refused_with_the_line_and_a_remedy() {
    let none = ("threads", "threads");
    let again = "passes = 2";
    for (lines, change, words) in [
        (
            "tree = { branches = 2, levels = 2, tokens = 5 }",
            none,
            &[
                "workload.tree.branches = 2",
                "power of 2",
                "is 3 (workload.agents)",
            ][..],
        ),
        (
            "tree = { branches = 3, levels = 0, tokens = 5 }",
            none,
            &["workload.tree.levels = 0", "1 to 10"],
        ),
        (
            "tree = { branches = 3, levels = 1, tokens = 0 }",
            none,
            &["workload.tree.tokens = 0", "1 to 65536"],
        ),
        ("tree = { branches = 3, levels = 1 }", none, &["tokens"]),
        (
            "tree = { branches = 3, levels = 1, tokens = 5, depth = 2 }",
            none,
            &["depth"],
        ),
        ("passes = 0", none, &["workload.passes = 0", "1 to 16"]),
        ("passes = 17", none, &["workload.passes = 17"]),
        (
            again,
            ("seed = 1 ", "order = \"agents\"\nseed = 1 "),
            &["1 beside workload.order agents"],
        ),
        (
            again,
            (
                "seed = 1 ",
                "quarantine = { turn = 1, agents = 1 }\nseed = 1 ",
            ),
            &["1 beside workload.quarantine"],
        ),
        (
            again,
            (
                "seed = 1 ",
                "arrivals = { process = \"poisson\", interval_us = 9 }\nseed = 1 ",
            ),
            &["1 beside workload.arrivals"],
        ),
        (
            again,
            ("reps = 5 ", "arm_turns = { naive = 2 }\nreps = 5 "),
            &["1 beside run.arm_turns"],
        ),
        (
            again,
            ("\"agent-kv\"", "\"llama-server:agent\""),
            &["1 beside arms of other engines"],
        ),
    ] {
        let refused = refusal(lines, change).unwrap_or_else(|| panic!("{lines} was taken"));
        for word in words {
            assert!(refused.contains(word), "{word:?} not in {refused}");
        }
        assert!(refused.contains("x.toml"), "{refused}");
    }
}
