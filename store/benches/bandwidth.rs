//! How fast kept pages come in from a directory in memory, beside a copy of as many bytes, and what keeping costs who decodes.
//!
//! `cargo bench --profile dev -p store --bench bandwidth -- MODEL.gguf`. Reading a page once, hashing it and copying it into the pool is
//! the least that can be done; a copy of as many bytes is the measure. Exit 1 with `FAK_FLOORS=1` where a floor is missed.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // a bench

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use engine::{
    CheckedPage, Engine, EngineOptions, Event, KvType, Mode, Model, PAGE_POSITIONS, PageCopy,
    Request, Scope, Sink,
};
use store::object::Kind;
use store::{Directory, DirectoryOptions, KeeperOptions, Name, Store, Told, Worker, WorkerSink};

/// Pages that come in at once: 4096 positions.
const PAGES: usize = 64;
const ROUNDS: usize = 9;
/// Of the speed of a copy, that pages must come in at.
const IMPORT_FLOOR: f64 = 0.60;
/// More time than without a store that decoding may take.
const KEEPING_LIMIT: f64 = 1.03;

fn main() -> ExitCode {
    let model =
        std::env::args().find(|it| Path::new(it).extension().is_some_and(|it| it == "gguf"));
    let Some(model) = model else {
        println!("bandwidth: give the path of a model.gguf; nothing was measured");
        return ExitCode::SUCCESS;
    };
    let mut model = Model::open(Path::new(&model)).unwrap();
    let mut held = true;
    for kv_type in [KvType::F32, KvType::F16, KvType::Q8_0] {
        let (share, back) = import(model, kv_type);
        model = back;
        held &= share >= IMPORT_FLOOR;
    }
    held &= keeping(model) <= KEEPING_LIMIT;
    let must = std::env::var("FAK_FLOORS").is_ok_and(|it| it == "1");
    ExitCode::from(u8::from(must && !held))
}

fn options(kv_type: KvType) -> EngineOptions {
    EngineOptions {
        mode: Mode::Fast,
        kv_type: Some(kv_type),
        threads: 2,
        kv_pages: 512,
        ..EngineOptions::default()
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The share of a copy's speed at which pages come in.
fn import(model: Model, kv_type: KvType) -> (f64, Model) {
    let engine = Engine::new(model, &options(kv_type)).unwrap();
    let (scope, layout) = (Scope::default(), engine.layout());
    let ids: Vec<u32> = (0..PAGES * PAGE_POSITIONS)
        .map(|at| at as u32 % 1000)
        .collect();
    let keys = engine.page_keys(&scope, &ids).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let store = Directory::open(scratch.path(), DirectoryOptions::default()).unwrap();
    let mut parent = engine.root_key().unwrap();
    let mut bytes = 0;
    for (key, ids) in keys.iter().zip(ids.chunks(PAGE_POSITIONS)) {
        let head = layout.image_bytes(0) + size_of_val(ids);
        let rows = layout.image_bytes(ids.len()) - head;
        let page = PageCopy::new(layout, (*key, parent), ids, |image| {
            image.extend((0..rows).map(|at| (at * 31 + ids[0] as usize) as u8 & 0x3f));
        });
        bytes += page.bytes();
        store
            .put(&Name::new(Kind::Page, *key.bytes()), &page.image())
            .unwrap();
        parent = *key;
    }
    let (from, mut to) = (vec![1_u8; bytes], vec![2_u8; bytes]);
    let (mut copies, mut imports, mut model) = (Vec::new(), Vec::new(), Some(engine.into_model()));
    for _ in 0..ROUNDS {
        let start = Instant::now();
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        copies.push(start.elapsed().as_secs_f64());
        let mut engine = Engine::new(model.take().unwrap(), &options(kv_type)).unwrap();
        let start = Instant::now();
        let pages: Vec<CheckedPage> = fetched(&store, &keys, layout);
        let taken = engine.take_in(&scope, &ids, 0, &pages).unwrap();
        imports.push(start.elapsed().as_secs_f64());
        assert_eq!(taken.pages, PAGES);
        model = Some(engine.into_model());
    }
    let (copy, import) = (median(copies), median(imports));
    let gib = bytes as f64 / f64::from(1 << 30);
    println!(
        "import {kv_type}: {PAGES} pages, {:.1} MiB: copy {:.2} GiB/s, import {:.2} GiB/s, {:.0} % of it",
        gib * 1024.0,
        gib / copy,
        gib / import,
        100.0 * copy / import
    );
    (copy / import, model.unwrap())
}

fn fetched(
    store: &Directory,
    keys: &[engine::PageKey],
    layout: engine::Layout,
) -> Vec<CheckedPage> {
    let read = |key: &engine::PageKey| {
        let mut bytes = Vec::new();
        assert!(
            store
                .get(&Name::new(Kind::Page, *key.bytes()), &mut bytes)
                .unwrap()
        );
        CheckedPage::read(bytes, layout).unwrap()
    };
    keys.iter().map(read).collect()
}

/// Counts tokens and nothing else.
#[derive(Default)]
struct Tokens(usize);

impl Sink for Tokens {
    fn event(&mut self, event: Event<'_>) {
        self.0 += usize::from(matches!(event, Event::Token { .. }));
    }
}

impl WorkerSink for Tokens {
    fn store(&mut self, _told: Told) {}
}

/// How much longer four agents decode 256 tokens each, and have a turn of 64 ids before, where all of it is kept; pairs interleaved.
fn keeping(model: Model) -> f64 {
    let mut model = Some(model);
    let (mut alone, mut kept, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..5 {
        let order = if pair % 2 == 0 {
            [false, true]
        } else {
            [true, false]
        };
        for keeps in order {
            let engine = Engine::new(model.take().unwrap(), &options(KvType::F16)).unwrap();
            let (time, back) = decode(engine, keeps);
            model = Some(back);
            if keeps {
                kept.push(time);
            } else {
                alone.push(time);
            }
        }
        ratios.push(kept[pair] / alone[pair]);
    }
    let ratio = median(ratios.clone());
    println!(
        "keeping: four agents, 64 ids and 256 tokens each: {:.2} s alone, {:.2} s kept, {ratio:.3} times (pairs {ratios:.3?})",
        median(alone),
        median(kept)
    );
    ratio
}

fn decode(engine: Engine, keeps: bool) -> (f64, Model) {
    let request = |agent: u64| Request {
        id: agent,
        session: agent,
        prompt: (0..64).map(|at| at * 7 + agent as u32).collect(),
        decode_max: 256,
        ignore_eos: true,
        ..Request::default()
    };
    let mut tokens = Tokens::default();
    if !keeps {
        let mut engine = engine;
        let start = Instant::now();
        (0..4).for_each(|agent| engine.submit(request(agent)).unwrap());
        while engine.step(&mut tokens).unwrap() {}
        assert_eq!(tokens.0, 1024);
        return (start.elapsed().as_secs_f64(), engine.into_model());
    }
    let scratch = tempfile::tempdir().unwrap();
    let store = Directory::open(scratch.path(), DirectoryOptions::default()).unwrap();
    let clock = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis() as u64
    };
    let options = KeeperOptions::named("bench");
    let mut worker = Worker::new(engine, Arc::new(store), options, Arc::new(clock)).unwrap();
    let start = Instant::now();
    for agent in 0..4 {
        worker.submit(request(agent), None, &mut tokens).unwrap();
    }
    while worker.step(&mut tokens).unwrap() {}
    assert_eq!(tokens.0, 1024);
    (
        start.elapsed().as_secs_f64(),
        worker.into_engine().into_model(),
    )
}
