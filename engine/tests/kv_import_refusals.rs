//! Whatever is said to be a page and is not one of this engine's is refused by name, and the engine stays as it was.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::kv::{Client, cold, element_types, text, unchanged};
use engine::{Engine, EngineOptions, Error, ImageFault, Mode, Model, Scope};

/// Two whole pages and a part of a third.
const LEN: usize = 150;
/// Where in an image its parts stand: number after number behind the magic, then keys, then ids.
const VERSION: usize = 8;
const TYPE: usize = 12;
const LAYERS: usize = 16;
const POSITIONS: usize = 28;
const KEY: usize = 32;
const PARENT: usize = 64;
const IDS: usize = 96;
const DIGEST_BYTES: usize = 32;
/// Single bytes that are changed in images of whole pages.
const FLIPS: u64 = 4000;

fn images_of(options: &EngineOptions, scope: &Scope, ids: &[u32]) -> Vec<Vec<u8>> {
    let mut client = Client::new(options);
    client.scope = scope.clone();
    client.answer(0, ids, 1);
    client.engine.export(scope, ids).unwrap()
}

/// The images with `change` made to that at `index`, and its digest made to fit.
fn signed(images: &[Vec<u8>], index: usize, change: impl FnOnce(&mut Vec<u8>)) -> Vec<Vec<u8>> {
    let mut images = images.to_vec();
    let image = &mut images[index];
    image.truncate(image.len() - DIGEST_BYTES);
    change(image);
    let digest = blake3::hash(image);
    image.extend(digest.as_bytes());
    images
}

/// What is wrong, and with which image.
fn fault(refused: engine::Result<engine::Imported>) -> (usize, ImageFault) {
    match refused {
        Err(Error::PageImage { index, fault }) => (index, fault),
        other => panic!("{other:?} is no fault of an image"),
    }
}

/// An engine with something cached and something running, which refusals must not touch.
fn busy(options: &EngineOptions) -> (Client, u64) {
    let mut client = Client::new(&EngineOptions {
        chunk_tokens: 64,
        ..*options
    });
    client.answer(0, &text(100, 7), 2);
    let running = client.ask(1, &text(200, 8), 3);
    client.step();
    (client, running)
}

/// That the engine of [`busy`] goes on as if nothing had been.
fn assert_goes_on(options: &EngineOptions, client: &mut Client, running: u64) {
    client.run();
    let answer = client.said(running);
    assert_eq!(answer.result(), cold(options, &text(200, 8), 3).result());
}

#[test]
fn every_shorter_image_and_every_changed_byte_is_refused() {
    for options in element_types() {
        let (scope, ids) = (Scope::default(), text(LEN, 1));
        let images = images_of(&options, &scope, &ids);
        let small = images_of(&options, &scope, &ids[..2]);
        let (mut client, running) = busy(&options);
        unchanged(&mut client, 0, |client| {
            let before = client.engine.kv_snapshot();
            let mut refused = |images: &[Vec<u8>]| {
                let refused = fault(client.engine.import(&scope, images));
                assert!(client.engine.kv_snapshot() == before);
                refused
            };
            for len in 0..small[0].len() {
                refused(&[small[0][..len].to_vec()]);
                let mut flipped = small.clone();
                flipped[0][len] ^= 1 << (len % 8);
                refused(&flipped);
            }
            for len in (0..images[1].len()).step_by(97) {
                let mut cut = images.clone();
                cut[1].truncate(len);
                assert_eq!(refused(&cut).0, 1);
            }
            for flip in 0..FLIPS {
                let at = flip.wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize;
                let mut flipped = images.clone();
                let index = at % images.len();
                let len = images[index].len();
                flipped[index][at / 8 % len] ^= 1 << (flip % 8);
                assert_eq!(refused(&flipped).0, index);
            }
        });
        assert_goes_on(&options, &mut client, running);
        let imported = client.engine.import(&scope, &images).unwrap();
        assert_eq!(imported.positions, LEN, "as they were, they are taken");
    }
}

