//! What the tests of the KV cache share: texts that part where they should, a client of one engine, cold answers.
//!
//! Not here: what must hold.

use std::collections::HashMap;
use std::ops::Range;

use engine::{
    CachePolicy, Engine, EngineOptions, Event, KernelChoice, KvType, Mode, Model, Phase, Request,
    Scope, Sink,
};

/// The model of these tests: quantised, so that both modes compute something of their own.
const MODEL: &str = "synthetic-tiny-q8_0";

/// The element types of cached keys and values, each as the options of an engine that has it: the one list of them.
pub(crate) fn element_types() -> Vec<EngineOptions> {
    let of = |(mode, kv_type)| EngineOptions {
        mode,
        kv_type: Some(kv_type),
        ..super::options(KernelChoice::Auto, 1)
    };
    let types = [
        (Mode::Exact, KvType::F32),
        (Mode::Fast, KvType::F16),
        (Mode::Fast, KvType::Q8_0),
    ];
    types.map(of).to_vec()
}

/// An engine of the model of these tests.
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

/// The text up to `at`, and `own` other ids from there on.
pub(crate) fn parted(from: &[u32], at: usize, own: usize, seed: u64) -> Vec<u32> {
    let other = from.get(at).map_or(0, |id| (id + 1) % 255);
    [&from[..at], &[other], &text(own, seed)]
        .concat()
        .into_iter()
        .take(at + own)
        .collect()
}

/// Positions two texts have in common.
pub(crate) fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Its prompt, for the text it left.
    pub(crate) prompt: Vec<u32>,
    pub(crate) own: usize,
    pub(crate) instance: usize,
    pub(crate) store: usize,
    pub(crate) barred_at: Option<usize>,
    pub(crate) approximate: bool,
    pub(crate) computed: usize,
    pub(crate) carried: usize,
    pub(crate) replayed: usize,
    pub(crate) tokens: Vec<u32>,
    /// Bits of the logits its last token was chosen from; none unless it finished.
    pub(crate) logits: Option<Vec<u32>>,
}

impl Answer {
    pub(crate) fn matched(&self) -> usize {
        self.own + self.instance + self.store
    }

    /// What a request computes, whatever it found: ids and bits.
    pub(crate) fn result(&self) -> (&[u32], Option<&[u32]>) {
        (&self.tokens, self.logits.as_deref())
    }

    /// Prompt and output.
    pub(crate) fn said(&self) -> Vec<u32> {
        [&self.prompt[..], &self.tokens].concat()
    }

    /// Prompt and output as far as they have KV: the last token has none.
    pub(crate) fn cached(&self) -> Vec<u32> {
        let said = self.said();
        said[..said.len() - 1].to_vec()
    }
}

/// Collects what an engine says.
#[derive(Default)]
struct Heard {
    answers: HashMap<u64, Answer>,
    steps: Vec<(Phase, usize, usize)>,
}

impl Heard {
    fn of(&mut self, request: u64) -> &mut Answer {
        self.answers.entry(request).or_default()
    }
}

impl Sink for Heard {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Prefix {
                request,
                own,
                instance,
                store,
                barred_at,
                approximate,
            } => {
                let answer = self.of(request);
                (answer.own, answer.instance) = (own, instance);
                answer.store = store;
                (answer.barred_at, answer.approximate) = (barred_at, approximate);
            }
            Event::Prefill {
                request,
                computed,
                carried,
                replayed,
                ..
            } => {
                let answer = self.of(request);
                (answer.computed, answer.carried) = (computed, carried);
                answer.replayed = replayed;
            }
            Event::Token { request, id, .. } => self.of(request).tokens.push(id),
            Event::Finish {
                request, logits, ..
            } => self.of(request).logits = Some(super::bits(logits)),
            Event::Step {
                phase,
                rows,
                requests,
            } => self.steps.push((phase, rows, requests)),
        }
    }
}

/// Asks one engine, and keeps what it says.
pub(crate) struct Client {
    pub(crate) engine: Engine,
    /// Of the requests it makes.
    pub(crate) scope: Scope,
    /// What its requests say was taken in for them.
    pub(crate) restored: usize,
    heard: Heard,
    next: u64,
}

impl Client {
    pub(crate) fn new(options: &EngineOptions) -> Self {
        Self {
            engine: engine(options),
            scope: Scope::default(),
            restored: 0,
            heard: Heard::default(),
            next: 0,
        }
    }

