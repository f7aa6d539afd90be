//! Pages of a text one knows, and sessions put away and brought back: what was cached is found, what is not the text is refused.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::kv::{Client, cold, element_types, parted, text, unchanged};
use engine::{
    CheckedPage, EngineOptions, Error, EvictMode, ImageFault, OnQuarantine, PAGE_POSITIONS, Scope,
    SessionText,
};

/// Positions of the text, four whole pages and a part of a fifth.
const LEN: usize = 300;

fn donor(options: &EngineOptions) -> Client {
    let mut client = Client::new(options);
    client.answer(0, &text(LEN, 1), 3);
    client
}

/// Checked images of the text's pages from number `from` on, as far as the client has them.
fn pages(client: &Client, ids: &[u32], from: usize) -> Vec<CheckedPage> {
    let (scope, layout) = (&client.scope, client.engine.layout());
    let copies = client.engine.copy_pages(scope, ids, &mut |_| true).unwrap();
    let copies = copies.into_iter().skip(from);
    let read = |bytes| CheckedPage::read(bytes, layout).unwrap();
    copies.map(|copy| read(copy.image())).collect()
}

#[test]
fn pages_after_cached_ones_are_taken_in_and_answer_as_a_cold_run() {
    for options in element_types() {
        let (donor, whole) = (donor(&options), text(LEN, 1));
        for len in [64_usize, 65, 128, 129, 192, 256, 300] {
            for from in 0..len.div_ceil(PAGE_POSITIONS) {
                let mut client = Client::new(&options);
                let scope = client.scope.clone();
                if from > 0 {
                    client.answer(7, &whole[..from * PAGE_POSITIONS], 1);
                }
                let given = pages(&donor, &whole[..len], from);
                let taken = client.engine.take_in(&scope, &whole[..len], from, &given);
                assert_eq!(taken.unwrap().pages, given.len(), "{len} from {from}");
                client.engine.check().unwrap();
                let answer = client.answer(0, &parted(&whole, len, 30, 2), 3);
                assert_eq!((answer.instance, answer.computed), (len, 30));
                let expected = cold(&options, &answer.prompt, 3);
                assert_eq!(answer.result(), expected.result(), "{len} from {from}");
            }
        }
    }
}

#[test]
fn a_copy_is_made_of_wanted_pages_only_and_none_of_a_barred_text() {
    let options = element_types()[1];
    let (mut donor, whole) = (donor(&options), text(LEN, 1));
    let scope = donor.scope.clone();
    let keys = donor.engine.page_keys(&scope, &whole).unwrap();
    let mut second = |key: &engine::PageKey| *key == keys[1];
    let copies = donor.engine.copy_pages(&scope, &whole, &mut second);
    let copied: Vec<_> = copies.unwrap().iter().map(engine::PageCopy::key).collect();
    assert_eq!(copied, [keys[1]]);
    let finish = OnQuarantine::Finish;
    donor
        .engine
        .quarantine(&scope, &whole[..70], 66, finish)
        .unwrap();
    assert_eq!(donor.engine.findable(&scope, &whole), 66);
    assert!(pages(&donor, &whole, 0).len() <= 2);
}

#[test]
fn another_text_under_the_same_key_is_told_by_its_ids() {
    // As if two texts had one hash: the image has the key that is asked for, and the ids and rows of another text.
    let options = element_types()[1];
    let (asked, other) = (text(PAGE_POSITIONS, 1), text(PAGE_POSITIONS, 2));
    let mut donor = Client::new(&options);
    donor.answer(0, &other, 1);
    let mut client = Client::new(&options);
    let (scope, layout) = (client.scope.clone(), client.engine.layout());
    let key = client.engine.page_keys(&scope, &asked).unwrap()[0];
    let mut image = donor.engine.export(&scope, &other).unwrap().remove(0);
    image.truncate(image.len() - 32);
    image[32..64].copy_from_slice(key.bytes());
    let digest = blake3::hash(&image);
    image.extend(digest.as_bytes());
    let page = [CheckedPage::read(image, layout).unwrap()];
    unchanged(&mut client, 0, |client| {
        let refused = client.engine.take_in(&scope, &asked, 0, &page).unwrap_err();
        assert!(
            matches!(
                refused,
                Error::PageImage {
                    index: 0,
                    fault: ImageFault::Ids
                }
            ),
            "{refused}"
        );
    });
}

