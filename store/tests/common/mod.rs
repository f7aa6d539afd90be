//! What the tests of workers share: a store in memory that can be slow, dead or changed, and a client of one worker.
//!
//! Not here: what must hold.
#![allow(dead_code, clippy::print_stdout)] // each test target uses its part; who skips says so

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::{
    Engine, EngineOptions, Event, KernelChoice, KvType, Mode, Model, Request, Scope, Sink,
};
use store::object::Kind;
use store::{Clock, Entry, Fault, KeeperOptions, Name, Store, Told, What, Worker, WorkerSink};

/// The model of these tests: quantised, so that both modes compute something of their own.
pub(crate) const MODEL: &str = "synthetic-tiny-q8_0";

/// The element types of cached keys and values, each as the options of an engine that has it.
pub(crate) fn element_types() -> [EngineOptions; 3] {
    let of = |(mode, kv_type)| EngineOptions {
        mode,
        kv_type: Some(kv_type),
        kernels: KernelChoice::Auto,
        threads: 1,
        chunk_tokens: 96,
        kv_pages: 128,
        ..EngineOptions::default()
    };
    [
        (Mode::Exact, KvType::F32),
        (Mode::Fast, KvType::F16),
        (Mode::Fast, KvType::Q8_0),
    ]
    .map(of)
}

pub(crate) fn engine(options: &EngineOptions) -> Engine {
    Engine::new(Model::synthetic(MODEL).unwrap(), options).unwrap()
}

/// `len` ids; texts of other seeds below 251 part at the first.
pub(crate) fn text(len: usize, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut id = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u32 % 255
    };
    let first = std::iter::once((seed % 251) as u32);
    first
        .chain(std::iter::from_fn(|| Some(id())))
        .take(len)
        .collect()
}

/// Says that a test had not what it needs, where whoever counts such tests finds it.
pub(crate) fn skip(what: &str) {
    use std::io::Write;
    println!("skipped: {what}");
    if let Some(path) = std::env::var_os("FAK_SKIPS") {
        let mut file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        writeln!(file, "{what}").unwrap();
    }
}

/// Milliseconds since 1970.
pub(crate) fn clock() -> Clock {
    Arc::new(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_millis() as u64
    })
}

/// A store in memory that counts, and fails or hangs when told to.
#[derive(Default)]
pub(crate) struct Shelf {
    kept: Mutex<BTreeMap<Name, Vec<u8>>>,
    /// Everything asked fails.
    pub(crate) dead: AtomicBool,
    hangs: Mutex<bool>,
    goes_on: Condvar,
    /// How often anything was asked.
    pub(crate) calls: AtomicUsize,
}

impl Shelf {
    pub(crate) fn all(&self) -> BTreeMap<Name, Vec<u8>> {
        self.kept.lock().unwrap().clone()
    }

    pub(crate) fn set(&self, kept: BTreeMap<Name, Vec<u8>>) {
        *self.kept.lock().unwrap() = kept;
    }

    pub(crate) fn count(&self, kind: Kind) -> usize {
        let kept = self.kept.lock().unwrap();
        kept.keys().filter(|name| name.kind == kind).count()
    }

    /// Whatever is asked from now on is answered once this is told to go on.
    pub(crate) fn hang(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.goes_on.notify_all();
    }

    fn asked(&self, asked: &'static str, name: &dyn std::fmt::Display) -> Result<(), Fault> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut hangs = self.hangs.lock().unwrap();
        while *hangs {
            hangs = self.goes_on.wait(hangs).unwrap();
        }
        if self.dead.load(Ordering::SeqCst) {
            return Err(Fault {
                store: "memory",
                asked,
                name: name.to_string(),
                what: "it is dead".to_owned(),
            });
        }
        Ok(())
    }
}

