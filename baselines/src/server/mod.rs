//! Another engine as an arm of a session: started, asked how it is set, probed, played to, and its answers kept as they came.
//!
//! `process` starts it, `attach` takes one that runs, `http` and `sse` carry bytes, `protocol` knows its words, `client` asks, `answer` holds what comes
//! against what was asked, `play` plays the session. Not here: whether its answers are good (`score`), or processes of ours and files (`harness`).

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use hyper::Method;
use workloads::arm::{Arm, LlamaServer, Runner};
use workloads::envelope::ResolvedEnvelope;
use workloads::session::SessionPlan;
use workloads::trace::server::{BeginServer, EndServer, Probe, Ready, ServerSettings};
use workloads::trace::{Body, Program, TRACE_SCHEMA, TraceWriter};

mod answer;
mod attach;
mod client;
mod endpoint;
mod http;
pub mod launcher;
mod play;
mod process;
pub mod protocol;
mod sse;

pub use answer::Completed;
pub use client::{Prepared, complete, version};
pub use endpoint::Endpoint;

use crate::external::{self, Wait};
use crate::native::open_model;
use crate::{ArmJob, Error, fits};
use client::text;
use play::{Play, gone};
use process::{Asked, Started};
use protocol::Ask;
use protocol::llama::{self, Llama};

/// The name of llama.cpp's server, in evidence and messages.
const LLAMA_SERVER: &str = "llama-server";
/// How answers are asked for: with every id.
const WHOLE: Llama = Llama { stream: false };
/// For loading a model from a cold disk.
const START_LIMIT_S: u64 = 300;
/// For one that runs already.
const ATTACH_LIMIT_S: u64 = 5;
/// Between two looks at whether it is up.
const LOOK: Duration = Duration::from_millis(20);
/// For short questions.
const QUESTION_LIMIT_S: u64 = 30;
/// Ids of a probe: some more than a batch of products takes together.
const PROBE_IDS: usize = 64;
/// Slots round their context up to this.
const CONTEXT_STEP: usize = 256;

/// What the process of an arm knows of the world around it.
pub struct Host<'a> {
    /// Nanoseconds since the trace began.
    pub clock: &'a dyn Fn() -> u64,
    /// Peak memory of this process in bytes, where the system tells.
    pub peak_rss: &'a dyn Fn() -> Option<u64>,
    /// Whether nobody waits for an answer any more.
    pub abandoned: &'a dyn Fn() -> bool,
}

/// The trace, stamped; when the first request left.
struct Trace<'a, W: Write> {
    writer: TraceWriter<W>,
    clock: &'a dyn Fn() -> u64,
    first_sent_ns: u64,
}

impl<W: Write> Trace<'_, W> {
    fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Writes a line and says its time.
    fn say(&mut self, body: Body) -> Result<u64, Error> {
        let t_ns = self.now();
        self.writer.write(t_ns, body)?;
        Ok(t_ns)
    }

    /// Writes the line of a request that leaves now.
    fn sent(&mut self, body: Body) -> Result<u64, Error> {
        let t_ns = self.say(body)?;
        if self.first_sent_ns == 0 {
            self.first_sent_ns = t_ns;
        }
        Ok(t_ns)
    }
}

/// What the model says, asked before the server has the cores and the memory to itself.
struct OfModel {
    sha256: String,
    plan: SessionPlan,
    probe: Vec<u32>,
}

/// The arguments an arm's server is started with, as the evidence has them; `model` is the file's name.
pub fn arguments(envelope: &ResolvedEnvelope, arm: &Arm, model: &str) -> Vec<String> {
    let Runner::LlamaServer(llama) = arm.runner else {
        return Vec::new();
    };
    process::arguments(&asked(envelope, arm.name, llama, model), "PORT", "SCRATCH")
}

fn asked<'a>(
    envelope: &ResolvedEnvelope,
    arm: &str,
    llama: LlamaServer,
    model: &'a str,
) -> Asked<'a> {
    let shape = envelope.workload_of(arm).shape();
    let transcript = shape.transcript().unwrap_or(u64::MAX);
    let wanted = (transcript as usize + 1).max(PROBE_IDS + CONTEXT_STEP / 2);
    Asked {
        arm: llama,
        model,
        threads: envelope.run.threads,
        slots: envelope.workload.agents,
        slot_positions: wanted.next_multiple_of(CONTEXT_STEP),
        positions_needed: transcript as usize,
    }
}

