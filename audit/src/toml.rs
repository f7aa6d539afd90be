//! The part of TOML that envelopes are written in: tables, arrays of tables, keys, strings, whole numbers, truth values,
//! arrays, inline tables, comments.
//!
//! Not here: dates, fractions, strings of several lines and other spellings of numbers. A file that has them is not read
//! at all, and the audit says so.

use serde_json::{Map, Value};

/// Depth of nested values; envelopes have two.
const MAX_DEPTH: u32 = 8;

/// Why a text was not read: the line, counted from 1, and what stands there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    pub(crate) line: usize,
    pub(crate) what: &'static str,
}

/// Reads a whole document.
pub(crate) fn read(text: &str) -> Result<Value, Unread> {
    let mut reader = Reader { rest: text };
    reader.document().map_err(|what| {
        let read = text.len() - reader.rest.len();
        let line = 1 + text[..read].matches('\n').count();
        Unread { line, what }
    })
}

type Read<T> = Result<T, &'static str>;

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn document(&mut self) -> Read<Value> {
        let mut document = Value::Object(Map::new());
        let mut table: Vec<String> = Vec::new();
        loop {
            self.skip_blank();
            if self.rest.is_empty() {
                return Ok(document);
            }
            if self.take("[[") {
                table = self.keys()?;
                self.expect("]]", "`]]` is missing")?;
                add_table(&mut document, &table)?;
            } else if self.take("[") {
                table = self.keys()?;
                self.expect("]", "`]` is missing")?;
                let found = find(&mut document, &table)?;
                if !found.as_object().is_some_and(Map::is_empty) {
                    return Err("a table is opened twice");
                }
            } else {
                let (keys, value) = self.pair(0)?;
                put(find(&mut document, &table)?, &keys, value)?;
            }
            self.end_of_line()?;
        }
    }

    fn pair(&mut self, depth: u32) -> Read<(Vec<String>, Value)> {
        let keys = self.keys()?;
        self.expect("=", "`=` is missing")?;
        self.skip_spaces();
        Ok((keys, self.value(depth)?))
    }

    fn keys(&mut self) -> Read<Vec<String>> {
        let mut keys = Vec::new();
        loop {
            self.skip_spaces();
            let key = if self.take("\"") {
                self.string()?
            } else {
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
                self.take_while(plain).to_owned()
            };
            if key.is_empty() {
                return Err("a key is missing");
            }
            keys.push(key);
            self.skip_spaces();
            if !self.take(".") {
                return Ok(keys);
            }
        }
    }

    fn value(&mut self, depth: u32) -> Read<Value> {
        if depth > MAX_DEPTH {
            return Err("values are nested too deep");
        }
        if self.rest.starts_with("\"\"\"") || self.rest.starts_with("'''") {
            return Err("a string of several lines is not read");
        }
        if self.take("\"") {
            return self.string().map(Value::String);
        }
        if self.take("'") {
            let text = self.take_while(|c| !matches!(c, '\'' | '\n')).to_owned();
            self.expect("'", "a string does not end")?;
            return Ok(Value::String(text));
        }
        if self.take("[") {
            return self.array(depth);
        }
        if self.take("{") {
            return self.inline_table(depth);
        }
        match self
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-' | '.' | ':'))
        {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            number => whole(number).ok_or("a value is neither text, whole number nor truth value"),
        }
    }

    fn array(&mut self, depth: u32) -> Read<Value> {
        let mut values = Vec::new();
        loop {
            self.skip_blank();
            if self.take("]") {
                return Ok(Value::Array(values));
            }
            values.push(self.value(depth + 1)?);
            self.skip_blank();
            if !self.take(",") {
                self.expect("]", "`]` is missing")?;
                return Ok(Value::Array(values));
            }
        }
    }

    fn inline_table(&mut self, depth: u32) -> Read<Value> {
        let mut table = Value::Object(Map::new());
        self.skip_spaces();
        if self.take("}") {
            return Ok(table);
        }
        loop {
            let (keys, value) = self.pair(depth + 1)?;
            put(&mut table, &keys, value)?;
            self.skip_spaces();
            if !self.take(",") {
                self.expect("}", "`}` is missing")?;
                return Ok(table);
            }
        }
    }

    /// A string whose opening quote has been taken.
    fn string(&mut self) -> Read<String> {
        let mut text = String::new();
        loop {
            text.push_str(self.take_while(|c| !matches!(c, '"' | '\\' | '\n')));
            if self.take("\"") {
                return Ok(text);
            }
            self.expect("\\", "a string does not end")?;
            let escape = self.rest.chars().next().ok_or("a string does not end")?;
            self.rest = &self.rest[escape.len_utf8()..];
            text.push(match escape {
                '"' | '\\' => escape,
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                _ => return Err("this escape in a string is not read"),
            });
        }
    }

    fn end_of_line(&mut self) -> Read<()> {
        self.skip_spaces();
        self.skip_comment();
        if self.rest.is_empty() || self.take("\n") || self.take("\r\n") {
            return Ok(());
        }
        Err("something follows a value on its line")
    }

    fn skip_spaces(&mut self) {
        self.take_while(|c| matches!(c, ' ' | '\t'));
    }

    fn skip_comment(&mut self) {
        if self.rest.starts_with('#') {
            self.take_while(|c| c != '\n');
        }
    }

    /// Skips spaces, comments and ends of lines.
    fn skip_blank(&mut self) {
        loop {
            let before = self.rest.len();
            self.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            self.skip_comment();
            if self.rest.len() == before {
                return;
            }
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, token: &str, missing: &'static str) -> Read<()> {
        if self.take(token) {
            Ok(())
        } else {
            Err(missing)
        }
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &str {
        let rest = self.rest.trim_start_matches(&belongs);
        let taken = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        taken
    }
}

/// A whole number in its plain spelling.
fn whole(text: &str) -> Option<Value> {
    let digits: String = text.split('_').collect();
    let plain = digits == "0" || !digits.trim_start_matches('-').starts_with(['0', '+']);
    if let Ok(number) = digits.parse::<u64>() {
        return plain.then(|| number.into());
    }
    let number = digits.parse::<i64>().ok()?;
    plain.then(|| number.into())
}

/// The table at a path, made where there is none; of an array of tables the last.
fn find<'v>(document: &'v mut Value, path: &[String]) -> Read<&'v mut Value> {
    let mut at = document;
    for key in path {
        let table = at.as_object_mut().ok_or("a key leads into a value")?;
        at = table
            .entry(key)
            .or_insert_with(|| Value::Object(Map::new()));
        if let Value::Array(tables) = at {
            at = tables.last_mut().ok_or("a key leads into a value")?;
        }
    }
    if at.is_object() {
        Ok(at)
    } else {
        Err("a key leads into a value")
    }
}

