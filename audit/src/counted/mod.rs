//! Counted envelopes: nothing ran, so what they say follows from envelope.json alone, and is worked out here again.
//!
//! Sessions and tasks by closed form (`forms`), streams request by request over a tree of its own (`streams`), a made-up fleet
//! request by request too (`routing`). Not here: whether tasks are those of the data set that is named, which no run holds.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::figures::{compare, keys, leaves};
use crate::notebook::{Layer, Notebook, quote};
use crate::schema;

mod forms;
mod record;
mod routing;
mod streams;

pub(crate) use record::Record;

/// Workers, sessions or streams an auditor is ready to count.
const MAX_ENTRIES: usize = 64;
/// Requests of a stream that may be overtaken, and tokens of a cache, beyond which nothing changes.
const MAX_OVERTAKEN: u64 = 1 << 10;
const MAX_CAPACITY: u64 = 1 << 20;

/// envelope.json of a counted envelope.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Envelope {
    #[serde(rename = "schema")]
    _schema: String,
    name: String,
    #[serde(rename = "question")]
    _question: String,
    workload: Work,
}

/// One of a data set's tasks, sessions, streams and a fleet.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Work {
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default, deserialize_with = "crate::format::stated")]
    dataset: Option<Dataset>,
    #[serde(default, deserialize_with = "crate::format::stated")]
    workers: Option<Vec<u64>>,
    #[serde(default, deserialize_with = "crate::format::stated")]
    tasks: Option<Vec<Task>>,
    #[serde(default, deserialize_with = "crate::format::stated")]
    sessions: Option<Vec<Session>>,
    #[serde(default, deserialize_with = "crate::format::stated")]
    streams: Option<Vec<Stream>>,
    #[serde(default, deserialize_with = "crate::format::stated")]
    routing: Option<routing::Fleet>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dataset {
    kind: String,
    file: String,
    sha256: String,
    #[serde(rename = "turns", default, deserialize_with = "crate::format::keyed")]
    _turns: std::collections::BTreeMap<String, u64>,
}

/// So many tasks asked alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Task {
    prefix: u64,
    turns: u64,
    decode: u64,
    result: u64,
    count: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    name: String,
    agents: u64,
    turns: u64,
    prefix: u64,
    decode: u64,
    result: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    name: String,
    #[serde(default, deserialize_with = "crate::format::stated")]
    capacity_tokens: Option<u64>,
    #[serde(default, deserialize_with = "crate::format::stated")]
    overtaken_max: Option<u64>,
}

/// What an arm counts.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    requests: u64,
    prefill_tokens_logical: u64,
    prefill_tokens_computed: u64,
    prefix_tokens_hit: u64,
    decode_tokens: u64,
    attended_positions: u64,
    held_tokens_peak: u64,
}

impl Envelope {
    /// Checks the envelope alone; `false` where nothing further can be derived from it.
    pub(crate) fn check(&self, notes: &mut Notebook) -> bool {
        let (before, work) = (notes.count(), &self.workload);
        let works = [
            work.dataset.is_some(),
            work.sessions.is_some(),
            work.streams.is_some(),
            work.routing.is_some(),
        ];
        let one = works.iter().filter(|it| **it).count() == 1;
        notes.check(Layer::Format, one, || {
            "workload counts one of dataset, sessions, streams and routing".to_owned()
        });
        let of_set = [work.workers.is_some(), work.tasks.is_some()];
        notes.check(Layer::Format, of_set == [works[0]; 2], || {
            "workload.workers and workload.tasks go with a dataset".to_owned()
        });
        if let Some(dataset) = &work.dataset {
            dataset.check(notes);
        }
        if let Some(workers) = &work.workers {
            check_workers(workers, notes);
        }
        if let Some(tasks) = &work.tasks {
            check_tasks(tasks, notes);
        }
        if let Some(sessions) = &work.sessions {
            check_sessions(sessions, notes);
        }
        if let Some(streams) = &work.streams {
            check_streams(streams, notes);
        }
        if let Some(fleet) = &work.routing {
            fleet.check(notes);
        }
        notes.count() == before
    }

