//! How lies are told: in every repetition alike, with every hash and sum that follows from them made to agree.
//!
//! Not here: which lies (`rows`).

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::fixture::{Fixture, ids_sha256, seal};

/// A lie told in every repetition of `fused` alike.
pub(crate) fn everywhere(fixture: &mut Fixture, kind: &str, place: usize, tell: fn(&mut Value)) {
    for rep in 0..5 {
        tell(fixture.lines(&format!("fused-{rep}"), kind)[place]);
    }
}

pub(crate) fn trace<'a>(fixture: &'a mut Fixture, name: &str) -> &'a mut Vec<Value> {
    fixture.traces.get_mut(name).unwrap()
}

/// Where the line of this kind of this request stands.
pub(crate) fn place_of(lines: &[Value], kind: &str, request: &str) -> usize {
    let is_it = |line: &Value| {
        line["kind"] == kind && (line["request"] == request || line["id"] == request)
    };
    lines.iter().position(is_it).unwrap()
}

pub(crate) fn more(value: &mut Value, by: i64) {
    *value = json!(value.as_i64().unwrap() + by);
}

fn ids(value: &Value) -> Vec<u64> {
    let ids = value.as_array().unwrap().iter();
    ids.map(|id| id.as_u64().unwrap()).collect()
}

/// Changes what clients say, in these traces, and makes every prompt and its hash agree.
pub(crate) fn retell(fixture: &mut Fixture, traces: &str, tell: fn(&mut Value)) {
    for (_, lines) in fixture
        .traces
        .iter_mut()
        .filter(|it| it.0.starts_with(traces))
    {
        lines.iter_mut().for_each(tell);
        rebuild_prompts(lines);
    }
}

/// States length and hash of every prompt as its parts give them.
pub(crate) fn rebuild_prompts(lines: &mut [Value]) {
    let mut said: Vec<(String, Vec<u64>)> = Vec::new();
    for line in lines {
        let find = |name: &Value| said.iter().rposition(|it| name == it.0.as_str());
        match line["kind"].as_str().unwrap() {
            "text" => said.push((line["name"].as_str().unwrap().to_owned(), ids(&line["ids"]))),
            "request" => {
                let base = &line["base"];
                let base = find(if base["text"].is_null() {
                    &base["request"]
                } else {
                    &base["text"]
                });
                let mut prompt = base.map_or(Vec::new(), |place| said[place].1.clone());
                prompt.truncate(line["keep"].as_u64().unwrap() as usize);
                prompt.extend(ids(&line["append"]));
                line["prompt_len"] = json!(prompt.len());
                line["prompt_sha256"] = json!(ids_sha256(&prompt));
                said.push((line["id"].as_str().unwrap().to_owned(), prompt));
            }
            "finish" => {
                let place = find(&line["request"]).unwrap();
                said[place].1.extend(ids(&line["ids"]));
            }
            _ => {}
        }
    }
}

/// Puts a value, written as JSON, at a pointer; a key may be new.
pub(crate) fn put(document: &mut Value, (pointer, json): (&str, &str)) {
    let (above, last) = pointer.rsplit_once('/').unwrap();
    let value: Value = serde_json::from_str(json).unwrap();
    match document.pointer_mut(above).unwrap() {
        Value::Array(values) => values[last.parse::<usize>().unwrap()] = value,
        table => table[last] = value,
    }
}

/// Moves every line after the first `count` of a kind by so much, as if the clock had stood in between.
pub(crate) fn later(lines: &mut [Value], (kind, count): (&str, usize), by_ns: i64) {
    let mut seen = 0;
    for line in lines {
        if seen >= count {
            more(&mut line["t_ns"], by_ns);
        }
        seen += usize::from(line["kind"] == kind);
    }
}

/// Changes a text in a file of a written run, and seals it again if `sealed`.
pub(crate) fn edit(dir: &Path, file: &str, (from, to): (&str, &str), sealed: bool) {
    let path = dir.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} has no {from:?}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
    if sealed {
        seal(dir);
    }
}
