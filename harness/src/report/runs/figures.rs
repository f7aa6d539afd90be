//! Numbers of a run as its pages show them: each knows where in run.json or envelope.json it stands, or how it follows from there.
//!
//! So a program that reads an HTML page can look every number up again. Not here: which numbers a page has (`view`).

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use super::document::Piece;
use crate::calendar::dashed;
use crate::report::evidence::Anchored;
use crate::report::figure::Style;
use crate::table::duration;

/// A place in a document. A part leads into an object by its name or into a list by its number; `*` stands for every entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<String>);

impl Path {
    pub(super) fn of(parts: &[&str]) -> Self {
        Self(parts.iter().map(|&part| part.to_owned()).collect())
    }

    /// The value that stands there, null if there is none.
    fn value<'a>(&self, root: &'a Value) -> &'a Value {
        self.0.iter().fold(root, |value, part| match value {
            Value::Array(list) => part
                .parse::<usize>()
                .ok()
                .and_then(|at| list.get(at))
                .unwrap_or(&Value::Null),
            value => value.get(part).unwrap_or(&Value::Null),
        })
    }

    /// The numbers that stand there; several where a part is `*`.
    fn numbers(&self, root: &Value) -> Vec<f64> {
        let mut found = vec![root];
        for part in &self.0 {
            found = if part == "*" {
                let lists = found.into_iter();
                lists.filter_map(Value::as_array).flatten().collect()
            } else {
                let one = Self(vec![part.clone()]);
                found.into_iter().map(|value| one.value(value)).collect()
            };
        }
        found.into_iter().filter_map(Value::as_f64).collect()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.0.iter().enumerate() {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-:".contains(letter);
            let index = part == "*" || part.bytes().all(|byte| byte.is_ascii_digit());
            match (index, part.chars().all(plain)) {
                (true, _) => write!(out, "[{part}]")?,
                (false, true) if at == 0 => write!(out, "{part}")?,
                (false, true) => write!(out, ".{part}")?,
                (false, false) => write!(out, "[{}]", json!(part))?,
            }
        }
        Ok(())
    }
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Count,
    Duration,
    /// A duration that may be negative.
    Change,
    Percent,
    Times,
    Size,
    Rate,
    /// Seconds since 1970 as a day.
    Date,
    /// Words, or a yes or no, as they stand there.
    Text,
    /// The first letters of a digest.
    Short,
}

/// Letters of a digest that are shown.
const SHORT: usize = 12;

impl Shown {
    fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Duration => "duration",
            Self::Change => "change",
            Self::Percent => "percent",
            Self::Times => "times",
            Self::Size => "size",
            Self::Rate => "rate",
            Self::Date => "date",
            Self::Text => "text",
            Self::Short => "short",
        }
    }

    /// The value as text; `None` if it is no such value.
    pub(super) fn write(self, value: &Value) -> Option<String> {
        let by = |style: Style| style.write(value).ok();
        match self {
            Self::Count => by(Style::Count),
            Self::Duration => by(Style::Duration),
            Self::Percent => by(Style::Percent).map(|text| text.replace('-', "\u{2212}")),
            Self::Times => by(Style::Times),
            Self::Size => by(Style::Size),
            Self::Rate => by(Style::Rate),
            Self::Change => {
                let change = value.as_f64()?;
                let sign = if change < 0.0 { "\u{2212}" } else { "" };
                Some(format!("{sign}{}", duration(change.abs().round() as u64)))
            }
            Self::Date => value.as_u64().map(dashed),
            Self::Short => Some(value.as_str()?.chars().take(SHORT).collect()),
            Self::Text => match value {
                Value::String(text) => Some(text.clone()),
                Value::Bool(it) => Some(if *it { "yes" } else { "no" }.to_owned()),
                _ => None,
            },
        }
    }
}

/// Arithmetic on values of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// The first without the second.
    Difference,
    /// What the first is more than the second, as a share of what the third is more than the fourth.
    Share,
    Least,
    Greatest,
    Number,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Difference => "difference",
            Self::Share => "share",
            Self::Least => "least",
            Self::Greatest => "greatest",
            Self::Number => "number",
        }
    }

    fn apply(self, inputs: &[Vec<f64>]) -> Option<f64> {
        let all = || inputs.iter().flatten().copied();
        let one = |at: usize| inputs.get(at).and_then(|values| values.first()).copied();
        let value = match self {
            Self::Difference => one(0)? - one(1)?,
            Self::Share => (one(0)? - one(1)?) / (one(2)? - one(3)?),
            Self::Least => all().reduce(f64::min)?,
            Self::Greatest => all().reduce(f64::max)?,
            Self::Number => all().count() as f64,
        };
        value.is_finite().then_some(value)
    }
}

/// A value with where it is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Figure {
    pub(super) text: String,
    /// `field` of run.json, `envelope` of envelope.json, or `derived` from fields of run.json.
    pub(super) origin: &'static str,
    pub(super) place: String,
    /// The value as JSON.
    pub(super) value: String,
    pub(super) style: &'static str,
    /// The run, relative to results/, where it is another than the page's.
    pub(super) run: Option<String>,
}

/// What a page says where nothing was measured.
pub(super) const NOT_MEASURED: &str = "not measured";

