//! Another program as an arm: started where the model is, given so long and no longer, its answer kept as received.
//!
//! Not here: its command line and what its answer measures (`workloads::cells::external`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use sha2::{Digest, Sha256};
use workloads::cells::external::{Bench, arguments, measurement};
use workloads::trace::{Body, Program, TRACE_SCHEMA, hex, sha256_hex};

use crate::native::open_model;
use crate::recorder::Recorder;
use crate::{CellJob, Error};

/// Output kept of each stream; a measurement has some two thousand bytes.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// How much of an answer that is none a message quotes.
const QUOTE_CHARS: usize = 200;
/// Between two looks at a running program: far below what one measurement takes.
const LOOK: Duration = Duration::from_millis(5);
/// For the last output of a program that has ended; one it started itself may hold the pipe open for ever.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// To say its version.
const VERSION_LIMIT_NS: u64 = 10_000_000_000;

/// How a program is waited for.
pub(crate) struct Wait<'a> {
    /// Nanoseconds from any start.
    pub(crate) clock: &'a dyn Fn() -> u64,
    /// Whether nobody waits for its answer any more.
    pub(crate) abandoned: &'a dyn Fn() -> bool,
}

/// What will be started, and where.
pub(crate) struct Asked {
    path: Option<PathBuf>,
    /// The model's directory, so that the model is named without its path.
    directory: PathBuf,
    arguments: Vec<String>,
    bench: Bench,
}

impl Asked {
    pub(crate) fn new(job: &CellJob, flash_attention: bool) -> Result<Self, Error> {
        let bench = Bench::of(&job.cell);
        let file = job.model_path.as_deref();
        let name = file.and_then(Path::file_name).map(OsString::from);
        let name = name.map_or_else(
            || job.envelope.model.clone(), // a synthetic model has no file; the program will say so
            |name| name.to_string_lossy().into_owned(),
        );
        let directory = file.and_then(Path::parent).unwrap_or(Path::new("."));
        Ok(Self {
            path: find(job, bench)?,
            directory: directory.to_owned(),
            arguments: arguments(&job.cell, job.envelope.run.threads, flash_attention, &name),
            bench,
        })
    }

    /// The first line of the trace; what cannot be had of the program is null.
    pub(crate) fn begin(&self, job: &CellJob, wait: &Wait<'_>) -> Result<Body, Error> {
        let path = self.path.as_deref();
        let model_sha256 = match &job.model_path {
            Some(file) => file_sha256(file).map_err(|error| {
                Error::External(format!("cannot read {}: {error}", file.display()))
            })?,
            None => open_model(None, &job.envelope.model)?.sha256()?.to_owned(),
        };
        Ok(Body::BeginExternal {
            schema: TRACE_SCHEMA.to_owned(),
            envelope: job.envelope.name.clone(),
            envelope_sha256: job.envelope.sha256().map_err(Error::Json)?,
            cell: job.cell.name.clone(),
            arm: job.arm.clone(),
            rep: job.rep,
            model_sha256,
            program: identify(self.bench.name(), path, self.arguments.clone(), wait),
        })
    }
}

/// The program: the one given, or the file of its name beside the other.
fn find(job: &CellJob, bench: Bench) -> Result<Option<PathBuf>, Error> {
    let programs = &job.programs;
    let given = match bench {
        Bench::Single => programs.llama_bench.clone(),
        Bench::Batched => programs.llama_batched_bench.clone().or_else(|| {
            let beside = programs.llama_bench.as_ref()?.with_file_name(bench.name());
            beside.is_file().then_some(beside)
        }),
    };
    // It will be started in another directory.
    given
        .map(std::path::absolute)
        .transpose()
        .map_err(Error::Write)
}

