//! Tasks of web agents: a JSON object a line, of the fields that the reference system's converter writes.
//!
//! Prompts and steps have the lengths that its published reports assume (QUOTED): 3000 tokens and a quarter of the bytes
//! of description and instructions; a step of 150 tokens and a page of 2000 are handed back a turn. The step is what the agent
//! decoded, and those reports charge it as prompt; so does this, to be held against them.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{DatasetError, Rows, Task, TaskSet, Turns};

/// Turns by label, as those reports assume.
pub const TURNS: [(&str, u64); 4] = [("easy", 5), ("medium", 12), ("hard", 25), ("expert", 45)];
/// Tokens of a prompt before its task.
pub const PREFIX: u64 = 3000;
/// Of a task that says nothing.
const PREFIX_SILENT: u64 = 400;
/// Tokens a turn adds: an action and the page it leads to.
pub const RESULT: u64 = 150 + 2000;
/// Bytes of a token, in the estimate.
const TOKEN_BYTES: u64 = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    task_id: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    instructions: String,
    #[serde(default)]
    actions: Vec<IgnoredAny>,
    difficulty: Option<String>,
    #[serde(rename = "benchmark")]
    _benchmark: Option<IgnoredAny>,
    #[serde(rename = "source_url")]
    _source_url: Option<IgnoredAny>,
    #[serde(rename = "success_criteria")]
    _success_criteria: Option<IgnoredAny>,
    #[serde(rename = "expected_output")]
    _expected_output: Option<IgnoredAny>,
    #[serde(rename = "category")]
    _category: Option<IgnoredAny>,
    #[serde(rename = "domain")]
    _domain: Option<IgnoredAny>,
}

/// Reads a set; rows are lines. Empty lines and those that begin with `#` or `//` are passed over.
pub fn read(text: &str, file: &str, turns: &Turns) -> Result<TaskSet, DatasetError> {
    let mut rows = Rows::new(file);
    for (row, line) in text
        .lines()
        .enumerate()
        .map(|(place, line)| (place + 1, line.trim()))
    {
        if line.is_empty() || line.starts_with('#') || line.starts_with("//") {
            continue;
        }
        let read: Row =
            serde_json::from_str(line).map_err(|error| rows.refuse(row, error.to_string()))?;
        let said = [&read.description, &read.instructions].map(|text| text.len() as u64);
        let silent = if said == [0, 0] { PREFIX_SILENT } else { 0 };
        let task = Task {
            turns: match &read.difficulty {
                Some(label) => rows.turns_of(row, label, turns)?,
                None if read.actions.is_empty() => {
                    let problem = "neither difficulty nor actions say how many turns it takes";
                    return Err(rows.refuse(row, problem));
                }
                None => read.actions.len() as u64,
            },
            prefix: PREFIX + said[0] / TOKEN_BYTES + said[1] / TOKEN_BYTES + silent,
            label: read.difficulty,
            name: read.task_id,
        };
        rows.add(row, task)?;
    }
    rows.done([PREFIX, 0, RESULT], turns)
}
