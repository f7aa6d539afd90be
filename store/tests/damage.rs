//! Whatever is changed, cut short, swapped or of somebody else is never used: the same bits come out, and what was running goes on.
#![allow(clippy::unwrap_used)] // tests

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Answer, Client, Shelf, cold, element_types, text};
use engine::{Engine, EngineOptions, KvType, Mode, Model, Scope};
use store::object::Kind;
use store::{Name, What};

/// Bytes that are changed, one at a time, over all objects and types.
const FLIPS: u64 = 10_000;

type Kept = BTreeMap<Name, Vec<u8>>;

/// A store with a session of two whole pages and an open one, a barred text and an announcement; what was said.
fn furnished(options: &EngineOptions) -> (Kept, Vec<u32>) {
    let shelf = Arc::new(Shelf::default());
    let mut client = Client::new(options, shelf.clone(), "before");
    let answer = client.answer(3, &text(140, 1), 10);
    client.worker.seal(3, "s", 0, &mut client.heard).unwrap();
    let (scope, other) = (client.scope.clone(), text(70, 9));
    let running = engine::OnQuarantine::Finish;
    client
        .worker
        .quarantine(&scope, &other, 66, running)
        .unwrap();
    client.flush();
    let kept = shelf.all();
    let count = |kind| kept.keys().filter(|name| name.kind == kind).count();
    let kinds = [Kind::Page, Kind::Session, Kind::Barred, Kind::Worker];
    assert_eq!(kinds.map(count), [3, 1, 1, 1]);
    (kept, answer.said())
}

/// Workers whose stores were changed, one after the other, of one model.
struct Restored {
    options: EngineOptions,
    said: Vec<u32>,
    expected: Answer,
    other: Answer,
    refused: usize,
    model: Option<Model>,
}

impl Restored {
    /// What a new worker makes of a store.
    fn check(&mut self, kept: &Kept, context: &dyn std::fmt::Display) {
        let shelf = Arc::new(Shelf::default());
        shelf.set(kept.clone());
        let model = self.model.take();
        let model = model.unwrap_or_else(|| Model::synthetic(common::MODEL).unwrap());
        let engine = Engine::new(model, &self.options).unwrap();
        let mut client = Client::around(engine, shelf, "after");
        // Something else is cached and running.
        let other = client.ask(1, &text(60, 7), 3, None);
        client.step();
        let prompt = [&self.said[..], &text(9, 5)].concat();
        let id = client.ask(0, &prompt, 2, Some("s"));
        client.run();
        let answer = &client.heard.answers[&id];
        assert_eq!(answer.result(), self.expected.result(), "{context}");
        let found = answer.store + answer.own + answer.instance;
        assert!([0, 64, 128, 149].contains(&found), "{context}: {answer:?}");
        let other = &client.heard.answers[&other];
        assert_eq!(other.result(), self.other.result(), "{context}");
        let refused = |what: &&What| matches!(what, What::Refused(_));
        self.refused += usize::from(client.whats().iter().any(refused));
        self.model = Some(client.worker.into_engine().into_model());
    }
}

fn restored(options: &EngineOptions, said: &[u32]) -> Restored {
    let prompt = [said, &text(9, 5)].concat();
    Restored {
        options: *options,
        said: said.to_vec(),
        expected: cold(options, &prompt, 2),
        other: cold(options, &text(60, 7), 3),
        refused: 0,
        model: None,
    }
}

/// The objects a restore reads.
fn read(kept: &Kept) -> Vec<Name> {
    let all = kept.keys().copied();
    all.filter(|name| name.kind != Kind::Worker).collect()
}

