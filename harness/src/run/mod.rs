//! `run`: plan, say what will happen, run every arm in its own process, record, seal, audit, show.
//!
//! A run directory is taken by creating it and is never written to again once sealed; whatever
//! interrupts a run leaves a directory without SHA256SUMS, which no auditor accepts. Not here: any
//! figure; `workloads::summary` computes them from the traces.

pub mod arm;
mod cells;
pub mod control;
mod counts;
pub mod estimate;
mod instrument;
mod outcome;
pub mod plan;
mod process;
mod progress;
mod record;
mod resume;
mod servers;
mod stage;
mod watch;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use workloads::envelope::{Kind, ResolvedEnvelope, ResolvedOf, Workload};
use workloads::models::Label;
use workloads::record::{MachineRecord, Noise, RunRecord, Sitting};
use workloads::trace::Line;

use crate::cli::RunArguments;
use crate::error::Error;
use crate::fairness::Receipts;
use crate::models::{self, Located};
use crate::sealed::SealedRun;
use crate::table::{counted, rough_duration};
use crate::world::World;
use crate::{build_facts, calendar, describe, files, machine, seal};
use plan::{Plan, Planned};
use record::Facts;
use resume::Resumed;
use servers::Servers;
use stage::Stage;

/// One process's trace, as kept.
struct Traced<'a> {
    arm: &'a str,
    rep: usize,
    lines: Vec<Line>,
    /// What our model makes of another engine's answers.
    score: Option<Vec<Line>>,
}

/// Everything that is settled before the first arm runs.
struct Begun {
    facts: Facts,
    directory: PathBuf,
}

/// A session that was run, recorded and sealed.
struct Sealed {
    record: RunRecord,
    directory: PathBuf,
    audit: audit::Report,
    /// What must be told of other engines.
    receipts: Receipts,
}

/// Runs an envelope and returns the exit code its outcome has.
pub fn run(arguments: &RunArguments, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let planned = plan::plan(arguments, world)?;
    if arguments.dataset.is_some() && !matches!(planned, Planned::Counts(_)) {
        let envelope = &arguments.envelope;
        return Err(Error::Usage(format!(
            "--dataset is for envelopes that count the tasks of one; {envelope} runs: leave it out"
        )));
    }
    match planned {
        Planned::Session(plan) => session(plan, arguments, world, out),
        Planned::Engine(plan) => cells::run(plan, arguments, world, out),
        Planned::Counts(counting) => counts::run(&counting, arguments, world, out),
    }
}

fn session(
    plan: Plan<Workload>,
    arguments: &RunArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let sealed = seal_session(plan, arguments, world)?;
    let outcome = outcome::Outcome {
        record: &sealed.record,
        directory: &sealed.directory,
        audit: &sealed.audit,
        receipts: &sealed.receipts,
    };
    if arguments.json {
        outcome.write_json(out)?;
    } else {
        outcome.write_text(world, out)?;
    }
    Ok(outcome.exit_code())
}

/// Runs a session envelope for whoever reads the run instead of showing it.
pub fn sealed_session(arguments: &RunArguments, world: &World) -> Result<SealedRun, Error> {
    let Planned::Session(plan) = plan::plan(arguments, world)? else {
        return Err(Error::Usage(format!(
            "{} is no session; give an envelope of kind session",
            arguments.envelope
        )));
    };
    let sealed = seal_session(plan, arguments, world)?;
    SealedRun::audited(sealed.directory, sealed.audit)
}

/// Runs every arm, records, seals and audits.
fn seal_session(
    mut plan: Plan<Workload>,
    arguments: &RunArguments,
    world: &World,
) -> Result<Sealed, Error> {
    // Before a directory is taken: what is refused leaves nothing behind.
    let servers = Servers::find(&plan.envelope, arguments, world)?;
    let resumed = arguments.resume.as_ref();
    let resumed = resumed.map(|given| Resumed::open(given, &plan, arguments.pull, world));
    let resumed = resumed.transpose()?;
    let goes_on = resumed.as_ref().map(|it| it.directory.clone());
    let Begun {
        mut facts,
        directory,
    } = begin(&mut plan, arguments, goes_on.clone(), announce, world)?;
    if goes_on.is_none() {
        write_envelope(&plan, &directory)?;
    }
    let held = resume::hold(&directory, &mut facts, resumed)?;
    let model_path = facts.model.path.clone();
    let stage = Stage {
        envelope: &plan.envelope,
        model_path: model_path.as_deref(),
        servers: &servers,
        directory: &directory,
        world,
    };
    let played = resume::whole_rounds(&plan.envelope, &directory)?;
    let mut traces = stage.play_all(played)?;
    facts.sitting.load1_after = machine::load1();
    stage.score_all(&mut traces)?;
    let record = record::assemble(&plan.envelope, facts, &traces)
        .map_err(|error| unsealed(&error, &directory, world))?;
    resume::forget(&directory)?;
    let audit = seal_record(&record, &directory)?;
    drop(held);
    let traced = traces.iter().map(|it| (it.arm, it.lines.as_slice()));
    let receipts = Receipts::new(plan.envelope.run.margin_millinats(), traced);
    Ok(Sealed {
        record,
        directory,
        audit,
        receipts,
    })
}

/// Says what will run.
type Announce<W> = fn(&ResolvedOf<W>, &Located, &MachineRecord, &World);