impl Store for Shelf {
    fn kind(&self) -> &'static str {
        "memory"
    }
    fn get(&self, name: &Name, into: &mut Vec<u8>) -> Result<bool, Fault> {
        self.asked("get", name)?;
        let kept = self.kept.lock().unwrap();
        let there = kept.get(name);
        into.extend(there.into_iter().flatten());
        Ok(there.is_some())
    }
    fn put(&self, name: &Name, bytes: &[u8]) -> Result<(), Fault> {
        self.asked("put", name)?;
        self.kept.lock().unwrap().insert(*name, bytes.to_vec());
        Ok(())
    }
    fn claim(&self, name: &Name, bytes: &[u8]) -> Result<bool, Fault> {
        self.asked("claim", name)?;
        let mut kept = self.kept.lock().unwrap();
        let new = !kept.contains_key(name);
        if new {
            kept.insert(*name, bytes.to_vec());
        }
        Ok(new)
    }
    fn remove(&self, name: &Name) -> Result<(), Fault> {
        self.asked("remove", name)?;
        self.kept.lock().unwrap().remove(name);
        Ok(())
    }
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, Fault> {
        self.asked("list", &kind.word())?;
        let kept = self.kept.lock().unwrap();
        let of_kind = kept.iter().filter(|(name, _)| name.kind == kind);
        let entry = |(name, bytes): (&Name, &Vec<u8>)| Entry {
            name: *name,
            bytes: Some(bytes.len() as u64),
            used_ms: None,
        };
        Ok(of_kind.map(entry).collect())
    }
}

/// One worker's way to a shelf that can be cut: what a process that dies no longer does.
pub(crate) struct Way {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) cut: AtomicBool,
}

impl Way {
    pub(crate) fn to(shelf: &Arc<Shelf>) -> Arc<Self> {
        Arc::new(Self {
            shelf: Arc::clone(shelf),
            cut: AtomicBool::new(false),
        })
    }

    fn open(&self) -> Result<&Shelf, Fault> {
        if self.cut.load(Ordering::SeqCst) {
            return Err(Fault {
                store: "memory",
                asked: "anything",
                name: String::new(),
                what: "the worker is gone".to_owned(),
            });
        }
        Ok(&self.shelf)
    }
}

impl Store for Way {
    fn kind(&self) -> &'static str {
        "memory"
    }
    fn get(&self, name: &Name, into: &mut Vec<u8>) -> Result<bool, Fault> {
        self.open()?.get(name, into)
    }
    fn put(&self, name: &Name, bytes: &[u8]) -> Result<(), Fault> {
        self.open()?.put(name, bytes)
    }
    fn claim(&self, name: &Name, bytes: &[u8]) -> Result<bool, Fault> {
        self.open()?.claim(name, bytes)
    }
    fn remove(&self, name: &Name) -> Result<(), Fault> {
        self.open()?.remove(name)
    }
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, Fault> {
        self.open()?.list(kind)
    }
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) prompt: Vec<u32>,
    pub(crate) own: usize,
    pub(crate) instance: usize,
    pub(crate) store: usize,
    pub(crate) computed: usize,
    pub(crate) carried: usize,
    pub(crate) tokens: Vec<u32>,
    pub(crate) logits: Vec<u32>,
    pub(crate) finished: bool,
}

impl Answer {
    /// Ids and bits, whatever was found.
    pub(crate) fn result(&self) -> (&[u32], &[u32]) {
        (&self.tokens, &self.logits)
    }

    pub(crate) fn said(&self) -> Vec<u32> {
        [&self.prompt[..], &self.tokens].concat()
    }
}

/// What a worker says.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) answers: HashMap<u64, Answer>,
    pub(crate) told: Vec<Told>,
    pub(crate) steps: usize,
}

