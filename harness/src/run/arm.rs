//! The hidden `arm` subcommand: the one place that knows how `baselines` is called.
//!
//! The job is the first line of the input. Its end says that nobody waits for an answer any more, so that a program this
//! process has started does not outlive the run, however that ended. Not here: keeping the trace (`process`) or
//! choosing the order (`plan`).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use baselines::{ArmJob, CellJob, Host, ScoreJob};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::machine;

/// A job as it travels, whatever its kind.
pub fn travelling(job: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(job).map_err(|error| Error::Usage(format!("the arm's job: {error}")))
}

/// A job of any kind; they have no field set in common that would make one the other.
#[derive(Deserialize)]
#[serde(untagged)]
enum Job {
    Session(Box<ArmJob>),
    Cell(Box<CellJob>),
    Score(Box<ScoreJob>),
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
    let host = Host {
        clock,
        peak_rss: &machine::resident_bytes_peak,
        abandoned: &abandoned,
    };
    let done = match job {
        Job::Session(job) => baselines::run_arm(&job, &host, out),
        Job::Cell(job) => baselines::run_cell(&job, clock, host.peak_rss, &abandoned, out),
        Job::Score(job) => baselines::run_score(&job, clock, out),
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
