//! What run.json must say of arms that another engine answers: their counts where it told them, their times, their score.
//!
//! Not here: ratios to arms of ours (`ratios`).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::ServerTrace;
use super::score::{Known, ScoreTrace, check_alike};
use crate::arms::{Arms, Servers, same};
use crate::figures::{self, TOTALS};
use crate::hash;
use crate::line::server::{EndServer, ServerSettings};
use crate::notebook::{Layer, Notebook, quote};
use crate::oracle::{MOCK, is_served};
use crate::possible::check_machine;
use crate::record::{Machine, ScoredToken};
use crate::statistics::{median_integer, rounded};
use crate::trace::Trace;

/// Said of a run with other engines.
const UNSEEN: &str = "whether another engine is set and counts as it says, and whether the named model gives the margins of its answers: \
    the one is its own word, the other takes scoring them again";
/// Micronats of a millinat.
const MICRO_OF_MILLI: u64 = 1000;

/// Holds the traces of other engines and their scores to `first`, which is one of ours, to each other and to the machine.
pub(crate) fn check_traces(
    arms: &Arms<'_>,
    first: &Trace,
    machine: &Machine,
    notes: &mut Notebook,
) {
    let (servers, longest) = (arms.servers, arms.longest_inputs());
    let (ours, mut known) = (exact_outputs(arms, first), Known::new());
    if !servers.traces.is_empty() {
        notes.not_checked.push(UNSEEN.to_owned());
    }
    for (name, trace) in &servers.traces {
        notes.open(&format!("trace/{name}.jsonl"));
        notes.turn_to(Some(1)); // `begin_server`
        check_begins(trace, first, servers, notes);
        notes.turn_to(None);
        let Some(end) = &trace.end else { continue };
        figures::asks_alike(&trace.inputs_sha256, &longest, notes);
        notes.turn_to(Some(trace.lines));
        check_machine("rss_bytes_peak", end.rss_bytes_peak, machine, notes);
        let Some(score) = servers.scores.get(name) else {
            continue;
        };
        notes.open(&format!("trace/{name}.score.jsonl"));
        check_alike(score, trace, &ours, &mut known, notes);
        notes.turn_to(Some(1)); // `begin_score`
        let (begin, ours) = (&score.begin, &first.begin);
        let (found, expected) = (&begin.model_sha256, &ours.model_sha256);
        notes.same(Layer::Settings, "model_sha256", found, expected);
        let (found, expected) = (&begin.tokenizer_sha256, &ours.tokenizer_sha256);
        notes.same(Layer::Settings, "tokenizer_sha256", found, expected);
        let (found, expected) = (&begin.kernels, &ours.settings.kernels);
        notes.same(Layer::Settings, "kernels", found, expected);
    }
}

/// What our own arms answered, by the hash of the prompt, if they compute as a score does.
fn exact_outputs<'a>(arms: &Arms<'a>, first: &Trace) -> BTreeMap<&'a str, &'a [u32]> {
    let settings = &first.begin.settings;
    let exact = settings.mode == "exact" && settings.kv_dtype == "f32";
    let real = |it: &&Trace| exact && it.begin.arm != MOCK;
    let outputs = arms
        .traces
        .values()
        .filter(real)
        .flat_map(|it| it.outputs.values());
    outputs.map(|it| (&*it.prompt_sha256, &*it.ids)).collect()
}

