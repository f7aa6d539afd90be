//! The trace that scores an arm's answers: one margin for every id of every answer, and sums of them.
//!
//! Not here: whether the model gives these margins; that takes a replay.

use std::collections::BTreeMap;
use std::path::Path;

use super::ServerTrace;
use crate::chain;
use crate::envelope::Plan;
use crate::line::server::{BeginScore, EndScore, Score};
use crate::line::{Body, Line};
use crate::notebook::{Layer, Notebook, Stop};
use crate::oracle::common_prefix;
use crate::trace::Asked;

/// What run.json and comparison need of one.
#[derive(Debug)]
pub(crate) struct ScoreTrace {
    pub(crate) begin: BeginScore,
    /// By (agent, turn): margins in millionths of a nat, id by id.
    pub(crate) margins: BTreeMap<(u64, u64), Vec<u64>>,
    /// Whether every answer was scored; else it ended in `error`.
    pub(crate) ended: bool,
}

/// What is scored.
#[derive(Clone, Copy)]
pub(crate) struct Scored<'a> {
    pub(crate) trace: &'a ServerTrace,
    /// Of its file.
    pub(crate) sha256: &'a str,
    pub(crate) run: &'a Plan,
}

struct Reader<'a> {
    asked: &'a Asked<'a>,
    scored: Scored<'a>,
    begin: Option<BeginScore>,
    margins: BTreeMap<(u64, u64), Vec<u64>>,
    lines: usize,
    tokens: u64,
    exact_tokens: u64,
    worst_micronats: u64,
    ended: bool,
    failed: bool,
}

/// Reads `name` in `dir`; `None` when it could not be followed to its end.
pub(crate) fn read(
    dir: &Path,
    name: &str,
    asked: &Asked<'_>,
    scored: Scored<'_>,
    notes: &mut Notebook,
) -> Option<ScoreTrace> {
    notes.open(name);
    let mut reader = Reader {
        asked,
        scored,
        begin: None,
        margins: BTreeMap::new(),
        lines: 0,
        tokens: 0,
        exact_tokens: 0,
        worst_micronats: 0,
        ended: false,
        failed: false,
    };
    let whole = chain::read(&dir.join(name), notes, |line, notes| {
        reader.take(line, notes).is_ok()
    });
    let over = reader.ended || reader.failed;
    if whole && !over {
        notes.broken(
            Layer::Chain,
            "is truncated: the last line is neither `end_score` nor `error`",
        );
    }
    Some(ScoreTrace {
        begin: reader.begin.filter(|_| whole && over)?,
        margins: reader.margins,
        ended: reader.ended,
    })
}

