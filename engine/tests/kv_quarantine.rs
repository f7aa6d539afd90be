//! After a quarantine nobody finds the span or anything after it, and everybody else finds what they had.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use std::ops::Range;

use common::kv::{Answer, Client, cold, common, element_types, parted, text};
use engine::{CachePolicy, EngineOptions, Error, OnQuarantine, PAGE_POSITIONS, Public, Scope};
use proptest::prelude::*;

const POLICIES: [CachePolicy; 3] = [CachePolicy::None, CachePolicy::Session, CachePolicy::Shared];

/// Within the first page, across pages, whole pages, many pages, and from the first position on.
const SPANS: [Range<usize>; 7] = [20..30, 50..70, 64..128, 70..71, 100..290, 0..5, 0..300];

/// Positions of the text that is barred in part.
const LEN: usize = 300;

fn bar(client: &mut Client, ids: &[u32], span: &Range<usize>) -> engine::Quarantined {
    let scope = client.scope.clone();
    let done = client
        .engine
        .quarantine(&scope, &ids[..span.end], span.start, OnQuarantine::Finish);
    client.engine.check().unwrap();
    done.unwrap()
}

/// How far a text must go on like the barred one to be barred: to the end of the page in which the span begins, or of the
/// span, if that comes first.
fn named(span: &Range<usize>) -> usize {
    span.end
        .min((span.start / PAGE_POSITIONS + 1) * PAGE_POSITIONS)
}

fn assert_right(options: &EngineOptions, answer: &Answer) {
    let expected = cold(options, &answer.prompt, answer.tokens.len());
    assert_eq!(answer.result(), expected.result());
}

#[test]
fn nobody_finds_the_span_or_what_follows_it_however_often_it_is_computed_again() {
    for options in element_types() {
        for cache in POLICIES {
            for span in SPANS {
                let options = EngineOptions { cache, ..options };
                let mut client = Client::new(&options);
                let whole = text(LEN, 1);
                client.answer(0, &whole, 3);
                client.answer(1, &whole, 3);
                bar(&mut client, &whole, &span);
                for round in 0..2 {
                    // The sessions that had it, a new one, and texts that go on differently below the span.
                    for (session, end) in
                        [(0, LEN), (1, LEN - 1), (2 + round, LEN), (9, named(&span))]
                    {
                        let prompt = parted(&whole, end, 8, round);
                        let answer = client.answer(session, &prompt, 2);
                        let context =
                            format!("{cache}, {span:?}, round {round}, session {session}");
                        assert!(
                            answer.matched() <= span.start,
                            "{context}: {}",
                            answer.matched()
                        );
                        assert_eq!(answer.barred_at, Some(span.start), "{context}");
                        if round == 1 {
                            assert_right(&options, &answer);
                        }
                        let answer = client.answer(session, &answer.said(), 2);
                        assert!(answer.matched() <= span.start, "{context}: its own answer");
                    }
                }
            }
        }
    }
}

#[test]
fn a_text_that_differs_where_the_span_begins_is_found_whole() {
    for options in element_types() {
        for cache in [CachePolicy::Session, CachePolicy::Shared] {
            for span in SPANS {
                let options = EngineOptions { cache, ..options };
                let mut client = Client::new(&options);
                let whole = text(LEN, 1);
                client.answer(0, &whole, 3);
                let last = named(&span) - 1;
                // Siblings from before the quarantine and one that comes after it.
                let sibling = |at: usize, seed| parted(&whole, at, LEN - at, seed);
                let before = [(1, sibling(span.start, 2)), (2, sibling(last, 3))];
                let mut answers: Vec<_> = before
                    .iter()
                    .map(|(session, prompt)| (*session, client.answer(*session, prompt, 3)))
                    .collect();
                bar(&mut client, &whole, &span);
                answers.push((3, client.answer(3, &sibling(last, 4), 3)));
                for (session, answer) in answers {
                    let more = [answer.said(), text(5, 6)].concat();
                    let again = client.answer(session, &more, 2);
                    assert_eq!(
                        again.own,
                        answer.cached().len(),
                        "{cache}, {span:?}, session {session}"
                    );
                    assert_eq!(
                        again.barred_at, None,
                        "{cache}, {span:?}, session {session}"
                    );
                    assert_right(&options, &again);
                }
            }
        }
    }
}