/// What is wrong; scope, text, first page and pages given.
type Case = (&'static str, Scope, Vec<u32>, usize, Vec<CheckedPage>);

#[test]
fn pages_of_another_text_place_or_number_are_refused_and_nothing_changes() {
    for options in element_types() {
        let (donor, whole) = (donor(&options), text(LEN, 1));
        let (scope, other) = (donor.scope.clone(), parted(&whole, 100, 200, 3));
        let mut client = Client::new(&options);
        client.answer(0, &text(100, 7), 2);
        let all = || pages(&donor, &whole, 0);
        let cases: Vec<Case> = vec![
            ("another text", scope.clone(), other, 0, all()),
            (
                "another tenant",
                Scope::tenant("other"),
                whole.clone(),
                0,
                all(),
            ),
            (
                "a page too few",
                scope.clone(),
                whole.clone(),
                0,
                pages(&donor, &whole, 1),
            ),
            (
                "a page too many",
                scope.clone(),
                whole[..200].to_vec(),
                0,
                all(),
            ),
            (
                "a later place",
                scope.clone(),
                whole.clone(),
                2,
                pages(&donor, &whole, 2),
            ),
            (
                "turned round",
                scope.clone(),
                whole.clone(),
                0,
                all().into_iter().rev().collect(),
            ),
        ];
        for (what, scope, ids, from, given) in cases {
            unchanged(&mut client, 0, |client| {
                let refused = client.engine.take_in(&scope, &ids, from, &given);
                assert!(refused.is_err(), "{what}");
            });
        }
    }
}

#[test]
fn a_resumed_session_goes_on_as_the_uninterrupted_one() {
    for options in element_types() {
        for (prefix, decode) in [(1, 1), (50, 20), (64, 1), (127, 2), (128, 65), (200, 30)] {
            let mut stays = Client::new(&options);
            let said = stays.answer(0, &text(prefix, 1), decode).said();
            let left = stays.engine.session_text(0).unwrap();
            let mut moved = Client::new(&options);
            let (scope, taken) = (moved.scope.clone(), pages(&stays, &left.ids, 0));
            moved.engine.take_in(&scope, &left.ids, 0, &taken).unwrap();
            moved.engine.resume(0, left).unwrap();
            moved.engine.check().unwrap();
            let prompt = [&said[..], &text(9, 2)].concat();
            let (here, there) = (stays.answer(0, &prompt, 40), moved.answer(0, &prompt, 40));
            assert_eq!(here, there, "{prefix}, {decode}: counts, ids and bits");
            assert_eq!((there.carried, there.computed), (1, 9));
        }
    }
}

#[test]
fn what_is_taken_in_for_a_request_is_told_apart_from_what_was_here() {
    let options = element_types()[1];
    let (donor, whole) = (donor(&options), text(LEN, 1));
    let mut client = Client::new(&options);
    let scope = client.scope.clone();
    client.answer(0, &whole[..64], 1);
    let taken = pages(&donor, &whole[..256], 1);
    client
        .engine
        .take_in(&scope, &whole[..256], 1, &taken)
        .unwrap();
    client.restored = 192;
    let answer = client.answer(0, &whole, 2);
    assert_eq!((answer.own, answer.instance, answer.store), (64, 0, 192));
    client.restored = 0;
    let later = client.answer(1, &whole, 2);
    assert_eq!((later.own, later.instance, later.store), (0, LEN, 0));
}

#[test]
fn a_session_that_is_busy_there_barred_rotated_or_of_other_ids_is_refused() {
    let options = EngineOptions {
        chunk_tokens: 64,
        ..element_types()[0]
    };
    let whole = text(LEN, 1);
    let session = |ids: &[u32], pending| SessionText {
        scope: Scope::default(),
        ids: ids.to_vec(),
        pending,
    };
    let mut client = Client::new(&options);
    assert!(matches!(
        client.engine.session_text(3),
        Err(Error::UnknownSession(3))
    ));
    client.ask(1, &whole, 2);
    client.step();
    assert!(matches!(
        client.engine.session_text(1),
        Err(Error::SessionBusy(1))
    ));
    let refused = client.engine.resume(1, session(&whole, Some(1)));
    assert!(matches!(refused, Err(Error::SessionBusy(1))));
    client.run();
    let refused = client.engine.resume(1, session(&whole, None));
    assert!(matches!(refused, Err(Error::Session { session: 1, .. })));
    let refused = client.engine.resume(2, session(&[], None));
    assert!(matches!(refused, Err(Error::EmptyPrompt)));
    for text in [
        session(&[1, 4_000_000], None),
        session(&[1], Some(4_000_000)),
    ] {
        let refused = client.engine.resume(2, text);
        assert!(matches!(refused, Err(Error::TokenOutOfRange { .. })));
    }
    let scope = client.scope.clone();
    let barred = client
        .engine
        .quarantine(&scope, &whole[..20], 10, OnQuarantine::Finish);
    barred.unwrap();
    let refused = client.engine.resume(2, session(&whole, Some(1)));
    assert!(matches!(refused, Err(Error::ImportBarred { position: 10 })));
    client.answer(5, &text(150, 5), 2);
    client
        .engine
        .evict_span(5, 20..40, EvictMode::Rotate)
        .unwrap();
    assert!(matches!(
        client.engine.session_text(5),
        Err(Error::Session { session: 5, .. })
    ));
}
