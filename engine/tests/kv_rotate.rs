//! A span taken out of a session by rotation: near what it would be in the first layer alone, and nobody else's.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::kv::{
    Client, DECODE, PROMPT, can_rotate, cold, common, element_types, next, parted, rotatable_types,
    text, two_sessions, unchanged, without,
};
use engine::{CachePolicy, EngineOptions, Error, EvictMode, OnQuarantine, PAGE_POSITIONS};

/// Sizes of the model of these tests.
const LAYERS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 8;

/// Keys and values of a position in a layer, of types that store them as floats.
fn row(pages: &[Vec<u32>], halves: bool, layer: usize, position: usize) -> [Vec<f32>; 2] {
    let (page, slot) = (&pages[position / PAGE_POSITIONS], position % PAGE_POSITIONS);
    let number = |at: usize| {
        if halves {
            half::f16::from_bits(page[at] as u16).to_f32()
        } else {
            f32::from_bits(page[at])
        }
    };
    let half = HEAD_DIM * PAGE_POSITIONS;
    let head = |head: usize| (layer * KV_HEADS + head) * 2 * half;
    let each = || (0..KV_HEADS).flat_map(|head| (0..HEAD_DIM).map(move |dim| (head, dim)));
    let keys = each().map(|(it, dim)| number(head(it) + dim * PAGE_POSITIONS + slot));
    let values = each().map(|(it, dim)| number(head(it) + half + slot * HEAD_DIM + dim));
    [keys.collect(), values.collect()]
}

/// How far apart keys may be by rounding alone, as a share of the length of the pair that is turned.
///
/// f32: three turns (there, back, and there at once), each of two products and a sum with rounded cosines and sines, under
/// three units of 2^-24 each. f16: besides, three roundings to 2^-11 of the number.
fn bound(halves: bool) -> f32 {
    if halves {
        3.1 / 2048.0
    } else {
        9.0 / 16_777_216.0
    }
}

#[test]
fn rotated_keys_of_the_first_layer_are_a_never_saw_runs_within_rounding_and_deeper_ones_are_not() {
    for options in rotatable_types() {
        for span in [0..10, 64..128, 70..91, 50..140] {
            let (mut client, mine, _) = two_sessions(&options);
            let left = without(&mine.cached(), &span);
            let evicted = client
                .engine
                .evict_span(0, span.clone(), EvictMode::Rotate)
                .unwrap();
            client.engine.check().unwrap();
            assert!(!evicted.exact && evicted.recomputed_tokens == 0);
            assert_eq!(evicted.rotated_tokens, mine.cached().len() - span.end);
            assert_eq!(evicted.positions, left.len());
            let mut never_saw = Client::new(&options);
            never_saw.answer(0, &left, 1);
            let both = [&mut client, &mut never_saw];
            let [rotated, expected] = both.map(|it| it.engine.session_bits(0).unwrap());
            let halves = client.engine.kv_dtype() == "f16";
            let worst: [f32; LAYERS] = std::array::from_fn(|layer| {
                let rows = [&rotated, &expected];
                let apart = |position| {
                    let [moved, unmoved] = rows.map(|pages| row(pages, halves, layer, position));
                    assert!(
                        position >= span.start || moved == unmoved,
                        "before the span"
                    );
                    assert!(
                        layer > 0 || moved[1] == unmoved[1],
                        "values of the first layer"
                    );
                    apart(&moved[0], &unmoved[0])
                };
                (0..left.len()).map(apart).fold(0.0, f32::max)
            });
            let shown = worst.map(|it| format!("{it:.1e}"));
            eprintln!(
                "{}, {span:?}: keys apart by {shown:?} of their length, layer by layer, bound {:.1e}",
                client.engine.kv_dtype(),
                bound(halves)
            );
            assert!(worst[0] <= bound(halves), "{span:?}: {worst:?}");
            let deeper = worst[1..].iter();
            assert!(
                deeper.min_by(|a, b| a.total_cmp(b)) > Some(&(4.0 * bound(halves))),
                "{span:?}: {worst:?}"
            );
        }
    }
}