/// Runs the program once and writes what it measured.
pub(crate) fn measure<W: Write>(
    job: &CellJob,
    asked: &Asked,
    wait: &Wait<'_>,
    recorder: &mut Recorder<'_, W>,
) -> Result<(), Error> {
    let name = asked.bench.name();
    let path = asked.path.as_deref().ok_or_else(|| {
        let variable = match asked.bench {
            Bench::Single => " or FAK_LLAMA_BENCH",
            Bench::Batched => ", or put it beside llama-bench",
        };
        Error::External(format!("no {name}; give --bin {name}=PATH{variable}"))
    })?;
    let mut command = Command::new(path);
    command.args(&asked.arguments).current_dir(&asked.directory);
    let limit_s = job.envelope.workload.limit_s;
    let start_ns = (wait.clock)();
    let ended = run(command, limit_s.saturating_mul(1_000_000_000), wait)
        .map_err(|error| Error::External(format!("{name} cannot be started: {error}")))?;
    let wall_ns = (wait.clock)().saturating_sub(start_ns);
    let Some(status) = ended.status else {
        return Err(Error::External(if (wait.abandoned)() {
            format!("{name} was stopped, since nobody waited for it any more")
        } else {
            format!(
                "{name} was stopped after workload.limit_s = {limit_s}; raise it or make the cell smaller"
            )
        }));
    };
    if !status.success() {
        let said = quoted(&ended.complaint);
        return Err(Error::External(format!("{name} failed ({status}): {said}")));
    }
    measurement(&job.cell, &ended.output).map_err(|problem| {
        let said = quoted(&ended.output);
        Error::External(format!(
            "{name} did not answer what was asked: {problem}; it said {said}"
        ))
    })?;
    recorder.say(Body::External {
        output: ended.output,
        wall_ns,
    })?;
    recorder.say(Body::EndExternal { measurements: 1 })
}

/// A program as the evidence names it; what cannot be had of it is none.
pub(crate) fn identify(
    name: &str,
    path: Option<&Path>,
    arguments: Vec<String>,
    wait: &Wait<'_>,
) -> Program {
    Program {
        name: name.to_owned(),
        sha256: path.and_then(|path| file_sha256(path).ok()),
        libraries_sha256: path.and_then(|path| libraries_sha256(path).ok().flatten()),
        version: path.and_then(|path| version(path, wait)),
        arguments,
    }
}

/// How a program ended and what it said.
struct Ended {
    /// None if it was stopped, at its limit or because nobody waited for it.
    status: Option<ExitStatus>,
    output: String,
    complaint: String,
}

fn run(mut command: Command, limit_ns: u64, wait: &Wait<'_>) -> std::io::Result<Ended> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (output, complaint) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let status = wait.exit(&mut child, limit_ns)?;
    let words = |pipe: Receiver<String>| pipe.recv_timeout(LAST_WORDS).unwrap_or_default();
    Ok(Ended {
        status,
        output: words(output),
        complaint: words(complaint),
    })
}

impl Wait<'_> {
    /// Waits until the child ends by itself, or ends it at the limit or once nobody waits for it.
    fn exit(&self, child: &mut Child, limit_ns: u64) -> std::io::Result<Option<ExitStatus>> {
        let start_ns = (self.clock)();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if (self.abandoned)() || (self.clock)().saturating_sub(start_ns) >= limit_ns {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Reads a pipe beside the wait, so that it can never fill and stop the program.
fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(mut pipe) = pipe {
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            let _ = pipe.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut kept);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            let _ = sender.send(String::from_utf8_lossy(&kept).into_owned());
        });
    }
    receiver
}

/// The first line of what it says its version is, on whichever stream.
fn version(path: &Path, wait: &Wait<'_>) -> Option<String> {
    let mut command = Command::new(path);
    command.arg("--version");
    let ended = run(command, VERSION_LIMIT_NS, wait).ok()?;
    let said = [ended.output, ended.complaint];
    let line = said
        .iter()
        .flat_map(|text| text.lines())
        .map(str::trim)
        .find(|line| !line.is_empty());
    line.map(str::to_owned)
}

fn quoted(text: &str) -> String {
    let text: String = text.trim().chars().take(QUOTE_CHARS).collect();
    if text.is_empty() {
        "nothing".to_owned()
    } else {
        format!("{text:?}")
    }
}

/// One digest over the shared libraries in the program's directory: a launcher alone says little of what runs.
fn libraries_sha256(program: &Path) -> std::io::Result<Option<String>> {
    let directory = program.parent().unwrap_or(Path::new("."));
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let name = name.to_string_lossy();
        if entry.is_file() && (name.contains(".so") || name.ends_with(".dylib")) {
            lines.push(format!("{name} {}\n", file_sha256(&entry)?));
        }
    }
    lines.sort_unstable();
    Ok((!lines.is_empty()).then(|| sha256_hex(lines.concat().as_bytes())))
}

pub(crate) fn file_sha256(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0_u8; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(&piece[..count]),
        }
    }
}
