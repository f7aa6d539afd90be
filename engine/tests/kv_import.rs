//! Pages taken out of one engine and into another: the same bits as a cold run, and everything else is refused.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::kv::{
    Answer, Client, cold, element_types, engine, next, parted, text, unchanged, without,
};
use engine::{
    CachePolicy, Counters, EngineOptions, Error, EvictMode, ImageFault, Imported, OnQuarantine,
    PAGE_POSITIONS, Public, Scope,
};

/// Around page borders, and within pages.
const LENGTHS: [usize; 9] = [1, 63, 64, 65, 127, 128, 129, 200, 300];

/// Positions of the text that goes from engine to engine.
const LEN: usize = 300;

/// The client of an engine that has computed the text.
fn donor(options: &EngineOptions) -> Client {
    let mut client = Client::new(options);
    client.answer(0, &text(LEN, 1), 3);
    client
}

fn export(client: &Client, ids: &[u32]) -> Vec<Vec<u8>> {
    client.engine.export(&client.scope, ids).unwrap()
}

fn import(client: &mut Client, images: &[Vec<u8>]) -> engine::Result<Imported> {
    let imported = client.engine.import(&client.scope, images);
    client.engine.check().unwrap();
    imported
}

fn assert_right(options: &EngineOptions, answer: &Answer) {
    let expected = cold(options, &answer.prompt, answer.tokens.len());
    assert_eq!(answer.result(), expected.result());
}

/// Positions that images have in all.
fn positions(images: &[Vec<u8>]) -> usize {
    let each = images.iter().map(|image| usize::from(image[28])); // the least byte of the number
    each.sum()
}

#[test]
fn an_imported_text_of_any_length_answers_as_a_cold_run() {
    for options in element_types() {
        let donor = donor(&options);
        let whole = text(LEN, 1);
        for len in LENGTHS {
            let images = export(&donor, &whole[..len]);
            let expected = Imported {
                positions: len,
                pages: len.div_ceil(PAGE_POSITIONS),
            };
            for own in [0, 1, 90] {
                let mut client = Client::new(&options);
                assert_eq!(import(&mut client, &images).unwrap(), expected);
                assert_eq!(client.engine.occupancy().positions, len);
                assert!(export(&client, &whole) == images, "the same bits come out");
                let prompt = parted(&whole, len, own, 2);
                let answer = client.answer(0, &prompt, 3);
                let context = format!("{}, {len} and {own}", client.engine.kv_dtype());
                assert_eq!((answer.own, answer.instance), (0, len), "{context}");
                assert_eq!(answer.computed, own, "{context}");
                let expected = cold(&options, &answer.prompt, 3);
                assert_eq!(answer.result(), expected.result(), "{context}");
            }
        }
    }
}

#[test]
fn imported_rows_are_not_counted_as_computed_and_exporting_changes_nothing() {
    for options in element_types() {
        let donor = donor(&options);
        let before = (donor.engine.counters(), donor.engine.kv_snapshot());
        let images = export(&donor, &text(LEN, 1));
        assert!(before == (donor.engine.counters(), donor.engine.kv_snapshot()));
        let mut client = Client::new(&options);
        import(&mut client, &images).unwrap();
        assert_eq!(client.engine.counters(), Counters::default());
    }
}

#[test]
fn what_was_decoded_and_what_was_imported_before_leave_as_well() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let said = client.answer(0, &text(50, 1), 100).said();
        for _ in 0..2 {
            let images = export(&client, &said);
            client = Client::new(&options);
            let imported = import(&mut client, &images).unwrap();
            assert_eq!(imported.positions, 149, "the last token has no KV");
        }
        let answer = client.answer(0, &[&said[..], &text(9, 2)].concat(), 3);
        assert_eq!(answer.instance, 149);
        assert_right(&options, &answer);
    }
}

#[test]
fn a_text_that_is_cached_is_not_taken_in_again() {
    for options in element_types() {
        let (donor, whole) = (donor(&options), text(LEN, 1));
        // What is there, how much comes, and how many pages that takes.
        let cases = [
            (300, 300, 0),
            (300, 130, 0),
            (128, 128, 0),
            (130, 300, 3),
            (130, 140, 1),
            (64, 300, 4),
            (40, 64, 1),
        ];
        for (cached, len, pages) in cases {
            let (mut imported, mut computed) = (Client::new(&options), Client::new(&options));
            import(&mut imported, &export(&donor, &whole[..cached])).unwrap();
            computed.answer(0, &whole[..cached], 1);
            for client in [&mut imported, &mut computed] {
                let images = export(&donor, &whole[..len]);
                let expected = Imported {
                    positions: len,
                    pages,
                };
                assert_eq!(import(client, &images).unwrap(), expected);
                assert_eq!(import(client, &images).unwrap().pages, 0);
                let held = len.max(cached).div_ceil(PAGE_POSITIONS);
                assert_eq!(client.engine.occupancy().pages, held, "{cached}, {len}");
                let answer = client.answer(1, &whole, 2);
                assert_eq!(answer.matched(), len.max(cached));
                assert_right(&options, &answer);
            }
        }
    }
}

