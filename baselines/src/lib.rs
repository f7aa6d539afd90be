//! Arms: what answers a session, driven turn by turn, or works through a cell, and the trace of it.
//!
//! Not here: processes of ours, files, repetitions and their order (`harness`), figures (`workloads::summary`).

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use workloads::arm::{MOCK, Runner};
use workloads::envelope::ResolvedEnvelope;
use workloads::session::SessionPlan;
use workloads::trace::{Body, TRACE_SCHEMA};

mod arm;
mod cells;
mod control;
mod drive;
mod error;
mod external;
mod fits;
mod fleet;
mod mock;
mod native;
mod recorder;
mod score;
pub mod server;
#[cfg(test)]
mod tests;

pub use arm::{Arm, Kv, Quarantined, Report};
pub use cells::{CellJob, Programs, run_cell};
pub use error::Error;
pub use score::run_score;
pub use server::Host;

use drive::Session;
use mock::Mock;
use native::Native;
use recorder::Recorder;

/// One repetition of one arm: what the `arm` process reads from standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmJob {
    /// The question.
    pub envelope: ResolvedEnvelope,
    /// Who is asked.
    pub arm: String,
    /// The how manieth time, from 0.
    pub rep: usize,
    /// The GGUF file; `None` for a synthetic model, which is built from the envelope's model name.
    pub model_path: Option<PathBuf>,
    /// The negative control of a gate: one bit of one logit is changed on its way into the trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub perturbed: bool,
    /// Other engines, for arms that they answer.
    #[serde(default)]
    pub servers: Servers,
}

/// Where other engines are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Servers {
    /// llama.cpp's server, or a launcher that takes its arguments.
    pub llama_server: Option<PathBuf>,
    /// The address of one that runs already, and is asked instead of starting one.
    pub attached: Option<SocketAddr>,
    /// A directory for files that one keeps while it runs.
    pub scratch: Option<PathBuf>,
}

/// A trace of another engine's answers, to be scored by ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreJob {
    /// The question.
    pub envelope: ResolvedEnvelope,
    /// Who answered.
    pub scored: String,
    /// The how manieth time, from 0.
    pub rep: usize,
    /// The GGUF file; `None` for a synthetic model.
    pub model_path: Option<PathBuf>,
    /// The trace's file.
    pub trace: PathBuf,
}

/// Runs `job` and writes its trace to `out`.
///
/// Once the model is loaded whatever goes wrong is the last line of the trace as well as the result; before that there
/// is no trace, since `begin` names the model.
pub fn run_arm(job: &ArmJob, host: &Host<'_>, out: impl Write) -> Result<(), Error> {
    let arm = workloads::arm::named(&job.arm)?;
    if let Runner::LlamaServer(llama) = arm.runner {
        return server::run(job, arm, llama, host, out);
    }
    let (clock, peak_rss) = (host.clock, host.peak_rss);
    let mut recorder = Recorder::new(out, clock);
    let load_start_ns = clock();
    let native = Native::load(job)?;
    let load_ns = clock().saturating_sub(load_start_ns);
    recorder.say(begin(job, &native)?)?;
    let outcome = measure(job, native, load_ns, clock, peak_rss, &mut recorder);
    if let Err(error) = &outcome {
        // A trace that cannot be written any more has no last line; the first error is the one to tell.
        let _ = recorder.say(Body::Error {
            message: error.to_string(),
        });
    }
    outcome
}

fn begin(job: &ArmJob, native: &Native) -> Result<Body, Error> {
    Ok(Body::Begin {
        schema: TRACE_SCHEMA.to_owned(),
        envelope: job.envelope.name.clone(),
        envelope_sha256: job.envelope.sha256().map_err(Error::Json)?,
        cell: None,
        arm: job.arm.clone(),
        rep: job.rep,
        model_sha256: native.model().sha256()?.to_owned(),
        tokenizer_sha256: native.model().tokenizer_sha256(),
        settings: native.settings(&job.envelope.mode),
    })
}

fn measure<W: Write>(
    job: &ArmJob,
    native: Native,
    load_ns: u64,
    clock: &dyn Fn() -> u64,
    peak_rss: &dyn Fn() -> Option<u64>,
    recorder: &mut Recorder<'_, W>,
) -> Result<(), Error> {
    let workload = job.envelope.workload_of(&job.arm);
    let kind = workloads::arm::named(&job.arm)?;
    let session = Session {
        plan: SessionPlan::new(&workload, native.model().ordinary_ids())?,
        workload,
        batched: kind.batched,
    };
    fits::check(&job.envelope, kind, native.model().context_length())?;
    if kind == &MOCK {
        let unscripted = || workloads::Error::Field {
            place: "envelope.json".to_owned(),
            field: "mock".to_owned(),
            value: "nothing".to_owned(),
            wanted: "how long its steps take".to_owned(),
        };
        let script = job.envelope.mock.ok_or_else(unscripted)?;
        let mut mock = Mock::new(job, script, clock);
        session.drive(&mut mock, recorder)?;
        keep_kv(job, &mock, recorder)?;
        return recorder.end(&mock.report(), load_ns, 0, peak_rss());
    }
    let warmup_start_ns = clock();
    let native = native.warmed_up()?;
    let warmup_ns = clock().saturating_sub(warmup_start_ns);
    let mut arm: Box<dyn Arm> = if job.perturbed {
        Box::new(control::Perturbed(native))
    } else {
        Box::new(native)
    };
    session.drive(&mut *arm, recorder)?;
    keep_kv(job, &*arm, recorder)?;
    recorder.end(&arm.report(), load_ns, warmup_ns, peak_rss())
}

/// Writes what the arm's cache holds, where the envelope asks for it.
fn keep_kv<W: Write>(
    job: &ArmJob,
    arm: &dyn Arm,
    recorder: &mut Recorder<'_, W>,
) -> Result<(), Error> {
    if !job.envelope.evidence.kv {
        return Ok(());
    }
    let Kv { nodes, tombstones } = arm.kv()?;
    recorder.say(Body::Kv { nodes, tombstones })
}
