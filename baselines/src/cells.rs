//! Engine work: one cell, asked of our engine in one or two waves of requests, or of another program.
//!
//! Everyone's requests of a turn are made at once and answered before the next turn. Not here: which ids are asked
//! (`workloads::cells`), which steps are timed (the record says, from the trace), how another program is run (`external`).

use std::io::Write;
use std::path::PathBuf;

use engine::Request;
use serde::{Deserialize, Serialize};
use workloads::cells::arm::{self, Runner};
use workloads::cells::{Cell, CellPlan};
use workloads::envelope::ResolvedCells;
use workloads::trace::{Base, Body, TRACE_SCHEMA, ids_sha256};

use crate::native::Native;
use crate::recorder::Recorder;
use crate::{Arm, Error, drive, external};

const SHARED_NAME: &str = "shared";

/// One repetition of one arm in one cell: what the `arm` process reads from standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellJob {
    /// The question.
    pub envelope: ResolvedCells,
    /// Which of its cells.
    pub cell: Cell,
    /// Who is asked.
    pub arm: String,
    /// The how manieth time, from 0.
    pub rep: usize,
    /// The GGUF file; `None` for a synthetic model, which is built from the envelope's model name.
    pub model_path: Option<PathBuf>,
    /// Where other programs are.
    pub programs: Programs,
}

/// llama.cpp's benchmarks, where they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    /// For one sequence.
    pub llama_bench: Option<PathBuf>,
    /// For several that decode together.
    pub llama_batched_bench: Option<PathBuf>,
}

/// Runs `job` and writes its trace to `out`; `clock` and `peak_rss` are as for [`crate::run_arm`]. Another program is
/// ended as soon as `abandoned` says that nobody waits for it.
pub fn run_cell(
    job: &CellJob,
    clock: &dyn Fn() -> u64,
    peak_rss: &dyn Fn() -> Option<u64>,
    abandoned: &dyn Fn() -> bool,
    out: impl Write,
) -> Result<(), Error> {
    let mut recorder = Recorder::new(out, clock);
    let outcome = match arm::named(&job.arm)?.runner {
        Runner::Ours { shared_attention } => {
            let start_ns = clock();
            let native = Native::load_cell(job, shared_attention)?;
            let load_ns = clock().saturating_sub(start_ns);
            recorder.say(begin(job, &native)?)?;
            measure(job, native, load_ns, clock, peak_rss, &mut recorder)
        }
        Runner::LlamaBench { flash_attention } => {
            let asked = external::Asked::new(job, flash_attention)?;
            let wait = external::Wait { clock, abandoned };
            recorder.say(asked.begin(job, &wait)?)?;
            external::measure(job, &asked, &wait, &mut recorder)
        }
    };
    if let Err(error) = &outcome {
        // A trace that cannot be written any more has no last line; the first error is the one to tell.
        let _ = recorder.say(Body::Error {
            message: error.to_string(),
        });
    }
    outcome
}

fn begin(job: &CellJob, native: &Native) -> Result<Body, Error> {
    Ok(Body::Begin {
        schema: TRACE_SCHEMA.to_owned(),
        envelope: job.envelope.name.clone(),
        envelope_sha256: job.envelope.sha256().map_err(Error::Json)?,
        cell: Some(job.cell.name.clone()),
        arm: job.arm.clone(),
        rep: job.rep,
        model_sha256: native.model().sha256()?.to_owned(),
        tokenizer_sha256: native.model().tokenizer_sha256(),
        settings: native.settings(&job.envelope.mode),
    })
}

fn measure<W: Write>(
    job: &CellJob,
    native: Native,
    load_ns: u64,
    clock: &dyn Fn() -> u64,
    peak_rss: &dyn Fn() -> Option<u64>,
    recorder: &mut Recorder<'_, W>,
) -> Result<(), Error> {
    let ordinary = native.model().ordinary_ids();
    let plan = CellPlan::new(&job.cell, job.envelope.workload.seed, ordinary)?;
    fits(job, native.model().context_length())?;
    let start_ns = clock();
    let mut native = native.warmed_up()?;
    let warmup_ns = clock().saturating_sub(start_ns);
    drive(&mut native, &plan, &job.cell, recorder)?;
    recorder.end(&native.report(), load_ns, warmup_ns, peak_rss())
}

/// Refuses a cell that would not fit the model's context or the page pool.
fn fits(job: &CellJob, context: usize) -> Result<(), Error> {
    let cell = &job.cell;
    let refuse = |what, needed, available, lower| {
        Err(Error::Cell {
            cell: cell.name.clone(),
            what,
            needed,
            available,
            lower,
        })
    };
    let positions = cell.positions();
    if positions > context {
        return refuse(
            "positions",
            positions,
            context,
            "its depth, prompt or decode",
        );
    }
    let common = cell.shared / engine::PAGE_POSITIONS;
    // One page more than a transcript fills: a partly matched page is copied before it is extended.
    let own = positions.div_ceil(engine::PAGE_POSITIONS) + 1 - common;
    let (needed, available) = (common + cell.agents * own, job.envelope.run.kv_pages);
    if needed > available {
        return refuse(
            "KV pages",
            needed,
            available,
            "its agents, or raise run.kv_pages",
        );
    }
    Ok(())
}

/// Asks every turn of every agent, one turn after another.
pub(crate) fn drive<W: Write>(
    arm: &mut dyn Arm,
    plan: &CellPlan,
    cell: &Cell,
    recorder: &mut Recorder<'_, W>,
) -> Result<(), Error> {
    let shared = plan.shared();
    if !shared.is_empty() {
        recorder.say(Body::Text {
            name: SHARED_NAME.to_owned(),
            ids: shared.clone(),
        })?;
    }
    let mut transcripts = vec![shared; cell.agents];
    for turn in 0..cell.turns() {
        for (agent, transcript) in transcripts.iter_mut().enumerate() {
            let (keep, append) = (transcript.len(), plan.append(agent, turn));
            transcript.extend(&append);
            recorder.request(
                number(cell, agent, turn),
                line(cell, (agent, turn), keep, append, transcript),
            )?;
            arm.submit(Request {
                id: number(cell, agent, turn),
                session: agent as u64,
                prompt: transcript.clone(),
                decode_max: cell.decode_max(),
                ignore_eos: true,
                ..Request::default()
            })?;
        }
        while recorder.open_requests() > 0 {
            for (number, ids) in drive::step(arm, recorder)? {
                transcripts[number as usize % cell.agents].extend(ids);
            }
        }
    }
    Ok(())
}

fn number(cell: &Cell, agent: usize, turn: usize) -> u64 {
    (turn * cell.agents + agent) as u64
}

/// The `request` line: its prompt continues the shared text, nothing, or the agent's turn before.
fn line(
    cell: &Cell,
    (agent, turn): (usize, usize),
    keep: usize,
    append: Vec<u32>,
    prompt: &[u32],
) -> Body {
    let name = |turn: usize| format!("a{agent}-t{turn}");
    Body::Request {
        id: name(turn),
        session: format!("a{agent}"),
        agent,
        turn,
        worker: 0,
        base: match turn.checked_sub(1) {
            Some(before) => Some(Base::Request(name(before))),
            None => (keep > 0).then(|| Base::Text(SHARED_NAME.to_owned())),
        },
        keep,
        append,
        prompt_len: prompt.len(),
        prompt_sha256: ids_sha256(prompt),
        decode_max: cell.decode_max(),
        ignore_eos: true,
        due_ns: None,
    }
}