#[test]
fn every_truncation_of_an_object_is_told_and_changes_no_answer() {
    for options in element_types() {
        let (kept, said) = furnished(&options);
        let mut restored = restored(&options, &said);
        restored.check(&kept, &"as it was");
        assert_eq!(restored.refused, 0);
        let mut cuts = 0;
        for name in read(&kept) {
            let len = kept[&name].len();
            // Every length of the small ones; of pages those around what their parts are, and a stride through the rest.
            let step = if name.kind == Kind::Page { 997 } else { 1 };
            let near = |cut: usize| cut < 110 || len - cut < 40;
            for cut in (0..len).filter(|&cut| cut % step == 0 || (near(cut) && cut % 13 == 0)) {
                let mut less = kept.clone();
                less.get_mut(&name).unwrap().truncate(cut);
                restored.check(&less, &format!("{name} cut to {cut}"));
                cuts += 1;
            }
        }
        assert_eq!(restored.refused, cuts);
    }
}

#[test]
fn ten_thousand_changed_bytes_are_told_and_change_no_answer() {
    let mut flips = 0;
    for options in element_types() {
        let (kept, said) = furnished(&options);
        let mut restored = restored(&options, &said);
        let (names, mut of_type) = (read(&kept), 0);
        while of_type < FLIPS / 3 + 1 {
            let at = (flips + 1_u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let name = names[at as usize % names.len()];
            let mut changed = kept.clone();
            let bytes = changed.get_mut(&name).unwrap();
            let place = (at >> 20) as usize % bytes.len();
            bytes[place] ^= 1 << (flips % 8);
            restored.check(&changed, &format!("{name}, byte {place}"));
            (flips, of_type) = (flips + 1, of_type + 1);
        }
        assert_eq!(restored.refused as u64, of_type);
    }
    assert!(flips >= FLIPS);
}

#[test]
fn objects_in_each_others_place_are_refused() {
    let options = element_types()[1];
    let (kept, said) = furnished(&options);
    let mut restored = restored(&options, &said);
    let names = read(&kept);
    let mut swaps = 0;
    for (at, a) in names.iter().enumerate() {
        for b in &names[at + 1..] {
            let mut swapped = kept.clone();
            let of_a = swapped.insert(*a, kept[b].clone()).unwrap();
            swapped.insert(*b, of_a);
            restored.check(&swapped, &format!("{a} and {b}"));
            swaps += 1;
        }
    }
    assert_eq!(restored.refused, swaps);
}

#[test]
fn a_page_of_another_model_mode_type_tenant_or_public_text_never_matches() {
    let of = |mode, kv_type| EngineOptions {
        mode,
        kv_type: Some(kv_type),
        ..element_types()[1]
    };
    let (fast, whole) = (of(Mode::Fast, KvType::F16), text(200, 1));
    let shelf = Arc::new(Shelf::default());
    let mut writer = Client::new(&fast, shelf.clone(), "writer");
    writer.answer(0, &whole, 1);
    writer.flush();
    let public = |name: &str| Scope {
        public: Some(engine::Public {
            name: name.to_owned(),
            positions: 128,
        }),
        ..Scope::default()
    };
    let tiny = "synthetic-tiny-q8_0";
    // What differs, the model, how it runs, for whom; how much of it is found.
    let cases = [
        ("nothing", tiny, fast, Scope::default(), 192),
        ("tenant", tiny, fast, Scope::tenant("other"), 0),
        ("public text", tiny, fast, public("system"), 0),
        (
            "kv type",
            tiny,
            of(Mode::Fast, KvType::Q8_0),
            Scope::default(),
            0,
        ),
        (
            "kv type",
            tiny,
            of(Mode::Fast, KvType::F32),
            Scope::default(),
            0,
        ),
        (
            "mode",
            tiny,
            of(Mode::Exact, KvType::F16),
            Scope::default(),
            0,
        ),
        ("weights", "synthetic-tiny", fast, Scope::default(), 0),
    ];
    for (what, model, options, scope, found) in cases {
        let engine = Engine::new(Model::synthetic(model).unwrap(), &options).unwrap();
        let mut client = Client::around(engine, shelf.clone(), what);
        client.scope = scope;
        let answer = client.answer(0, &whole, 2);
        assert_eq!(answer.store, found, "{what}");
    }
}
