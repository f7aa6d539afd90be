//! A span taken out of a session exactly, as if it never was there, and the refusals of both ways to take one out.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use std::ops::Range;

use common::kv::{
    Client, DECODE, can_rotate, cold, common, element_types, next, text, two_sessions, unchanged,
    without,
};
use engine::{CachePolicy, EngineOptions, Error, EvictMode, OnQuarantine};

/// Spans at the start, in the middle and at the tail, within a page and across, aligned and not, and everything.
const SPANS: [Range<usize>; 11] = [
    0..10,
    0..64,
    0..70,
    64..128,
    70..91,
    50..140,
    128..129,
    199..203,
    192..203,
    130..203,
    0..203,
];

#[test]
fn an_evicted_span_was_never_there() {
    for options in element_types() {
        for cache in [CachePolicy::Session, CachePolicy::Shared] {
            for span in SPANS {
                let options = EngineOptions { cache, ..options };
                let (mut client, mine, theirs) = two_sessions(&options);
                let context = format!("{}, {cache}, {span:?}", client.engine.kv_dtype());
                let neighbour = client.engine.session_bits(1).unwrap();
                let (left, before) = (without(&mine.cached(), &span), client.engine.counters());
                let evicted = client
                    .engine
                    .evict_span(0, span.clone(), EvictMode::Exact)
                    .unwrap();
                client.engine.check().unwrap();

                let after = client.engine.counters();
                let known = match cache {
                    CachePolicy::Session => 0,
                    _ => common(&left, &theirs.cached()),
                };
                let known = known.max(common(&left, &mine.cached()));
                let computed = after.prefill_tokens_computed - before.prefill_tokens_computed;
                assert!(evicted.exact && evicted.rotated_tokens == 0, "{context}");
                assert_eq!(evicted.positions, left.len(), "{context}");
                assert_eq!(evicted.recomputed_tokens, left.len() - known, "{context}");
                assert_eq!(evicted.recomputed_tokens as u64, computed, "{context}");

                // The neighbour has what it had.
                assert_eq!(client.engine.session_bits(1), Some(neighbour), "{context}");
                let more = [theirs.said(), text(9, 5)].concat();
                let answer = client.answer(1, &more, 2);
                assert_eq!(answer.own, theirs.cached().len(), "{context}");
                assert_eq!(
                    answer.result(),
                    cold(&options, &more, 2).result(),
                    "{context}"
                );

                // The session goes on as one that never saw the span, in every bit it answers and keeps.
                let prompt = next(&left, &mine);
                let answer = client.answer(0, &prompt, DECODE);
                assert_eq!((answer.own, answer.carried), (left.len(), 1), "{context}");
                assert!(!answer.approximate && answer.computed == 40, "{context}");
                let mut never_saw = Client::new(&options);
                let expected = never_saw.answer(0, &prompt, DECODE);
                assert_eq!(answer.result(), expected.result(), "{context}");
                let bits =
                    [&mut client, &mut never_saw].map(|it| it.engine.session_bits(0).unwrap());
                assert!(bits[0] == bits[1], "{context}: cached bits differ");
            }
        }
    }
}

#[test]
fn what_was_evicted_is_not_kept_for_this_session_alone() {
    for options in element_types() {
        let (mut client, mine, _) = two_sessions(&options);
        client
            .engine
            .evict_span(0, 160..180, EvictMode::Exact)
            .unwrap();
        let answer = client.answer(5, &mine.cached(), 1);
        assert!(
            answer.matched() <= 160,
            "{} of what was evicted",
            answer.matched()
        );
    }
}

#[test]
fn keeping_the_span_moves_the_logits() {
    for options in element_types() {
        let (mut client, mine, _) = two_sessions(&options);
        let kept = client.answer(0, &next(&mine.cached(), &mine), 1);
        let left = without(&mine.cached(), &(70..91));
        assert_ne!(kept.logits, cold(&options, &next(&left, &mine), 1).logits);
    }
}

#[test]
fn a_request_in_flight_does_not_notice() {
    for options in element_types() {
        for mode in [EvictMode::Exact, EvictMode::Rotate] {
            let (mut client, mine, theirs) = two_sessions(&options);
            let running = [theirs.said(), text(30, 8)].concat();
            let running = client.ask(1, &running, 20);
            let same = client.ask(2, &[mine.said(), text(30, 9)].concat(), 20);
            for _ in 0..5 {
                client.step();
            }
            let evicted = client.engine.evict_span(0, 60..150, mode);
            assert!(evicted.is_ok() || !can_rotate(&options));
            client.run();
            for id in [running, same] {
                let answer = client.said(id);
                assert_eq!(answer.result(), cold(&options, &answer.prompt, 20).result());
                assert!(!answer.approximate);
            }
        }
    }
}

