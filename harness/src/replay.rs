//! `audit --replay`: requests of a sealed run, drawn by a seed, answered again by the engine; ids and logits must be the
//! run's, bit for bit.
//!
//! Each is answered cold and alone, by default on another kernel set and another number of threads than the run had.
//! A prompt that several arms and repetitions asked is answered once and held against all of them. Not here: the rest
//! of the audit (`audit`), which cannot run a model and comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use engine::kernels::Kernels;
use engine::{
    CachePolicy, Engine, EngineOptions, Event, KernelChoice, KvType, Mode, Model, PAGE_POSITIONS,
    Request, Sink,
};
use serde::Serialize;
use serde_json::{Value, json};
use workloads::trace::{Body, ids_sha256, sha256_hex};

use crate::cli::AuditArguments;
use crate::error::Error;
use crate::fairness::servers;
use crate::gate::{around, first_difference};
use crate::models;
use crate::sealed::{SealedRun, Trace};
use crate::table::counted;
use crate::world::World;

/// Positions prefilled per step: another value than envelopes use, for it must not matter either.
const CHUNK_TOKENS: usize = 192;

/// A question: prompt digest, ids wanted, whether it goes on after the end of the text.
type Key = (String, usize, bool);

/// An answer of the run and where it stands.
struct Recorded<'a> {
    whose: String,
    /// `file:line: request`.
    place: String,
    ids: &'a [u32],
    logits_sha256: &'a str,
}

/// A prompt, by its length alone, and everyone who answered it.
struct Asked<'a> {
    prompt_tokens: usize,
    recorded: Vec<Recorded<'a>>,
}

/// One answer that did not come again.
#[derive(Serialize)]
struct Difference {
    place: String,
    field: String,
    recorded: String,
    replayed: String,
}

/// What the replay did and found.
#[derive(Serialize)]
struct Outcome {
    percent: u32,
    seed: u64,
    kernels: String,
    threads: usize,
    run_kernels: String,
    run_threads: usize,
    /// Distinct prompts answered again.
    prompts: usize,
    /// Distinct prompts of the run.
    prompts_of_run: usize,
    /// Answers of the run held against them.
    answers: usize,
    arms: Vec<String>,
    /// Arms that another engine answered.
    #[serde(skip)] // `arms` names those that were
    not_replayed: Vec<&'static str>,
    differences: Vec<Difference>,
}

/// Audits a run, then replays a share of it.
pub fn replay(
    directory: &Path,
    percent: u32,
    arguments: &AuditArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let run = SealedRun::open(directory, world)?;
    let asked = questions(&run)?;
    if asked.is_empty() {
        return Err(Error::Usage(
            "this run has no answer of our engine, so nothing can be replayed".to_owned(),
        ));
    }
    let seed = arguments.seed.unwrap_or_else(world.unix_s);
    let drawn = draw(&asked, percent, seed);
    let model = model_of(&run, world)?;
    let mut engine = Engine::new(model, &options(&run, &asked, &drawn, arguments)?)?;
    world.say(&format!(
        "answering {} of {} again, cold, with {} kernels and {}",
        drawn.len(),
        counted(asked.len(), "distinct prompt"),
        engine.kernels(),
        counted(engine.threads(), "thread")
    ));
    let mut outcome = Outcome {
        percent,
        seed,
        kernels: engine.kernels().to_owned(),
        threads: engine.threads(),
        run_kernels: run.record.effective.kernels.clone(),
        run_threads: run.record.effective.threads,
        prompts: drawn.len(),
        prompts_of_run: asked.len(),
        answers: 0,
        arms: Vec::new(),
        not_replayed: servers(&run.record).map(|(name, _)| name).collect(),
        differences: Vec::new(),
    };
    answer_again(&run, &asked, &drawn, &mut engine, &mut outcome)?;
    let code = if outcome.differences.is_empty() {
        run.audit.exit_code()
    } else {
        4
    };
    show(&run, &outcome, code, arguments.json, out)?;
    Ok(code)
}

/// Traces of arms that can be asked again: scripted ones have no model.
fn own(run: &SealedRun) -> impl Iterator<Item = &Trace> {
    run.traces.iter().filter(|it| !run.is_simulated(&it.arm))
}

/// What a request asks.
fn key_of(body: &Body) -> Option<Key> {
    match body {
        Body::Request {
            prompt_sha256,
            decode_max,
            ignore_eos,
            ..
        } => Some((prompt_sha256.clone(), *decode_max, *ignore_eos)),
        _ => None,
    }
}