#[test]
fn a_text_imported_while_a_request_computes_it_ends_as_one_copy() {
    for options in element_types() {
        let (donor, whole) = (donor(&options), text(LEN, 1));
        for steps in 0..6 {
            let mut client = Client::new(&EngineOptions {
                chunk_tokens: 64,
                ..options
            });
            let asked = client.ask(0, &whole, 3);
            for _ in 0..steps {
                client.step();
            }
            import(&mut client, &export(&donor, &whole[..290])).unwrap();
            let other = client.ask(1, &parted(&whole, 280, 30, 2), 3);
            client.run();
            for id in [asked, other] {
                assert_right(&options, client.said(id));
            }
            assert!(client.said(other).instance >= 280);
            // Four whole pages once, and the two ends of 302 and of 312 positions.
            let pages = client.engine.occupancy().pages;
            assert_eq!(pages, 6, "imported after {steps} steps");
        }
    }
}

#[test]
fn neither_a_barred_span_nor_anything_below_is_imported_however_often_it_is_computed() {
    for options in element_types() {
        let (donor, whole) = (donor(&options), text(LEN, 1));
        for (start, end) in [(20, 30), (50, 70), (64, 128), (70, 71), (100, 290), (0, 5)] {
            let named = end.min((start / PAGE_POSITIONS + 1) * PAGE_POSITIONS);
            let mut client = Client::new(&options);
            let scope = client.scope.clone();
            let finish = OnQuarantine::Finish;
            let barred = client
                .engine
                .quarantine(&scope, &whole[..end], start, finish);
            barred.unwrap();
            for round in 0..3 {
                for len in [named, named + 1, 129, LEN]
                    .into_iter()
                    .filter(|it| *it >= named)
                {
                    let images = export(&donor, &whole[..len]);
                    unchanged(&mut client, 0, |client| {
                        let refused = import(client, &images).unwrap_err();
                        let Error::ImportBarred { position } = refused else {
                            panic!("{refused}")
                        };
                        assert_eq!(position, start, "{start}..{end}, round {round}");
                    });
                }
                let answer = client.answer(0, &whole, 2);
                assert!(answer.matched() <= start);
                assert_right(&options, &answer);
                // A benign text goes on like the barred one almost to the end of what is named.
                client.answer(1, &parted(&whole, named - 1, 9, 5), 1);
                let left = positions(&export(&client, &whole));
                assert!(left <= start, "{left} of {start} positions leave");
            }
        }
    }
}

#[test]
fn what_comes_before_a_barred_span_and_what_parts_from_it_is_imported() {
    for options in element_types() {
        for (start, end) in [(20, 30), (64, 128), (70, 71), (100, 290)] {
            let (mut donor, whole) = (donor(&options), text(LEN, 1));
            let benign = parted(&whole, start, 150, 3);
            donor.answer(1, &benign, 1);
            let mut client = Client::new(&options);
            let scope = client.scope.clone();
            let finish = OnQuarantine::Finish;
            let barred = client
                .engine
                .quarantine(&scope, &whole[..end], start, finish);
            barred.unwrap();
            let images = export(&donor, &whole[..start]);
            assert_eq!(import(&mut client, &images).unwrap().positions, start);
            let answer = client.answer(0, &whole, 2);
            assert_eq!(answer.matched(), start);
            assert_right(&options, &answer);
            let images = export(&donor, &benign);
            let imported = import(&mut client, &images).unwrap();
            assert_eq!(imported.positions, benign.len());
            let answer = client.answer(1, &[&benign[..], &[1]].concat(), 2);
            assert_eq!(answer.matched(), benign.len());
            assert_right(&options, &answer);
        }
    }
}

#[test]
fn rotated_pages_and_what_is_computed_after_them_never_leave() {
    for options in common::kv::rotatable_types() {
        let span = 70..90;
        let (mut client, mine, _) = common::kv::two_sessions(&options);
        let mode = EvictMode::Rotate;
        client.engine.evict_span(0, span.clone(), mode).unwrap();
        let answer = client.answer(0, &next(&without(&mine.cached(), &span), &mine), 3);
        assert!(answer.approximate);
        let images = export(&client, &answer.said());
        let mut other = Client::new(&options);
        let imported = import(&mut other, &images).unwrap();
        assert_eq!(imported.positions, span.start);
    }
}

#[test]
fn a_public_beginning_goes_from_tenant_to_tenant_and_what_follows_does_not() {
    for options in element_types() {
        let whole = text(LEN, 1);
        let scope = |tenant: &str| Scope {
            tenant: tenant.to_owned(),
            public: Some(Public {
                name: "system".to_owned(),
                positions: 130,
            }),
        };
        let mut donor = Client::new(&options);
        donor.scope = scope("a");
        donor.answer(0, &whole, 1);
        let images = export(&donor, &whole);
        let mut client = Client::new(&options);
        client.scope = scope("b");
        let refused = import(&mut client, &images).unwrap_err();
        let key = |it: &Error| matches!(it, Error::PageImage { index: 2, fault } if *fault == ImageFault::Key);
        assert!(key(&refused), "{refused}");
        let imported = import(&mut client, &images[..2]).unwrap();
        assert_eq!(imported.positions, 128);
        let answer = client.answer(0, &whole, 2);
        assert_eq!(answer.instance, 128);
        assert_right(&options, &answer);
    }
}

