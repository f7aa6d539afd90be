//! `gate`: runs an envelope and holds every counter, hit rate, output id and logit hash against a committed baseline.
//!
//! All of these are the same on every machine by contract, so any difference is a change of the program. Times are
//! looked at only with `--timing`. Not here: the comparison (`differ`), its negative controls (`control`), the
//! statistics of times (`compare`).

mod baseline;
mod control;
mod differ;
mod show;
mod timing;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use workloads::arm::{MOCK, is_server};
use workloads::envelope::ResolvedEnvelope;

use crate::cli::{GateArguments, RunArguments};
use crate::compare::times::Times;
use crate::error::Error;
use crate::run::plan::{self, Planned};
use crate::sealed::SealedRun;
use crate::world::World;
use crate::{files, models, run};
use baseline::{Baseline, Question, Seen};
use differ::{Difference, differences, unlike};

pub(crate) use differ::{around, fields, first_difference, flatten};

/// One envelope's outcome.
#[derive(Serialize)]
struct Checked {
    envelope: String,
    /// The file or run it was held against, as a user would type it.
    baseline: PathBuf,
    /// The run that was made.
    dir: PathBuf,
    arms: Vec<String>,
    requests: usize,
    differences: Vec<Difference>,
    /// Lies told to the gate itself, all noticed.
    controls_noticed: usize,
    accepted: bool,
    /// There was no baseline before.
    first: bool,
    timing: Option<Times>,
}

impl Checked {
    /// 0 as before or accepted, 1 differs or slower, 3 no verdict on the times.
    fn exit_code(&self) -> u8 {
        match &self.timing {
            _ if !self.differences.is_empty() && !self.accepted => 1,
            Some(times) => times.exit_code(),
            None => 0,
        }
    }
}

/// An envelope and what came of it.
struct Outcome {
    /// What was typed for it: a name or a file.
    typed: String,
    result: Result<Checked, Error>,
}

impl Outcome {
    /// The envelope's own name, where one was read.
    fn name(&self) -> &str {
        let checked = self.result.as_ref();
        checked.map_or(&self.typed, |checked| &checked.envelope)
    }

    fn exit_code(&self) -> u8 {
        match &self.result {
            Ok(checked) => checked.exit_code(),
            Err(error) => error.exit_code(),
        }
    }
}

/// Codes from the gravest: broken evidence, a wrong question, nothing measured, a failed gate, no verdict.
const GRAVEST_FIRST: [u8; 5] = [4, 2, 5, 1, 3];

/// Gates every envelope asked for and returns the gravest exit code.
pub fn gate(arguments: &GateArguments, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let envelopes = asked(arguments, world)?;
    let outcomes: Vec<Outcome> = envelopes
        .into_iter()
        .map(|typed| Outcome {
            result: check(&typed, arguments, world),
            typed,
        })
        .collect();
    let codes: Vec<u8> = outcomes.iter().map(Outcome::exit_code).collect();
    let code = GRAVEST_FIRST.into_iter().find(|code| codes.contains(code));
    let code = code.unwrap_or(0);
    if let Some(path) = &arguments.junit {
        let path = world.working_directory.join(path);
        files::write_atomically(&path, show::junit(&outcomes).as_bytes())?;
    }
    if arguments.json {
        show::json(&outcomes, code, out)?;
    } else {
        show::text(&outcomes, world, out)?;
    }
    if arguments.annotations {
        show::annotations(&outcomes, world, out)?;
    }
    Ok(code)
}

/// The envelopes named, else that of the run given, else all that have a baseline.
fn asked(arguments: &GateArguments, world: &World) -> Result<Vec<String>, Error> {
    if !arguments.envelopes.is_empty() {
        if arguments.against.is_some() && arguments.envelopes.len() > 1 {
            let usage = "--against DIR is one run: give one envelope with it";
            return Err(Error::Usage(usage.to_owned()));
        }
        return Ok(arguments.envelopes.clone());
    }
    if let Some(directory) = &arguments.against {
        // As the run was asked: its envelope may be nobody's but the user's.
        let envelope = directory.join("envelope.toml");
        return Ok(vec![envelope.display().to_string()]);
    }
    let envelopes = baseline::envelopes(world)?;
    if envelopes.is_empty() {
        return Err(Error::Usage(format!(
            "no baseline in results/gate; write the first with `{} gate smoke --accept`",
            world.command
        )));
    }
    Ok(envelopes)
}

