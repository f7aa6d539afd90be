//! `run` for counted envelopes: nothing runs; what is declared is counted, recorded, sealed and audited.
//!
//! Not here: the counting (`workloads::counts`), or the table (`counted`).

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::json;
use workloads::counts::{self, COUNTS_SCHEMA, CountsEnvelope, CountsRecord, DatasetAsked};
use workloads::datasets::TaskSet;
use workloads::trace::sha256_hex;

use super::plan::Counting;
use crate::cli::RunArguments;
use crate::error::Error;
use crate::world::World;
use crate::{build_facts, counted, files};

/// Counts an envelope and returns what its audit says.
pub(super) fn run(
    counting: &Counting,
    arguments: &RunArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    // Before a directory is taken: what is refused leaves nothing behind.
    refuse_flags(arguments)?;
    let envelope = &counting.envelope;
    let refused = |source| Error::Envelope {
        file: envelope.name.clone(),
        source,
    };
    let tasks = tasks(envelope, arguments, world)?;
    let resolved = envelope.resolve(tasks.as_ref());
    let rows = counts::count(&resolved).map_err(refused)?;
    let unwritable = |error: serde_json::Error| Error::Usage(format!("envelope.json: {error}"));
    let json = resolved.to_json().map_err(unwritable)?;
    let counted_unix_s = (world.unix_s)();
    let record = CountsRecord {
        schema: COUNTS_SCHEMA.to_owned(),
        envelope: resolved.name.clone(),
        envelope_sha256: sha256_hex(json.as_bytes()),
        provenance: resolved.provenance().to_owned(),
        counted_unix_s,
        build: build_facts::facts(world),
        rows,
    };
    let directory = super::take_directory(arguments, &resolved.name, counted_unix_s, world)?;
    files::write_atomically(&directory.join("envelope.toml"), counting.text.as_bytes())?;
    files::write_atomically(&directory.join("envelope.json"), json.as_bytes())?;
    let audit = super::seal_record(&record, &directory)?;
    if arguments.json {
        let document = json!({
            "envelope": record.envelope, "dir": directory, "complete": true, "provenance": record.provenance,
            "audit_exit_code": audit.exit_code(), "rows": record.rows,
        });
        writeln!(out, "{document:#}")?;
    } else {
        writeln!(out, "{}: {}\n", resolved.name, resolved.question)?;
        counted::write(&record, out)?;
        super::outcome::write_next(&directory, &audit, world, out)?;
    }
    Ok(audit.exit_code())
}

/// Nothing is asked of an engine, so nothing about one may be.
fn refuse_flags(arguments: &RunArguments) -> Result<(), Error> {
    let flags = [
        ("--arm", !arguments.arms.is_empty()),
        ("--reps", arguments.reps.is_some()),
        ("--model", arguments.model.is_some()),
        ("--threads", arguments.threads.is_some()),
        ("--kernels", arguments.kernels.is_some()),
        ("--mode", arguments.mode.is_some()),
        ("--bin", !arguments.programs.is_empty()),
        ("--attach", arguments.attach.is_some()),
        ("--resume", arguments.resume.is_some()),
        ("--pull", arguments.pull),
        ("--wait-quiet", arguments.wait_quiet > 0),
    ];
    let given: Vec<&str> = flags.iter().filter(|it| it.1).map(|it| it.0).collect();
    if given.is_empty() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} is counted and not run: leave out {}",
        arguments.envelope,
        given.join(" and ")
    )))
}

/// The tasks of the data set that the envelope names, out of the file that was given for it.
fn tasks(
    envelope: &CountsEnvelope,
    arguments: &RunArguments,
    world: &World,
) -> Result<Option<TaskSet>, Error> {
    match (&envelope.workload.dataset, &arguments.dataset) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Error::Usage(format!(
            "{} names no data set: leave out --dataset",
            arguments.envelope
        ))),
        (Some(asked), None) => Err(Error::Usage(format!(
            "{name} counts the tasks of a data set that is not ours to carry; give its file (sha256 {}):\n\n    \
             {} run {name} --dataset PATH/{}",
            asked.sha256,
            world.command,
            asked.file,
            name = arguments.envelope,
        ))),
        (Some(asked), Some(file)) => {
            read(asked, &world.working_directory.join(file), world).map(Some)
        }
    }
}

fn read(asked: &DatasetAsked, path: &Path, world: &World) -> Result<TaskSet, Error> {
    let shown = world.shown(path);
    let bytes = fs::read(path);
    let bytes = bytes.map_err(|error| Error::Usage(format!("cannot read {shown}: {error}")))?;
    let found = sha256_hex(&bytes);
    if found != asked.sha256 {
        return Err(Error::Usage(format!(
            "{shown} is not the data set that the envelope names\n  expected sha256 {}\n  found           {found}\ngive \
             {} as it was published, or write an envelope of your own for this file",
            asked.sha256, asked.file
        )));
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Error::Usage(format!("{shown} is not UTF-8")))?;
    asked
        .read(&text)
        .map_err(|error| Error::Usage(error.to_string()))
}