impl Reader<'_> {
    fn take(&mut self, line: Line, notes: &mut Notebook) -> Result<(), Stop> {
        notes.insist(!self.ended && !self.failed, || {
            "nothing may follow `end_score` or `error`".to_owned()
        })?;
        let first = self.begin.is_none();
        notes.insist(matches!(line.body, Body::BeginScore(_)) == first, || {
            "`begin_score` is the first line and only the first".to_owned()
        })?;
        *notes.asserted.entry("clock times").or_default() += 1;
        match line.body {
            Body::BeginScore(begin) => self.begin(begin, notes),
            Body::Score(score) => self.score(score, notes)?,
            Body::EndScore(end) => self.end(&end, line.t_ns, notes)?,
            Body::Error(failure) => {
                let said = !failure.message.is_empty();
                notes.check(Layer::Format, said, || "message is empty".to_owned());
                self.failed = true;
            }
            _ => return Err(notes.stop("does not belong into a trace of scores")),
        }
        Ok(())
    }

    fn begin(&mut self, begin: BeginScore, notes: &mut Notebook) {
        let stated = [&*begin.envelope, &*begin.envelope_sha256, &*begin.arm];
        (self.asked).check_head(&begin.schema, stated, begin.rep, notes);
        let run = self.scored.run;
        let (found, expected) = (begin.trace_sha256.as_str(), self.scored.sha256);
        notes.same(Layer::Format, "trace_sha256", found, expected);
        for (what, found, expected) in [
            ("mode", &begin.mode, "exact"),
            ("kv_dtype", &begin.kv_dtype, "f32"),
        ] {
            notes.same(Layer::Settings, what, found.as_str(), expected);
        }
        notes.same(Layer::Settings, "threads", &begin.threads, &run.threads);
        let barred = &self.scored.trace.barred;
        notes.same(Layer::Settings, "barred", &begin.barred, barred);
        self.begin = Some(begin);
    }

    fn score(&mut self, score: Score, notes: &mut Notebook) -> Result<(), Stop> {
        let trace = self.scored.trace;
        let next = trace.answered.get(self.lines);
        let Some(answer) = next.filter(|it| it.request == score.request) else {
            let next = next.map(|it| &it.request);
            return Err(notes.stop(format!(
                "scores {:?}, but answers are scored in the order they came: {next:?} is next",
                score.request
            )));
        };
        self.lines += 1;
        let ids = trace.outputs.get(&answer.of).map_or(&[][..], |it| &it.ids);
        let margins = score.margins_micronats;
        let what = "entries of margins_micronats";
        notes.same(Layer::Count, what, &margins.len(), &ids.len());
        self.tokens += margins.len() as u64;
        self.exact_tokens += margins.iter().filter(|it| **it == 0).count() as u64;
        let worst = margins.iter().copied().max().unwrap_or(0);
        self.worst_micronats = self.worst_micronats.max(worst);
        *notes.replayable.entry("margins").or_default() += margins.len() as u64;
        if margins.len() == ids.len() {
            self.margins.insert(answer.of, margins); // so they are no more than the ids that may be held
        }
        Ok(())
    }

    fn end(&mut self, end: &EndScore, t_ns: u64, notes: &mut Notebook) -> Result<(), Stop> {
        let unscored = self.scored.trace.answered.len() - self.lines;
        notes.insist(unscored == 0, || {
            format!("{unscored} answers are not scored")
        })?;
        for (what, stated, recounted) in [
            ("requests", end.requests, self.lines as u64),
            ("tokens", end.tokens, self.tokens),
            ("exact_tokens", end.exact_tokens, self.exact_tokens),
            ("worst_micronats", end.worst_micronats, self.worst_micronats),
        ] {
            notes.same(Layer::Count, what, &stated, &recounted);
            notes.recomputed("end counters", 1);
        }
        notes.check(Layer::Clock, end.wall_ns <= t_ns, || {
            format!("wall_ns is {}, the clock stands at {t_ns}", end.wall_ns)
        });
        self.ended = true;
        Ok(())
    }
}

/// Margins by prompt hash and output, of scores read before.
pub(crate) type Known = BTreeMap<(String, Vec<u32>), Vec<u64>>;

/// Scores agree with each other and with our own arms: the same text has the same margins whoever wrote it, and of an
/// output that one of ours, which answers as exactly as it scores, would have given, the margins are 0. `ours` has theirs by
/// the hash of the prompt; `known` are the scores read before.
pub(crate) fn check_alike(
    score: &ScoreTrace,
    trace: &ServerTrace,
    ours: &BTreeMap<&str, &[u32]>,
    known: &mut Known,
    notes: &mut Notebook,
) {
    for answer in &trace.answered {
        let read = score.margins.get(&answer.of);
        let Some((output, margins)) = trace.outputs.get(&answer.of).zip(read) else {
            continue;
        };
        let request = &answer.request;
        let text = (output.prompt_sha256.clone(), output.ids.clone());
        let before = known.entry(text).or_insert_with(|| margins.clone());
        notes.check(Layer::Identity, before == margins, || {
            format!(
                "margins of {request:?} differ from those of the same text elsewhere in this run"
            )
        });
        let chosen = ours
            .get(&*output.prompt_sha256)
            .copied()
            .unwrap_or_default();
        let alike = common_prefix(&output.ids, chosen) as usize;
        let exact = margins.iter().take(alike).all(|margin| *margin == 0);
        notes.check(Layer::Identity, exact, || {
            format!("margins of {request:?} are not 0 for ids that an exact arm of ours chose too")
        });
        if !ours.is_empty() {
            notes.recomputed("margins of ids that ours chose", alike as u64);
        }
    }
}