/// Runs one repetition of an arm that another engine answers. Whatever goes wrong after the first line is the last one
/// as well as the result.
pub(crate) fn run(
    job: &ArmJob,
    arm: &'static Arm,
    llama: LlamaServer,
    host: &Host<'_>,
    out: impl Write,
) -> Result<(), Error> {
    let mut trace = Trace {
        writer: TraceWriter::new(out),
        clock: host.clock,
        first_sent_ns: 0,
    };
    let of_model = of_model(job, arm)?;
    let model = model_name(job)?;
    let asked = asked(&job.envelope, &job.arm, llama, &model);
    let arguments = arguments(&job.envelope, arm, &model);
    trace.say(begin(job, arguments, &of_model.sha256, host)?)?;
    let outcome = serve(job, arm, &asked, of_model, host, &mut trace);
    if let Err(error) = &outcome {
        // A trace that cannot be written any more has no last line; the first error is the one to tell.
        let _ = trace.say(Body::Error {
            message: error.to_string(),
        });
    }
    outcome
}

fn of_model(job: &ArmJob, arm: &'static Arm) -> Result<OfModel, Error> {
    let workload = job.envelope.workload_of(&job.arm);
    let model = open_model(job.model_path.as_deref(), &job.envelope.model)?;
    fits::check(&job.envelope, arm, model.context_length())?;
    let ordinary = model.ordinary_ids();
    let plan = SessionPlan::new(&workload, ordinary.clone())?;
    // Not the session's beginning, so that what is left of it in a slot saves nobody anything.
    let first = plan.prefix().first().copied().unwrap_or_default();
    let probe = ordinary.filter(|id| *id != first).cycle().take(PROBE_IDS);
    Ok(OfModel {
        sha256: model.sha256()?.to_owned(),
        plan,
        probe: probe.collect(),
    })
}

/// The model's file, as it is called in its directory.
fn model_name(job: &ArmJob) -> Result<String, Error> {
    let name = job.model_path.as_deref().and_then(Path::file_name);
    let name = name.map(OsStr::to_string_lossy).ok_or_else(|| {
        let model = &job.envelope.model;
        Error::External(format!(
            "{model} is no file, and another engine needs one; try --model smollm2-135m-q8_0"
        ))
    })?;
    Ok(name.into_owned())
}

fn begin(
    job: &ArmJob,
    arguments: Vec<String>,
    model_sha256: &str,
    host: &Host<'_>,
) -> Result<Body, Error> {
    let wait = Wait {
        clock: host.clock,
        abandoned: host.abandoned,
    };
    let path = job.servers.llama_server.as_deref();
    let program: Program = match job.servers.attached {
        Some(_) => attached_program(),
        None => external::identify(LLAMA_SERVER, path, arguments, &wait),
    };
    Ok(Body::BeginServer(BeginServer {
        schema: TRACE_SCHEMA.to_owned(),
        envelope: job.envelope.name.clone(),
        envelope_sha256: job.envelope.sha256().map_err(Error::Json)?,
        arm: job.arm.clone(),
        rep: job.rep,
        model_sha256: model_sha256.to_owned(),
        program,
    }))
}

/// What is known of the file of a server that ran before: nothing, nor of its arguments.
pub fn attached_program() -> Program {
    Program {
        name: LLAMA_SERVER.to_owned(),
        sha256: None,
        libraries_sha256: None,
        version: None,
        arguments: Vec::new(),
    }
}

fn serve<W: Write>(
    job: &ArmJob,
    arm: &'static Arm,
    asked: &Asked<'_>,
    of_model: OfModel,
    host: &Host<'_>,
    trace: &mut Trace<'_, W>,
) -> Result<(), Error> {
    let start_ns = trace.now();
    let mut server = start(job, asked)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let attached = job.servers.attached.is_some();
        let limit_s = if attached {
            ATTACH_LIMIT_S
        } else {
            START_LIMIT_S
        };
        await_start(&mut server, limit_s, host).await?;
        if attached {
            attach::adopt(&server, asked, &of_model.sha256, host).await?;
        }
        let load_ns = trace.now().saturating_sub(start_ns);
        let warmup_start_ns = trace.now();
        let limit_s = job.envelope.run.request_limit_s();
        let (settings, barred, probes) = probed(&server, &of_model.probe, limit_s, host).await?;
        trace.say(Body::Ready(Ready {
            settings,
            barred,
            load_ns,
        }))?;
        for probe in probes {
            trace.say(Body::Probe(probe))?;
        }
        let warmup_ns = trace.now().saturating_sub(warmup_start_ns);
        let play = Play {
            plan: of_model.plan,
            workload: job.envelope.workload_of(&job.arm),
            batched: arm.batched,
            copies_prefix: asked.arm.copies_prefix,
            limit_s,
            host,
        };
        let totals = play.all(&mut server, trace).await?;
        if let Some(status) = server.ended() {
            return Err(gone(status, &server)); // then another one answered at its port
        }
        trace.say(Body::EndServer(EndServer {
            requests: totals.requests,
            prompt_tokens: totals.prompt_tokens,
            cached_tokens: totals.cached_tokens,
            computed_tokens: totals.computed_tokens,
            decode_tokens: totals.decode_tokens,
            warmup_ns,
            wall_ns: totals.wall_ns,
            rss_bytes_peak: server.rss_bytes_peak(),
        }))?;
        Ok(())
    })
}