    /// Every row that run.json must have; `None` where a number leaves 64 bits, which is noted.
    fn rows(&self, notes: &mut Notebook) -> Option<Vec<Value>> {
        let work = &self.workload;
        let mut rows = Vec::new();
        if let (Some(dataset), Some(workers), Some(tasks)) =
            (&work.dataset, &work.workers, &work.tasks)
        {
            let of = |workers: &u64| {
                Some(row(
                    &dataset.file,
                    *workers,
                    &forms::tasks(tasks, *workers)?,
                ))
            };
            rows.extend(workers.iter().map(of));
        }
        let sessions = work.sessions.iter().flatten();
        rows.extend(sessions.map(|it| Some(row(&it.name, 1, &forms::session(it)?))));
        let streams = work.streams.iter().flatten();
        rows.extend(streams.map(streams::row));
        rows.extend(work.routing.iter().flat_map(routing::rows).map(Some));
        let rows: Option<Vec<Value>> = rows.into_iter().collect();
        notes.check(Layer::Format, rows.is_some(), || {
            "workload asks for more tokens than 64 bits count".to_owned()
        });
        rows
    }
}

/// A row of no stream.
fn row(name: &str, workers: u64, arms: &[(&str, Counts)]) -> Value {
    json!({ "name": name, "workers": workers, "arms": by_name(arms) })
}

fn by_name(arms: &[(&str, Counts)]) -> Map<String, Value> {
    let arms = arms.iter();
    arms.map(|(arm, counts)| ((*arm).to_owned(), json!(counts)))
        .collect()
}

/// Compares the record with what the envelope gives; whether it could be.
pub(crate) fn check(
    record: &Record,
    envelope: &Envelope,
    envelope_sha256: &str,
    notes: &mut Notebook,
) -> Option<()> {
    notes.open("envelope.json");
    let rows = envelope.rows(notes)?;
    notes.open("run.json");
    let made_up = envelope.workload.routing.is_some();
    let provenance = if made_up { "SIMULATED" } else { "MODELED" };
    let expected = json!({
        "schema": schema::COUNTS, "envelope": envelope.name, "envelope_sha256": envelope_sha256,
        "provenance": provenance, "rows": rows,
    });
    let found = serde_json::to_value(record).unwrap_or_default(); // null equals no figure
    for (place, (found, expected)) in pairs(&found, &expected).enumerate() {
        let path = format!("rows[{place}]");
        check_keys(&path, found, expected, notes);
        check_keys(
            &format!("{path}.arms"),
            &found["arms"],
            &expected["arms"],
            notes,
        );
    }
    compare("the envelope gives", "", &found, &expected, notes);
    let compared = leaves(&expected);
    notes.recomputed("counts of run.json", compared);
    let rest = leaves(&found).saturating_sub(compared);
    *notes.asserted.entry("figures of run.json").or_default() += rest;
    if let Some(dataset) = &envelope.workload.dataset {
        notes.not_checked.push(format!(
            "whether the tasks are those of {} (sha256 {}), which is not part of the run: counting it again with that file \
             gives the same envelope.json",
            quote(&dataset.file),
            dataset.sha256
        ));
    }
    Some(())
}

/// Notes an object that has other keys than it must.
fn check_keys(path: &str, found: &Value, expected: &Value, notes: &mut Notebook) {
    let (found, expected) = (keys(found), keys(expected));
    if found != expected {
        let (found, expected) = (quote(&found), quote(&expected));
        let message = format!("{path} has {found}, expected {expected}");
        notes.broken_at(Layer::Record, path, message);
    }
}