#[test]
fn the_text_before_the_span_is_still_found_to_its_last_position() {
    for options in element_types() {
        for (span, session) in SPANS
            .into_iter()
            .flat_map(|span| [(span.clone(), 0), (span, 1)])
        {
            let mut client = Client::new(&options);
            let whole = text(LEN, 1);
            client.answer(0, &whole, 3);
            bar(&mut client, &whole, &span);
            let prompt = parted(&whole, span.start, 30, 5);
            let answer = client.answer(session, &prompt, 2);
            assert_eq!(answer.matched(), span.start, "{span:?}, session {session}");
            assert_right(&options, &answer);
            let answer = client.answer(2, &whole, 2);
            assert_eq!(answer.matched(), span.start, "{span:?}");
        }
    }
}

#[test]
fn what_is_barred_before_it_was_ever_computed_is_barred() {
    for options in element_types() {
        for cache in POLICIES {
            let options = EngineOptions { cache, ..options };
            let mut client = Client::new(&options);
            let whole = text(LEN, 1);
            let done = bar(&mut client, &whole, &(70..91));
            assert_eq!((done.pages, done.running), (0, 0));
            client.answer(0, &whole, 2);
            let answer = client.answer(0, &whole, 2);
            assert_eq!(answer.barred_at, Some(70), "{cache}");
            assert!(answer.matched() <= 70, "{cache}: {}", answer.matched());
            assert_right(&options, &answer);
        }
    }
}

#[test]
fn the_pages_of_the_span_and_all_below_go_at_once() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let whole = text(LEN, 1);
        client.answer(0, &whole, 1);
        client.answer(1, &parted(&whole, 200, 100, 2), 1);
        // 0..64 | 64..128 | 128..192, then 192..256 and 256..300 twice over.
        assert_eq!(client.engine.occupancy().pages, 7);
        let done = bar(&mut client, &whole, &(128..140));
        assert_eq!(done.pages, 5);
        assert_eq!(client.engine.occupancy().pages, 2);
        let done = bar(&mut client, &whole, &(100..101));
        assert_eq!(done.pages, 1);
        // The 36 positions before it are a page of their own now.
        let occupancy = client.engine.occupancy();
        assert_eq!((occupancy.pages, occupancy.positions), (2, 100));
    }
}

#[test]
fn pins_and_leases_do_not_save_a_page() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let (scope, whole) = (client.scope.clone(), text(LEN, 1));
        client.answer(0, &whole, 1);
        let pin = client.engine.pin(&scope, 0, &whole).unwrap();
        let lease = client.engine.lease(&scope, 0, &whole[..128], 5).unwrap();
        assert_eq!((pin.positions, lease.positions), (256, 128));
        bar(&mut client, &whole, &(70..91));
        assert_eq!(
            client.engine.occupancy().pages,
            2,
            "the first page, and the head of the second"
        );
        assert_eq!(client.answer(1, &whole, 1).matched(), 70);
        assert_eq!(
            client.engine.pin(&scope, 0, &whole).map(|it| it.positions),
            Some(64)
        );
        assert!(client.engine.release(pin.id) && !client.engine.release(pin.id));
        assert_eq!(client.engine.expire(5), 1);
        client.engine.check().unwrap();
        assert_eq!(client.answer(2, &whole, 1).matched(), 70);
    }
}

/// A fleet at work: two requests with the span, one still reading its prompt, one decoding; a sibling; a queued one.
fn at_work(options: &EngineOptions) -> (Client, Vec<u64>, Vec<u64>) {
    let mut client = Client::new(&EngineOptions {
        chunk_tokens: 100,
        ..*options
    });
    let whole = text(LEN, 1);
    let decoding = client.ask(0, &whole, 40);
    let sibling = client.ask(1, &parted(&whole, 75, 100, 2), 40);
    for _ in 0..10 {
        client.step();
    }
    assert!(client.said(decoding).tokens.len() > 1);
    let reading = client.ask(2, &parted(&whole, LEN, 400, 3), 10);
    let queued = client.ask(3, &parted(&whole, LEN, 405, 4), 10);
    let stranger = client.ask(4, &text(90, 9), 10);
    client.step();
    (
        client,
        vec![decoding, reading, queued],
        vec![sibling, stranger],
    )
}

