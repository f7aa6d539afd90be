//! What is asked on every path, and the digest of what came back.
//!
//! A greedy request whose prompt ends just behind a page, decoded for a while, then fed again with its own output; and
//! a sampled request whose decoding crosses a page. The others of a batch are strangers of different lengths. Not here:
//! which paths are taken (`factors`).

use std::collections::HashMap;

use engine::{
    CachePolicy, Engine, EngineOptions, Event, KvType, Mode, Model, Request, SamplingParams, Sink,
};
use sha2::{Digest, Sha256};

use super::factors::Combination;
use crate::error::Error;

/// Positions of the greedy request's prompt: two pages and two.
pub(super) const PROMPT_LEN: usize = 130;
/// Tokens it decodes.
const DECODE: usize = 6;
/// Positions of the sampled request's prompt; with its output it crosses into the second page.
const SAMPLED_PROMPT_LEN: usize = 60;
/// Tokens the others decode: more than the subject, so that it never decodes alone.
const DECODE_BESIDE: usize = 8;
/// The greedy request; its first part, cached beforehand; the sampled request. Strangers have the numbers behind.
const GREEDY: u64 = 0;
const DONOR: u64 = 1;
const SAMPLED: u64 = 2;
const AGAIN: u64 = 1000;

/// What decides the answer beside model and question.
#[derive(Clone, Copy)]
pub(super) struct Numerics {
    pub(super) mode: Mode,
    pub(super) kv_type: KvType,
}

/// What one path answered.
pub(super) struct Answer {
    /// SHA-256 over ids and last logits of the greedy, the continued and the sampled request, little-endian.
    pub(super) digest: [u8; 32],
    /// The greedy prompt and its output.
    pub(super) text: Vec<u32>,
    /// The logits after `text`, `[vocab]`, from KV that decoding wrote.
    pub(super) continued: Vec<f32>,
}

/// Answers on one path; the model comes back for the next.
pub(super) fn answer(
    model: Model,
    numerics: Numerics,
    path: &Combination,
) -> Result<(Model, Answer), Error> {
    let ids = Ids::of(&model);
    let mut engine = Engine::new(model, &options(numerics, path))?;
    let mut heard = Heard::default();
    let prompt = ids.prompt(GREEDY, PROMPT_LEN);
    if path.hit > 0 {
        engine.submit(request(DONOR, prompt[..path.hit].to_vec(), 1))?;
        run(&mut engine, &mut heard)?;
    }
    for stranger in 0..path.batch.saturating_sub(2) {
        let (number, len) = (3 + stranger as u64, 1 + stranger * 7 % 13);
        engine.submit(request(number, ids.prompt(number, len), DECODE_BESIDE))?;
    }
    let sampled = sampled(ids.prompt(SAMPLED, SAMPLED_PROMPT_LEN));
    if path.batch > 1 {
        engine.submit(sampled.clone())?;
    }
    engine.submit(request(GREEDY, prompt.clone(), DECODE))?;
    run(&mut engine, &mut heard)?;
    if path.batch == 1 {
        engine.submit(sampled)?;
        run(&mut engine, &mut heard)?;
    }
    let text = [&prompt[..], &heard.of(GREEDY).ids].concat();
    let session = GREEDY;
    engine.submit(Request {
        session,
        ..request(AGAIN, text.clone(), 1)
    })?;
    run(&mut engine, &mut heard)?;
    heard.check(path)?;
    let answer = Answer {
        digest: heard.digest(),
        continued: heard.of(AGAIN).logits.clone(),
        text,
    };
    Ok((engine.into_model(), answer))
}

/// The logits after `text`, computed cold by prefill alone.
pub(super) fn prefilled(
    model: Model,
    numerics: Numerics,
    path: &Combination,
    text: &[u32],
) -> Result<(Model, Vec<f32>), Error> {
    let mut engine = Engine::new(model, &options(numerics, path))?;
    let logits = engine.logits(text, false)?;
    Ok((engine.into_model(), logits))
}

