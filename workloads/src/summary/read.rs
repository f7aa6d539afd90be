//! One trace, read for what the record needs of it: settings, answers, how it ended.
//!
//! Not here: comparing traces with each other (`compare`).

use std::collections::{BTreeMap, HashMap};

use super::ArmTrace;
use crate::Error;
use crate::oracle::Counts;
use crate::record::{EffectiveRecord, Sample};
use crate::trace::{Body, Line};

/// What one request answered.
pub(crate) struct Answer {
    pub(crate) ids: Vec<u32>,
    pub(crate) logits_sha256: String,
    /// When it had each token, from its request.
    pub(crate) token_t_ns: Vec<u64>,
}

impl Answer {
    /// `None` if equal, `Some(None)` if only the logits differ, else the first differing token.
    #[allow(clippy::option_option)] // the record's own null is a value here
    pub(crate) fn difference(&self, other: &Self) -> Option<Option<usize>> {
        if self.ids != other.ids {
            let pairs = self.ids.iter().zip(&other.ids);
            return Some(Some(pairs.take_while(|(a, b)| a == b).count()));
        }
        (self.logits_sha256 != other.logits_sha256).then_some(None)
    }
}

/// How a trace ended.
pub(super) enum Ending {
    End { counts: Counts, sample: Sample },
    Error(String),
}

/// What the record needs of one trace.
pub(super) struct Reading {
    pub(super) name: String,
    pub(super) arm: String,
    pub(super) rep: usize,
    pub(super) model_sha256: String,
    pub(super) tokenizer_sha256: Option<String>,
    pub(super) effective: EffectiveRecord,
    /// By (agent, turn).
    pub(super) answers: BTreeMap<(usize, usize), Answer>,
    /// Client-supplied positions computed, by turn.
    pub(super) computed_by_turn: BTreeMap<usize, u64>,
    pub(super) ending: Ending,
}

impl Reading {
    /// Refuses to be summarised together with a trace of another model or other settings.
    pub(super) fn runs_like(&self, first: &Self) -> Result<(), Error> {
        let other = if self.model_sha256 != first.model_sha256
            || self.tokenizer_sha256 != first.tokenizer_sha256
        {
            "model"
        } else if self.effective != first.effective {
            "settings"
        } else {
            return Ok(());
        };
        let problem = format!("its {other} is not that of {}", first.name);
        Err(Error::Trace {
            trace: self.name.clone(),
            problem,
        })
    }
}

/// Reads a trace that must answer `requests` requests if it ended well.
pub(super) fn trace(trace: &ArmTrace<'_>, requests: usize) -> Result<Reading, Error> {
    let name = format!("{}-{}", trace.arm, trace.rep);
    let refuse = |problem: &str| Error::Trace {
        trace: name.clone(),
        problem: problem.to_owned(),
    };
    let Some(Body::Begin {
        arm,
        rep,
        model_sha256,
        tokenizer_sha256,
        settings,
        ..
    }) = trace.lines.first().map(|line| &line.body)
    else {
        return Err(refuse("its first line is no `begin`"));
    };
    if arm != trace.arm || *rep != trace.rep {
        return Err(refuse(&format!("its `begin` says {arm}-{rep}")));
    }
    let ending = match trace.lines.last().map(|line| &line.body) {
        Some(Body::Error { message }) => Ending::Error(message.clone()),
        Some(body) => end(body, trace.rep).ok_or_else(|| refuse("it has no `end` or `error`"))?,
        None => return Err(refuse("it is empty")),
    };
    let answers = answers(trace.lines).map_err(|problem| refuse(&problem))?;
    if let Ending::End { counts, .. } = &ending {
        if answers.len() != requests {
            let problem = format!("it answers {} of {requests} requests", answers.len());
            return Err(refuse(&problem));
        }
        if counts.prefill_tokens_computed == 0 {
            return Err(refuse("it counts no prefill token"));
        }
    }
    Ok(Reading {
        arm: arm.clone(),
        rep: *rep,
        model_sha256: model_sha256.clone(),
        tokenizer_sha256: tokenizer_sha256.clone(),
        effective: EffectiveRecord {
            mode: settings.mode.clone(),
            kernels: settings.kernels.clone(),
            threads: settings.threads,
            kv_dtype: settings.kv_dtype.clone(),
        },
        answers,
        computed_by_turn: computed_by_turn(trace.lines),
        ending,
        name,
    })
}

/// Every answer of a trace, by (agent, turn).
pub(crate) fn answers(lines: &[Line]) -> Result<BTreeMap<(usize, usize), Answer>, String> {
    let mut places = HashMap::new();
    let mut answers = BTreeMap::new();
    for line in lines {
        match &line.body {
            Body::Request {
                id, agent, turn, ..
            } => {
                places.insert(id.as_str(), (*agent, *turn));
            }
            Body::Finish {
                request,
                ids,
                logits_sha256,
                token_t_ns,
                ..
            } => {
                let place = places
                    .get(request.as_str())
                    .ok_or_else(|| format!("`{request}` finishes before it was made"))?;
                let answer = Answer {
                    ids: ids.clone(),
                    logits_sha256: logits_sha256.clone(),
                    token_t_ns: token_t_ns.clone(),
                };
                if answers.insert(*place, answer).is_some() {
                    return Err(format!("`{request}` finishes twice"));
                }
            }
            _ => {}
        }
    }
    Ok(answers)
}

fn computed_by_turn(lines: &[Line]) -> BTreeMap<usize, u64> {
    let mut turns = HashMap::new();
    let mut computed_by_turn = BTreeMap::new();
    for line in lines {
        match &line.body {
            Body::Request { id, turn, .. } => {
                turns.insert(id.as_str(), *turn);
            }
            Body::Prefill {
                request, computed, ..
            } => {
                if let Some(turn) = turns.get(request.as_str()) {
                    *computed_by_turn.entry(*turn).or_default() += *computed as u64;
                }
            }
            _ => {}
        }
    }
    computed_by_turn
}

fn end(body: &Body, rep: usize) -> Option<Ending> {
    let Body::End {
        requests: _,
        prefill_tokens_computed,
        prefill_tokens_logical,
        prefix_tokens_hit,
        decode_tokens,
        carried_tokens,
        replayed_tokens,
        load_ns,
        warmup_ns,
        wall_ns,
        prefill_ns,
        decode_ns,
        kv_bytes_peak,
        rss_bytes_peak,
    } = *body
    else {
        return None;
    };
    let counts = Counts {
        prefill_tokens_computed,
        prefill_tokens_logical,
        prefix_tokens_hit,
        decode_tokens,
        carried_tokens,
        replayed_tokens,
    };
    let sample = Sample {
        rep,
        load_ns,
        warmup_ns,
        wall_ns,
        prefill_ns,
        decode_ns,
        kv_bytes_peak,
        rss_bytes_peak,
    };
    Some(Ending::End { counts, sample })
}
