//! What an envelope may say: every limit with its reason, and refusals that name field, value and line.
//!
//! Not here: the shape of the file (serde) or limits a model sets, such as its context (`baselines`).

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::{ENVELOPE_SCHEMA, EnvelopeOf, Kind, RunAsked, Workload, kv, tree, turns};
use crate::arm::MOCK;
use crate::mock::Script;
use crate::{Error, arrivals};

/// One trace holds every request of every agent; a thousand sessions are a fleet, not a session.
const AGENTS: RangeInclusive<usize> = 1..=1024;
/// The longest agent runs published take a few hundred turns.
const TURNS: RangeInclusive<usize> = 1..=1000;
/// A million ids: beyond every context we can load.
const PREFIX: RangeInclusive<usize> = 1..=1 << 20;
/// One answer, kept id by id in the trace.
const DECODE: RangeInclusive<usize> = 1..=1 << 16;
/// At least one id, or two agents' results could not differ.
const RESULT: RangeInclusive<usize> = 1..=1 << 16;
/// Five pairs make a verdict; fifty are an evening on a small machine.
const REPS: RangeInclusive<usize> = 1..=50;
/// More threads than any machine of one socket has cores.
const THREADS: RangeInclusive<usize> = 1..=256;
/// A step's rows live in memory at once.
const CHUNK_TOKENS: RangeInclusive<usize> = 1..=1 << 16;
/// A million pages are 64 million positions: more memory than the machines we know.
const KV_PAGES: RangeInclusive<usize> = 1..=1 << 20;
/// A minute: whoever waits longer for one scripted step waits for nothing.
const STEP_NS_MAX: u64 = 60_000_000_000;
/// Names become directory names.
const NAME_BYTES: RangeInclusive<usize> = 1..=64;

/// A value that is not allowed, before it is known where it stands.
#[derive(Debug)]
pub struct Refusal {
    field: &'static str,
    value: String,
    wanted: String,
}

impl Refusal {
    pub(crate) fn new(field: &'static str, value: impl Display, wanted: impl Into<String>) -> Self {
        Self {
            field,
            value: value.to_string(),
            wanted: wanted.into(),
        }
    }

    /// The refusal of a value in `file`, whose text gives the line.
    pub(crate) fn in_file(self, text: &str, file: &str) -> Error {
        let place = match line_of(text, self.field) {
            Some(line) => format!("{file}, line {line}"),
            None => file.to_owned(),
        };
        self.at(place)
    }

    /// The refusal of a value given as a flag: a file's own values were checked when it was read.
    pub(super) fn on_command_line(self) -> Error {
        self.at("command line".to_owned())
    }

    fn at(self, place: String) -> Error {
        let Self {
            field,
            value,
            wanted,
        } = self;
        Error::Field {
            place,
            field: field.to_owned(),
            value,
            wanted,
        }
    }
}

/// Refuses the text of another version, whose fields need not be ours.
pub(crate) fn schema(text: &str) -> Result<(), Refusal> {
    let document = toml::from_str::<toml::Table>(text).unwrap_or_default();
    let stated = document.get("schema").and_then(toml::Value::as_str);
    stated.map_or(Ok(()), |stated| word("schema", stated, &[ENVELOPE_SCHEMA]))
}

/// Checks every field once, in the order of the file.
pub(super) fn envelope<W: Kind>(envelope: &EnvelopeOf<W>) -> Result<(), Refusal> {
    let EnvelopeOf { workload, run, .. } = envelope;
    word("schema", &envelope.schema, &[ENVELOPE_SCHEMA])?;
    name(&envelope.name)?;
    if envelope.model.is_empty() {
        return Err(Refusal::new(
            "model",
            "\"\"",
            "the name of a model or the path of a GGUF file",
        ));
    }
    word("mode", &envelope.mode, &["exact", "fast"])?;
    workload.check(run, &envelope.evidence)?;
    arms(&run.arms, &W::arm_names())?;
    scripted(run, envelope.mock.as_ref())?;
    within("run.reps", run.reps, &REPS)?;
    for (arm, reps) in &run.arm_reps {
        if !run.arms.contains(arm) {
            let wanted = format!(
                "repetitions of arms of this run only: {}",
                run.arms.join(", ")
            );
            return Err(Refusal::new(
                "run.arm_reps",
                format!("{{ {arm} = {reps} }}"),
                wanted,
            ));
        }
        within("run.arm_reps", *reps, &REPS)?;
    }
    within("run.threads", run.threads.unwrap_or(1), &THREADS)?;
    let kernels = ["auto", "scalar", "avx2", "avx512"];
    word("run.kernels", &run.kernels, &kernels)?;
    within("run.chunk_tokens", run.chunk_tokens, &CHUNK_TOKENS)?;
    within("run.kv_pages", run.kv_pages, &KV_PAGES)?;
    word("evidence.prompts", &envelope.evidence.prompts, &["ids"])
}

