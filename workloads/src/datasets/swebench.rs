//! SWE-bench: one JSON object from task to label of difficulty, and one entry `_meta` about the set.
//!
//! Prompts, answers and results have the lengths that the reference system's published reports assume (QUOTED): 2500
//! tokens before the task, 200 answered and 400 handed back a turn.

use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};

use super::{DatasetError, Rows, Task, TaskSet, Turns};

/// Turns by label, as those reports assume.
pub const TURNS: [(&str, u64); 4] = [
    ("<15min", 12),
    ("15min-1hr", 22),
    ("1-4hr", 38),
    (">4hr", 60),
];
/// Tokens of a prompt before its task.
pub const PREFIX: u64 = 2500;
/// Tokens answered in a turn.
pub const DECODE: u64 = 200;
/// Tokens handed back between two turns.
pub const RESULT: u64 = 400;

const META: &str = "_meta";

/// What a set says of itself, as far as it can be held against it.
#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "_total_instances")]
    total_instances: Option<usize>,
}

/// Entries in the order of the file, the same key as often as it stands there.
struct Entries(Vec<(String, serde_json::Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from task to label")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Reads a set; rows are its entries, `_meta` not counted.
pub fn read(text: &str, file: &str, turns: &Turns) -> Result<TaskSet, DatasetError> {
    let whole = |problem: String| DatasetError::File {
        file: file.to_owned(),
        problem,
    };
    let entries: Entries = serde_json::from_str(text).map_err(|error| whole(error.to_string()))?;
    let mut rows = Rows::new(file);
    let mut total = None;
    let mut row = 0;
    for (name, value) in entries.0 {
        if name == META {
            let meta: Meta =
                serde_json::from_value(value).map_err(|error| whole(format!("{META}: {error}")))?;
            total = meta.total_instances;
            continue;
        }
        row += 1;
        let Some(label) = value.as_str() else {
            let problem = format!("{name:?} has no label of difficulty but {value}");
            return Err(rows.refuse(row, problem));
        };
        let task = Task {
            turns: rows.turns_of(row, label, turns)?,
            label: Some(label.to_owned()),
            prefix: PREFIX,
            name,
        };
        rows.add(row, task)?;
    }
    if let Some(total) = total.filter(|total| *total != row) {
        return Err(whole(format!(
            "{META} says {total} tasks, and there are {row}"
        )));
    }
    rows.done([PREFIX, DECODE, RESULT], turns)
}
