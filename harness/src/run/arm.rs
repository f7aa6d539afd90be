//! The hidden `arm` subcommand: the one place that knows how `baselines` is called.
//!
//! The job is the first line of the input. Its end says that nobody waits for an answer any more, so that a program this
//! process has started does not outlive the run, however that ended. Not here: keeping the trace (`process`) or
//! choosing the order (`plan`).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use baselines::{ArmJob, CellJob};
use serde::Deserialize;
use workloads::envelope::ResolvedEnvelope;

use crate::error::Error;
use crate::machine;

/// A job as it travels to the arm's process.
pub fn job(
    envelope: &ResolvedEnvelope,
    arm: &str,
    rep: usize,
    model_path: Option<&Path>,
) -> Result<String, Error> {
    let job = ArmJob {
        envelope: envelope.clone(),
        arm: arm.to_owned(),
        rep,
        model_path: model_path.map(Path::to_path_buf),
        perturbed: false,
    };
    travelling(&job)
}

/// A job as it travels.
pub fn travelling(job: &ArmJob) -> Result<String, Error> {
    serde_json::to_string(job).map_err(|error| Error::Usage(format!("the arm's job: {error}")))
}

/// A job of engine work as it travels.
pub fn cell_job(job: &CellJob) -> Result<String, Error> {
    serde_json::to_string(job).map_err(|error| Error::Usage(format!("the arm's job: {error}")))
}

/// A job of either kind; they have no field set in common that would make one the other.
#[derive(Deserialize)]
#[serde(untagged)]
enum Job {
    Session(Box<ArmJob>),
    Cell(Box<CellJob>),
}

/// Runs the job on `input`, writing its trace to `out`; `clock` counts nanoseconds from any start.
pub fn arm(
    input: Box<dyn Read + Send>,
    clock: &dyn Fn() -> u64,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let refused = |why: String| {
        Error::Usage(format!(
            "`arm` reads a job from `harness run` on standard input: {why}"
        ))
    };
    let (mut input, mut text) = (BufReader::new(input), String::new());
    let read = input.read_line(&mut text);
    read.map_err(|error| refused(error.to_string()))?;
    let job: Job = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
    let abandoned = at_the_end_of(input);
    let abandoned = || abandoned.load(Ordering::Relaxed);
    let peak_rss = &machine::resident_bytes_peak;
    let done = match job {
        Job::Session(job) => baselines::run_arm(&job, clock, peak_rss, out),
        Job::Cell(job) => baselines::run_cell(&job, clock, peak_rss, &abandoned, out),
    };
    done.map(|()| 0)
        .map_err(|error| Error::Unreachable(error.to_string()))
}

/// A flag that is set once `input` has ended.
fn at_the_end_of(mut input: impl Read + Send + 'static) -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    thread::spawn(move || {
        let _ = io::copy(&mut input, &mut io::sink()); // an input that fails has ended too
        flag.store(true, Ordering::Relaxed);
    });
    ended
}