/// One model file in the run, one build of the program, and one command line and one answer about settings in an arm.
fn check_begins(trace: &ServerTrace, first: &Trace, servers: &Servers, notes: &mut Notebook) {
    let (begin, ours) = (&trace.begin, &first.begin.model_sha256);
    notes.same(Layer::Settings, "model_sha256", &begin.model_sha256, ours);
    let others = || servers.traces.values();
    let is_known = |it: &&ServerTrace| it.begin.program.name == begin.program.name && it.hashed();
    if let Some(other) = others().find(is_known).filter(|_| trace.hashed()) {
        begin.program.check_same_build(&other.begin.program, notes);
    }
    let of_arm = || others().filter(|it| it.begin.arm == begin.arm);
    if let Some(other) = of_arm().next() {
        let (found, expected) = (&begin.program.arguments, &other.begin.program.arguments);
        notes.same(Layer::Settings, "program.arguments", found, expected);
    }
    let ready = |it: &&ServerTrace| it.settings.is_some();
    if let Some(other) = others().find(ready).filter(|_| trace.settings.is_some()) {
        notes.same(
            Layer::Settings,
            "barred (of all servers)",
            &trace.barred,
            &other.barred,
        );
    }
    let mut said = of_arm().filter_map(|it| it.settings.as_ref());
    let other = |ours: &ServerSettings| said.find(|theirs| ours.contradicts(theirs));
    let other = trace.settings.as_ref().and_then(other);
    notes.check(Layer::Settings, other.is_none(), || {
        format!(
            "settings are not those of another repetition, which are {}",
            quote(&other)
        )
    });
}

impl ServerSettings {
    /// Whether both say something of a setting, and not the same.
    fn contradicts(&self, other: &Self) -> bool {
        let (ours, theirs) = (json!(self), json!(other));
        let differs = |(name, ours): (&String, &Value)| {
            let theirs = &theirs[name];
            !ours.is_null() && !theirs.is_null() && ours != theirs
        };
        ours.as_object().is_some_and(|it| it.iter().any(differs))
    }
}

impl ServerTrace {
    /// Whether its program could be hashed.
    fn hashed(&self) -> bool {
        self.begin.program.sha256.is_some()
    }
}

/// What run.json must say of one such arm besides what it says of every arm.
pub(crate) fn of_arm(arm: &str, arms: &Arms<'_>) -> Map<String, Value> {
    let ended = || {
        let all = arms.served(arm);
        all.filter_map(|(trace, score)| Some((trace, score, trace.end.as_ref()?)))
    };
    let sample = |(trace, _, end): (&ServerTrace, Option<&ScoreTrace>, &EndServer)| {
        json!({
            "rep": trace.begin.rep, "load_ns": trace.load_ns, "warmup_ns": end.warmup_ns,
            "wall_ns": end.wall_ns, "prefill_ns": null, "decode_ns": null, "kv_bytes_peak": null,
            "rss_bytes_peak": end.rss_bytes_peak,
        })
    };
    let first = arms.served(arm).next().map(|(trace, _)| trace);
    let mut figures = totals(arm, arms);
    figures.extend([
        ("provenance".to_owned(), json!("OBSERVED")),
        ("completed".to_owned(), json!(ended().count())),
        (
            "error".to_owned(),
            json!(arms.served(arm).find_map(|it| it.0.error.as_ref())),
        ),
        (
            "samples".to_owned(),
            ended().map(sample).collect::<Vec<_>>().into(),
        ),
        (
            "server".to_owned(),
            json!(first.map(|it| json!({ "program": it.begin.program, "settings": it.settings }))),
        ),
    ]);
    if let Some(score) = Score::of(arm, arms) {
        figures.insert("score".to_owned(), score.figures());
    }
    figures
}

/// Its totals; all null for an arm that failed, and some where the server does not tell.
fn totals(arm: &str, arms: &Arms<'_>) -> Map<String, Value> {
    let none = TOTALS.map(|name| (name.to_owned(), Value::Null));
    let mut totals: Map<String, Value> = none.into_iter().collect();
    let Some(walls) = arms.walls(arm) else {
        return totals;
    };
    let ends = || arms.served(arm).filter_map(|(trace, _)| trace.end.as_ref());
    let told = |count: fn(&EndServer) -> Option<u64>| same(ends().map(count));
    let (logical, hit) = (
        told(|end| Some(end.prompt_tokens)),
        told(|end| end.cached_tokens),
    );
    let rate = hit.zip(logical);
    let rate = rate.map(|(hit, logical)| rounded(hit as f64 / logical as f64));
    let output_sha256 = same(arms.served(arm).map(|(trace, _)| {
        let outputs = trace.outputs.values();
        Some(hash::of_ids(outputs.flat_map(|output| &output.ids)))
    }));
    let rss_bytes = ends().filter_map(|end| end.rss_bytes_peak).max();
    for (name, value) in [
        ("requests", json!(told(|end| Some(end.requests)))),
        (
            "prefill_tokens_computed",
            json!(told(|end| end.computed_tokens)),
        ),
        ("prefill_tokens_logical", json!(logical)),
        ("prefix_tokens_hit", json!(hit)),
        ("decode_tokens", json!(told(|end| Some(end.decode_tokens)))),
        ("reuse_rate", json!(rate)),
        ("wall_ns", json!(median_integer(&walls))),
        ("rss_bytes_peak", json!(rss_bytes)),
        ("output_sha256", json!(output_sha256)),
    ] {
        totals.insert(name.to_owned(), value);
    }
    totals
}

