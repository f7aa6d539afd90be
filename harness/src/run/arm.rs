//! The hidden `arm` subcommand: the one place that knows how `baselines` is called.
//!
//! Not here: keeping the trace (`process`) or choosing the order (`plan`).

use std::io::{Read, Write};
use std::path::Path;

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
    input: &mut dyn Read,
    clock: &dyn Fn() -> u64,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let job: Job = serde_json::from_reader(input).map_err(|error| {
        Error::Usage(format!(
            "`arm` reads a job from `harness run` on standard input: {error}"
        ))
    })?;
    let peak_rss = &machine::resident_bytes_peak;
    let done = match job {
        Job::Session(job) => baselines::run_arm(&job, clock, peak_rss, out),
        Job::Cell(job) => baselines::run_cell(&job, clock, peak_rss, out),
    };
    done.map(|()| 0)
        .map_err(|error| Error::Unreachable(error.to_string()))
}
