//! `run` for envelopes of kind engine: every repetition of every arm in every cell in a process of its own.
//!
//! Not here: what runs in one (`baselines`), any figure (`workloads::cells`).

mod outcome;

use std::io::Write;
use std::path::{Path, PathBuf};

use baselines::{CellJob, Programs};
use workloads::cells::external::{self, Bench};
use workloads::cells::{self, Cell, CellTrace, CellWorkload, Grounds, arm};
use workloads::envelope::ResolvedCells;
use workloads::models::Label;
use workloads::record::{
    MachineRecord, ModelNumbers, ModelRecord, RUN_SCHEMA, RunRecord, SettingsRecord,
};
use workloads::trace::{Body, Line, Program, TRACE_SCHEMA};

use super::plan::Plan;
use super::progress::Progress;
use super::record::{Facts, check_model};
use super::{Begun, estimate, process};
use crate::cli::RunArguments;
use crate::error::Error;
use crate::fairness::Receipts;
use crate::models::{Located, numbers};
use crate::table::counted;
use crate::world::World;
use crate::{list, machine, programs};

/// One process's trace, as kept.
struct Traced<'a> {
    cell: &'a Cell,
    arm: &'a str,
    rep: usize,
    lines: Vec<Line>,
}

/// Runs an envelope of engine work and returns the exit code its outcome has.
pub(super) fn run(
    mut plan: Plan<CellWorkload>,
    arguments: &RunArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    if arguments.resume.is_some() {
        let usage = "--resume is for envelopes of kind session; run engine work anew";
        return Err(Error::Usage(usage.to_owned()));
    }
    let programs = find_programs(arguments, world)?;
    // Before a directory is taken: what is refused leaves nothing behind.
    let model = super::find_model(&plan.envelope.model, arguments.pull, world)?;
    let numbers = numbers::numbers(&model)?;
    let Begun {
        mut facts,
        directory,
    } = super::begin(&mut plan, arguments, None, announce, world)?;
    super::write_envelope(&plan, &directory)?;
    if facts.model.label != Label::Synthetic.word() {
        // A synthetic model is too small for any limit of the machine to be its own.
        world.say("measuring what the machine can do at best, some seconds");
        facts.machine.ceilings = Some(machine::measured_ceilings(plan.envelope.run.threads));
    }
    let traces = run_arms(&plan.envelope, &facts.model, &programs, &directory, world)?;
    facts.sitting.load1_after = machine::load1();
    let record = assemble(&plan.envelope, facts, numbers, &traces)
        .map_err(|error| super::unsealed(&error, &directory, world))?;
    let audit = super::seal_record(&record, &directory)?;
    let outcome = super::outcome::Outcome {
        record: &record,
        directory: &directory,
        audit: &audit,
        receipts: &Receipts::default(),
    };
    if arguments.json {
        outcome.write_json(out)?;
    } else {
        outcome.write_cells(world, out)?;
    }
    Ok(outcome.exit_code())
}

/// Where other programs are: the command line over the environment.
fn find_programs(arguments: &RunArguments, world: &World) -> Result<Programs, Error> {
    let mut found = Programs {
        llama_bench: world.llama_bench.clone(),
        llama_batched_bench: None,
    };
    if arguments.attach.is_some() {
        let words = "--attach is for envelopes of kind session; llama-bench is no server";
        return Err(Error::Usage(words.to_owned()));
    }
    for (name, path) in &arguments.programs {
        let path = programs::given(name, path, world)?;
        match name.as_str() {
            "llama-bench" => found.llama_bench = Some(path),
            "llama-batched-bench" => found.llama_batched_bench = Some(path),
            other => {
                return Err(Error::Usage(format!(
                    "--bin {other} is for envelopes of kind session; in engine work other arms are those of llama-bench"
                )));
            }
        }
    }
    Ok(found)
}

fn announce(envelope: &ResolvedCells, model: &Located, machine: &MachineRecord, world: &World) {
    let run = &envelope.run;
    let estimate = estimate::cells(envelope, &machine.class, world);
    let processes = run.arm_reps.values().sum::<usize>() * envelope.workload.cells.len();
    world.say(&format!(
        "{}: {}\n  {}\n  model {} ({}), mode {}, kernels {}, {}\n  {}, {} in all, {}\n",
        envelope.name,
        envelope.question,
        list::cell_words(&envelope.workload),
        model.name,
        model.label,
        envelope.mode,
        run.kernels,
        counted(run.threads, "thread"),
        counted(run.arms.len(), "arm"),
        counted(processes, "process"),
        super::how_long(estimate, world),
    ));
}

