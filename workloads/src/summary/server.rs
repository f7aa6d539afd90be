//! One trace of another engine, and the record of such an arm: times are ours, counts are what it says of itself.
//!
//! Not here: what our model makes of its answers (`score`), or any doubt about its counts (`audit`).

use std::collections::{BTreeMap, HashMap};

use super::read::{Place, Times};
use super::score::{self, Scored};
use super::{ArmTrace, fill_common, latencies, unfilled};
use crate::Error;
use crate::arm::Arm;
use crate::envelope::ResolvedEnvelope;
use crate::record::{ArmRecord, Sample, ServerRecord};
use crate::trace::server::{Answer, EndServer, ServerSettings};
use crate::trace::{Body, Line, Program, ids_sha256};

/// How a trace ended.
enum Ending<'a> {
    End { end: &'a EndServer, sample: Sample },
    Error(&'a str),
}

/// What the record needs of one trace.
pub(super) struct Answered<'a> {
    pub(super) place: Place,
    model_sha256: &'a str,
    program: &'a Program,
    settings: Option<&'a ServerSettings>,
    /// By (agent, turn).
    answers: BTreeMap<(usize, usize), &'a Answer>,
    /// As the server counts; a text that was computed for the first turn counts there.
    pub(super) computed_by_turn: BTreeMap<usize, u64>,
    ending: Ending<'a>,
    score: Option<Scored>,
}

impl AsRef<Place> for Answered<'_> {
    fn as_ref(&self) -> &Place {
        &self.place
    }
}

impl<'a> Answered<'a> {
    /// Refuses to be summarised beside arms of another model.
    pub(super) fn is_of(&self, model_sha256: &str, first: &str) -> Result<(), Error> {
        if self.model_sha256 == model_sha256 {
            return Ok(());
        }
        let problem = format!("its model is not that of {first}");
        Err(self.place.refuse(problem))
    }

    fn end(&self) -> Option<(&'a EndServer, &Sample)> {
        match &self.ending {
            Ending::End { end, sample } => Some((end, sample)),
            Ending::Error(_) => None,
        }
    }

    /// Hash of all answers, in the order (agent, turn).
    fn output_sha256(&self) -> String {
        let ids = self.answers.values().flat_map(|it| it.ids.iter().copied());
        ids_sha256(&ids.collect::<Vec<u32>>())
    }