/// Rows of both, as far as both have them.
fn pairs<'v>(
    found: &'v Value,
    expected: &'v Value,
) -> impl Iterator<Item = (&'v Value, &'v Value)> {
    let rows = |of: &'v Value| of["rows"].as_array().into_iter().flatten();
    rows(found).zip(rows(expected))
}

impl Dataset {
    fn check(&self, notes: &mut Notebook) {
        let known = ["swebench", "webbench"].contains(&self.kind.as_str());
        notes.check(Layer::Format, known, || {
            let kind = quote(&self.kind);
            format!("workload.dataset.kind is {kind}, expected swebench or webbench")
        });
        let plain = !self.file.is_empty() && !self.file.contains(['/', '\\']);
        notes.check(Layer::Format, plain, || {
            let file = quote(&self.file);
            format!("workload.dataset.file is {file}, expected a name and no path")
        });
        notes.check(Layer::Format, crate::hash::is_digest(&self.sha256), || {
            "workload.dataset.sha256 is no digest".to_owned()
        });
    }
}

fn check_workers(workers: &[u64], notes: &mut Notebook) {
    let fits = (1..=MAX_ENTRIES).contains(&workers.len());
    let ascending = workers.is_sorted_by(|a, b| a < b);
    let some = workers.first().is_some_and(|it| *it > 0);
    notes.check(Layer::Format, fits && ascending && some, || {
        let workers = quote(&workers);
        format!(
            "workload.workers is {workers}, expected up to {MAX_ENTRIES} numbers from 1, ascending"
        )
    });
}

fn check_tasks(tasks: &[Task], notes: &mut Notebook) {
    let ascending = tasks.is_sorted_by(|a, b| (a.prefix, a.turns) < (b.prefix, b.turns));
    notes.check(Layer::Format, ascending && !tasks.is_empty(), || {
        "workload.tasks is empty, unsorted, or has a prefix and turns twice".to_owned()
    });
    for task in tasks {
        let possible = task.prefix > 0 && task.turns > 0 && task.count > 0;
        notes.check(Layer::Format, possible, || {
            let task = quote(task);
            format!("workload.tasks: {task} cannot be asked")
        });
    }
}

fn check_entries(what: &str, entries: usize, notes: &mut Notebook) {
    notes.check(Layer::Format, (1..=MAX_ENTRIES).contains(&entries), || {
        format!("{what} has {entries} entries, expected 1 to {MAX_ENTRIES}")
    });
}

fn check_sessions(sessions: &[Session], notes: &mut Notebook) {
    check_entries("workload.sessions", sessions.len(), notes);
    let mut names = BTreeSet::new();
    for session in sessions {
        let name = &session.name;
        let plain = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
        };
        let fit = !name.is_empty() && name.bytes().all(plain) && names.insert(name);
        notes.check(Layer::Format, fit, || {
            let name = quote(name);
            format!("workload.sessions: the name {name} is used twice or is none")
        });
        let possible = session.agents > 0 && session.turns > 0 && session.prefix > 0;
        notes.check(Layer::Format, possible, || {
            let session = quote(session);
            format!("workload.sessions: {session} cannot be asked")
        });
    }
}

fn check_streams(streams: &[Stream], notes: &mut Notebook) {
    check_entries("workload.streams", streams.len(), notes);
    let mut rows = BTreeSet::new();
    for stream in streams {
        let fit = streams::NAMES.contains(&stream.name.as_str()) && rows.insert(stream);
        notes.check(Layer::Format, fit, || {
            let stream = quote(stream);
            format!("workload.streams: {stream} is there twice, or nobody knows it")
        });
        let room = stream.capacity_tokens;
        let possible = room.is_none_or(|it| (1..=MAX_CAPACITY).contains(&it))
            && stream.overtaken_max.is_none_or(|it| it <= MAX_OVERTAKEN);
        notes.check(Layer::Format, possible, || {
            let stream = quote(stream);
            format!("workload.streams: {stream} has no cache that can be")
        });
    }
}