/// Every question our own arms answered, by what was asked.
fn questions(run: &SealedRun) -> Result<BTreeMap<Key, Asked<'_>>, Error> {
    let mut asked: BTreeMap<Key, Asked<'_>> = BTreeMap::new();
    for trace in own(run) {
        let mut prompts = trace.prompts();
        let mut made: BTreeMap<&str, (Key, usize)> = BTreeMap::new();
        for (number, line) in (1..).zip(&trace.lines) {
            let prompt = prompts.next(line);
            match &line.body {
                Body::Request { id, .. } => {
                    let rebuilt = prompt.zip(key_of(&line.body));
                    let rebuilt = rebuilt.filter(|(prompt, key)| ids_sha256(prompt) == key.0);
                    made.extend(rebuilt.map(|(prompt, key)| (id.as_str(), (key, prompt.len()))));
                }
                Body::Finish {
                    request,
                    ids,
                    logits_sha256,
                    ..
                } => {
                    let place = format!("{}:{number}: {request}", trace.path);
                    let (key, prompt_tokens) = made
                        .get(request.as_str())
                        .ok_or_else(|| Error::Broken(format!("{place}: no prompt leads to it")))?;
                    let question = asked.entry(key.clone()).or_insert_with(|| Asked {
                        prompt_tokens: *prompt_tokens,
                        recorded: Vec::new(),
                    });
                    question.recorded.push(Recorded {
                        whose: trace.whose(),
                        place,
                        ids,
                        logits_sha256,
                    });
                }
                _ => {}
            }
        }
    }
    Ok(asked)
}

/// Answers what was drawn, each question where it is first asked, and holds every answer of the run against that.
fn answer_again(
    run: &SealedRun,
    asked: &BTreeMap<Key, Asked<'_>>,
    drawn: &[&Key],
    engine: &mut Engine,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let mut left: BTreeSet<&Key> = drawn.iter().copied().collect();
    let mut arms = BTreeSet::new();
    for trace in own(run) {
        let mut prompts = trace.prompts();
        for line in &trace.lines {
            let prompt = prompts.next(line);
            let Some((prompt, key)) = prompt.zip(key_of(&line.body)) else {
                continue;
            };
            if !left.remove(&key) {
                continue;
            }
            let answer = answer(engine, &key, prompt)?;
            for recorded in &asked[&key].recorded {
                outcome.answers += 1;
                arms.insert(recorded.whose.clone());
                outcome.differences.extend(difference(recorded, &answer));
            }
        }
    }
    outcome.arms = arms.into_iter().collect();
    Ok(())
}

/// `percent` of the questions in the order of a keyed hash, and at least one of every arm.
fn draw<'a>(asked: &'a BTreeMap<Key, Asked<'_>>, percent: u32, seed: u64) -> Vec<&'a Key> {
    let mut order: Vec<(String, &Key)> = asked
        .keys()
        .map(|key| (sha256_hex(format!("{seed} {key:?}").as_bytes()), key))
        .collect();
    order.sort_unstable();
    let count = (asked.len() * percent as usize).div_ceil(100);
    let mut arms = BTreeSet::new();
    let mut drawn = Vec::new();
    for (place, (_, key)) in order.into_iter().enumerate() {
        let mut fresh = false;
        for recorded in &asked[key].recorded {
            fresh |= !arms.contains(recorded.whose.as_str());
        }
        if place < count || fresh {
            arms.extend(asked[key].recorded.iter().map(|it| it.whose.as_str()));
            drawn.push(key);
        }
    }
    drawn
}

/// The very model of the run, or how to get it.
fn model_of(run: &SealedRun, world: &World) -> Result<Model, Error> {
    let (name, expected) = (&run.record.model.name, &run.record.model.sha256);
    let located = models::locate(name, world).map_err(|error| match error {
        Error::ModelMissing { .. } => error,
        other => Error::Unreachable(format!(
            "the run used the model {name} with sha256 {expected}, which is not at hand: {other}"
        )),
    })?;
    let model = located.open()?;
    let found = model.sha256()?;
    if found != expected {
        return Err(Error::Unreachable(format!(
            "model {name} is not the one of the run, so a replay would say nothing\n  the run's  {expected}\n  \
             this one   {found}\nget the file with the run's digest, or check out the commit the run was made from"
        )));
    }
    Ok(model)
}