/// The greatest difference of two keys' pairs, as a share of a pair's length.
fn apart(keys: &[f32], expected: &[f32]) -> f32 {
    let pairs = keys.chunks_exact(2).zip(expected.chunks_exact(2));
    let share = |(pair, expected): (&[f32], &[f32])| {
        let differences = [pair[0] - expected[0], pair[1] - expected[1]].map(f32::abs);
        differences[0].max(differences[1]) / expected[0].hypot(expected[1])
    };
    pairs.map(share).fold(0.0, f32::max)
}

#[test]
fn a_type_that_cannot_be_rotated_says_so() {
    for options in element_types().into_iter().filter(|it| !can_rotate(it)) {
        let (mut client, ..) = two_sessions(&options);
        unchanged(&mut client, 0, |client| {
            let refused = client
                .engine
                .evict_span(0, 10..70, EvictMode::Rotate)
                .unwrap_err();
            assert!(matches!(refused, Error::CannotRotate(_)), "{refused}");
        });
    }
}

#[test]
fn a_rotated_session_goes_on_and_says_that_it_is_approximate() {
    for options in rotatable_types() {
        for cache in [CachePolicy::Session, CachePolicy::Shared] {
            let options = EngineOptions { cache, ..options };
            let (mut client, mine, _) = two_sessions(&options);
            let left = without(&mine.cached(), &(70..91));
            client
                .engine
                .evict_span(0, 70..91, EvictMode::Rotate)
                .unwrap();
            let prompt = next(&left, &mine);
            let answer = client.answer(0, &prompt, DECODE);
            assert!(answer.approximate, "{cache}");
            assert_eq!(
                (answer.own, answer.carried, answer.computed),
                (left.len(), 1, 40)
            );
            let expected = cold(&options, &prompt, DECODE);
            assert_ne!(
                answer.logits, expected.logits,
                "the span is still in the deeper layers"
            );
            let again = client.answer(0, &[answer.said(), text(10, 3)].concat(), 1);
            assert!(again.approximate, "what was computed after it is no better");
            assert_eq!(again.own, answer.cached().len());
            // Nothing of it is left once the span is taken out exactly.
            let evicted = client
                .engine
                .evict_span(0, 80..81, EvictMode::Exact)
                .unwrap();
            let clean = without(&again.cached(), &(80..81));
            assert_eq!(evicted.positions, clean.len());
            let prompt = [&clean[..], &again.tokens, &text(9, 4)].concat();
            let answer = client.answer(0, &prompt, 2);
            assert!(!answer.approximate && answer.own == clean.len());
            assert_eq!(answer.result(), cold(&options, &prompt, 2).result());
        }
    }
}

#[test]
fn nobody_else_matches_a_rotated_page_or_what_was_computed_after_it() {
    for options in rotatable_types() {
        for (span, clean) in [(0..10, 0), (70..91, 70), (64..128, 64)] {
            let mut client = Client::new(&options);
            let mine = client.answer(0, &text(PROMPT, 1), DECODE);
            client
                .engine
                .evict_span(0, span.clone(), EvictMode::Rotate)
                .unwrap();
            let prompt = next(&without(&mine.cached(), &span), &mine);
            // One asks for the same text while the rotated session is at work, one when it is done.
            let rotated = client.ask(0, &prompt, 70);
            client.step();
            let beside = client.ask(1, &prompt, 2);
            client.run();
            let said = client.said(rotated).clone();
            assert!(said.approximate);
            let after = client.ask(2, &[said.said(), text(5, 6)].concat(), 2);
            client.run();
            // What the one beside it computed is as good as any.
            let known = common(&client.said(after).prompt, &client.said(beside).cached());
            for (id, known) in [(beside, clean), (after, known)] {
                let answer = client.said(id);
                assert!(
                    answer.matched() <= known,
                    "{span:?}: {} of {known}",
                    answer.matched()
                );
                assert!(!answer.approximate, "{span:?}");
                assert_eq!(
                    answer.result(),
                    cold(&options, &answer.prompt, 2).result(),
                    "{span:?}"
                );
            }
        }
    }
}

#[test]
fn a_rotated_session_leaves_no_page_in_the_tree() {
    for options in rotatable_types() {
        let mut client = Client::new(&options);
        let mine = client.answer(0, &text(PROMPT, 1), DECODE);
        client
            .engine
            .evict_span(0, 0..10, EvictMode::Rotate)
            .unwrap();
        assert_eq!(client.engine.kv_snapshot().nodes, []);
        client.answer(0, &next(&mine.cached()[10..], &mine), 90);
        assert_eq!(client.engine.kv_snapshot().nodes, []);
        assert!(client.engine.occupancy().pages > 0);
    }
}

