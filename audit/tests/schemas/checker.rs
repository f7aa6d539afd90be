//! JSON Schema as far as our schemas use it, so that tests need no crate for it.
//!
//! A keyword or pattern that is not known here stops the test: nothing is skipped silently. An implementation by others is
//! asked too, in `independent.py`. Not here: which documents are checked.
#![allow(dead_code)] // each test binary uses its part
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Keywords that refuse nothing.
const SILENT: [&str; 5] = ["$schema", "$id", "$defs", "title", "description"];
const KEYWORDS: [&str; 17] = [
    "$ref",
    "oneOf",
    "type",
    "const",
    "enum",
    "minimum",
    "maximum",
    "pattern",
    "items",
    "minItems",
    "maxItems",
    "properties",
    "required",
    "additionalProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
];
type Pattern = (&'static str, fn(&str) -> bool);
/// Patterns that schemas may use, and what they say.
const PATTERNS: [Pattern; 4] = [
    ("^[0-9a-f]{64}$", |text| {
        text.len() == 64 && text.bytes().all(|it| b"0123456789abcdef".contains(&it))
    }),
    ("^/", |text| text.starts_with('/')),
    ("^[1-9][0-9]*$", |text| {
        text.bytes().all(|it| it.is_ascii_digit()) && !text.starts_with('0') && !text.is_empty()
    }),
    ("^[a-z0-9_-]+$", |text| {
        let plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"_-".contains(&it);
        text.bytes().all(plain) && !text.is_empty()
    }),
];

pub(crate) fn directory() -> PathBuf {
    // Of the audit crate, whichever crate's test this is part of.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../audit/schemas")
}

/// The schema of one format.
pub(crate) struct Schema {
    pub(crate) root: Value,
}

impl Schema {
    /// The schema of a tag such as `fak.run/1`.
    pub(crate) fn of(tag: &str) -> Self {
        let name = format!("{}.schema.json", tag.replace('/', "."));
        let text = fs::read_to_string(directory().join(&name)).unwrap();
        let schema = Self {
            root: serde_json::from_str(&text).unwrap(),
        };
        schema.understood(&schema.root, &name);
        schema
    }

    /// What is wrong with a document; nothing, if it is valid.
    pub(crate) fn faults(&self, document: &Value) -> Vec<String> {
        self.faults_at(&self.root, document, "")
    }

    #[track_caller]
    pub(crate) fn accepts(&self, document: &Value, what: &str) {
        let faults = self.faults(document);
        assert!(faults.is_empty(), "{what}: {}", faults.join("\n"));
    }

    /// Every schema in `schema`, itself among them, uses what this checker knows.
    fn understood(&self, schema: &Value, place: &str) {
        let Value::Object(rules) = schema else {
            assert!(schema.is_boolean(), "{place} is no schema");
            return;
        };
        for (keyword, rule) in rules {
            let place = format!("{place}/{keyword}");
            let known = SILENT.contains(&keyword.as_str()) || KEYWORDS.contains(&keyword.as_str());
            assert!(known, "{place} is not known");
            match keyword.as_str() {
                "properties" | "$defs" => {
                    let below = rule.as_object().unwrap();
                    below.values().for_each(|it| self.understood(it, &place));
                }
                "items" | "additionalProperties" | "propertyNames" => {
                    self.understood(rule, &place);
                }
                "oneOf" => {
                    for it in rule.as_array().unwrap() {
                        self.understood(it, &place);
                    }
                }
                "$ref" => {
                    self.definition(rule);
                }
                "pattern" => assert!(PATTERNS.iter().any(|it| *rule == it.0), "{place}"),
                _ => {}
            }
        }
    }

    fn definition(&self, reference: &Value) -> &Value {
        let pointer = reference.as_str().unwrap().strip_prefix('#').unwrap();
        self.root.pointer(pointer).unwrap()
    }

    fn faults_at(&self, schema: &Value, value: &Value, path: &str) -> Vec<String> {
        let mut faults = Vec::new();
        match schema {
            Value::Object(rules) => {
                for (keyword, rule) in rules {
                    if !self.holds(keyword, rule, value) {
                        faults.push(format!("{path} is {}: not {keyword} {rule}", brief(value)));
                    }
                    faults.extend(self.faults_below((keyword, rule), rules, value, path));
                }
            }
            Value::Bool(false) => faults.push(format!("{path} may not be there")),
            _ => {}
        }
        faults
    }

    /// Whether the value itself keeps a rule; what stands in it is for `faults_below`.
    fn holds(&self, keyword: &str, rule: &Value, value: &Value) -> bool {
        let number = || value.as_f64().zip(rule.as_f64());
        let length = |of: Option<usize>| of.zip(rule.as_u64().map(|it| it as usize));
        let items = value.as_array().map(Vec::len);
        let fields = value.as_object().map(Map::len);
        match keyword {
            "type" => match rule {
                Value::Array(names) => names.iter().any(|name| is_a(value, name)),
                name => is_a(value, name),
            },
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => number().is_none_or(|(value, least)| value >= least),
            "maximum" => number().is_none_or(|(value, most)| value <= most),
            "pattern" => value.as_str().is_none_or(|text| {
                let pattern = PATTERNS.iter().find(|it| *rule == it.0).unwrap();
                pattern.1(text)
            }),
            "minItems" => length(items).is_none_or(|(length, least)| length >= least),
            "maxItems" => length(items).is_none_or(|(length, most)| length <= most),
            "minProperties" => length(fields).is_none_or(|(length, least)| length >= least),
            "maxProperties" => length(fields).is_none_or(|(length, most)| length <= most),
            "oneOf" => {
                let all = rule.as_array().unwrap().iter();
                let fits = |it: &&Value| self.faults_at(it, value, "").is_empty();
                all.filter(fits).count() == 1
            }
            "required" => value.as_object().is_none_or(|object| {
                let names = rule.as_array().unwrap().iter();
                names
                    .map(|it| it.as_str().unwrap())
                    .all(|name| object.contains_key(name))
            }),
            _ => true,
        }
    }

    fn faults_below(
        &self,
        (keyword, rule): (&str, &Value),
        rules: &Map<String, Value>,
        value: &Value,
        path: &str,
    ) -> Vec<String> {
        let fields = || value.as_object().into_iter().flatten();
        let below = |name: &str| format!("{path}/{name}");
        match keyword {
            "$ref" => self.faults_at(self.definition(rule), value, path),
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                items
                    .flat_map(|(place, item)| {
                        self.faults_at(rule, item, &below(&place.to_string()))
                    })
                    .collect()
            }
            "properties" => fields()
                .filter_map(|(name, value)| Some((name, rule.get(name)?, value)))
                .flat_map(|(name, rule, value)| self.faults_at(rule, value, &below(name)))
                .collect(),
            "additionalProperties" => {
                let named = |name: &str| {
                    rules
                        .get("properties")
                        .is_some_and(|it| it.get(name).is_some())
                };
                fields()
                    .filter(|(name, _)| !named(name))
                    .flat_map(|(name, value)| self.faults_at(rule, value, &below(name)))
                    .collect()
            }
            "propertyNames" => fields()
                .flat_map(|(name, _)| {
                    self.faults_at(rule, &Value::from(name.as_str()), &below(name))
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

fn brief(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        plain => plain.to_string(),
    }
}

fn is_a(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_number() && value.as_f64().is_some_and(|it| it.fract() == 0.0),
        other => unreachable!("no type is called {other}"),
    }
}