#[test]
fn an_import_evicts_by_policy_and_keeps_what_it_goes_on_from() {
    for options in element_types() {
        let (donor, whole) = (donor(&options), text(LEN, 1));
        let images = export(&donor, &whole);
        let mut client = Client::new(&EngineOptions {
            kv_pages: 6,
            ..options
        });
        // What the import goes on from was used before the others, and would be the first to go.
        for (session, seed, len) in [(0, 1, 128), (1, 8, 120), (2, 9, 120)] {
            client.answer(session, &text(len, seed), 1);
        }
        let scope = client.scope.clone();
        let pins = [8, 9].map(|seed| client.engine.pin(&scope, 0, &text(120, seed)).unwrap());
        unchanged(&mut client, 2, |client| {
            let refused = import(client, &images).unwrap_err();
            let expected = matches!(refused, Error::PagesExhausted { needed: 3, .. });
            assert!(expected, "{refused}");
        });
        for pin in pins {
            client.engine.release(pin.id);
        }
        let imported = import(&mut client, &images).unwrap();
        assert_eq!((imported.positions, imported.pages), (300, 3));
        let left = |seed| positions(&export(&client, &text(120, seed)));
        assert_eq!((left(8), left(9)), (0, 64), "the oldest went first");
        let answer = client.answer(3, &whole, 1);
        assert_eq!(answer.instance, 300);
        assert_right(&options, &answer);
    }
}

#[test]
fn an_import_takes_no_page_that_is_held_or_that_a_running_request_needs() {
    for options in element_types() {
        let (donor, whole) = (donor(&options), text(LEN, 1));
        let images = export(&donor, &whole);
        let mut client = Client::new(&EngineOptions {
            kv_pages: 8,
            chunk_tokens: 64,
            ..options
        });
        let exhausted = |client: &mut Client| {
            unchanged(client, 0, |client| {
                let refused = import(client, &images).unwrap_err();
                let expected = matches!(refused, Error::PagesExhausted { capacity: 8, .. });
                assert!(expected, "{refused}");
            });
        };
        let idle = client.answer(0, &text(128, 5), 1);
        let scope = client.scope.clone();
        let pin = client.engine.pin(&scope, 0, &idle.prompt).unwrap();
        let running = client.ask(1, &text(100, 6), 5);
        client.step();
        exhausted(&mut client); // two pages pinned, one in use and one promised
        client.run();
        assert_right(&options, client.said(running));
        client.engine.release(pin.id);
        assert_eq!(import(&mut client, &images).unwrap().pages, 5);
        let answer = client.answer(2, &whole, 1);
        assert_eq!(answer.instance, LEN);
        assert_right(&options, &answer);
    }
}

#[test]
fn a_refused_import_evicts_nothing_where_rotated_pages_look_like_room() {
    for options in common::kv::rotatable_types() {
        let images = export(&donor(&options), &text(LEN, 1));
        for runs in [false, true] {
            let mut client = Client::new(&EngineOptions {
                kv_pages: 6,
                ..options
            });
            let scope = client.scope.clone();
            let mine = client.answer(0, &text(150, 2), 1);
            let (mode, span) = (EvictMode::Rotate, 130..140);
            client.engine.evict_span(0, span.clone(), mode).unwrap();
            client.answer(1, &text(70, 3), 1);
            // Two pages of the rotated text are the tree's as well, and stay: something holds them.
            if runs {
                let prompt = without(&mine.cached(), &span);
                let running = client.ask(0, &prompt, 20);
                client.step();
                assert!(client.said(running).approximate);
            } else {
                client.engine.pin(&scope, 0, &mine.prompt).unwrap();
            }
            unchanged(&mut client, 1, |client| {
                let refused = import(client, &images).unwrap_err();
                let expected = matches!(refused, Error::PagesExhausted { needed: 5, .. });
                assert!(expected, "{refused}");
            });
            client.run();
        }
    }
}

#[test]
fn only_engines_that_share_pages_exchange_them() {
    for options in element_types() {
        let images = export(&donor(&options), &text(LEN, 1));
        for cache in [CachePolicy::None, CachePolicy::Session] {
            let mut client = Client::new(&EngineOptions { cache, ..options });
            client.answer(0, &text(LEN, 1), 1);
            let refused = import(&mut client, &images).unwrap_err();
            assert!(matches!(refused, Error::NotShared(_)), "{refused}");
            let refused = client.engine.export(&client.scope, &text(LEN, 1));
            assert!(matches!(refused, Err(Error::NotShared(_))));
        }
        let mut empty = engine(&options);
        let (scope, nothing) = (Scope::default(), Imported::default());
        let images = empty.export(&scope, &text(LEN, 1)).unwrap();
        assert!(images.is_empty());
        assert_eq!(empty.import(&scope, &images).unwrap(), nothing);
    }
}
