//! One trace, read for what the record needs of it: settings, answers, how it ended.
//!
//! Not here: comparing traces with each other (`compare`).

use std::collections::{BTreeMap, HashMap};

use super::ArmTrace;
use crate::oracle::Counts;
use crate::record::{EffectiveRecord, Sample};
use crate::trace::{Body, Line, server};
use crate::{Error, arm};

/// What one request answered.
pub(crate) struct Answer {
    pub(crate) ids: Vec<u32>,
    pub(crate) logits_sha256: String,
    /// When it had each token, from its request.
    pub(crate) token_t_ns: Vec<u64>,
}

/// When a request had its first token and its last, from its request, and how many it had after the first.
pub(super) struct Times {
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    pub(super) further_tokens: u64,
}

impl Times {
    /// Of tokens that came one by one; `None` without any.
    pub(super) fn of_tokens(token_t_ns: &[u64]) -> Option<Self> {
        Some(Self {
            first_ns: *token_t_ns.first()?,
            last_ns: *token_t_ns.last()?,
            further_tokens: token_t_ns.len() as u64 - 1,
        })
    }

    /// The first piece and the last; tokens of the first came together, so the time to the last is that of the others.
    pub(super) fn of_pieces(answer: &server::Answer) -> Option<Self> {
        let further = answer.chunk_tokens.get(1..)?;
        Some(Self {
            first_ns: *answer.chunk_t_ns.first()?,
            last_ns: *answer.chunk_t_ns.last()?,
            further_tokens: further.iter().map(|&tokens| tokens as u64).sum(),
        })
    }

    /// The mean time of each token after the first; `None` where there is no other.
    pub(super) fn gap_ns(&self) -> Option<u64> {
        let decode_ns = self.last_ns.saturating_sub(self.first_ns);
        decode_ns.checked_div(self.further_tokens)
    }
}

impl Answer {
    /// `None` without a token.
    pub(super) fn times(&self) -> Option<Times> {
        Times::of_tokens(&self.token_t_ns)
    }

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

/// Where a trace stands in its run.
pub(super) struct Place {
    /// As files and `order` call it.
    pub(super) name: String,
    pub(super) arm: String,
    pub(super) rep: usize,
}

impl Place {
    pub(super) fn of(trace: &ArmTrace<'_>) -> Self {
        Self {
            name: arm::stem(trace.arm, trace.rep),
            arm: trace.arm.to_owned(),
            rep: trace.rep,
        }
    }

    /// The refusal of the trace that stands here.
    pub(super) fn refuse(&self, problem: impl Into<String>) -> Error {
        Error::Trace {
            trace: self.name.clone(),
            problem: problem.into(),
        }
    }
}

/// What the record needs of one trace.
pub(super) struct Reading {
    pub(super) place: Place,
    pub(super) model_sha256: String,
    pub(super) tokenizer_sha256: Option<String>,
    pub(super) effective: EffectiveRecord,
    /// By (agent, turn).
    pub(super) answers: BTreeMap<(usize, usize), Answer>,
    /// Client-supplied positions computed, by turn.
    pub(super) computed_by_turn: BTreeMap<usize, u64>,
    pub(super) ending: Ending,
}

impl AsRef<Place> for Reading {
    fn as_ref(&self) -> &Place {
        &self.place
    }
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
        let problem = format!("its {other} is not that of {}", first.place.name);
        Err(self.place.refuse(problem))
    }
}

/// Reads a trace that must answer `requests` requests if it ended well.
pub(super) fn trace(trace: &ArmTrace<'_>, requests: usize) -> Result<Reading, Error> {
    let place = Place::of(trace);
    let refuse = |problem: &str| place.refuse(problem);
    let Some(Body::Begin {
        arm: stated,
        rep,
        model_sha256,
        tokenizer_sha256,
        settings,
        ..
    }) = trace.lines.first().map(|line| &line.body)
    else {
        return Err(refuse("its first line is no `begin`"));
    };
    if stated != trace.arm || *rep != trace.rep {
        return Err(refuse(&format!("its `begin` says {stated}-{rep}")));
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
        place,
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
        prefill_ns: Some(prefill_ns),
        decode_ns: Some(decode_ns),
        kv_bytes_peak: Some(kv_bytes_peak),
        rss_bytes_peak,
    };
    Some(Ending::End { counts, sample })
}
