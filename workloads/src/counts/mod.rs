//! Counted envelopes: what work asks of caches that are declared, worked out request by request and never run.
//!
//! What is counted are tasks of a data set, sessions, streams of requests, or a fleet that is made up. A run of one is
//! arithmetic, so its record has no times, no machine and no answers. Not here: the counting (`count`), reading a data set (`crate::datasets`), or
//! anything that runs a model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::accounting::streams::Radix;
use crate::datasets::{DatasetError, TaskSet, declared, swebench, webbench};
use crate::envelope::ENVELOPE_SCHEMA;
use crate::envelope::check::{self, Refusal, named, word};
use crate::trace::sha256_hex;

mod count;
mod record;
mod routing;

pub use count::{arms, count};
pub use record::{ArmCounts, COUNTS_SCHEMA, CacheRecord, CountedRow, CountsRecord, RoutedRecord};

/// The word of `workload.kind`.
pub const KIND: &str = "counts";

/// More of them than this are several envelopes.
const ENTRIES_MAX: usize = 64;
/// As in a session that is run.
const AGENTS_MAX: u64 = 1024;
/// The longest agent runs published take a few hundred turns.
const TURNS_MAX: u64 = 1000;
/// A million tokens: beyond every context.
const PREFIX_MAX: u64 = 1 << 20;
/// What one turn adds.
const ADDED_MAX: u64 = 1 << 16;
/// A stream's cache has some thousands of tokens; beyond this nothing is ever evicted.
const CAPACITY_MAX: u64 = 1 << 20;
/// No stream has as many requests.
const OVERTAKEN_MAX: u64 = 1 << 10;
/// More instances, prefixes, families or requests than a fleet is made up of for an example.
const INSTANCES_MAX: u64 = 64;
const ROUTED_MAX: u64 = 1 << 10;
/// Some seconds of counting.
const SPANS_MAX: u64 = 100_000_000;

/// A counted envelope as written. It names no model, no arms and no repetitions: every count is the same every time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountsEnvelope {
    /// [`ENVELOPE_SCHEMA`].
    pub schema: String,
    /// Lower-case letters, digits, dashes and underscores: it names directories.
    pub name: String,
    /// What its counts answer, as one sentence.
    pub question: String,
    /// What is counted.
    pub workload: CountsWorkload,
}

/// The `[workload]` table of kind `counts`: a data set, sessions, streams or routing, and only one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountsWorkload {
    /// [`KIND`].
    pub kind: String,
    /// Tasks that others publish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<DatasetAsked>,
    /// Workers that each do all tasks of the data set; a row for each number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<u64>,
    /// Sessions; a row for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionAsked>,
    /// Streams of requests; a row for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamAsked>,
    /// A made-up fleet; a row for each way to choose who is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingAsked>,
}

/// A data set, named by its digest: it is other people's, and no part of the program or of any evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetAsked {
    /// How it is read: `swebench` or `webbench`.
    pub kind: String,
    /// What its file is called where it is published.
    pub file: String,
    /// SHA-256 of that file.
    pub sha256: String,
    /// Turns that labels of difficulty stand for, where they are not those of the kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub turns: BTreeMap<String, u64>,
}

/// Agents that share a prefix and take turns, served by one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // as in `crate::envelope::Workload`
pub struct SessionAsked {
    pub name: String,
    pub agents: u64,
    pub turns: u64,
    pub prefix: u64,
    pub decode: u64,
    pub result: u64,
}

/// One of the four streams, and the cache it meets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamAsked {
    /// Which.
    pub name: String,
    /// Tokens the cache may hold after a request; without, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_tokens: Option<u64>,
    /// How often a request may be overtaken by one that finds more; without, requests are served as they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtaken_max: Option<u64>,
}

/// Instances that hold few prefixes each, and families of requests that begin alike, of which a few are asked for often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutingAsked {
    /// How many instances there are.
    pub instances: u64,
    /// Prefixes each may hold.
    pub capacity: u64,
    /// Families of requests.
    pub families: u64,
    /// How often the hottest family is asked for; the k-th of them a k-th as often, rounded down.
    pub hot_weight: u64,
}

/// A counted envelope with everything that its counts follow from: exactly envelope.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // the fields of `CountsEnvelope`, resolved
pub struct ResolvedCounts {
    pub schema: String,
    pub name: String,
    pub question: String,
    pub workload: ResolvedWorkload,
}

/// What is counted, a data set as the shapes of its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResolvedWorkload {
    /// As written.
    #[serde(flatten)]
    pub asked: CountsWorkload,
    /// The tasks of the data set, in the order of these numbers: nothing of its text, and no task's name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskShape>,
}