/// Checks a session.
pub(super) fn session(workload: &Workload, run: &RunAsked) -> Result<(), Refusal> {
    word(
        "workload.kind",
        &workload.kind,
        &["session", "engine", "counts"],
    )?;
    within("workload.agents", workload.agents, &AGENTS)?;
    within("workload.turns", workload.turns, &TURNS)?;
    within("workload.prefix", workload.prefix, &PREFIX)?;
    within("workload.decode", workload.decode, &DECODE)?;
    within("workload.result", workload.result, &RESULT)?;
    if workload.workers != 1 {
        let wanted = "1: one worker for now; cross-worker sharing is a later envelope";
        return Err(Refusal::new("workload.workers", workload.workers, wanted));
    }
    tree::check(workload, &RESULT)?;
    kv::check_quarantine(workload, run)?;
    arrivals::check(workload, run)?;
    turns::check_passes(workload, run)?;
    turns::check_fewer(workload.turns, run)
}

pub(crate) fn within(
    field: &'static str,
    value: usize,
    allowed: &RangeInclusive<usize>,
) -> Result<(), Refusal> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(Refusal::new(
        field,
        value,
        format!("{} to {}", allowed.start(), allowed.end()),
    ))
}

pub(crate) fn word(field: &'static str, value: &str, allowed: &[&str]) -> Result<(), Refusal> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(Refusal::new(
        field,
        format!("{value:?}"),
        allowed.join(" or "),
    ))
}

fn name(name: &str) -> Result<(), Refusal> {
    named("name", name)
}

/// A name that may stand in a file name.
pub(crate) fn named(field: &'static str, name: &str) -> Result<(), Refusal> {
    let plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
    };
    if NAME_BYTES.contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('-') {
        return Ok(());
    }
    let wanted = "up to 64 lower-case letters, digits, dashes and underscores, no dash first";
    Err(Refusal::new(field, format!("{name:?}"), wanted))
}

fn arms(arms: &[String], known: &[&str]) -> Result<(), Refusal> {
    for (place, arm) in arms.iter().enumerate() {
        if !known.contains(&arm.as_str()) {
            let wanted = format!("names out of {}", known.join(", "));
            return Err(Refusal::new("run.arms", format!("{arm:?}"), wanted));
        }
        if arms[..place].contains(arm) {
            return Err(Refusal::new(
                "run.arms",
                format!("{arm:?} twice"),
                "every arm once",
            ));
        }
    }
    if arms.is_empty() {
        return Err(Refusal::new(
            "run.arms",
            "[]",
            format!("some of {}", known.join(", ")),
        ));
    }
    Ok(())
}

/// The scripted arm needs its script, and nobody else has a use for one.
fn scripted(run: &RunAsked, script: Option<&Script>) -> Result<(), Refusal> {
    let asked = run.arms.iter().any(|arm| arm == MOCK.name);
    match script {
        None if asked => Err(Refusal::new(
            "mock",
            "nothing",
            "a [mock] table with step_ns for the arm mock",
        )),
        Some(_) if !asked => Err(Refusal::new(
            "mock",
            "a table",
            "none, or add the arm mock to run.arms",
        )),
        Some(script) => bounded(script, run.chunk_tokens as u64),
        None => Ok(()),
    }
}

/// No step of a script takes longer than anybody waits; one of a prompt has up to `chunk_tokens` rows, one of decoding one.
fn bounded(script: &Script, chunk_tokens: u64) -> Result<(), Refusal> {
    let left_ns = STEP_NS_MAX.saturating_sub(script.step_ns);
    let row_ns_max = left_ns / chunk_tokens.max(1);
    let Script {
        step_ns,
        prefill_ns_per_token,
        decode_ns_per_token,
        jitter_thousandths,
    } = *script;
    for (field, value, most) in [
        ("mock.step_ns", step_ns, STEP_NS_MAX),
        (
            "mock.prefill_ns_per_token",
            prefill_ns_per_token,
            row_ns_max,
        ),
        ("mock.decode_ns_per_token", decode_ns_per_token, left_ns),
    ] {
        if value > most {
            let wanted = format!("0 to {most}, so that no step takes more than a minute");
            return Err(Refusal::new(field, value, wanted));
        }
    }
    if jitter_thousandths > 1000 {
        let field = "mock.jitter_thousandths";
        return Err(Refusal::new(field, jitter_thousandths, "0 to 1000"));
    }
    Ok(())
}

/// The line on which a dotted field's value starts; `None` if the file leaves it out.
pub(super) fn line_of(text: &str, field: &str) -> Option<usize> {
    let document = toml::de::DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut keys = field.split('.').peekable();
    while let Some(key) = keys.next() {
        let value = table.get(key)?;
        if keys.peek().is_none() {
            let before = text.get(..value.span().start)?;
            return Some(1 + before.matches('\n').count());
        }
        table = value.get_ref().as_table()?;
    }
    None
}
