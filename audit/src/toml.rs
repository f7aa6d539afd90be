//! The part of TOML that envelopes are written in: tables, arrays of tables, keys, strings, whole numbers, truth values,
//! arrays, inline tables, comments.
//!
//! What TOML allows beyond that (dates, fractions, strings of several lines, some escapes, other spellings of numbers) is
//! told apart from what it forbids. Not here: refusing all that it forbids; what is lenient here was read by a strict
//! reader before a run began.

mod numbers;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use numbers::{is_spelled_otherwise, whole};

/// Parts of a key, and depth of nested values; envelopes have two.
const MAX_DEPTH: usize = 8;

/// Why a text was not read: the line, counted from 1, and what stands there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    pub(crate) line: usize,
    pub(crate) why: Why,
}

/// What stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Nothing that TOML allows.
    Forbidden(&'static str),
    /// TOML allows it, and this reader does not know it.
    Unknown(&'static str),
}

use Why::{Forbidden, Unknown};

/// Reads a whole document.
pub(crate) fn read(text: &str) -> Result<Value, Unread> {
    let mut reader = Reader {
        rest: text.trim_start_matches('\u{feff}'),
        defined: BTreeSet::new(),
    };
    reader.document().map_err(|why| {
        let read = text.len() - reader.rest.len();
        let line = 1 + text[..read].matches('\n').count();
        Unread { line, why }
    })
}

type Read<T> = Result<T, Why>;

struct Reader<'a> {
    rest: &'a str,
    /// Tables whose own keys have been stated, by header or from above: a header may not open them again.
    defined: BTreeSet<Vec<String>>,
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
                self.forget_below(&table);
            } else if self.take("[") {
                table = self.keys()?;
                self.expect("]", "`]` is missing")?;
                find(&mut document, &table)?;
                if !self.defined.insert(table.clone()) {
                    return Err(Forbidden("a table is opened twice"));
                }
            } else {
                let (keys, value) = self.pair(0)?;
                let tables = keys.len() - usize::from(!value.is_object());
                let below = (1..=tables).map(|length| [&table[..], &keys[..length]].concat());
                self.defined.extend(below);
                put(find(&mut document, &table)?, &keys, value)?;
            }
            self.end_of_line()?;
        }
    }

    /// Another table of an array begins: what was defined in the one before may be again.
    fn forget_below(&mut self, table: &[String]) {
        let from_there = self.defined.range(table.to_vec()..);
        let below = from_there.take_while(|path| path.starts_with(table));
        for path in below.cloned().collect::<Vec<_>>() {
            self.defined.remove(&path);
        }
    }

    fn pair(&mut self, depth: usize) -> Read<(Vec<String>, Value)> {
        let keys = self.keys()?;
        self.expect("=", "`=` is missing")?;
        self.skip_spaces();
        Ok((keys, self.value(depth)?))
    }

    fn keys(&mut self) -> Read<Vec<String>> {
        let mut keys = Vec::new();
        loop {
            if keys.len() == MAX_DEPTH {
                return Err(Unknown("keys are nested too deep"));
            }
            self.skip_spaces();
            keys.push(self.key()?);
            self.skip_spaces();
            if !self.take(".") {
                return Ok(keys);
            }
        }
    }

    fn key(&mut self) -> Read<String> {
        if self.take("\"") {
            return self.string();
        }
        if self.take("'") {
            return self.literal();
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        match self.take_while(plain) {
            "" => Err(Forbidden("a key is missing")),
            key => Ok(key.to_owned()),
        }
    }

    fn value(&mut self, depth: usize) -> Read<Value> {
        if depth > MAX_DEPTH {
            return Err(Unknown("values are nested too deep"));
        }
        if self.rest.starts_with("\"\"\"") || self.rest.starts_with("'''") {
            return Err(Unknown("a string of several lines"));
        }
        if self.take("\"") {
            return self.string().map(Value::String);
        }
        if self.take("'") {
            return self.literal().map(Value::String);
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
            number => whole(number).ok_or_else(|| {
                if is_spelled_otherwise(number) {
                    Unknown("a fraction, a date or another spelling of a number")
                } else {
                    Forbidden("a value is neither text, number, date nor truth value")
                }
            }),
        }
    }

    fn array(&mut self, depth: usize) -> Read<Value> {
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

    fn inline_table(&mut self, depth: usize) -> Read<Value> {
        let mut table = Value::Object(Map::new());
        loop {
            self.skip_blank();
            if self.take("}") {
                return Ok(table);
            }
            let (keys, value) = self.pair(depth + 1)?;
            put(&mut table, &keys, value)?;
            self.skip_blank();
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
            let escape = self.rest.chars().next();
            let escape = escape.ok_or(Forbidden("a string does not end"))?;
            self.rest = &self.rest[escape.len_utf8()..];
            text.push(match escape {
                '"' | '\\' => escape,
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' | 'f' | 'e' | 'x' | 'u' | 'U' => {
                    return Err(Unknown("this escape in a string"));
                }
                _ => return Err(Forbidden("this escape in a string")),
            });
        }
    }

    /// The same without escapes.
    fn literal(&mut self) -> Read<String> {
        let text = self.take_while(|c| !matches!(c, '\'' | '\n')).to_owned();
        self.expect("'", "a string does not end")?;
        Ok(text)
    }

    fn end_of_line(&mut self) -> Read<()> {
        self.skip_spaces();
        self.skip_comment();
        if self.rest.is_empty() || self.take("\n") || self.take("\r\n") {
            return Ok(());
        }
        Err(Forbidden("something follows a value on its line"))
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
            Err(Forbidden(missing))
        }
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &str {
        let rest = self.rest.trim_start_matches(&belongs);
        let taken = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        taken
    }
}