/// Tasks that are asked alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct TaskShape {
    /// Tokens its prompt begins with.
    pub prefix: u64,
    /// Turns it takes.
    pub turns: u64,
    /// Tokens answered in a turn.
    pub decode: u64,
    /// Tokens handed back between two turns.
    pub result: u64,
    /// How many tasks there are of this shape.
    pub count: u64,
}

impl CountsEnvelope {
    /// Reads and checks TOML; `file` is how messages call it.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let read: Result<Self, _> = toml::from_str(text);
        if read.is_err() {
            check::schema(text).map_err(|refusal| refusal.in_file(text, file))?;
        }
        let envelope = read.map_err(|source| Error::Toml {
            file: file.to_owned(),
            source: Box::new(source),
        })?;
        let checked = envelope.check();
        checked.map_err(|refusal| refusal.in_file(text, file))?;
        Ok(envelope)
    }

    fn check(&self) -> Result<(), Refusal> {
        word("schema", &self.schema, &[ENVELOPE_SCHEMA])?;
        named("name", &self.name)?;
        self.workload.check()
    }

    /// Fills in the tasks of its data set, where it asks for one; `tasks` are what [`DatasetAsked::read`] gave.
    pub fn resolve(&self, tasks: Option<&TaskSet>) -> ResolvedCounts {
        ResolvedCounts {
            schema: self.schema.clone(),
            name: self.name.clone(),
            question: self.question.clone(),
            workload: ResolvedWorkload {
                asked: self.workload.clone(),
                tasks: tasks.map(shapes).unwrap_or_default(),
            },
        }
    }
}

impl ResolvedCounts {
    /// MODELED, or SIMULATED where what is counted is made up.
    pub fn provenance(&self) -> &'static str {
        match self.workload.asked.routing {
            Some(_) => "SIMULATED",
            None => "MODELED",
        }
    }

    /// The bytes of envelope.json.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// SHA-256 of the bytes of envelope.json.
    pub fn sha256(&self) -> Result<String, serde_json::Error> {
        self.to_json().map(|text| sha256_hex(text.as_bytes()))
    }
}

/// Tasks by shape.
fn shapes(set: &TaskSet) -> Vec<TaskShape> {
    let mut counts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for task in &set.tasks {
        *counts.entry((task.prefix, task.turns)).or_default() += 1;
    }
    let shape = |((prefix, turns), count)| TaskShape {
        prefix,
        turns,
        decode: set.decode,
        result: set.result,
        count,
    };
    counts.into_iter().map(shape).collect()
}

impl CountsWorkload {
    fn check(&self) -> Result<(), Refusal> {
        word("workload.kind", &self.kind, &[KIND])?;
        let works = [
            ("dataset", self.dataset.is_some()),
            ("sessions", !self.sessions.is_empty()),
            ("streams", !self.streams.is_empty()),
            ("routing", self.routing.is_some()),
        ];
        let given: Vec<&str> = works.iter().filter(|it| it.1).map(|it| it.0).collect();
        if given.len() != 1 {
            let stated = match given.as_slice() {
                [] => "nothing to count".to_owned(),
                several => several.join(" and "),
            };
            let wanted = "dataset, sessions, streams or routing, and only one of them";
            return Err(Refusal::new("workload", stated, wanted));
        }
        match &self.dataset {
            Some(dataset) => dataset.check()?,
            None if !self.workers.is_empty() => {
                let wanted = "nothing: workers are those of a dataset";
                return Err(Refusal::new(
                    "workload.workers",
                    list(&self.workers),
                    wanted,
                ));
            }
            None => {}
        }
        self.check_workers()?;
        check_sessions(&self.sessions)?;
        check_streams(&self.streams)?;
        self.routing.map_or(Ok(()), RoutingAsked::check)
    }

    fn check_workers(&self) -> Result<(), Refusal> {
        let workers = &self.workers;
        let none = self.dataset.is_some() && workers.is_empty();
        let ascending = workers.is_sorted_by(|a, b| a < b);
        let possible = workers.iter().all(|it| (1..=AGENTS_MAX).contains(it));
        if !none && ascending && possible && workers.len() <= ENTRIES_MAX {
            return Ok(());
        }
        let wanted = format!("numbers from 1 to {AGENTS_MAX}, ascending, such as [1, 4]");
        Err(Refusal::new("workload.workers", list(workers), wanted))
    }
}

fn list(numbers: &[u64]) -> String {
    format!("{numbers:?}")
}