#[test]
fn spans_and_sessions_that_are_not_there_are_refused_by_name() {
    for options in element_types() {
        let (mut client, mine, _) = two_sessions(&options);
        let len = mine.cached().len();
        for mode in [EvictMode::Exact, EvictMode::Rotate] {
            unchanged(&mut client, 0, |client| {
                let reversed = Range { start: 9, end: 3 };
                for span in [
                    5..5,
                    reversed,
                    0..len + 1,
                    len..len + 1,
                    len + 5..len + 9,
                    0..usize::MAX,
                ] {
                    let refused = client.engine.evict_span(0, span.clone(), mode).unwrap_err();
                    let named = matches!(refused, Error::SpanOutOfRange { start, end, len: all }
                        if (start, end, all) == (span.start, span.end, len));
                    assert!(named, "{refused}");
                }
                let refused = client.engine.evict_span(9, 0..1, mode).unwrap_err();
                assert!(matches!(refused, Error::UnknownSession(9)), "{refused}");
            });
            client.ask(0, &mine.said(), 2);
            for _ in 0..2 {
                let refused = client.engine.evict_span(0, 0..1, mode).unwrap_err();
                assert!(
                    matches!(refused, Error::SessionBusy(0)),
                    "queued or running: {refused}"
                );
                client.step();
            }
            client.run();
            let (mut other, mine, _) = two_sessions(&options);
            std::mem::swap(&mut client, &mut other);
            assert_eq!(mine.cached().len(), len);
        }
        client.engine.close_session(1);
        let refused = client
            .engine
            .evict_span(1, 0..1, EvictMode::Exact)
            .unwrap_err();
        assert!(matches!(refused, Error::UnknownSession(1)), "{refused}");
    }
}

#[test]
fn without_a_cache_there_is_no_session_to_take_a_span_out_of() {
    for options in element_types() {
        let (mut client, ..) = two_sessions(&EngineOptions {
            cache: CachePolicy::None,
            ..options
        });
        for mode in [EvictMode::Exact, EvictMode::Rotate] {
            let refused = client.engine.evict_span(0, 0..9, mode).unwrap_err();
            assert!(matches!(refused, Error::UnknownSession(0)), "{refused}");
        }
    }
}

#[test]
fn a_span_that_is_barred_can_be_taken_out_and_the_session_is_found_again() {
    for options in element_types() {
        let (mut client, mine, _) = two_sessions(&options);
        let (scope, span) = (client.scope.clone(), 70..91);
        let ids = &mine.cached()[..span.end];
        client
            .engine
            .quarantine(&scope, ids, span.start, OnQuarantine::Finish)
            .unwrap();
        client
            .engine
            .evict_span(0, span.clone(), EvictMode::Exact)
            .unwrap();
        let left = without(&mine.cached(), &span);
        let prompt = next(&left, &mine);
        let answer = client.answer(0, &prompt, 2);
        assert_eq!((answer.own, answer.barred_at), (left.len(), None));
        assert_eq!(answer.result(), cold(&options, &prompt, 2).result());
    }
}

#[test]
fn no_room_to_compute_again_is_a_refusal_and_the_session_is_still_there() {
    for options in element_types() {
        let mut client = Client::new(&EngineOptions {
            kv_pages: 8,
            ..options
        });
        let scope = client.scope.clone();
        let mine = client.answer(0, &text(200, 1), DECODE);
        let theirs = client.answer(1, &text(255, 2), 2);
        for (session, answer) in [(0, &mine), (1, &theirs)] {
            let held = client.engine.pin(&scope, session, &answer.cached());
            assert!(held.is_some_and(|held| held.positions >= 192));
        }
        let refused = client
            .engine
            .evict_span(0, 10..70, EvictMode::Exact)
            .unwrap_err();
        assert!(
            matches!(refused, Error::PagesExhausted { capacity: 8, .. }),
            "{refused}"
        );
        client.engine.check().unwrap();
        let answer = client.answer(0, &mine.said(), 1);
        assert!(answer.own >= 192, "{}", answer.own);
        assert_eq!(answer.result(), cold(&options, &mine.said(), 1).result());
    }
}
