//! `harness export`: a sealed run in the layouts that other tools read, each file saying what it is and where it is from.
//!
//! Only what those layouts can say truly is written; what was not measured is left out. Not here: the layouts (`vllm`,
//! `aiperf`, `llama_bench`), tables (`tables`), or any figure that a run record has.

mod aiperf;
mod llama_bench;
mod measured;
mod origin;
mod vllm;

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::Value;
use workloads::arm::stem;

use crate::cli::ExportArguments;
use crate::error::Error;
use crate::report::evidence;
use crate::sealed::{SealedRun, failures};
use crate::table::counted;
use crate::tables::{Frame, Source, TableName, table};
use crate::world::World;
use crate::{files, near};
use measured::Measured;

/// A run that is handed out.
pub(crate) struct Exported {
    /// Its evidence, audited.
    pub(crate) run: SealedRun,
    /// Where it stands among the anchored ones.
    pub(crate) source: Source,
}

/// Writes what is asked for. Returns the exit code.
pub fn export(
    arguments: &ExportArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let to_output = arguments.out.as_os_str() == "-";
    let one_text = matches!(arguments.format.as_str(), "csv" | "llama-bench");
    if to_output && !one_text {
        return Err(Error::Usage(format!(
            "{} is no single text: give --out a path; standard output is for csv and llama-bench",
            arguments.format
        )));
    }
    let target = world.working_directory.join(&arguments.out);
    if !to_output && target.symlink_metadata().is_ok() {
        return Err(Error::Usage(format!(
            "{} exists, and nothing is overwritten; give another --out, or remove it",
            arguments.out.display()
        )));
    }
    if matches!(arguments.format.as_str(), "csv" | "parquet") {
        let (bytes, what) = as_table(arguments, world)?;
        return written(&bytes, &what, to_output, &target, arguments, out);
    }
    refuse_table_options(arguments)?;
    let name = arguments.run.as_deref().unwrap_or_default();
    let exported = open(name, world)?;
    for failure in failures(&exported.run.record) {
        world.say(&format!(
            "not exported, since it did not complete: {failure}"
        ));
    }
    if arguments.format == "llama-bench" {
        let rows = llama_bench::rows(&exported, &arguments.arms, world)?;
        let what = counted(rows.len(), "row");
        let text = format!("{:#}\n", Value::from(rows));
        return written(text.as_bytes(), &what, to_output, &target, arguments, out);
    }
    repetitions(&exported, arguments, &target, out)
}

/// `--table` and `--all` are of tables alone.
fn refuse_table_options(arguments: &ExportArguments) -> Result<(), Error> {
    let option = match (&arguments.table, arguments.all) {
        (Some(_), _) => "--table",
        (None, true) => "--all",
        (None, false) => return Ok(()),
    };
    Err(Error::Usage(format!(
        "{option} is for csv and parquet; {} has one layout, and is of one run",
        arguments.format
    )))
}

/// The run that `name` means: a directory, or the newest that speaks of an envelope.
fn open(name: &str, world: &World) -> Result<Exported, Error> {
    let path = Path::new(name);
    let is_directory = name.contains(['/', '\\'])
        || world
            .working_directory
            .join(path)
            .join("run.json")
            .is_file();
    let run = if is_directory {
        SealedRun::open(path, world)?
    } else {
        let runs = evidence::load(&world.working_directory)?;
        let speaker = evidence::speaker(&runs, name).ok_or_else(|| {
            let speaking = runs.iter().filter(|run| run.silent.is_none());
            let mut known: Vec<&str> = speaking.map(|run| run.record.envelope.as_str()).collect();
            known.dedup();
            let known = near::suggestion(name, known);
            Error::Usage(format!(
                "no run directory {name}, and no anchored run that speaks of an envelope {name}; {known}"
            ))
        })?;
        SealedRun::open(&world.results().join(&speaker.run), world)?
    };
    let source = Source::of(&run, world)?;
    Ok(Exported { run, source })
}

/// Refuses an arm that the run does not have.
pub(crate) fn check_arms<'a>(
    wanted: &[String],
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Result<(), Error> {
    for arm in wanted {
        if !known.clone().into_iter().any(|it| it == arm) {
            return Err(Error::Usage(format!(
                "no arm {arm} in this run; {}",
                near::suggestion(arm, known)
            )));
        }
    }
    Ok(())
}

