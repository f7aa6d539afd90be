//! The command line of fak: plan, spawn, record, seal, anchor, report.
//!
//! Not here: running a model (`engine`, `baselines`), any figure of a record
//! (`workloads::summary`), or verifying evidence (`audit`).

pub mod anchor;
pub mod attest;
pub mod baseline;
pub mod build_facts;
pub mod calendar;
pub mod cli;
pub mod compare;
pub mod counted;
pub mod describe;
pub mod error;
pub mod explain;
#[cfg(feature = "report")]
pub mod export;
pub mod fairness;
pub mod files;
pub mod gate;
pub mod invariance;
pub mod kv;
pub mod list;
pub mod machine;
pub mod models;
pub mod near;
pub mod programs;
pub mod replay;
#[cfg(feature = "report")]
pub mod report;
pub mod requests;
pub mod run;
pub mod seal;
pub mod sealed;
pub mod selftest;
pub mod table;
#[cfg(feature = "report")]
pub mod tables;
pub mod world;

use std::io::{Read, Write};
use std::path::Path;

use cli::{AuditArguments, BaselineAction, Command, ModelAction, Tested};
use error::Error;
use world::World;

/// Does what the command line says; results go to `out`. Returns the exit code.
pub fn execute(
    command: &Command,
    world: &World,
    input: Box<dyn Read + Send>,
    clock: &dyn Fn() -> u64,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    match command {
        Command::List(arguments) => list::list(arguments, world, out),
        Command::New { name } => list::new(name, world, out),
        Command::Run(arguments) => run::run(arguments, world, out),
        Command::Audit(arguments) => verify_evidence(arguments, world, out),
        Command::Gate(arguments) => gate::gate(arguments, world, out),
        Command::Explain(arguments) => explain::explain(arguments, world, out),
        Command::Kv(arguments) => kv::kv(arguments, world, out),
        Command::Compare(arguments) => compare::compare(arguments, world, out),
        Command::Attest(arguments) => attest::attest(arguments, world, out),
        Command::Anchor { directory } => anchor::anchor(directory, world, out),
        #[cfg(feature = "report")]
        Command::Report(arguments) => report::command(arguments, world, out),
        #[cfg(feature = "report")]
        Command::Claims(arguments) => report::witness::claims(arguments, world, out),
        #[cfg(feature = "report")]
        Command::Scorecard(arguments) => report::scorecard::show::scorecard(arguments, world, out),
        #[cfg(feature = "report")]
        Command::Query(arguments) => tables::query::query(arguments, world, out),
        #[cfg(feature = "report")]
        Command::Export(arguments) => export::export(arguments, world, out),
        Command::Describe { subject } => describe::describe(subject, world, out),
        Command::Invariance(arguments) => invariance::invariance(arguments, world, clock, out),
        Command::Machine(format) => machine::print(format.json, world.cores, out),
        Command::Selftest {
            subject: Tested::Statistics { trials, json },
        } => selftest::statistics(*trials, *json, world, out),
        Command::Model { action } => model(action, world, out),
        Command::Baseline { action } => match action {
            BaselineAction::List(format) => baseline::list(format.json, world, out),
            BaselineAction::Doctor(arguments) => baseline::doctor(arguments, world, out),
        },
        Command::Arm => run::arm::arm(input, clock, out),
    }
}

fn verify_evidence(
    arguments: &AuditArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    if let (Some(directory), Some(percent)) = (&arguments.directory, arguments.replay) {
        return replay::replay(directory, percent, arguments, world, out);
    }
    let (code, text, json) = if let Some(directory) = &arguments.directory {
        let path = world.working_directory.join(directory);
        if !path.is_dir() {
            let usage = format!("no directory {}; give a run directory", directory.display());
            return Err(Error::Usage(usage));
        }
        let report = match &arguments.key {
            Some(key) => {
                let at = |file: &Path| world.working_directory.join(file);
                let attestation = arguments.attestation.as_deref().map(at);
                audit::audit_attested(&path, &at(key), attestation.as_deref())
                    .map_err(|refused| Error::Usage(refused.to_string()))?
            }
            None => audit::audit_run(&path),
        };
        (
            report.exit_code(),
            report.render(),
            serde_json::to_string_pretty(&report),
        )
    } else {
        let report = audit::audit_index(&world.results());
        (
            report.exit_code(),
            report.render(),
            serde_json::to_string_pretty(&report),
        )
    };
    if arguments.json {
        writeln!(
            out,
            "{}",
            json.map_err(|error| Error::Usage(error.to_string()))?
        )?;
    } else {
        write!(out, "{text}")?;
    }
    Ok(code)
}

fn model(action: &ModelAction, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let done = match action {
        ModelAction::List(format) => return models::inspect::list(format.json, world, out),
        ModelAction::Inspect { reference, json } => {
            return models::inspect::inspect(reference, *json, world, out);
        }
        ModelAction::Logits(arguments) => return models::generate::logits(arguments, world, out),
        ModelAction::Agree(arguments) => return models::agree::agree(arguments, world, out),
        ModelAction::Generate(arguments) => {
            return models::generate::generate(arguments, world, out);
        }
        ModelAction::Pull { name } => models::provide(name, world)?,
        ModelAction::Quantize { name, to } => models::quantize::quantize(name, to, world)?,
        ModelAction::Verify { name } => models::verify(name, world)?,
    };
    writeln!(out, "{done}")?;
    Ok(0)
}