/// Figures of one run.
#[derive(Clone, Copy)]
pub(super) struct Figures<'a> {
    pub(super) run: &'a Anchored,
    /// Whether figures name their run, since they stand on the page of another.
    pub(super) named: bool,
}

impl Figures<'_> {
    /// A value of run.json, or the words for none.
    pub(super) fn of(&self, parts: &[&str], shown: Shown) -> Piece {
        let path = Path::of(parts);
        self.figure("field", &path, path.value(&self.run.measured), shown)
    }

    /// A value of envelope.json.
    pub(super) fn asked(&self, parts: &[&str], shown: Shown) -> Piece {
        let path = Path::of(parts);
        self.figure("envelope", &path, path.value(&self.run.declared), shown)
    }

    /// Whether run.json has a value there.
    pub(super) fn has(&self, parts: &[&str]) -> bool {
        !Path::of(parts).value(&self.run.measured).is_null()
    }

    /// Whether envelope.json has a value there.
    pub(super) fn is_asked(&self, parts: &[&str]) -> bool {
        !Path::of(parts).value(&self.run.declared).is_null()
    }

    /// What follows from values of run.json.
    pub(super) fn derived(&self, operation: Operation, paths: &[&[&str]], shown: Shown) -> Piece {
        let paths: Vec<Path> = paths.iter().map(|parts| Path::of(parts)).collect();
        let inputs: Vec<Vec<f64>> = paths
            .iter()
            .map(|path| path.numbers(&self.run.measured))
            .collect();
        let names: Vec<String> = paths.iter().map(Path::to_string).collect();
        let Some(value) = operation.apply(&inputs) else {
            return Piece::words(NOT_MEASURED);
        };
        let whole = value.fract() == 0.0 && value.abs() < 9e15;
        let value = if whole {
            json!(value as i64)
        } else {
            json!(value)
        };
        let place = format!("{} {}", operation.name(), names.join(" "));
        match shown.write(&value) {
            Some(text) => self.piece("derived", place, &value, text, shown),
            None => Piece::words(NOT_MEASURED),
        }
    }

    fn figure(&self, origin: &'static str, path: &Path, value: &Value, shown: Shown) -> Piece {
        match shown.write(value) {
            Some(text) => self.piece(origin, path.to_string(), value, text, shown),
            None => Piece::words(NOT_MEASURED),
        }
    }

    fn piece(
        &self,
        origin: &'static str,
        place: String,
        value: &Value,
        text: String,
        shown: Shown,
    ) -> Piece {
        Piece::Figure(Figure {
            text,
            origin,
            place,
            value: value.to_string(),
            style: shown.name(),
            run: self.named.then(|| self.run.run.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_so_that_it_can_be_read_again() {
        for (parts, text) in [
            (
                &["arms", "llama-server:shared", "wall_ns"][..],
                "arms.llama-server:shared.wall_ns",
            ),
            (&["ratios", "3", "wall"], "ratios[3].wall"),
            (&["p", "p99.9", "nearest"], "p[\"p99.9\"].nearest"),
            (&["samples", "*", "wall_ns"], "samples[*].wall_ns"),
        ] {
            assert_eq!(Path::of(parts).to_string(), text);
        }
    }

    #[test]
    fn a_missing_value_is_null_and_no_panic() {
        let root = json!({ "a": [{ "b": 1 }, { "b": 3 }], "c": "x" });
        assert_eq!(Path::of(&["a", "1", "b"]).value(&root), &json!(3));
        for parts in [&["a", "2", "b"][..], &["a", "b"], &["c", "d"], &["x", "y"]] {
            assert!(Path::of(parts).value(&root).is_null());
        }
        assert_eq!(Path::of(&["a", "*", "b"]).numbers(&root), vec![1.0, 3.0]);
        assert!(Path::of(&["c", "*"]).numbers(&root).is_empty());
    }

    #[test]
    fn arithmetic_without_its_inputs_has_no_value() {
        let inputs =
            |values: &[&[f64]]| -> Vec<Vec<f64>> { values.iter().map(|it| it.to_vec()).collect() };
        let difference = |values: &[&[f64]]| Operation::Difference.apply(&inputs(values));
        assert_eq!(difference(&[&[3.0], &[1.0]]), Some(2.0));
        assert_eq!(difference(&[&[3.0], &[]]), None);
        let share = |values: &[&[f64]]| Operation::Share.apply(&inputs(values));
        assert_eq!(share(&[&[3.0], &[1.0], &[5.0], &[1.0]]), Some(0.5));
        assert_eq!(share(&[&[3.0], &[1.0], &[1.0], &[1.0]]), None, "by nothing");
        assert_eq!(Operation::Least.apply(&inputs(&[&[3.0, 2.0]])), Some(2.0));
        assert_eq!(Operation::Least.apply(&inputs(&[&[]])), None);
    }

    #[test]
    fn a_negative_change_keeps_its_sign() {
        assert_eq!(
            Shown::Change.write(&json!(-1_500_000_000_i64)).unwrap(),
            "\u{2212}1.50 s"
        );
        assert_eq!(
            Shown::Change.write(&json!(1_500_000_000_i64)).unwrap(),
            "1.50 s"
        );
    }
}