#[test]
fn what_was_rotated_before_or_evicted_in_part_cannot_be_rotated() {
    for options in rotatable_types() {
        let (mut client, ..) = two_sessions(&EngineOptions {
            kv_pages: 12,
            ..options
        });
        client
            .engine
            .evict_span(0, 70..91, EvictMode::Rotate)
            .unwrap();
        let refuse = |client: &mut Client, session| {
            let refused = client
                .engine
                .evict_span(session, 5..9, EvictMode::Rotate)
                .unwrap_err();
            assert!(matches!(refused, Error::CannotRotate(_)), "{refused}");
        };
        unchanged(&mut client, 0, |client| refuse(client, 0));
        // A stranger takes all pages but those of the rotated session.
        client.answer(3, &text(8 * PAGE_POSITIONS - 2, 30), 1);
        assert_eq!(client.engine.session_bits(1), None);
        unchanged(&mut client, 0, |client| refuse(client, 1));
    }
}

#[test]
fn a_page_that_several_rotated_sessions_have_is_room_for_others() {
    for options in rotatable_types() {
        let mut client = Client::new(&EngineOptions {
            kv_pages: 8,
            ..options
        });
        let mine = text(150, 1);
        client.answer(0, &mine, 1);
        client.answer(1, &parted(&mine, 128, 22, 2), 1);
        for session in [0, 1] {
            let rotated = client
                .engine
                .evict_span(session, 130..140, EvictMode::Rotate);
            rotated.unwrap();
        }
        // Strangers drive the two pages that both have out of the tree, and then need every page but one.
        for (session, len, seed) in [(2, 120, 5), (3, 250, 6), (4, 447, 7)] {
            client.answer(session, &text(len, seed), 1);
        }
        client.engine.check().unwrap();
    }
}

/// Rows that were moved still say what they heard from a span that was before them.
#[test]
fn a_quarantine_reaches_what_was_rotated_out_of_the_barred_text() {
    for options in rotatable_types() {
        for span_first in [true, false] {
            let (mut client, mine, _) = two_sessions(&options);
            let (scope, ids) = (client.scope.clone(), &mine.cached()[..91]);
            let bar = |client: &mut Client| {
                let running = OnQuarantine::Finish;
                let done = client.engine.quarantine(&scope, ids, 70, running).unwrap();
                client.engine.check().unwrap();
                done
            };
            let rotate =
                |client: &mut Client| client.engine.evict_span(0, 70..91, EvictMode::Rotate);
            if span_first {
                rotate(&mut client).unwrap();
                bar(&mut client);
            } else {
                bar(&mut client);
                let refused = rotate(&mut client).unwrap_err();
                assert!(matches!(refused, Error::CannotRotate(_)), "{refused}");
            }
            let left = without(&mine.cached(), &(70..91));
            let prompt = next(&left, &mine);
            let answer = client.answer(0, &prompt, 2);
            assert!(answer.matched() <= 70 && !answer.approximate, "{answer:?}");
            assert_eq!(answer.result(), cold(&options, &prompt, 2).result());
        }
    }
}

#[test]
fn a_quarantine_counts_and_ends_requests_that_go_on_from_what_was_rotated() {
    for options in rotatable_types() {
        for running in [OnQuarantine::Finish, OnQuarantine::Abort] {
            let (mut client, mine, _) = two_sessions(&options);
            client
                .engine
                .evict_span(0, 70..91, EvictMode::Rotate)
                .unwrap();
            let prompt = next(&without(&mine.cached(), &(70..91)), &mine);
            let id = client.ask(0, &prompt, 20);
            client.step();
            let scope = client.scope.clone();
            let ids = &mine.cached()[..91];
            let done = client.engine.quarantine(&scope, ids, 70, running).unwrap();
            let ended = running == OnQuarantine::Abort;
            assert_eq!((done.running, done.aborted.contains(&id)), (1, ended));
            client.run();
            let answer = client.answer(0, &prompt, 2);
            assert!(answer.matched() <= 70 && !answer.approximate, "{answer:?}");
            assert_eq!(answer.result(), cold(&options, &prompt, 2).result());
        }
    }
}