impl Sink for Heard {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Prefix {
                request,
                own,
                instance,
                store,
                ..
            } => {
                let answer = self.answers.entry(request).or_default();
                (answer.own, answer.instance, answer.store) = (own, instance, store);
            }
            Event::Prefill {
                request,
                computed,
                carried,
                ..
            } => {
                let answer = self.answers.entry(request).or_default();
                (answer.computed, answer.carried) = (computed, carried);
            }
            Event::Token { request, id, .. } => {
                self.answers.entry(request).or_default().tokens.push(id);
            }
            Event::Finish {
                request, logits, ..
            } => {
                let answer = self.answers.entry(request).or_default();
                answer.logits = logits.iter().map(|logit| logit.to_bits()).collect();
                answer.finished = true;
            }
            Event::Step { .. } => self.steps += 1,
        }
    }
}

impl WorkerSink for Heard {
    fn store(&mut self, told: Told) {
        self.told.push(told);
    }
}

/// Asks one worker, and keeps what it says.
pub(crate) struct Client {
    pub(crate) worker: Worker,
    pub(crate) heard: Heard,
    pub(crate) scope: Scope,
    next: u64,
}

/// Times that no busy machine lets run out by chance.
pub(crate) fn keeper(name: &str) -> KeeperOptions {
    KeeperOptions {
        deadline_ms: 10_000,
        lease_ms: 5000,
        barred_every_ms: 20,
        ..KeeperOptions::named(name)
    }
}

impl Client {
    pub(crate) fn new(options: &EngineOptions, store: Arc<dyn Store>, name: &str) -> Self {
        Self::with(options, store, keeper(name))
    }

    pub(crate) fn with(
        options: &EngineOptions,
        store: Arc<dyn Store>,
        keeper: KeeperOptions,
    ) -> Self {
        Self::of(Worker::new(engine(options), store, keeper, clock()).unwrap())
    }

    pub(crate) fn around(engine: Engine, store: Arc<dyn Store>, name: &str) -> Self {
        Self::of(Worker::new(engine, store, keeper(name), clock()).unwrap())
    }

    fn of(worker: Worker) -> Self {
        Self {
            worker,
            heard: Heard::default(),
            scope: Scope::default(),
            next: 0,
        }
    }

    /// Submits a request; its id.
    pub(crate) fn ask(
        &mut self,
        session: u64,
        prompt: &[u32],
        decode_max: usize,
        name: Option<&str>,
    ) -> u64 {
        let id = self.next;
        self.next += 1;
        let request = Request {
            id,
            session,
            prompt: prompt.to_vec(),
            decode_max,
            ignore_eos: true,
            scope: self.scope.clone(),
            ..Request::default()
        };
        let answer = Answer {
            prompt: prompt.to_vec(),
            ..Answer::default()
        };
        self.heard.answers.insert(id, answer);
        self.worker.submit(request, name, &mut self.heard).unwrap();
        id
    }

    pub(crate) fn step(&mut self) -> bool {
        let more = self.worker.step(&mut self.heard).unwrap();
        self.worker.engine().check().unwrap();
        more
    }

    pub(crate) fn run(&mut self) {
        while self.step() {}
    }

    pub(crate) fn answer(&mut self, session: u64, prompt: &[u32], decode_max: usize) -> Answer {
        let id = self.ask(session, prompt, decode_max, None);
        self.run();
        self.heard.answers[&id].clone()
    }

    /// Waits until all is kept.
    pub(crate) fn flush(&mut self) {
        let patience = Duration::from_secs(60);
        assert!(self.worker.flush(patience, &mut self.heard).unwrap());
    }

    pub(crate) fn whats(&self) -> Vec<&What> {
        self.heard.told.iter().map(|told| &told.what).collect()
    }
}

/// What the prompt is answered with alone, by an engine that has nothing.
pub(crate) fn cold(options: &EngineOptions, prompt: &[u32], decode_max: usize) -> Answer {
    let mut engine = engine(options);
    let request = Request {
        prompt: prompt.to_vec(),
        decode_max,
        ignore_eos: true,
        ..Request::default()
    };
    engine.submit(request).unwrap();
    let mut heard = Heard::default();
    while engine.step(&mut heard).unwrap() {}
    let mut answer = heard.answers.remove(&0).unwrap();
    answer.prompt = prompt.to_vec();
    answer
}