/// Begins another table of the array at a path.
fn add_table(document: &mut Value, path: &[String]) -> Read<()> {
    let Some((last, above)) = path.split_last() else {
        return Err("a key is missing");
    };
    let table = find(document, above)?.as_object_mut();
    let tables = table.map(|it| it.entry(last).or_insert_with(|| Value::Array(Vec::new())));
    let tables = tables.and_then(Value::as_array_mut);
    let tables = tables.ok_or("a key leads into a value")?;
    tables.push(Value::Object(Map::new()));
    Ok(())
}

/// Puts a value at a path below a table; it must be the first there.
fn put(table: &mut Value, keys: &[String], value: Value) -> Read<()> {
    let Some((last, above)) = keys.split_last() else {
        return Err("a key is missing");
    };
    let table = find(table, above)?.as_object_mut();
    match table.map(|it| it.insert(last.clone(), value)) {
        Some(None) => Ok(()),
        _ => Err("a key is stated twice"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_envelope_is_read_as_it_was_meant() {
        let text = r#"
# a comment
name = "a # b \"c\" \\" # another
[workload]
kind='engine'
seed = 1_000
[[workload.cells]]
name = "x"
[[workload.cells]]
name = "y"
deep.key = [ 1, [true, false], { a = 1, "b c" = -2 }, ]
[run]
arms = [
  "fak", # ours
  "other",
]
arm_reps = { naive = 3 }
empty = {}"#;
        let expected = json!({
            "name": "a # b \"c\" \\",
            "workload": {
                "kind": "engine", "seed": 1000,
                "cells": [
                    { "name": "x" },
                    { "name": "y", "deep": { "key": [1, [true, false], { "a": 1, "b c": -2 }] } },
                ],
            },
            "run": { "arms": ["fak", "other"], "arm_reps": { "naive": 3 }, "empty": {} },
        });
        assert_eq!(read(text), Ok(expected));
        assert_eq!(
            read(&text.replace('\n', "\r\n")).unwrap(),
            read(text).unwrap()
        );
    }

    #[test]
    fn what_is_not_read_is_named_with_its_line() {
        for (text, line, what) in [
            ("a = 1\na = 2\n", 2, "twice"),
            ("[a]\nb = 1\n[a]\n", 3, "twice"),
            ("a = 1.5", 1, "neither"),
            ("a = 0x10", 1, "neither"),
            ("a = 007", 1, "neither"),
            ("a = 2026-01-01", 1, "neither"),
            ("a = ", 1, "neither"),
            ("\n\na = \"\"\"b\"\"\"", 3, "several lines"),
            ("a = \"b\nc = 1", 1, "does not end"),
            ("a = \"\\u0041\"", 1, "escape"),
            ("a 1", 1, "`=`"),
            ("= 1", 1, "a key"),
            ("a = 1 b = 2", 1, "follows"),
            ("a = [1", 1, "`]`"),
            ("a = { b = 1", 1, "`}`"),
            ("a = 1\n[a.b]\n", 2, "leads into"),
            ("a = 1\n[[a]]\n", 2, "leads into"),
        ] {
            let unread = read(text).unwrap_err();
            assert!(
                unread.line == line && unread.what.contains(what),
                "{text:?}: {unread:?}"
            );
        }
        let deep = format!("a = {}", "[".repeat(100_000));
        assert!(read(&deep).unwrap_err().what.contains("deep"));
    }
}
