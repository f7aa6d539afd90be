//! Whoever wrote the cached positions, and whatever became of their neighbours: the same bits as a cold run.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::bits;
use common::kv::{Client, cold, common, element_types, engine, parted, text};
use engine::{CachePolicy, EngineOptions, PAGE_POSITIONS, Phase};

/// Hits are tried at every length up to here: five pages, the last one in part.
const HIT_MAX: usize = 300;

#[test]
fn a_hit_of_every_length_answers_as_a_cold_run() {
    for options in element_types() {
        let whole = text(HIT_MAX + 90, 1);
        let mut one_by_one = engine(&EngineOptions {
            chunk_tokens: 1,
            ..options
        });
        let expected = one_by_one.logits(&whole, true).unwrap();
        let vocab = expected.len() / whole.len();
        for cache in [CachePolicy::Session, CachePolicy::Shared] {
            let mut client = Client::new(&EngineOptions {
                cache,
                kv_pages: 4096,
                ..options
            });
            for hit in 1..=HIT_MAX {
                // A tenant each, so that nothing but the donor is there to be found.
                client.scope.tenant = hit.to_string();
                let session = 2 * hit as u64;
                let donor = parted(&whole, hit, 1 + hit * 37 % 130, 2);
                client.answer(session, &donor, 1);
                let prompt = &whole[..hit + hit * 7 % 90];
                let (asker, found) = match cache {
                    CachePolicy::Session => (session, (hit, 0)),
                    _ => (session + 1, (0, hit)),
                };
                let answer = client.answer(asker, prompt, 1);
                assert_eq!((answer.own, answer.instance), found, "{cache}");
                let last = &expected[(prompt.len() - 1) * vocab..][..vocab];
                let context = format!("{}, {cache}, hit of {hit}", client.engine.kv_dtype());
                assert!(answer.logits.unwrap() == bits(last), "{context}");
                let replayed = usize::from(prompt.len() == hit);
                assert_eq!(answer.computed, prompt.len() - hit, "{context}");
                assert_eq!(answer.replayed, replayed, "{context}");
            }
        }
    }
}

#[test]
fn what_one_session_decoded_another_has_as_a_prompt() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let told = client.answer(0, &text(50, 1), 150);
        for (session, end) in [(1, 90), (2, 128), (3, 199), (4, 150)] {
            let prompt = parted(&told.said(), end, 20, 3);
            let answer = client.answer(session, &prompt, 3);
            assert_eq!((answer.own, answer.instance), (0, end));
            assert_eq!(answer.result(), cold(&options, &prompt, 3).result());
        }
        let answer = client.answer(5, &told.said(), 3);
        assert_eq!(answer.instance, 199, "its last token has no KV yet");
        assert_eq!(answer.result(), cold(&options, &told.said(), 3).result());
    }
}

/// Agents of one tree: whose text each has, and up to where.
const TREE: [(usize, usize); 8] = [
    (0, 0),
    (0, 333),
    (0, 200),
    (2, 333),
    (0, 128),
    (4, 200),
    (0, 70),
    (0, 0),
];

/// Their prompts, 340 to 403 positions.
fn tree() -> Vec<Vec<u32>> {
    let mut prompts: Vec<Vec<u32>> = Vec::new();
    for (agent, (parent, at)) in TREE.into_iter().enumerate() {
        let (len, seed) = (340 + 9 * agent, 10 + agent as u64);
        let none = Vec::new();
        let parent = prompts.get(parent).unwrap_or(&none);
        prompts.push(match at {
            0 => text(len, seed),
            at => parted(parent, at, len - at, seed),
        });
    }
    prompts
}

#[test]
fn attending_a_tree_of_texts_together_changes_no_bit() {
    for options in element_types() {
        let mut expected = Vec::new();
        for shared_attention in [false, true] {
            for (threads, chunk_tokens) in [(1, 1024), (2, 1024), (2, 100)] {
                let mut client = Client::new(&EngineOptions {
                    shared_attention,
                    threads,
                    chunk_tokens,
                    ..options
                });
                let mut prompts = tree();
                for turn in 0..2 {
                    let asked = (0..).zip(&prompts);
                    let ids: Vec<u64> = asked
                        .map(|(it, prompt)| client.ask(it, prompt, 6))
                        .collect();
                    client.run();
                    let answers: Vec<_> = ids.iter().map(|id| client.said(*id).clone()).collect();
                    for (agent, answer) in answers.iter().enumerate() {
                        let at = turn * TREE.len() + agent;
                        if expected.len() == at {
                            expected.push(cold(&options, &prompts[agent], 6));
                        }
                        assert_eq!(
                            answer.result(),
                            expected[at].result(),
                            "{}, shared attention {shared_attention}, {threads} threads, chunks of {chunk_tokens}, turn {turn}, agent {agent}",
                            client.engine.kv_dtype()
                        );
                    }
                    let more = |agent: usize| text(30 + 5 * agent, 100 + agent as u64);
                    let next = answers.iter().enumerate();
                    prompts = next
                        .map(|(it, answer)| [answer.said(), more(it)].concat())
                        .collect();
                }
                let together = |(phase, _, requests): &(Phase, usize, usize)| {
                    *phase == Phase::Prefill && *requests == TREE.len()
                };
                assert_eq!(client.steps().iter().any(together), chunk_tokens == 1024);
            }
        }
    }
}

/// Pages of a text of so many positions.
fn pages(positions: usize) -> usize {
    positions.div_ceil(PAGE_POSITIONS)
}

#[test]
fn what_two_sessions_compute_at_once_ends_as_one_copy() {
    for options in element_types() {
        let mut client = Client::new(&options);
        // Both decode the same text, each into pages of its own until they are done.
        let ids = [0, 1].map(|session| client.ask(session, &text(100, 1), 150));
        client.run();
        let [a, b] = ids.map(|id| client.said(id).clone());
        assert_eq!(a.result(), b.result());
        assert_eq!(client.engine.occupancy().pages, pages(249));
        assert_eq!(client.engine.kv_snapshot().nodes.len(), pages(249));
    }
}

#[test]
fn a_prompt_computed_while_another_session_decodes_it_ends_as_one_copy() {
    for options in element_types() {
        let prompt = text(100, 1);
        let said = cold(&options, &prompt, 150).said();
        for tail in [0, 1, 5, 40] {
            let mut client = Client::new(&options);
            let first = client.ask(0, &prompt, 150);
            for _ in 0..3 {
                client.step();
            }
            let longer = [&said[..200], &text(tail, 9)].concat();
            let second = client.ask(1, &longer, 2);
            client.run();
            assert_eq!(client.said(first).tokens, said[100..]);
            let answer = client.said(second).clone();
            assert!(
                (100..110).contains(&answer.instance),
                "the rest was not there yet"
            );
            assert_eq!(answer.result(), cold(&options, &longer, 2).result());
            let apart = common(&answer.cached(), &said[..249]);
            let tails = match answer.cached().len() {
                len if len == apart => 0,
                len => pages(len) - apart / PAGE_POSITIONS,
            };
            assert_eq!(client.engine.occupancy().pages, pages(249) + tails);
            assert_eq!(client.engine.kv_snapshot().nodes.len(), pages(249) + tails);
        }
    }
}

#[test]
fn prompts_that_differ_in_their_last_ids_share_all_pages_but_the_last() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let trunk = text(200, 1);
        for (session, seed) in [(0, 2), (1, 3), (2, 4)] {
            client.ask(session, &parted(&trunk, 195, 5 + seed as usize, seed), 1);
        }
        client.run();
        assert_eq!(client.engine.occupancy().pages, 3 + 3);
    }
}