impl DatasetAsked {
    fn check(&self) -> Result<(), Refusal> {
        let kinds = ["swebench", "webbench"];
        word("workload.dataset.kind", &self.kind, &kinds)?;
        let plain = !self.file.is_empty() && !self.file.contains(['/', '\\']);
        if !plain {
            let (value, wanted) = (format!("{:?}", self.file), "the name of a file, no path");
            return Err(Refusal::new("workload.dataset.file", value, wanted));
        }
        let digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
        if self.sha256.len() == 64 && self.sha256.bytes().all(digit) {
            return Ok(());
        }
        let value = format!("{:?}", self.sha256);
        let wanted = "64 lower-case hexadecimal digits, as `sha256sum` prints them";
        Err(Refusal::new("workload.dataset.sha256", value, wanted))
    }

    /// The tasks that `text` holds, whose digest is the caller's to compare.
    pub fn read(&self, text: &str) -> Result<TaskSet, DatasetError> {
        let given = self.turns.iter();
        let given: Vec<(String, u64)> = given.map(|(label, it)| (label.clone(), *it)).collect();
        if self.kind == "swebench" {
            let turns = declared(&swebench::TURNS, &given).of_envelope();
            swebench::read(text, &self.file, &turns)
        } else {
            let turns = declared(&webbench::TURNS, &given).of_envelope();
            webbench::read(text, &self.file, &turns)
        }
    }
}

fn check_sessions(sessions: &[SessionAsked]) -> Result<(), Refusal> {
    const FIELD: &str = "workload.sessions";
    few(FIELD, sessions.len())?;
    for (place, session) in sessions.iter().enumerate() {
        named(FIELD, &session.name)?;
        let refuse = |what: &str, value: u64, wanted: String| {
            let value = format!("{{ name = {:?}, {what} = {value} }}", session.name);
            Err(Refusal::new(FIELD, value, wanted))
        };
        if sessions[..place].iter().any(|it| it.name == session.name) {
            let value = format!("{:?} twice", session.name);
            return Err(Refusal::new(FIELD, value, "every name once"));
        }
        for (what, value, least, most) in [
            ("agents", session.agents, 1, AGENTS_MAX),
            ("turns", session.turns, 1, TURNS_MAX),
            ("prefix", session.prefix, 1, PREFIX_MAX),
            ("decode", session.decode, 0, ADDED_MAX),
            ("result", session.result, 0, ADDED_MAX),
        ] {
            if !(least..=most).contains(&value) {
                return refuse(what, value, format!("{what} from {least} to {most}"));
            }
        }
        let spans = session.agents * session.turns * session.turns;
        if spans > SPANS_MAX {
            let wanted = format!("agents x turns x turns up to {SPANS_MAX}");
            return refuse("turns", session.turns, wanted);
        }
    }
    Ok(())
}

fn check_streams(streams: &[StreamAsked]) -> Result<(), Refusal> {
    const FIELD: &str = "workload.streams";
    few(FIELD, streams.len())?;
    for (place, stream) in streams.iter().enumerate() {
        word(FIELD, &stream.name, &Radix::ALL.map(Radix::name))?;
        let refuse = |value: String, wanted: String| Err(Refusal::new(FIELD, value, wanted));
        for (what, value, least, most) in [
            ("capacity_tokens", stream.capacity_tokens, 1, CAPACITY_MAX),
            ("overtaken_max", stream.overtaken_max, 0, OVERTAKEN_MAX),
        ] {
            if let Some(value) = value.filter(|it| !(least..=most).contains(it)) {
                let value = format!("{{ name = {:?}, {what} = {value} }}", stream.name);
                return refuse(value, format!("{what} from {least} to {most}, or none"));
            }
        }
        if streams[..place].contains(stream) {
            let value = format!("{:?} with the same cache twice", stream.name);
            return refuse(value, "every row once".to_owned());
        }
    }
    Ok(())
}

impl RoutingAsked {
    fn check(self) -> Result<(), Refusal> {
        let families_max = self.hot_weight.min(ROUTED_MAX);
        for (field, value, most) in [
            ("workload.routing.instances", self.instances, INSTANCES_MAX),
            ("workload.routing.capacity", self.capacity, ROUTED_MAX),
            ("workload.routing.hot_weight", self.hot_weight, ROUTED_MAX),
            ("workload.routing.families", self.families, families_max),
        ] {
            if !(1..=most).contains(&value) {
                return Err(Refusal::new(field, value, format!("1 to {most}")));
            }
        }
        Ok(())
    }
}

fn few(field: &'static str, entries: usize) -> Result<(), Refusal> {
    if entries <= ENTRIES_MAX {
        return Ok(());
    }
    let wanted = format!("up to {ENTRIES_MAX} of them");
    Err(Refusal::new(field, format!("{entries} entries"), wanted))
}