fn start(job: &ArmJob, asked: &Asked<'_>) -> Result<Started, Error> {
    if let Some(address) = job.servers.attached {
        return Ok(Started::attached(address));
    }
    let program = job.servers.llama_server.as_deref().ok_or_else(|| {
        Error::External(
            "no llama-server; give --bin llama-server=PATH or FAK_LLAMA_SERVER, or see \
             `harness baseline doctor llama-server`"
                .to_owned(),
        )
    })?;
    let program = std::path::absolute(program)?;
    let directory = job.model_path.as_deref().and_then(Path::parent);
    let scratch = job.servers.scratch.as_deref().unwrap_or(Path::new("."));
    let scratch = std::path::absolute(scratch)?;
    let port = process::free_port()?;
    // llama.cpp puts names directly behind what it is given.
    let scratch = format!("{}/", scratch.display());
    let arguments = process::arguments(asked, &port.to_string(), &scratch);
    let directory = directory.unwrap_or(Path::new("."));
    Started::new(&program, &arguments, directory, port)
        .map_err(|error| Error::External(format!("llama-server cannot be started: {error}")))
}

/// Waits until it answers that it is well.
async fn await_start(server: &mut Started, limit_s: u64, host: &Host<'_>) -> Result<(), Error> {
    let start_ns = (host.clock)();
    let endpoint = Endpoint::from(server.address);
    loop {
        let body = String::new();
        let answer = text(&endpoint, Method::GET, "/health", body, 1, host.clock).await;
        let Err(error) = answer else { return Ok(()) };
        if let Some(status) = server.ended() {
            return Err(gone(status, server));
        }
        if (host.abandoned)() {
            let words = "the server was stopped, since nobody waited for it any more";
            return Err(Error::External(words.to_owned()));
        }
        if (host.clock)().saturating_sub(start_ns) > limit_s * 1_000_000_000 {
            let last = server.last_words();
            return Err(Error::External(format!(
                "the server was not up within {limit_s} s: {error}; {last}"
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How it says it is set, which ids it is not free to answer with, and what it finds of a prompt it was just given, and of
/// one that differs from it at once. All of this also warms it.
async fn probed(
    server: &Started,
    probe: &[u32],
    limit_s: u64,
    host: &Host<'_>,
) -> Result<(ServerSettings, Vec<u32>, Vec<Probe>), Error> {
    let clock = host.clock;
    let endpoint = Endpoint::from(server.address);
    let (get, empty) = (Method::GET, String::new());
    let props = text(&endpoint, get, "/props", empty, QUESTION_LIMIT_S, clock).await?;
    let settings = llama::settings(&props, &server.log()).map_err(Error::External)?;
    let salted = [&probe[1..2], &probe[1..]].concat();
    let mut barred = Vec::new();
    let mut probes = Vec::new();
    for (name, ids) in [
        (None, probe),
        (Some("repeat"), probe),
        (Some("salted"), &salted),
    ] {
        let ask = Ask {
            ids,
            text: None,
            decode: 2,
            slot: 0,
        };
        let prepared = Prepared::new(&WHOLE, &ask)?;
        let done = complete(&endpoint, &WHOLE, &prepared, limit_s, clock).await;
        let told = done
            .map_err(|error| Error::External(format!("a probe: {error}")))?
            .told;
        barred.clone_from(&told.barred);
        probes.extend(name.map(|name| Probe {
            name: name.to_owned(),
            prompt_tokens: ids.len(),
            cached: told.cached,
            computed: told.computed,
        }));
    }
    Ok((settings, barred, probes))
}
