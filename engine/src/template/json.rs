//! The `tojson` filter as transformers defines it: Python's `json.dumps` with `ensure_ascii` off.
//!
//! Not here: reading JSON. Jinja2's own `tojson` escapes for HTML; a prompt is not HTML.

use std::fmt::Write;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use super::{DEPTH_MAX, OUTPUT_BYTES_MAX};

/// Widest indentation believed.
const INDENT_MAX: usize = 64;

/// `value|tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
#[allow(clippy::needless_pass_by_value)] // a filter takes its keywords so
pub(super) fn tojson(
    state: &State<'_, '_>,
    value: &Value,
    ensure_ascii: Option<bool>,
    options: Kwargs,
) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    if indent.is_some_and(|indent| indent > INDENT_MAX) {
        return fail(format!("tojson indents by at most {INDENT_MAX}"));
    }
    let between = if indent.is_some() { "," } else { ", " };
    let (item, key) = match options.get::<Option<Vec<String>>>("separators")? {
        None => (between.to_owned(), ": ".to_owned()),
        Some(pair) => <[String; 2]>::try_from(pair)
            .map(|[item, key]| (item, key))
            .or_else(|_| fail("tojson takes two separators".to_owned()))?,
    };
    let named: Option<bool> = options.get("ensure_ascii")?;
    let mut writer = Writer {
        text: String::new(),
        ascii: named.or(ensure_ascii).unwrap_or(false),
        sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        item,
        key,
    };
    options.assert_all_used()?;
    writer.value(value, 0)?;
    state.consume_fuel(writer.text.len() as u64 / 16)?;
    Ok(Value::from(writer.text))
}

fn fail<T>(what: String) -> Result<T, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, what))
}

struct Writer {
    text: String,
    ascii: bool,
    sorted: bool,
    indent: Option<usize>,
    item: String,
    key: String,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return fail(format!("tojson nests at most {DEPTH_MAX} deep"));
        }
        // One list can occur in many places, so the text may be far larger than what the template made.
        if self.text.len() > OUTPUT_BYTES_MAX {
            return fail(format!("tojson writes at most {OUTPUT_BYTES_MAX} bytes"));
        }
        match value.kind() {
            ValueKind::None => self.text.push_str("null"),
            ValueKind::Bool => self
                .text
                .push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => self.text.push_str(&value.to_string()),
            ValueKind::Number => self.text.push_str(&float(f64::try_from(value.clone())?)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.map(|item| (None, item));
                self.container(['[', ']'], items, depth)?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort();
                }
                let items = keys.into_iter().map(|key| {
                    let item = value.get_item(&key).unwrap_or_default();
                    (Some(key), item)
                });
                self.container(['{', '}'], items, depth)?;
            }
            other => return fail(format!("tojson cannot write {other}")),
        }
        Ok(())
    }

    fn container(
        &mut self,
        [open, close]: [char; 2],
        items: impl Iterator<Item = (Option<Value>, Value)>,
        depth: usize,
    ) -> Result<(), Error> {
        self.text.push(open);
        let mut empty = true;
        for (key, item) in items {
            if !std::mem::take(&mut empty) {
                self.text.push_str(&self.item);
            }
            self.line(depth + 1);
            if let Some(key) = key {
                self.key(&key)?;
                self.text.push_str(&self.key);
            }
            self.value(&item, depth + 1)?;
        }
        if !empty {
            self.line(depth);
        }
        self.text.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            let width = indent * depth;
            // Writing to a string cannot fail.
            let _ = write!(self.text, "\n{:width$}", "");
        }
    }

    /// Python takes text, numbers, booleans and none as keys, and writes each as text.
    fn key(&mut self, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.string(key.as_str().unwrap_or_default()),
            ValueKind::Number | ValueKind::Bool | ValueKind::None => {
                self.text.push('"');
                self.value(key, 0)?;
                self.text.push('"');
            }
            other => return fail(format!("tojson cannot write {other} as a key")),
        }
        Ok(())
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                c if c < ' ' || self.ascii && c > '~' => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.text, "\\u{unit:04x}");
                    }
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }
}

/// A float as Python's `repr`: shortest digits, scientific below 1e-4 and from 1e16.
fn float(value: f64) -> String {
    if !value.is_finite() {
        let sign = if value < 0.0 { "-" } else { "" };
        let name = if value.is_nan() { "NaN" } else { "Infinity" };
        return format!("{sign}{name}");
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        return format!("{value:?}");
    }
    let scientific = format!("{value:e}");
    match scientific.split_once('e') {
        Some((digits, power)) => {
            let (sign, power) = match power.strip_prefix('-') {
                Some(power) => ('-', power),
                None => ('+', power),
            };
            format!("{digits}e{sign}{power:0>2}")
        }
        None => scientific,
    }
}
