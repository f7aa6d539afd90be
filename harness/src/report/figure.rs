//! How a number of a run record is written on a page, and how one is looked up by path.
//!
//! Not here: computing figures. Everything quoted stands in run.json or envelope.json already.

use serde_json::Value;

use super::evidence::Anchored;
use crate::table::{duration, grouped, size};

/// A way to write a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `11 376`
    Count,
    /// Nanoseconds as `26.3 ms`.
    Duration,
    /// A share of one as `86.7 %`.
    Percent,
    /// A ratio as `7.50×`.
    Times,
    /// Bytes as `12.3 MiB`.
    Size,
    /// Positions or tokens a second as `74.2 tok/s`.
    Rate,
}

impl Style {
    /// Every style by the name that templates and bindings use.
    pub(super) const ALL: [(&str, Self); 6] = [
        ("count", Self::Count),
        ("duration", Self::Duration),
        ("percent", Self::Percent),
        ("times", Self::Times),
        ("size", Self::Size),
        ("rate", Self::Rate),
    ];

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, style)| *style)
    }

    /// Writes `value` in this style.
    pub(super) fn write(self, value: &Value) -> Result<String, String> {
        let integer = || {
            value
                .as_u64()
                .ok_or_else(|| format!("{value} is not a whole number"))
        };
        let number = || {
            value
                .as_f64()
                .ok_or_else(|| format!("{value} is not a number"))
        };
        Ok(match self {
            Self::Count => grouped(integer()?),
            Self::Duration => duration(integer()?),
            Self::Percent => format!("{:.1} %", number()? * 100.0),
            Self::Times => format!("{:.2}×", number()?),
            Self::Size => size(integer()?),
            Self::Rate => format!("{:.1} tok/s", number()?),
        })
    }
}

/// A place in the results: `ENVELOPE:PATH` or `ENVELOPE:PATH|STYLE`.
///
/// PATH is dotted and leads into run.json; `ratio(ARM/DENOMINATOR)` as its first part is that entry of `ratios`,
/// `declared` is envelope.json, and a number is a place in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) envelope: String,
    path: String,
    style: Option<Style>,
}

impl Binding {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (envelope, rest) = text
            .split_once(':')
            .ok_or_else(|| format!("`{text}` is not `ENVELOPE:PATH` or `ENVELOPE:PATH|STYLE`"))?;
        let (path, style) = match rest.split_once('|') {
            None => (rest, None),
            Some((path, name)) => {
                let style = Style::parse(name).ok_or_else(|| {
                    let known = Style::ALL.map(|(name, _)| name).join(", ");
                    format!("style `{name}` of `{text}` is not one of {known}")
                })?;
                (path, Some(style))
            }
        };
        Ok(Self {
            envelope: envelope.into(),
            path: path.into(),
            style,
        })
    }

    /// The figure as text, from a run of the envelope.
    pub(super) fn resolve(&self, run: &Anchored) -> Result<String, String> {
        let place = || format!("`{}` of results/{}", self.path, run.run);
        let value = lookup(run, &self.path).ok_or_else(|| format!("{} is not there", place()))?;
        let text = match (self.style, value) {
            (Some(style), value) => style.write(value),
            (None, Value::String(text)) => Ok(text.clone()),
            (None, Value::Number(number)) if number.is_u64() => Style::Count.write(value),
            (None, _) => Err(format!("{value} needs a style, as in `PATH|times`")),
        };
        text.map_err(|message| format!("{}: {message}", place()))
    }
}

fn lookup<'a>(run: &'a Anchored, path: &str) -> Option<&'a Value> {
    let (first, rest) = match path
        .strip_prefix("ratio(")
        .and_then(|rest| rest.split_once(")."))
    {
        Some((pair, rest)) => {
            let (arm, denominator) = pair.split_once('/')?;
            let wanted =
                |ratio: &&Value| ratio["arm"] == arm && ratio["denominator"] == denominator;
            (
                run.measured["ratios"].as_array()?.iter().find(wanted)?,
                rest,
            )
        }
        None => match path.strip_prefix("declared.") {
            Some(rest) => (&run.declared, rest),
            None => (&run.measured, path),
        },
    };
    rest.split('.').try_fold(first, |value, key| match value {
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        value => value.get(key),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_style_writes_its_kind_of_number_and_refuses_others() {
        let cases = [
            (Style::Count, json!(0), "0"),
            (Style::Count, json!(1_100_000), "1 100 000"),
            (Style::Duration, json!(42_137_000), "42.1 ms"),
            (Style::Percent, json!(0.822_785), "82.3 %"),
            (Style::Times, json!(11.467_742), "11.47×"),
            (Style::Times, json!(1), "1.00×"),
            (Style::Size, json!(3 << 19), "1.5 MiB"),
            (Style::Rate, json!(74.15), "74.2 tok/s"),
        ];
        for (style, value, text) in cases {
            assert_eq!(style.write(&value).as_deref(), Ok(text));
        }
        assert!(Style::Count.write(&json!(1.5)).is_err());
        assert!(Style::Times.write(&Value::Null).is_err());
    }

    #[test]
    fn a_binding_names_envelope_path_and_style() {
        let binding = Binding::parse("smoke:ratio(fused/naive).wall|times").unwrap();
        assert_eq!(binding.envelope, "smoke");
        assert_eq!(binding.path, "ratio(fused/naive).wall");
        assert_eq!(binding.style, Some(Style::Times));
        for wrong in ["", "smoke", "smoke:arms.fused.wall_ns|furlongs"] {
            assert!(Binding::parse(wrong).is_err(), "{wrong}");
        }
    }
}