/// Runs one envelope and compares.
fn check(typed: &str, arguments: &GateArguments, world: &World) -> Result<Checked, Error> {
    let against = match &arguments.against {
        Some(directory) => Some(SealedRun::open(directory, world)?),
        None => None,
    };
    let (asked, planned) = of_ours(typed, arguments, world)?;
    let path = Baseline::path(&planned.name, world);
    let (expected, named) = match &against {
        Some(run) => (Some(Baseline::of(run)?), run.directory.clone()),
        None => (kept(&path, arguments.accept, world)?, path.clone()),
    };
    if expected.is_none() && !arguments.accept {
        return Err(Error::Usage(format!(
            "{} has no baseline; write it with `{} gate {typed} --accept`",
            planned.name, world.command
        )));
    }
    let held = expected.as_ref().filter(|_| !arguments.accept);
    if let Some(held) = held {
        // Of the model only a run can tell; the rest is known before a minute is spent.
        let (model, sha256) = (&held.question.model, &held.question.model_sha256);
        let question = Question::asked(planned.clone(), model, sha256);
        refuse_unlike(held, &planned.name, &question, typed, world)?;
    }
    let run = run::sealed_session(&asked, world)?;
    run.refuse_failed()?;
    let seen = Seen::all(&run);
    if let Some(held) = held {
        refuse_unlike(held, &planned.name, &Question::of(&run)?, typed, world)?;
    }
    let found = expected.as_ref().map(|it| differences(it, &seen));
    let mut found = found.unwrap_or_default();
    let now = arguments.accept.then(|| Baseline::of(&run)).transpose()?;
    let controls_noticed = match now.as_ref().or(expected.as_ref()) {
        Some(held) => control::run(held, &seen, &run, &planned.model, world)?,
        None => 0,
    };
    let timing = arguments.timing.then(|| timing::of(&run, against, world));
    let timing = timing.transpose()?;
    if let Some(now) = now {
        let file = baseline::file_of(typed, world);
        Baseline { file, ..now }.write(&path)?;
    }
    decode(&mut found, &planned.model, world);
    Ok(Checked {
        envelope: planned.name,
        baseline: shown(&named, world),
        dir: shown(&run.directory, world),
        arms: run.record.identity.arms.clone(),
        requests: run.record.identity.requests,
        differences: found,
        controls_noticed,
        accepted: arguments.accept,
        first: expected.is_none(),
        timing,
    })
}

/// The baseline there is. One that cannot be read is an error, unless a new one shall take its place.
fn kept(path: &Path, accept: bool, world: &World) -> Result<Option<Baseline>, Error> {
    if !path.is_file() {
        return Ok(None);
    }
    match Baseline::read(path) {
        Err(why) if accept => {
            world.say(&format!("replaced without a comparison: {why}"));
            Ok(None)
        }
        read => read.map(Some),
    }
}

fn shown(path: &Path, world: &World) -> PathBuf {
    let relative = path.strip_prefix(&world.working_directory);
    relative.unwrap_or(path).to_path_buf()
}

fn run_arguments(envelope: &str, arguments: &GateArguments) -> RunArguments {
    RunArguments {
        envelope: envelope.to_owned(),
        arms: Vec::new(),
        // Counters and answers are the same every time; only times need repetitions.
        reps: (!arguments.timing).then_some(1),
        model: None,
        threads: arguments.threads,
        kernels: arguments.kernels.clone(),
        mode: None,
        programs: Vec::new(),
        attach: None,
        dataset: None,
        out: None,
        resume: None,
        pull: false,
        wait_quiet: 0,
        json: false,
    }
}

/// The run of the arms that are ours, and its envelope: what another engine counts and answers is not this program's.
fn of_ours(
    typed: &str,
    arguments: &GateArguments,
    world: &World,
) -> Result<(RunArguments, ResolvedEnvelope), Error> {
    let mut asked = run_arguments(typed, arguments);
    let envelope = planned(&asked, world)?;
    let (servers, ours): (Vec<String>, Vec<String>) =
        (envelope.run.arms.iter().cloned()).partition(|arm| is_server(arm));
    if servers.is_empty() {
        return Ok((asked, envelope));
    }
    world.say(&format!(
        "{}: no part of a gate and not run, since another engine answers: {}",
        envelope.name,
        servers.join(", ")
    ));
    asked.arms = ours;
    let envelope = planned(&asked, world)?;
    Ok((asked, envelope))
}

/// The envelope before it runs, its model as it names it.
fn planned(arguments: &RunArguments, world: &World) -> Result<ResolvedEnvelope, Error> {
    match plan::plan(arguments, world)? {
        Planned::Session(plan) if plan.envelope.run.arms.iter().all(|arm| arm == MOCK.name) => {
            Err(Error::Usage(format!(
                "{} asks only the scripted arm, whose answers are made up: give run.arms one that computes",
                plan.envelope.name
            )))
        }
        Planned::Session(plan) => Ok(plan.envelope),
        Planned::Engine(plan) => Err(Error::Usage(format!(
            "{} is engine work, which has no gate: give an envelope of kind session",
            plan.envelope.name
        ))),
        Planned::Counts(counting) => Err(Error::Usage(format!(
            "{} is counted and not run, so there is nothing to gate: give an envelope of kind session",
            counting.envelope.name
        ))),
    }
}

fn refuse_unlike(
    expected: &Baseline,
    envelope: &str,
    question: &Question,
    typed: &str,
    world: &World,
) -> Result<(), Error> {
    let mut keys = unlike(&expected.question, question);
    if expected.envelope != envelope {
        let names = (expected.envelope.clone(), envelope.to_owned());
        keys.insert(0, ("envelope".to_owned(), names.0, names.1));
    }
    if keys.is_empty() {
        return Ok(());
    }
    let lines = keys.iter().map(|(field, expected, got)| {
        format!("\n  {field}: the baseline has {expected}, this run {got}")
    });
    Err(Error::Usage(format!(
        "{envelope}: the baseline answers another question, so nothing can be compared{}\n\
         if the change is meant, `{} gate {typed} --accept` writes a new baseline",
        lines.collect::<String>(),
        world.command
    )))
}

/// Puts text beside ids that differ, where the model has a tokenizer.
fn decode(found: &mut [Difference], model: &str, world: &World) {
    if found.iter().all(|difference| difference.ids.is_none()) {
        return;
    }
    let Ok(model) = models::locate(model, world).and_then(|located| located.open()) else {
        return; // the ids are shown; text is a help and no more
    };
    let Some(tokenizer) = model.tokenizer() else {
        return;
    };
    for difference in found {
        if let Some((expected, got)) = &difference.ids {
            difference.expected_text = tokenizer.decode(expected).ok();
            difference.got_text = tokenizer.decode(got).ok();
        }
    }
}