/// Settings as unlike the run's as this machine allows.
fn options(
    run: &SealedRun,
    asked: &BTreeMap<Key, Asked<'_>>,
    drawn: &[&Key],
    arguments: &AuditArguments,
) -> Result<EngineOptions, Error> {
    let effective = &run.record.effective;
    let mode: Mode = effective
        .mode
        .parse()
        .map_err(|error| Error::Broken(format!("run.json: effective.mode: {error}")))?;
    let kv_type: KvType = effective
        .kv_dtype
        .parse()
        .map_err(|error| Error::Broken(format!("run.json: effective.kv_dtype: {error}")))?;
    let kernels = match &arguments.kernels {
        Some(kernels) => kernels
            .parse::<KernelChoice>()
            .map_err(|error| Error::Usage(format!("--kernels: {error}")))?,
        None => other_kernels(&effective.kernels),
    };
    let threads = arguments.threads.map_or(
        match effective.threads {
            1 => 2,
            threads => threads - 1,
        },
        |threads| threads as usize,
    );
    let positions = drawn.iter().map(|key| asked[*key].prompt_tokens + key.1);
    let pages = positions.max().unwrap_or(0).div_ceil(PAGE_POSITIONS);
    Ok(EngineOptions {
        mode,
        kv_type: Some(kv_type),
        kernels,
        threads,
        chunk_tokens: CHUNK_TOKENS,
        kv_pages: pages + 1,
        cache: CachePolicy::None,
        batched: false,
        shared_attention: false,
        ..EngineOptions::default()
    })
}

/// The widest set this CPU has that is not `used`; the reference where there is no other.
fn other_kernels(used: &str) -> KernelChoice {
    let mut widest_first = KernelChoice::ALL.into_iter().rev();
    let other = widest_first.find(|&choice| {
        choice != KernelChoice::Auto
            && choice.to_string() != used
            && Kernels::choose(choice).is_ok()
    });
    other.unwrap_or(KernelChoice::Scalar)
}

/// What the engine says now.
#[derive(Default)]
struct Answer {
    ids: Vec<u32>,
    logits_sha256: String,
}

impl Sink for Answer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Token { id, .. } => self.ids.push(id),
            Event::Finish { logits, .. } => {
                let bytes: Vec<u8> = logits.iter().flat_map(|it| it.to_le_bytes()).collect();
                self.logits_sha256 = sha256_hex(&bytes);
            }
            _ => {}
        }
    }
}

fn answer(engine: &mut Engine, key: &Key, prompt: Vec<u32>) -> Result<Answer, Error> {
    let mut answer = Answer::default();
    engine.submit(Request {
        prompt,
        decode_max: key.1,
        ignore_eos: key.2,
        ..Request::default()
    })?;
    while engine.step(&mut answer)? {}
    Ok(answer)
}

fn difference(recorded: &Recorded<'_>, answer: &Answer) -> Option<Difference> {
    let place = recorded.place.clone();
    if recorded.ids != answer.ids {
        let at = first_difference(recorded.ids, &answer.ids);
        return Some(Difference {
            place,
            field: format!("ids, from token {at}"),
            recorded: around(recorded.ids, &answer.ids),
            replayed: around(&answer.ids, recorded.ids),
        });
    }
    (recorded.logits_sha256 != answer.logits_sha256).then(|| Difference {
        place,
        field: "logits_sha256".to_owned(),
        recorded: recorded.logits_sha256.to_owned(),
        replayed: answer.logits_sha256.clone(),
    })
}

fn show(
    run: &SealedRun,
    outcome: &Outcome,
    code: u8,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let Outcome {
        prompts,
        prompts_of_run,
        answers,
        seed,
        kernels,
        threads,
        run_kernels,
        run_threads,
        ..
    } = outcome;
    let audit = run.audit.clone().replayed(*prompts, *prompts_of_run);
    if as_json {
        let mut document: Value = json!(audit);
        document["exit_code"] = json!(code);
        document["replay"] = json!(outcome);
        writeln!(out, "{document:#}")?;
        return Ok(());
    }
    write!(out, "{}", audit.render())?;
    writeln!(
        out,
        "\nreplay of {prompts} of {prompts_of_run} distinct prompts (seed {seed}), {kernels} kernels, {}; \
         the run had {run_kernels}, {}",
        counted(*threads, "thread"),
        counted(*run_threads, "thread")
    )?;
    let differing = outcome.differences.len();
    if differing == 0 {
        writeln!(
            out,
            "REPRODUCED: {} of {}, ids and logits bit-equal",
            counted(*answers, "answer"),
            outcome.arms.join("; ")
        )?;
    } else {
        writeln!(
            out,
            "NOT REPRODUCED: {differing} of {} differ from what the model says",
            counted(*answers, "answer")
        )?;
    }
    if !outcome.not_replayed.is_empty() {
        let arms = outcome.not_replayed.join(", ");
        writeln!(out, "not replayed, since another engine answered: {arms}")?;
    }
    write_differences(&outcome.differences, out)
}

fn write_differences(differences: &[Difference], out: &mut dyn Write) -> Result<(), Error> {
    for it in differences {
        let Difference {
            place,
            field,
            recorded,
            replayed,
        } = it;
        writeln!(
            out,
            "  {place}: {field}\n    recorded  {recorded}\n    replayed  {replayed}"
        )?;
    }
    Ok(())
}