#[test]
fn running_requests_finish_with_the_bits_of_an_undisturbed_run() {
    for options in element_types() {
        for cache in POLICIES {
            let options = EngineOptions { cache, ..options };
            let (mut client, concerned, others) = at_work(&options);
            let done = bar(&mut client, &text(LEN, 1), &(70..91));
            assert_eq!((done.running, done.aborted), (3, vec![]), "{cache}");
            client.run();
            for id in concerned.iter().chain(&others) {
                assert_right(&options, client.said(*id));
            }
            // Nothing of what they computed is found.
            for (session, id) in concerned.iter().enumerate() {
                let said = client.said(*id).said();
                let answer = client.answer(session as u64, &said, 1);
                assert!(answer.matched() <= 70, "{cache}: {}", answer.matched());
            }
        }
    }
}

#[test]
fn running_requests_end_when_asked_to_and_their_pages_are_free() {
    for options in element_types() {
        for cache in POLICIES {
            let options = EngineOptions { cache, ..options };
            let (mut client, concerned, others) = at_work(&options);
            let (scope, whole) = (client.scope.clone(), text(LEN, 1));
            let done = client
                .engine
                .quarantine(&scope, &whole[..91], 70, OnQuarantine::Abort)
                .unwrap();
            client.engine.check().unwrap();
            let mut aborted = done.aborted.clone();
            aborted.sort_unstable();
            assert_eq!((done.running, aborted), (3, concerned.clone()), "{cache}");
            client.run();
            for id in concerned {
                assert_eq!(
                    client.said(id).logits,
                    None,
                    "{cache}: it ended without its last token"
                );
            }
            for id in &others {
                assert_right(&options, client.said(*id));
            }
            for session in 0..5 {
                client.engine.close_session(session);
            }
            // What is left is what the others would have left by themselves.
            let mut undisturbed = Client::new(&options);
            for id in others {
                undisturbed.answer(id, &client.said(id).prompt, client.said(id).tokens.len());
            }
            let [left, expected] = [&client, &undisturbed].map(|it| it.engine.occupancy());
            match cache {
                CachePolicy::Shared => assert_eq!(left.positions, expected.positions),
                _ => assert_eq!(left.pages, 0, "{cache}"),
            }
        }
    }
}

#[test]
fn a_span_that_a_request_is_still_saying_is_not_kept_once_it_is_said() {
    for options in element_types() {
        let prompt = text(50, 1);
        let said = cold(&options, &prompt, 100).said();
        let mut client = Client::new(&options);
        let running = client.ask(0, &prompt, 100);
        for _ in 0..5 {
            client.step();
        }
        let done = bar(&mut client, &said, &(80..90));
        assert_eq!(done.running, 0, "it has not said it yet");
        client.run();
        assert_eq!(client.said(running).said(), said);
        let answer = client.answer(1, &said, 1);
        assert_eq!(answer.barred_at, Some(80));
        assert!(answer.matched() <= 80, "{}", answer.matched());
        assert_right(&options, &answer);
    }
}

#[test]
fn another_tenants_equal_text_is_untouched() {
    for options in element_types() {
        for cache in [CachePolicy::Session, CachePolicy::Shared] {
            let mut client = Client::new(&EngineOptions { cache, ..options });
            let whole = text(LEN, 1);
            let scopes = ["a", "b"].map(Scope::tenant);
            for (session, scope) in (0..).zip(&scopes) {
                client.scope = scope.clone();
                client.answer(session, &whole, 3);
            }
            bar(&mut client, &whole, &(70..91)); // b's
            for (session, found, barred_at) in [(0, LEN, None), (1, 70, Some(70))] {
                client.scope = scopes[session].clone();
                let answer = client.answer(session as u64, &whole, 1);
                assert_eq!(
                    (answer.matched(), answer.barred_at),
                    (found, barred_at),
                    "{cache}"
                );
            }
        }
    }
}