/// One table as a file's bytes, and what it is.
fn as_table(arguments: &ExportArguments, world: &World) -> Result<(Vec<u8>, String), Error> {
    let word = arguments.table.as_deref().unwrap_or("samples");
    let name = TableName::named(word).ok_or_else(|| Error::Usage(format!("no table {word}")))?;
    if name == TableName::Runs && !arguments.arms.is_empty() {
        return Err(Error::Usage(
            "--arm is of tables that have arms: samples, requests, ratios".to_owned(),
        ));
    }
    let mut sources = match &arguments.run {
        Some(run) => vec![open(run, world)?.source],
        None => Source::anchored(world)?,
    };
    let known: Vec<String> = sources.iter().flat_map(arms_of).collect();
    check_arms(&arguments.arms, known.iter().map(String::as_str))?;
    let keep = |arm: &str| arguments.arms.is_empty() || arguments.arms.iter().any(|it| it == arm);
    for source in &mut sources {
        source.keep_arms(keep);
    }
    let frame: Frame = table(name, &sources, world)?;
    let bytes = if arguments.format == "csv" {
        frame.csv()?
    } else {
        frame.parquet()?
    };
    Ok((bytes, format!("{} of {word}", counted(frame.rows(), "row"))))
}

fn arms_of(source: &Source) -> Vec<String> {
    let cells = source.record.cells.iter().flatten();
    let of_cells = cells.flat_map(|cell| cell.arms.keys());
    source.record.arms.keys().chain(of_cells).cloned().collect()
}

/// Writes one file, or standard output.
fn written(
    bytes: &[u8],
    what: &str,
    to_output: bool,
    target: &Path,
    arguments: &ExportArguments,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    if to_output {
        out.write_all(bytes)?;
        return Ok(0);
    }
    if let Some(parent) = target.parent() {
        files::create_directories(parent)?;
    }
    files::write_atomically(target, bytes)?;
    writeln!(out, "{}: {what}", arguments.out.display())?;
    Ok(0)
}

/// Writes a file for each repetition, into a directory that appears whole.
fn repetitions(
    exported: &Exported,
    arguments: &ExportArguments,
    target: &Path,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let run = &exported.run;
    if run.record.cells.is_some() {
        return Err(Error::Usage(format!(
            "{} is engine work and has no requests of users; its layout is llama-bench, or csv and parquet",
            exported.source.run
        )));
    }
    check_arms(&arguments.arms, run.record.arms.keys().map(String::as_str))?;
    let measured = Measured::all(run, &arguments.arms)?;
    if measured.is_empty() {
        return Err(Error::Unreachable(
            "no repetition of these arms completed, so there is nothing to export".to_owned(),
        ));
    }
    let documents = measured.iter().map(|it| {
        let document = match arguments.format.as_str() {
            "aiperf" => aiperf::document(it, exported),
            _ => vllm::document(it, exported),
        };
        (format!("{}.json", stem(it.arm, it.sample.rep)), document)
    });
    let documents: Vec<(String, Value)> = documents.collect();
    write_directory(target, &documents)?;
    writeln!(
        out,
        "{}: {}, one for each repetition",
        arguments.out.display(),
        counted(documents.len(), "file")
    )?;
    Ok(0)
}

/// Files in a directory of a temporary name, which is renamed when all of them are there.
fn write_directory(target: &Path, documents: &[(String, Value)]) -> Result<(), Error> {
    if let Some(parent) = target.parent() {
        files::create_directories(parent)?;
    }
    let temporary = files::temporary_name(target);
    fs::create_dir(&temporary).map_err(|source| Error::io("cannot create", &temporary, source))?;
    let filled = documents
        .iter()
        .try_for_each(|(name, document)| {
            files::write_atomically(&temporary.join(name), format!("{document:#}\n").as_bytes())
        })
        .and_then(|()| {
            fs::rename(&temporary, target)
                .map_err(|source| Error::io("cannot write", target, source))
        });
    if filled.is_err() {
        let _ = fs::remove_dir_all(&temporary); // what stays of it hides no result
    }
    filled
}