    fn read_answers(&mut self, lines: &'a [Line]) -> Result<(), Error> {
        let mut places = HashMap::new();
        for line in lines {
            match &line.body {
                Body::Request {
                    id, agent, turn, ..
                } => {
                    places.insert(id.as_str(), (*agent, *turn));
                }
                Body::Primed(primed) => self.count(0, primed.computed),
                Body::Answer(answer) => {
                    let request = &answer.request;
                    let Some(&at) = places.get(request.as_str()) else {
                        let problem = format!("`{request}` is answered before it was made");
                        return Err(self.place.refuse(problem));
                    };
                    self.count(at.1, answer.computed);
                    if self.answers.insert(at, answer).is_some() {
                        let problem = format!("`{request}` is answered twice");
                        return Err(self.place.refuse(problem));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn count(&mut self, turn: usize, computed: Option<usize>) {
        *self.computed_by_turn.entry(turn).or_default() += computed.unwrap_or(0) as u64;
    }
}

/// Reads a trace that must answer `requests` requests if it ended well, and its score.
pub(super) fn trace<'a>(trace: &ArmTrace<'a>, requests: usize) -> Result<Answered<'a>, Error> {
    let place = Place::of(trace);
    let Some(Body::BeginServer(begin)) = trace.lines.first().map(|line| &line.body) else {
        return Err(place.refuse("its first line is no `begin_server`"));
    };
    if begin.arm != trace.arm || begin.rep != trace.rep {
        let problem = format!("its `begin_server` says {}-{}", begin.arm, begin.rep);
        return Err(place.refuse(problem));
    }
    let ready = trace.lines.iter().find_map(|line| match &line.body {
        Body::Ready(ready) => Some(ready),
        _ => None,
    });
    let mut answered = Answered {
        model_sha256: &begin.model_sha256,
        program: &begin.program,
        settings: ready.map(|ready| &ready.settings),
        answers: BTreeMap::new(),
        computed_by_turn: BTreeMap::new(),
        ending: Ending::Error(""),
        score: None,
        place,
    };
    answered.ending = match trace.lines.last().map(|line| &line.body) {
        Some(Body::EndServer(end)) => {
            let Some(ready) = ready else {
                return Err(answered.place.refuse("it ends well and was never `ready`"));
            };
            Ending::End {
                sample: sample(trace.rep, ready.load_ns, end),
                end,
            }
        }
        Some(Body::Error { message }) => Ending::Error(message),
        _ => return Err(answered.place.refuse("it has no `end_server` or `error`")),
    };
    answered.read_answers(trace.lines)?;
    if answered.end().is_none() {
        return Ok(answered);
    }
    if answered.answers.len() != requests {
        let found = answered.answers.len();
        let problem = format!("it answers {found} of {requests} requests");
        return Err(answered.place.refuse(problem));
    }
    if let Some(lines) = trace.score {
        answered.score = score::read(lines, begin, &answered.answers)
            .map_err(|problem| answered.place.refuse(format!("its score: {problem}")))?;
    }
    Ok(answered)
}

fn sample(rep: usize, load_ns: u64, end: &EndServer) -> Sample {
    Sample {
        rep,
        load_ns,
        warmup_ns: end.warmup_ns,
        wall_ns: end.wall_ns,
        prefill_ns: None,
        decode_ns: None,
        kv_bytes_peak: None,
        rss_bytes_peak: end.rss_bytes_peak,
    }
}

/// The record of an arm that another engine answers.
pub(super) fn record(
    envelope: &ResolvedEnvelope,
    arm: &Arm,
    own: &[&Answered<'_>],
) -> Result<ArmRecord, Error> {
    let error = own.iter().find_map(|reading| match &reading.ending {
        Ending::Error(message) => Some((*message).to_owned()),
        Ending::End { .. } => None,
    });
    let ended: Vec<(&EndServer, &Sample)> = own.iter().filter_map(|it| it.end()).collect();
    let samples = ended.iter().map(|(_, sample)| (*sample).clone()).collect();
    let mut record = unfilled(envelope, arm, own.len(), error, samples)?;
    record.server = own.first().map(|first| ServerRecord {
        program: first.program.clone(),
        settings: first.settings.cloned(),
    });
    let scored: Option<Vec<(usize, &Scored)>> = (own.iter())
        .filter(|it| it.end().is_some())
        .map(|it| Some((it.place.rep, it.score.as_ref()?)))
        .collect();
    record.score =
        scored.and_then(|scored| score::record(&scored, envelope.run.margin_millinats()));
    if record.error.is_none() {
        let agreed = |of: fn(&EndServer) -> Option<u64>| agreed(ended.iter().map(|it| of(it.0)));
        record.requests = agreed(|end| Some(end.requests as u64));
        record.prefill_tokens_computed = agreed(|end| end.computed_tokens);
        record.prefill_tokens_logical = agreed(|end| Some(end.prompt_tokens));
        record.prefix_tokens_hit = agreed(|end| end.cached_tokens);
        record.decode_tokens = agreed(|end| Some(end.decode_tokens));
        record.output_sha256 = self::agreed(own.iter().map(|it| Some(it.output_sha256())));
        fill_common(&mut record);
        let answers = own.iter().flat_map(|it| it.answers.values());
        record.latencies = latencies(answers.map(|answer| Times::of_pieces(answer)));
    }
    Ok(record)
}

/// What every repetition says; `None` if one does not say, or another says otherwise.
fn agreed<T: PartialEq>(mut said: impl Iterator<Item = Option<T>>) -> Option<T> {
    let first = said.next()??;
    said.all(|other| other.as_ref() == Some(&first))
        .then_some(first)
}