#[test]
fn a_span_of_a_public_beginning_is_barred_for_every_tenant() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let whole = text(LEN, 1);
        let scope = |tenant: &str| Scope {
            tenant: tenant.to_owned(),
            public: Some(Public {
                name: "system".to_owned(),
                positions: 200,
            }),
        };
        for (session, tenant) in [(0, "a"), (1, "b")] {
            client.scope = scope(tenant);
            client.answer(session, &whole, 1);
        }
        client.scope = scope("a");
        // In the private part it is one tenant's matter.
        bar(&mut client, &whole, &(230..240));
        for (session, tenant, barred_at) in [(0, "a", Some(230)), (1, "b", None)] {
            client.scope = scope(tenant);
            let answer = client.answer(session, &whole, 1);
            let found = barred_at.unwrap_or(LEN);
            assert_eq!(
                (answer.matched(), answer.barred_at),
                (found, barred_at),
                "{tenant}"
            );
        }
        client.scope = scope("a");
        bar(&mut client, &whole, &(100..110));
        for (session, tenant) in [(0, "a"), (1, "b"), (2, "c")] {
            client.scope = scope(tenant);
            let answer = client.answer(session, &whole, 1);
            assert_eq!(
                (answer.matched(), answer.barred_at),
                (100, Some(100)),
                "{tenant}"
            );
            assert_right(&options, &answer);
        }
        // A text that only looks the same: nobody declared it public.
        client.scope = Scope::tenant("c");
        client.answer(3, &whole, 1);
        assert_eq!(client.answer(3, &whole, 1).barred_at, None);
    }
}

#[test]
fn a_full_pool_keeps_at_least_the_whole_pages_before_the_span() {
    for options in element_types() {
        let options = EngineOptions {
            kv_pages: 5,
            ..options
        };
        let mut client = Client::new(&options);
        let whole = text(LEN, 1);
        let running = client.ask(0, &whole, 20);
        for _ in 0..4 {
            client.step();
        }
        bar(&mut client, &whole, &(70..91));
        client.run();
        assert_right(&options, client.said(running));
        let answer = client.answer(0, &whole, 2);
        assert!(
            (64..=70).contains(&answer.matched()),
            "{}",
            answer.matched()
        );
        assert_right(&options, &answer);
    }
}

#[test]
fn a_span_that_is_none_is_refused() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let scope = client.scope.clone();
        for (ids, start) in [(vec![], 0), (text(10, 1), 10), (text(10, 1), 11)] {
            let refused = client
                .engine
                .quarantine(&scope, &ids, start, OnQuarantine::Finish);
            let refused = refused.unwrap_err();
            assert!(matches!(refused, Error::SpanOutOfRange { .. }), "{refused}");
        }
        assert_eq!(client.engine.kv_snapshot().tombstones, []);
    }
}

#[test]
fn the_snapshot_names_what_is_barred_and_after_which_page() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let whole = text(LEN, 1);
        client.answer(0, &whole, 1);
        bar(&mut client, &whole, &(100..290));
        bar(&mut client, &whole, &(100..290));
        let snapshot = client.engine.kv_snapshot();
        let [barred] = &snapshot.tombstones[..] else {
            panic!("barred twice is barred once: {:?}", snapshot.tombstones)
        };
        assert_eq!((barred.start, barred.positions), (100, 28));
        let first = snapshot
            .nodes
            .iter()
            .find(|node| node.parent.is_none())
            .unwrap();
        assert_eq!(barred.parent, Some(first.id));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_order_of_asking_and_barring_finds_what_is_barred(
        element in any::<prop::sample::Index>(), policy in 0..3_usize,
        acts in prop::collection::vec(
            (0..5_u64, 0..2_u64, 0..200_usize, 1..90_usize, 0..4_usize), 4..24),
    ) {
        let options = EngineOptions { cache: POLICIES[policy], ..*element.get(&element_types()) };
        let mut client = Client::new(&options);
        let mut barred: Vec<(Vec<u32>, usize)> = Vec::new();
        for (session, family, at, len, act) in acts {
            let family = text(300, family);
            if act == 0 {
                bar(&mut client, &family, &(at..at + len));
                barred.push((family[..named(&(at..at + len))].to_vec(), at));
                continue;
            }
            let prompt = parted(&family, at, len, act as u64);
            let answer = client.answer(session, &prompt, act);
            let expected = barred.iter().filter(|(ids, _)| prompt.starts_with(ids));
            let expected = expected.map(|(_, start)| *start).min();
            prop_assert_eq!(answer.barred_at, expected);
            prop_assert!(answer.matched() <= expected.unwrap_or(usize::MAX));
            let right = cold(&options, &prompt, act);
            prop_assert_eq!(answer.result(), right.result());
            // Nothing is found that begins like a barred text and goes beyond it.
            for (ids, start) in &barred {
                let probe = [&ids[..], &[254]].concat();
                let answer = client.answer(50, &probe, 1);
                prop_assert!(answer.matched() <= *start && common(&answer.prompt, ids) == ids.len());
            }
        }
    }
}
