//! One document told wrongly in every way that has nothing to do with what its values mean.
//!
//! Not here: who must refuse that.
#![allow(dead_code)] // each test binary uses its part
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

use std::collections::BTreeSet;

use serde_json::Value;

/// The same document told wrongly, in one place each: a field too many, a field left out, a value of another type. Of
/// values of one shape in a list, and of objects of one shape beside each other, only the first is told wrongly.
pub(crate) fn told_wrongly(document: &Value) -> Vec<(String, Value)> {
    let mut wrong = Vec::new();
    tell_below(document, "", document, &mut wrong);
    wrong
}

fn tell_below(root: &Value, path: &str, value: &Value, wrong: &mut Vec<(String, Value)>) {
    let mut tell = |what: String, change: &dyn Fn(&mut Value)| {
        let mut changed = root.clone();
        change(changed.pointer_mut(path).unwrap());
        wrong.push((what, changed));
    };
    if !path.is_empty() {
        for other in others(value) {
            tell(format!("{path} is {other}"), &|place| {
                *place = other.clone();
            });
        }
    }
    let mut children: Vec<(String, &Value)> = Vec::new();
    match value {
        Value::Object(object) => {
            tell(format!("{path} has more"), &|place| {
                place["unheard of"] = 1.into();
            });
            for (name, child) in object {
                let below = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                tell(format!("{below} is left out"), &|place| {
                    place.as_object_mut().unwrap().remove(name);
                });
                children.push((below, child));
            }
        }
        Value::Array(array) => {
            let places = array.iter().enumerate();
            children.extend(places.map(|(place, child)| (format!("{path}/{place}"), child)));
        }
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for (below, child) in children {
        let scalar = !child.is_object() && !child.is_array();
        if seen.insert(shape(child)) || (scalar && value.is_object()) {
            tell_below(root, &below, child, wrong);
        }
    }
}

/// Values of other types.
fn others(value: &Value) -> Vec<Value> {
    let all = ["null", "true", "0.5", "-1", "\"x\"", "[]", "{}"];
    let all = all.map(|text| serde_json::from_str::<Value>(text).unwrap());
    let kind = |it: &Value| std::mem::discriminant(it);
    let whole = value.is_u64() || value.is_i64();
    let other = |it: &Value| kind(it) != kind(value) || whole;
    all.into_iter().filter(other).collect()
}

/// What a value is made of, whatever its numbers and names.
fn shape(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let fields = object
                .iter()
                .map(|(name, it)| format!("{name} {}", shape(it)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(array) => format!("[{}]", array.first().map(shape).unwrap_or_default()),
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if number.is_f64() => "real".to_owned(),
        Value::Number(_) => "whole".to_owned(),
        Value::String(_) => "text".to_owned(),
    }
}
