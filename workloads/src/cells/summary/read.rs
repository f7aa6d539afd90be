//! One trace of a cell, read for what the record needs of it: settings, answers, what was timed.
//!
//! Not here: comparing traces with each other.

use std::collections::BTreeMap;

use super::{CellTrace, refused};
use crate::Error;
use crate::cells::{Cell, external, stem};
use crate::record::{CellSample, EffectiveRecord};
use crate::summary::Answer;
use crate::trace::{Body, Line, Program};

/// How a trace ended.
pub(super) enum Ending {
    Measured(CellSample),
    Error(String),
}

/// What only our engine tells.
pub(super) struct Own {
    pub(super) tokenizer_sha256: Option<String>,
    pub(super) effective: EffectiveRecord,
    /// By (agent, turn).
    pub(super) answers: BTreeMap<(usize, usize), Answer>,
}

/// What the record needs of one trace.
pub(super) struct Reading {
    pub(super) name: String,
    pub(super) cell: String,
    pub(super) arm: String,
    pub(super) rep: usize,
    pub(super) model_sha256: String,
    /// None for another program.
    pub(super) own: Option<Own>,
    /// None for our engine.
    pub(super) program: Option<Program>,
    pub(super) ending: Ending,
}

/// Reads a trace of a cell.
pub(super) fn trace(trace: &CellTrace<'_>) -> Result<Reading, Error> {
    let name = stem(&trace.cell.name, trace.arm, trace.rep);
    let refuse = |problem: &str| refused(&name, problem);
    let (said, model_sha256, own, program) = match trace.lines.first().map(|line| &line.body) {
        Some(Body::Begin {
            cell,
            arm,
            rep,
            model_sha256,
            tokenizer_sha256,
            settings,
            ..
        }) => {
            let own = Own {
                tokenizer_sha256: tokenizer_sha256.clone(),
                effective: EffectiveRecord {
                    mode: settings.mode.clone(),
                    kernels: settings.kernels.clone(),
                    threads: settings.threads,
                    kv_dtype: settings.kv_dtype.clone(),
                },
                answers: crate::summary::answers(trace.lines)
                    .map_err(|problem| refuse(&problem))?,
            };
            ((cell.as_deref(), arm, rep), model_sha256, Some(own), None)
        }
        Some(Body::BeginExternal {
            cell,
            arm,
            rep,
            model_sha256,
            program,
            ..
        }) => (
            (Some(cell.as_str()), arm, rep),
            model_sha256,
            None,
            Some(program.clone()),
        ),
        _ => return Err(refuse("its first line is no beginning")),
    };
    if said
        != (
            Some(trace.cell.name.as_str()),
            &trace.arm.to_owned(),
            &trace.rep,
        )
    {
        return Err(refuse("it begins as another cell, arm or repetition"));
    }
    let ending = ending(trace, own.as_ref()).map_err(|problem| refuse(&problem))?;
    Ok(Reading {
        cell: trace.cell.name.clone(),
        arm: trace.arm.to_owned(),
        rep: trace.rep,
        model_sha256: model_sha256.clone(),
        own,
        program,
        ending,
        name,
    })
}

fn ending(trace: &CellTrace<'_>, own: Option<&Own>) -> Result<Ending, String> {
    let last = trace.lines.last().ok_or("it is empty")?;
    let measured = match (&last.body, own) {
        (Body::Error { message }, _) => return Ok(Ending::Error(message.clone())),
        (Body::End { .. }, Some(own)) => {
            if own.answers.len() != trace.cell.requests() {
                return Err(format!("it answers {} requests", own.answers.len()));
            }
            timed_steps(trace.cell, trace.lines)?
        }
        (Body::EndExternal { measurements: 1 }, None) => reported(trace.cell, trace.lines)?,
        _ => return Err("it has no end that fits its beginning".to_owned()),
    };
    Ok(Ending::Measured(CellSample {
        rep: trace.rep,
        tokens: measured.tokens,
        timed_ns: measured.timed_ns,
        process_ns: last.t_ns,
    }))
}

/// Rows and time of the steps that count: those of decoding, or those of prefill from the last turn on.
fn timed_steps(cell: &Cell, lines: &[Line]) -> Result<external::Measured, String> {
    let (mut tokens, mut timed_ns) = (0_u64, 0_u64);
    let mut last_turn = false;
    for line in lines {
        match &line.body {
            Body::Request { turn, .. } => last_turn |= turn + 1 == cell.turns(),
            Body::Step {
                phase,
                rows,
                wall_ns,
                ..
            } => {
                let wanted = if cell.is_decode() {
                    "decode"
                } else {
                    "prefill"
                };
                if last_turn && phase == wanted {
                    tokens += *rows as u64;
                    timed_ns += wall_ns;
                }
            }
            _ => {}
        }
    }
    if tokens != cell.tokens() || timed_ns == 0 {
        return Err(format!(
            "its timed steps run {tokens} rows in {timed_ns} ns"
        ));
    }
    Ok(external::Measured { tokens, timed_ns })
}

/// What the other program says it measured.
fn reported(cell: &Cell, lines: &[Line]) -> Result<external::Measured, String> {
    let output = lines.iter().find_map(|line| match &line.body {
        Body::External { output, .. } => Some(output),
        _ => None,
    });
    external::measurement(cell, output.ok_or("it has no measurement")?)
}