/// Finds the model, takes a directory, or goes on in one, says what will run, and only then looks at how quiet the machine is: that can
/// take long, and what is refused is refused before.
fn begin<W: Kind>(
    plan: &mut Plan<W>,
    arguments: &RunArguments,
    goes_on: Option<PathBuf>,
    announce: Announce<W>,
    world: &World,
) -> Result<Begun, Error> {
    let model = find_model(&plan.envelope.model, arguments.pull, world)?;
    // Evidence names the model as the record does; where its file was travels only in the jobs.
    plan.envelope.model.clone_from(&model.name);
    let machine = machine::facts(world.cores);
    let started_unix_s = (world.unix_s)();
    let directory = match goes_on {
        Some(directory) => directory,
        None => take_directory(arguments, &plan.envelope.name, started_unix_s, world)?,
    };
    world.say(&format!(
        "evidence goes to {}; it counts for nothing until it is sealed, when every arm is done",
        world.shown(&directory)
    ));
    announce(&plan.envelope, &model, &machine, world);
    let build = build_facts::facts(world);
    let noise = measure_noise(plan.envelope.run.threads, &model, arguments, world);
    let instrument = instrument::measure()?;
    let sitting = Sitting {
        started_unix_s,
        boot_id: machine::boot_id(),
        load1_before: machine::load1(),
        load1_after: None,
        noise: Some(noise),
    };
    let facts = Facts {
        model,
        build,
        machine,
        earlier: Vec::new(),
        sitting,
        instrument,
    };
    Ok(Begun { facts, directory })
}

/// How evenly the machine works before anything is measured on it, waiting for quiet if that was asked for.
fn measure_noise(
    threads: usize,
    model: &Located,
    arguments: &RunArguments,
    world: &World,
) -> Noise {
    // A run on a synthetic model is over in seconds: a fifth of a second will do.
    let budget_ms = if model.label == Label::Synthetic.word() {
        200
    } else {
        1000
    };
    let wait = Duration::from_secs(arguments.wait_quiet);
    machine::noise::guard(threads, Duration::from_millis(budget_ms), wait, world)
}

/// Writes run.json, seals the directory and audits it.
fn seal_record(record: &impl Serialize, directory: &Path) -> Result<audit::Report, Error> {
    let text = serde_json::to_string_pretty(record)
        .map_err(|error| Error::Broken(format!("run.json: {error}")))?;
    files::write_atomically(&directory.join("run.json"), format!("{text}\n").as_bytes())?;
    seal::seal(directory)?;
    Ok(audit::audit_run(directory))
}

/// The model, fetched first if that was asked for.
fn find_model(reference: &str, pull: bool, world: &World) -> Result<Located, Error> {
    match models::locate(reference, world) {
        Err(Error::ModelMissing { .. }) if pull => {
            world.say(&models::provide(reference, world)?);
            models::locate(reference, world)
        }
        Err(Error::ModelMissing { name, command, .. }) => Err(Error::ModelMissing {
            name,
            command,
            hint: "\n\nor add --pull to this command",
        }),
        found => found,
    }
}

fn take_directory(
    arguments: &RunArguments,
    name: &str,
    started_unix_s: u64,
    world: &World,
) -> Result<PathBuf, Error> {
    let Some(asked) = &arguments.out else {
        let parent = world.results().join("local").join(name);
        return files::take_numbered_directory(&parent, &calendar::compact(started_unix_s));
    };
    let directory = world.working_directory.join(asked);
    files::create_directories(&directory)?;
    let mut entries =
        fs::read_dir(&directory).map_err(|source| Error::io("cannot read", &directory, source))?;
    if entries.next().is_some() {
        return Err(Error::Usage(format!(
            "--out {} is not empty; evidence is never overwritten, give a new directory",
            asked.display()
        )));
    }
    Ok(directory)
}

/// What will run, on which model, and how long it will take.
fn announce(envelope: &ResolvedEnvelope, model: &Located, machine: &MachineRecord, world: &World) {
    let run = &envelope.run;
    let how_long = how_long(estimate::session(envelope, &machine.class, world), world);
    world.say(&format!(
        "{}: {}\n  {}\n  model {} ({}), mode {}, kernels {}, {}\n  {}, {} in all, {how_long}\n",
        envelope.name,
        envelope.question,
        describe::words_of(envelope),
        model.name,
        model.label,
        envelope.mode,
        run.kernels,
        counted(run.threads, "thread"),
        counted(run.arms.len(), "arm"),
        counted(run.arm_reps.values().sum(), "process"),
    ));
}

fn how_long(estimate: Option<estimate::Estimate>, world: &World) -> String {
    match estimate {
        Some(estimate) => {
            let basis = world.shown(&estimate.directory).to_string();
            format!("about {}, as in {basis}", rough_duration(estimate.total_ns))
        }
        None => "how long is unknown: first run here".to_owned(),
    }
}

fn write_envelope<W: Kind>(plan: &Plan<W>, directory: &Path) -> Result<(), Error> {
    let json = plan
        .envelope
        .to_json()
        .map_err(|error| Error::Usage(format!("envelope.json: {error}")))?;
    files::write_atomically(&directory.join("envelope.toml"), plan.text.as_bytes())?;
    files::write_atomically(&directory.join("envelope.json"), json.as_bytes())?;
    files::create_directories(&directory.join("trace"))
}

/// This program again, as the process of an arm.
fn own_process(world: &World) -> Command {
    let mut command = Command::new(&world.executable);
    command.arg("arm");
    command
}

/// An error after which the directory stays unsealed, said together with where it is.
fn unsealed(error: &Error, directory: &Path, world: &World) -> Error {
    let place = world.shown(directory);
    Error::Unreachable(format!(
        "{error}\nnothing was sealed; the traces so far are in {place}"
    ))
}