fn put(at: usize, number: u32) -> impl Fn(&mut Vec<u8>) {
    move |image| image[at..at + 4].copy_from_slice(&number.to_le_bytes())
}

/// Images, which of them is wrong, and what is wrong with it.
type Case = (Vec<Vec<u8>>, usize, ImageFault);

fn assert_each_refused<const CASES: usize>(options: &EngineOptions, cases: [Case; CASES]) {
    let (mut client, running) = busy(options);
    for (images, index, expected) in cases {
        unchanged(&mut client, 0, |client| {
            let refused = fault(client.engine.import(&Scope::default(), &images));
            assert_eq!(refused, (index, expected));
        });
    }
    assert_goes_on(options, &mut client, running);
}

#[test]
fn an_image_that_is_not_damaged_but_wrong_is_refused_for_what_is_wrong() {
    for options in element_types() {
        let (scope, ids) = (Scope::default(), text(LEN, 1));
        let images = images_of(&options, &scope, &ids);
        let whole = images[1].len();
        let (found, expected) = ([5, 2, 8], [4, 2, 8]);
        let shape = ImageFault::Shape { found, expected };
        let version = ImageFault::Version { found: 2, known: 1 };
        let kv_type = ImageFault::KvType {
            found: "number 7".to_owned(),
            expected: options.kv_type().name(),
        };
        let longer = ImageFault::Length {
            found: whole + 1,
            expected: whole,
        };
        let fewer = whole - (whole - IDS - DIGEST_BYTES) / 64;
        let fewer = ImageFault::Length {
            found: whole,
            expected: fewer,
        };
        let forged = |at: usize, number: u32| signed(&images, 1, put(at, number));
        let cases = [
            (forged(0, 0), 1, ImageFault::Magic),
            (forged(VERSION, 2), 1, version),
            (forged(TYPE, 7), 1, kv_type),
            (forged(LAYERS, 5), 1, shape),
            (forged(POSITIONS, 0), 1, ImageFault::Positions(0)),
            (forged(POSITIONS, 65), 1, ImageFault::Positions(65)),
            (
                forged(POSITIONS, u32::MAX),
                1,
                ImageFault::Positions(u32::MAX),
            ),
            (forged(POSITIONS, 63), 1, fewer),
            (signed(&images, 1, |image| image.push(0)), 1, longer),
            (forged(KEY, 0), 1, ImageFault::Key),
            (forged(PARENT, 0), 1, ImageFault::Parent),
            (forged(IDS, ids[64] ^ 1), 1, ImageFault::Key),
            (signed(&images, 0, put(PARENT, 0)), 0, ImageFault::Root),
        ];
        assert_each_refused(&options, cases);
    }
}

#[test]
fn pages_that_do_not_follow_one_another_are_refused() {
    for options in element_types() {
        let (scope, ids) = (Scope::default(), text(LEN, 1));
        let images = images_of(&options, &scope, &ids);
        let other_ids = images_of(&options, &scope, &text(LEN, 2));
        let key_of_the_first = images[0][KEY..KEY + 32].to_vec();
        let cases = [
            (images[1..].to_vec(), 0, ImageFault::Root),
            (
                vec![images[0].clone(), images[2].clone()],
                1,
                ImageFault::Parent,
            ),
            (
                vec![images[0].clone(), other_ids[1].clone()],
                1,
                ImageFault::Parent,
            ),
            (
                [&images[..], &images[2..]].concat(),
                3,
                ImageFault::AfterPart,
            ),
            (
                // Under the first page's name, after the first page, and not what stands there.
                signed(&[images[0].clone(), other_ids[1].clone()], 1, |image| {
                    image[PARENT..PARENT + 32].copy_from_slice(&key_of_the_first);
                }),
                1,
                ImageFault::Key,
            ),
        ];
        assert_each_refused(&options, cases);
    }
}