/// The table at a path, made where there is none; of an array of tables the last.
fn find<'v>(document: &'v mut Value, path: &[String]) -> Read<&'v mut Value> {
    let mut at = document;
    for key in path {
        let table = at
            .as_object_mut()
            .ok_or(Forbidden("a key leads into a value"))?;
        at = table
            .entry(key)
            .or_insert_with(|| Value::Object(Map::new()));
        if let Value::Array(tables) = at {
            at = tables
                .last_mut()
                .ok_or(Forbidden("a key leads into a value"))?;
        }
    }
    if at.is_object() {
        Ok(at)
    } else {
        Err(Forbidden("a key leads into a value"))
    }
}

/// Begins another table of the array at a path.
fn add_table(document: &mut Value, path: &[String]) -> Read<()> {
    let Some((last, above)) = path.split_last() else {
        return Err(Forbidden("a key is missing"));
    };
    let table = find(document, above)?.as_object_mut();
    let tables = table.map(|it| it.entry(last).or_insert_with(|| Value::Array(Vec::new())));
    let tables = tables.and_then(Value::as_array_mut);
    let tables = tables.ok_or(Forbidden("a key leads into a value"))?;
    tables.push(Value::Object(Map::new()));
    Ok(())
}

/// Puts a value at a path below a table; it must be the first there.
fn put(table: &mut Value, keys: &[String], value: Value) -> Read<()> {
    let Some((last, above)) = keys.split_last() else {
        return Err(Forbidden("a key is missing"));
    };
    let table = find(table, above)?.as_object_mut();
    match table.map(|it| it.insert(last.clone(), value)) {
        Some(None) => Ok(()),
        _ => Err(Forbidden("a key is stated twice")),
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

    /// The line and what stands there.
    fn unread(text: &str) -> (usize, Why) {
        let Unread { line, why } = read(text).unwrap_err();
        (line, why)
    }

    #[test]
    fn what_toml_forbids_is_named_with_its_line() {
        for (text, line, what) in [
            ("a = 1\na = 2\n", 2, "twice"),
            ("[a]\nb = 1\n[a]\n", 3, "twice"),
            ("[a]\n[a]\n", 2, "twice"),
            ("[a]\nb.c = 1\n[a.b]\n", 3, "twice"),
            ("a = {}\n[a]\n", 2, "twice"),
            ("[[a]]\n[a.b]\n[a.b]\n", 3, "twice"),
            ("a = 007", 1, "neither"),
            ("a = 1__0", 1, "neither"),
            ("a = 1.", 1, "neither"),
            ("a = 0xg", 1, "neither"),
            ("a = yes", 1, "neither"),
            ("a = 12-34", 1, "neither"),
            ("a = ", 1, "neither"),
            ("a = \"b\nc = 1", 1, "does not end"),
            ("a = \"\\z\"", 1, "escape"),
            ("a 1", 1, "`=`"),
            ("= 1", 1, "a key"),
            ("a = 1 b = 2", 1, "follows"),
            ("a = [1", 1, "`]`"),
            ("a = { b = 1", 1, "`}`"),
            ("a = 1\n[a.b]\n", 2, "leads into"),
            ("a = 1\n[[a]]\n", 2, "leads into"),
        ] {
            let found = unread(text);
            let named = matches!(found.1, Forbidden(it) if it.contains(what));
            assert!(named && found.0 == line, "{text:?}: {found:?}");
        }
    }

    #[test]
    fn what_toml_allows_and_is_not_read_is_no_fault() {
        for (text, line, what) in [
            ("a = 1.5", 1, "fraction"),
            ("a = -1_0.5e+3", 1, "fraction"),
            ("a = inf", 1, "fraction"),
            ("a = +1", 1, "another spelling"),
            ("a = 0x1F", 1, "another spelling"),
            ("a = 2026-01-01T00:00:00Z", 1, "date"),
            ("a = 07:32:00", 1, "date"),
            ("\n\na = \"\"\"b\"\"\"", 3, "several lines"),
            ("a = \"\\u0041\"", 1, "escape"),
        ] {
            let found = unread(text);
            let named = matches!(found.1, Unknown(it) if it.contains(what));
            assert!(named && found.0 == line, "{text:?}: {found:?}");
        }
    }

    #[test]
    fn tables_may_be_opened_in_any_order_and_again_in_another_table_of_an_array() {
        for (text, expected) in [
            (
                "[a.b]\nc = 1\n[a]\nd = 2\n",
                json!({ "a": { "b": { "c": 1 }, "d": 2 } }),
            ),
            (
                "[[a]]\n[a.b]\n[[a]]\n[a.b]\n",
                json!({ "a": [{ "b": {} }, { "b": {} }] }),
            ),
            ("\u{feff}'a.b' = 1\n\"\" = 2\n", json!({ "a.b": 1, "": 2 })),
            (
                "a = {\n  b = 1, # one\n  c = 2,\n}\n",
                json!({ "a": { "b": 1, "c": 2 } }),
            ),
        ] {
            assert_eq!(read(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_nested_too_deep_to_be_refused() {
        let keys = vec!["a"; 100_000].join(".");
        for text in [
            format!("a = {}", "[".repeat(100_000)),
            format!("a = {}", "{a=".repeat(100_000)),
            format!("{keys} = 1"),
            format!("[{keys}]"),
            format!("[[{keys}]]"),
        ] {
            let found = unread(&text);
            let named = matches!(found.1, Unknown(what) if what.contains("deep"));
            assert!(named, "{found:?}");
        }
    }
}