/// The scores of all repetitions that ended.
pub(crate) struct Score {
    tokens: u64,
    exact_tokens: u64,
    worst_micronats: u64,
    first_divergence: Option<ScoredToken>,
    pub(crate) beyond_margin: Option<ScoredToken>,
}

impl Score {
    /// `None` where no repetition ended, or the score of one that did ended badly.
    pub(crate) fn of(arm: &str, arms: &Arms<'_>) -> Option<Self> {
        let ended = arms.served(arm).filter(|(trace, _)| trace.end.is_some());
        let (mut tokens, mut all) = (0, Vec::new());
        for (trace, score) in ended {
            let score = score.filter(|score| score.ended)?;
            for ((agent, turn), margins) in &score.margins {
                tokens += margins.len() as u64;
                let above = margins.iter().enumerate().filter(|(_, it)| **it > 0);
                all.extend(above.map(|(position, micronats)| ScoredToken {
                    rep: trace.begin.rep,
                    agent: *agent,
                    turn: *turn,
                    position: position as u64,
                    micronats: *micronats,
                }));
            }
        }
        let most = arms.envelope.run.margin_millinats;
        let most = most.saturating_mul(MICRO_OF_MILLI);
        (tokens > 0).then(|| Self {
            tokens,
            exact_tokens: tokens - all.len() as u64,
            worst_micronats: all.iter().map(|it| it.micronats).max().unwrap_or(0),
            first_divergence: all.first().cloned(),
            beyond_margin: all.iter().find(|it| it.micronats > most).cloned(),
        })
    }

    fn figures(&self) -> Value {
        json!({
            "tokens": self.tokens, "exact_tokens": self.exact_tokens,
            "exact_share": rounded(self.exact_tokens as f64 / self.tokens as f64),
            "worst_micronats": self.worst_micronats,
            "first_divergence": self.first_divergence, "beyond_margin": self.beyond_margin,
        })
    }
}

/// Why a ratio to this arm is withheld for its settings or its answers, if it is.
pub(crate) fn withheld(arm: &str, arms: &Arms<'_>) -> Option<String> {
    let mut traces = arms.served(arm);
    let first = traces.next();
    if first.is_some_and(|(trace, _)| trace.begin.program.arguments.is_empty()) {
        return Some(format!("how it was started is unknown: {arm}"));
    }
    let Some(score) = Score::of(arm, arms) else {
        return Some(format!("not scored: {arm}"));
    };
    let ScoredToken {
        rep,
        agent,
        turn,
        position,
        micronats,
    } = score.beyond_margin?;
    Some(format!(
        "outside the margin: {arm}-{rep}, agent {agent}, turn {turn}, output token {position}, {micronats} micronats"
    ))
}

/// Arms of ours have no server and no score, and another engine's no score where none can be.
pub(crate) fn check_strays(arms: &Arms<'_>, found: &Value, notes: &mut Notebook) {
    for arm in &arms.envelope.run.arms {
        let stated = &found["arms"][arm];
        let stray = stated.get("server").is_some() && !is_served(arm);
        notes.check(Layer::Record, !stray, || {
            format!("arms.{arm}.server is stated, but no other engine answers this arm")
        });
        let scored = is_served(arm) && Score::of(arm, arms).is_some();
        notes.check(
            Layer::Record,
            scored || stated.get("score").is_none(),
            || format!("arms.{arm}.score is stated, but the traces have no score of it"),
        );
    }
}
