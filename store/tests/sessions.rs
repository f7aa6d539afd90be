//! Sessions put away and brought back by another process's engine, and work split between one that prefills and one that decodes.
#![allow(clippy::unwrap_used)] // tests

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Answer, Client, Shelf, cold, element_types, text};
use engine::OnQuarantine;
use store::What;
use store::object::Kind;

const NAME: &str = "agent 7";

/// A worker that has answered one turn of a session and put it away.
fn put_away(
    options: &engine::EngineOptions,
    shelf: &Arc<Shelf>,
    prompt: usize,
    decode: usize,
) -> (Client, Answer) {
    let mut client = Client::new(options, shelf.clone(), "before");
    let answer = client.answer(3, &text(prompt, 1), decode);
    let sealed = client.worker.seal(3, NAME, 0, &mut client.heard).unwrap();
    assert_eq!(sealed, prompt + decode - 1);
    client.flush();
    (client, answer)
}

/// The next turn of the session, asked of a worker that may have to bring it back.
fn next(client: &mut Client, session: u64, said: &[u32]) -> Answer {
    let prompt = [said, &text(70, 5)].concat();
    let id = client.ask(session, &prompt, 40, Some(NAME));
    client.run();
    client.heard.answers[&id].clone()
}

#[test]
fn a_session_put_away_goes_on_elsewhere_as_the_uninterrupted_one() {
    for options in element_types() {
        for (prompt, decode) in [
            (1, 1),
            (50, 20),
            (63, 2),
            (64, 1),
            (127, 2),
            (128, 65),
            (200, 30),
        ] {
            let shelf = Arc::new(Shelf::default());
            let (mut stays, first) = put_away(&options, &shelf, prompt, decode);
            let mut moved = Client::new(&options, shelf.clone(), "after");
            let there = next(&mut moved, 11, &first.said());
            moved.flush();
            shelf.set(BTreeMap::new()); // or it would find what the other has kept since
            let here = next(&mut stays, 3, &first.said());
            assert_eq!(here.result(), there.result(), "{prompt}, {decode}");
            let cold = cold(&options, &there.prompt, 40);
            assert_eq!(there.result(), cold.result());
            // All of it came back, the open page with it; only the new text is computed.
            let whole = prompt + decode - 1;
            assert_eq!((there.store, there.own, there.instance), (whole, 0, 0));
            assert_eq!((there.computed, there.carried), (70, 1));
            assert_eq!((here.store, here.own), (0, whole));
            // It is the session's own from now on.
            let later = next(&mut moved, 11, &there.said());
            assert_eq!((later.own, later.store), (there.said().len() - 1, 0));
        }
    }
}

#[test]
fn one_worker_prefills_another_decodes_and_the_bits_are_those_of_one() {
    for options in element_types() {
        for len in [5, 63, 64, 65, 200] {
            let (shelf, prompt) = (Arc::new(Shelf::default()), text(len, 1));
            let mut prefills = Client::new(&options, shelf.clone(), "prefill");
            let first = prefills.answer(0, &prompt, 1);
            prefills
                .worker
                .seal(0, NAME, 0, &mut prefills.heard)
                .unwrap();
            prefills.flush();
            let mut decodes = Client::new(&options, shelf.clone(), "decode");
            let id = decodes.ask(0, &first.said(), 29, Some(NAME));
            decodes.run();
            let rest = decodes.heard.answers[&id].clone();
            let whole = cold(&options, &prompt, 30);
            assert_eq!(
                [first.tokens, rest.tokens.clone()].concat(),
                whole.tokens,
                "{len}"
            );
            assert_eq!(rest.logits, whole.logits);
            assert_eq!((rest.computed, rest.carried, rest.store), (0, 1, len));
        }
    }
}

#[test]
fn pages_that_are_gone_are_computed_again_and_the_session_goes_on() {
    let options = element_types()[1];
    for gone in 0..4 {
        let shelf = Arc::new(Shelf::default());
        let (_, first) = put_away(&options, &shelf, 200, 30);
        let kept = shelf.all();
        let scope = engine::Scope::default();
        let keys = common::engine(&options)
            .page_keys(&scope, &first.said()[..229])
            .unwrap();
        let less = kept
            .into_iter()
            .filter(|(name, _)| name.bytes != *keys[gone].bytes());
        shelf.set(less.collect());
        let mut moved = Client::new(&options, shelf.clone(), "after");
        let there = next(&mut moved, 11, &first.said());
        assert_eq!(there.store, gone * 64);
        assert_eq!(there.result(), cold(&options, &there.prompt, 40).result());
    }
}

#[test]
fn a_session_nobody_put_away_another_tenants_or_a_barred_one_starts_anew() {
    let options = element_types()[1];
    let shelf = Arc::new(Shelf::default());
    let (mut stays, first) = put_away(&options, &shelf, 200, 30);
    let mut other = Client::new(&options, shelf.clone(), "other");
    other.scope = engine::Scope::tenant("somebody else");
    let answer = next(&mut other, 1, &first.said());
    assert_eq!((answer.store, answer.own), (0, 0));
    let scope = stays.scope.clone();
    let running = OnQuarantine::Finish;
    stays
        .worker
        .quarantine(&scope, &first.said()[..90], 80, running)
        .unwrap();
    stays.flush();
    let mut barred = Client::new(&options, shelf.clone(), "barred");
    let answer = next(&mut barred, 1, &first.said());
    assert!(answer.store <= 64 && answer.own == 0, "{answer:?}");
    assert_eq!(answer.result(), cold(&options, &answer.prompt, 40).result());
    let refused = |what: &&What| matches!(what, What::Refused(why) if why.contains("barred"));
    assert!(barred.whats().iter().any(refused));
    shelf.set(BTreeMap::new());
    let mut late = Client::new(&options, shelf.clone(), "late");
    let answer = next(&mut late, 1, &first.said());
    assert_eq!((answer.store, answer.own), (0, 0));
    assert_eq!(shelf.count(Kind::Session), 0);
}