fn run_arms<'a>(
    envelope: &'a ResolvedCells,
    model: &Located,
    programs: &Programs,
    directory: &Path,
    world: &World,
) -> Result<Vec<Traced<'a>>, Error> {
    let rounds = envelope.run.arm_reps.values().copied().max().unwrap_or(0);
    let of_cell = envelope.run.arm_reps.values().sum::<usize>() as u64;
    let mut begin: Option<Body> = None;
    let mut traces: Vec<Traced<'a>> = Vec::new();
    let mut progress: Option<Progress> = None;
    for (cell, arm, rep) in cells::order(envelope) {
        if traces.last().is_none_or(|last| last.cell.name != cell.name) {
            progress.take().into_iter().for_each(Progress::finish);
            world.say(&cell.name);
        }
        let progress = progress
            .get_or_insert_with(|| Progress::new(of_cell, "processes", rounds, world.terminal));
        let job = CellJob {
            envelope: envelope.clone(),
            cell: cell.clone(),
            arm: arm.to_owned(),
            rep,
            model_path: model.path.clone(),
            programs: programs.clone(),
        };
        progress.start(arm, rep);
        let fallback = begin
            .as_ref()
            .and_then(|begin| begin_of(begin, &job, model));
        let lines = record(&job, directory, fallback, world)?;
        progress.end(arm, ending(&lines));
        progress.advance();
        match lines.first().map(|line| &line.body) {
            Some(first @ Body::Begin { .. }) => begin = Some(first.clone()),
            Some(Body::BeginExternal { .. }) => {}
            _ => {
                let message = ending(&lines).err().unwrap_or_default();
                let nothing = format!("the first arm did not start: {message}");
                return Err(super::unsealed(
                    &Error::Unreachable(nothing),
                    directory,
                    world,
                ));
            }
        }
        traces.push(Traced {
            cell,
            arm,
            rep,
            lines,
        });
    }
    progress.into_iter().for_each(Progress::finish);
    Ok(traces)
}

fn record(
    job: &CellJob,
    directory: &Path,
    fallback: Option<Body>,
    world: &World,
) -> Result<Vec<Line>, Error> {
    let stem = cells::stem(&job.cell.name, &job.arm, job.rep);
    let trace = directory.join("trace").join(format!("{stem}.jsonl"));
    let text = super::arm::travelling(job)?;
    process::record_within(
        process::patience(job.envelope.workload.limit_s),
        super::own_process(world),
        &text,
        &trace,
        fallback,
        &mut |_| {},
    )
}

/// What a process would have said first, had it not died before: of ours, as another process of ours said it.
fn begin_of(begin: &Body, job: &CellJob, model: &Located) -> Option<Body> {
    let mut own = begin.clone();
    let Body::Begin {
        cell,
        arm,
        rep,
        model_sha256,
        envelope_sha256,
        settings,
        ..
    } = &mut own
    else {
        return None;
    };
    match arm::named(&job.arm).ok()?.runner {
        arm::Runner::Ours { shared_attention } => {
            settings.shared_attention = shared_attention;
            *cell = Some(job.cell.name.clone());
            arm.clone_from(&job.arm);
            *rep = job.rep;
            Some(own)
        }
        arm::Runner::LlamaBench { flash_attention } => Some(Body::BeginExternal {
            schema: TRACE_SCHEMA.to_owned(),
            envelope: job.envelope.name.clone(),
            envelope_sha256: envelope_sha256.clone(),
            cell: job.cell.name.clone(),
            arm: job.arm.clone(),
            rep: job.rep,
            model_sha256: model_sha256.clone(),
            program: Program {
                name: Bench::of(&job.cell).name().to_owned(),
                sha256: None,
                libraries_sha256: None,
                version: None,
                arguments: external::arguments(
                    &job.cell,
                    job.envelope.run.threads,
                    flash_attention,
                    &file_name(model),
                ),
            },
        }),
    }
}

fn file_name(model: &Located) -> String {
    let name = model
        .path
        .as_deref()
        .and_then(Path::file_name)
        .map(PathBuf::from);
    name.map_or_else(|| model.name.clone(), |name| name.display().to_string())
}

/// How long a process took, or what it failed with.
fn ending(lines: &[Line]) -> Result<u64, &str> {
    match lines.last() {
        Some(Line {
            t_ns,
            body: Body::End { .. } | Body::EndExternal { .. },
            ..
        }) => Ok(*t_ns),
        Some(Line {
            body: Body::Error { message },
            ..
        }) => Err(message),
        _ => Err("its trace has no end"),
    }
}

fn assemble(
    envelope: &ResolvedCells,
    facts: Facts,
    numbers: ModelNumbers,
    traces: &[Traced<'_>],
) -> Result<RunRecord, Error> {
    let refused = |source| Error::Envelope {
        file: envelope.name.clone(),
        source,
    };
    let lines: Vec<CellTrace<'_>> = traces
        .iter()
        .map(|trace| CellTrace {
            cell: trace.cell,
            arm: trace.arm,
            rep: trace.rep,
            lines: &trace.lines,
        })
        .collect();
    let grounds = Grounds {
        numbers: &numbers,
        ceilings: facts.machine.ceilings.as_ref(),
    };
    let mut summary = cells::summarise(envelope, &lines, grounds).map_err(refused)?;
    check_model(&facts.model, &summary.model_sha256)?;
    facts.instrument.mark_cells(&mut summary.cells);
    let envelope_sha256 = envelope
        .sha256()
        .map_err(|error| Error::Usage(format!("envelope.json: {error}")))?;
    Ok(RunRecord {
        schema: RUN_SCHEMA.to_owned(),
        envelope: envelope.name.clone(),
        envelope_sha256,
        complete: summary.complete,
        model: ModelRecord {
            name: facts.model.name,
            sha256: summary.model_sha256,
            tokenizer_sha256: summary.tokenizer_sha256,
            label: facts.model.label,
            numbers: Some(numbers),
        },
        requested: SettingsRecord {
            mode: envelope.mode.clone(),
            kernels: envelope.run.kernels.clone(),
            threads: envelope.run.threads,
        },
        effective: summary.effective,
        build: facts.build,
        machine: facts.machine,
        sittings: vec![facts.sitting],
        order: summary.order,
        arms: std::collections::BTreeMap::new(),
        ratios: Vec::new(),
        identity: summary.identity,
        verdict: None,
        cells: Some(summary.cells),
        instrument: Some(facts.instrument),
    })
}