#[test]
fn a_page_of_another_tenant_type_mode_or_model_is_refused() {
    let (types, ids) = (element_types(), text(LEN, 1));
    let (here, there) = (Scope::tenant("a"), Scope::tenant("b"));
    for options in &types {
        let (mut client, running) = busy(options);
        let mut refused = |images: &[Vec<u8>]| {
            let mut refused = None;
            unchanged(&mut client, 0, |client| {
                refused = Some(fault(client.engine.import(&here, images)));
            });
            refused.unwrap()
        };
        let foreign = images_of(options, &there, &ids);
        assert_eq!(refused(&foreign), (0, ImageFault::Key));
        let mixed = [
            images_of(options, &here, &ids)[0].clone(),
            foreign[1].clone(),
        ];
        assert_eq!(refused(&mixed), (1, ImageFault::Parent));
        for other in types.iter().filter(|it| it.kv_type != options.kv_type) {
            let fault = ImageFault::KvType {
                found: other.kv_type().name().to_owned(),
                expected: options.kv_type().name(),
            };
            assert_eq!(refused(&images_of(other, &here, &ids)), (0, fault));
        }
        let mode = match options.mode {
            Mode::Exact => Mode::Fast,
            Mode::Fast => Mode::Exact,
        };
        let other_mode = EngineOptions { mode, ..*options };
        let images = images_of(&other_mode, &here, &ids);
        assert_eq!(refused(&images), (0, ImageFault::Root));
        let model = Model::synthetic("synthetic-tiny").unwrap();
        let mut other_model = Client::new(options);
        other_model.engine = Engine::new(model, options).unwrap();
        other_model.scope = here.clone();
        other_model.answer(0, &ids, 1);
        let images = other_model.engine.export(&here, &ids).unwrap();
        assert_eq!(refused(&images), (0, ImageFault::Root));
        assert_goes_on(options, &mut client, running);
    }
}

/// Images with the right keys of any ids, and rows of zeros.
fn forged(options: &EngineOptions, ids: &[u32]) -> Vec<Vec<u8>> {
    let (scope, engine) = (Scope::default(), common::kv::engine(options));
    let pattern = images_of(options, &scope, &text(64, 1)).remove(0);
    let row = (pattern.len() - IDS - DIGEST_BYTES) / 64 - 4;
    let mut parent = pattern[PARENT..IDS].to_vec();
    let keys = engine.page_keys(&scope, ids).unwrap();
    let pages = ids.chunks(64).zip(keys);
    let images = pages.map(|(ids, key)| {
        let mut image = pattern[..IDS].to_vec();
        put(POSITIONS, ids.len() as u32)(&mut image);
        image[KEY..PARENT].copy_from_slice(key.bytes());
        image[PARENT..].copy_from_slice(&std::mem::replace(&mut parent, key.bytes().to_vec()));
        image.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        image.resize(image.len() + ids.len() * row, 0);
        let digest = blake3::hash(&image);
        image.extend(digest.as_bytes());
        image
    });
    images.collect()
}

#[test]
fn a_text_that_no_request_could_have_is_refused() {
    for options in element_types() {
        let (mut client, running) = busy(&options);
        let scope = Scope::default();
        unchanged(&mut client, 0, |client| {
            let unknown = [&text(70, 1)[..], &[256]].concat();
            let refused = client.engine.import(&scope, &forged(&options, &unknown));
            let expected = matches!(
                refused,
                Err(Error::TokenOutOfRange {
                    id: 256,
                    position: 70,
                    ..
                })
            );
            assert!(expected, "{refused:?}");
            let endless = forged(&options, &text(8193, 1));
            let refused = client.engine.import(&scope, &endless);
            let expected = matches!(refused, Err(Error::ContextExceeded { needed: 8193, .. }));
            assert!(expected, "{refused:?}");
        });
        assert_goes_on(&options, &mut client, running);
        let possible = forged(&options, &text(130, 1));
        assert!(
            client.engine.import(&scope, &possible).is_ok(),
            "the forgery is good"
        );
    }
}