fn options(numerics: Numerics, path: &Combination) -> EngineOptions {
    // A stranger needs one page; the others, with their copies, fewer than sixteen together.
    let kv_pages = 16 + path.batch;
    EngineOptions {
        mode: numerics.mode,
        kv_type: Some(numerics.kv_type),
        kernels: path.kernels,
        threads: path.threads,
        chunk_tokens: path.chunk,
        kv_pages,
        cache: CachePolicy::Shared,
        batched: true,
        shared_attention: path.shared_attention,
        ..EngineOptions::default()
    }
}

fn request(id: u64, prompt: Vec<u32>, decode_max: usize) -> Request {
    Request {
        id,
        session: id,
        prompt,
        decode_max,
        ignore_eos: true,
        ..Request::default()
    }
}

fn sampled(prompt: Vec<u32>) -> Request {
    let sampling = SamplingParams {
        temperature: 0.9,
        top_p: 0.98,
        repetition_penalty: 1.05,
        seed: 7,
        ..SamplingParams::default()
    };
    Request {
        sampling,
        ..request(SAMPLED, prompt, DECODE_BESIDE)
    }
}

fn run(engine: &mut Engine, heard: &mut Heard) -> Result<(), Error> {
    while engine.step(heard)? {}
    engine
        .check()
        .map_err(|what| Error::Broken(format!("KV pages do not add up: {what}")))
}

/// Made-up prompts of ordinary ids. First ids differ, so that nobody finds a stranger's prefix.
struct Ids {
    first: u32,
    count: u64,
}

impl Ids {
    fn of(model: &Model) -> Self {
        let ordinary = model.ordinary_ids();
        Self {
            first: ordinary.start,
            count: ordinary.len() as u64,
        }
    }

    fn prompt(&self, who: u64, len: usize) -> Vec<u32> {
        let id = |i: u64| (29 * who + 31 * i * i + 7 * i) % self.count;
        (0..len as u64).map(|i| self.first + id(i) as u32).collect()
    }
}

/// What was heard of one request.
#[derive(Default)]
struct Told {
    ids: Vec<u32>,
    logits: Vec<f32>,
    hit: usize,
    batch_max: usize,
}

/// What was heard of all.
#[derive(Default)]
struct Heard(HashMap<u64, Told>);

impl Sink for Heard {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Prefix {
                request,
                own,
                instance,
                ..
            } => {
                self.0.entry(request).or_default().hit = own + instance;
            }
            Event::Token {
                request, id, batch, ..
            } => {
                let told = self.0.entry(request).or_default();
                told.ids.push(id);
                told.batch_max = told.batch_max.max(batch);
            }
            Event::Finish {
                request, logits, ..
            } => {
                self.0.entry(request).or_default().logits = logits.to_vec();
            }
            _ => {}
        }
    }
}

impl Heard {
    fn of(&mut self, request: u64) -> &Told {
        self.0.entry(request).or_default()
    }

    /// That the path was the one asked for: otherwise equal answers would show nothing.
    fn check(&mut self, path: &Combination) -> Result<(), Error> {
        let continued = PROMPT_LEN + DECODE - 1;
        for (what, found, expected) in [
            ("positions found", self.of(GREEDY).hit, path.hit),
            (
                "requests decoding together",
                self.of(GREEDY).batch_max,
                path.batch,
            ),
            (
                "positions found of prompt and output",
                self.of(AGAIN).hit,
                continued,
            ),
        ] {
            if found != expected {
                let what = format!("{path}: {found} {what} instead of {expected}");
                return Err(Error::Broken(format!(
                    "the engine took another path: {what}"
                )));
            }
        }
        Ok(())
    }

    fn digest(&mut self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for request in [GREEDY, AGAIN, SAMPLED] {
            let Told { ids, logits, .. } = self.of(request);
            let words = ids
                .iter()
                .copied()
                .chain(logits.iter().map(|logit| logit.to_bits()));
            for word in words {
                digest.update(word.to_le_bytes());
            }
        }
        digest.finalize().into()
    }
}