    /// Submits a request; its id.
    pub(crate) fn try_ask(
        &mut self,
        session: u64,
        prompt: &[u32],
        decode_max: usize,
    ) -> engine::Result<u64> {
        let id = self.next;
        self.engine.submit(Request {
            id,
            session,
            prompt: prompt.to_vec(),
            decode_max,
            ignore_eos: true,
            scope: self.scope.clone(),
            restored: self.restored,
            ..Request::default()
        })?;
        self.next += 1;
        let asked = Answer {
            prompt: prompt.to_vec(),
            ..Answer::default()
        };
        self.heard.answers.insert(id, asked);
        Ok(id)
    }

    pub(crate) fn ask(&mut self, session: u64, prompt: &[u32], decode_max: usize) -> u64 {
        self.try_ask(session, prompt, decode_max).unwrap()
    }

    /// One step; false when nothing is in flight. What the engine keeps adds up after it.
    pub(crate) fn step(&mut self) -> bool {
        self.try_step().unwrap()
    }

    pub(crate) fn try_step(&mut self) -> engine::Result<bool> {
        let more = self.engine.step(&mut self.heard);
        self.engine.check().unwrap();
        more
    }

    pub(crate) fn run(&mut self) {
        while self.step() {}
    }

    /// Asks, and runs until nothing is in flight.
    pub(crate) fn answer(&mut self, session: u64, prompt: &[u32], decode_max: usize) -> Answer {
        let id = self.ask(session, prompt, decode_max);
        self.run();
        self.said(id).clone()
    }

    /// What has been said of a request.
    pub(crate) fn said(&self, id: u64) -> &Answer {
        &self.heard.answers[&id]
    }

    /// Phase, rows and requests of every step.
    pub(crate) fn steps(&self) -> &[(Phase, usize, usize)] {
        &self.heard.steps
    }
}

/// What the prompt is answered with alone, with nothing cached, in an engine of the same mode and type.
pub(crate) fn cold(options: &EngineOptions, prompt: &[u32], decode_max: usize) -> Answer {
    let options = EngineOptions {
        cache: CachePolicy::None,
        kv_pages: 512,
        kv_bytes: None,
        shared_attention: false,
        ..*options
    };
    Client::new(&options).answer(0, prompt, decode_max)
}

/// Positions of the session's prompt; with what it decodes, 203 have KV.
pub(crate) const PROMPT: usize = 200;
pub(crate) const DECODE: usize = 4;

/// Session 0 on a text, and session 1, which has 150 positions of it and then its own.
pub(crate) fn two_sessions(options: &EngineOptions) -> (Client, Answer, Answer) {
    let mut client = Client::new(options);
    let mine = client.answer(0, &text(PROMPT, 1), DECODE);
    let theirs = client.answer(1, &parted(&text(PROMPT, 1), 150, 60, 2), DECODE);
    (client, mine, theirs)
}

/// A text without the span.
pub(crate) fn without(text: &[u32], span: &Range<usize>) -> Vec<u32> {
    [&text[..span.start], &text[span.end..]].concat()
}

/// What session 0 is asked next, once its text is `left`: it goes on with the token it had sampled last.
pub(crate) fn next(left: &[u32], answer: &Answer) -> Vec<u32> {
    [left, &answer.tokens[DECODE - 1..], &text(40, 77)].concat()
}

/// Does it, and looks whether memory, tree, and what session 0 keeps stand as before.
pub(crate) fn unchanged(client: &mut Client, session: u64, act: impl FnOnce(&mut Client)) {
    let look = |client: &mut Client| {
        let bits = client.engine.session_bits(session);
        let nodes = client.engine.kv_snapshot().nodes;
        let places: Vec<_> = nodes
            .iter()
            .map(|it| (it.id, it.parent, it.positions, it.locked))
            .collect();
        (
            bits,
            places,
            client.engine.occupancy(),
            client.engine.counters(),
        )
    };
    let before = look(client);
    act(client);
    client.engine.check().unwrap();
    assert!(look(client) == before, "a refusal changes nothing");
}

/// Whether rows can be read back: those of a quantised type would be rounded twice.
pub(crate) fn can_rotate(options: &EngineOptions) -> bool {
    let client = Client::new(options);
    ["f32", "f16"].contains(&client.engine.kv_dtype())
}

/// The types whose rows can be moved.
pub(crate) fn rotatable_types() -> impl Iterator<Item = EngineOptions> {
    element_types().into_iter().filter(can_rotate)
}
