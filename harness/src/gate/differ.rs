//! What a run counted and answered, held against a baseline: every difference by arm, request and field.
//!
//! Not here: where a baseline comes from (`baseline`) or how a difference looks (`show`).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::baseline::{Answered, Baseline, Counted, Question, REQUEST_COUNTS, Seen};

/// Ids shown before and after the first that differs.
const IDS_BESIDE: usize = 4;

/// One thing that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    /// The arm.
    pub(super) arm: String,
    /// The repetition.
    pub(super) rep: usize,
    /// The request, where it is of one.
    pub(super) request: Option<String>,
    /// What differs, by its name in the run record or the trace.
    pub(super) field: String,
    /// What the baseline says.
    pub(super) expected: String,
    /// What the run says.
    pub(super) got: String,
    /// What the expected ids say, where they differ and the model has a tokenizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expected_text: Option<String>,
    /// What the ids of the run say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) got_text: Option<String>,
    /// The ids of both answers, where those differ.
    #[serde(skip)]
    pub(super) ids: Option<(Vec<u32>, Vec<u32>)>,
}

/// Fields in which two questions differ, as (field, baseline, run).
pub(super) fn unlike(baseline: &Question, run: &Question) -> Vec<(String, String, String)> {
    let flat = |question: &Question| {
        let mut flat = BTreeMap::new();
        if let Ok(value) = serde_json::to_value(question) {
            flatten("", &value, &mut flat);
        }
        flat
    };
    fields(&flat(baseline), &flat(run))
}

/// Entries in which two flat documents differ; one that is missing reads "absent".
pub(crate) fn fields(
    first: &BTreeMap<String, String>,
    second: &BTreeMap<String, String>,
) -> Vec<(String, String, String)> {
    let value = |of: &BTreeMap<String, String>, key: &str| {
        let value = of.get(key).cloned();
        value.unwrap_or_else(|| "absent".to_owned())
    };
    let keys: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    keys.into_iter()
        .filter(|key| first.get(*key) != second.get(*key))
        .map(|key| (key.clone(), value(first, key), value(second, key)))
        .collect()
}

/// A JSON document as `path.to.field` and the text of its value.
pub(crate) fn flatten(path: &str, value: &serde_json::Value, flat: &mut BTreeMap<String, String>) {
    match value.as_object() {
        Some(map) => {
            for (name, value) in map {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{name}"), value, flat);
            }
        }
        None => {
            flat.insert(path.to_owned(), value.to_string());
        }
    }
}

/// Everything in which `seen` is not what `baseline` says, in the order of the baseline, down to answers that no arm of
/// it asks for.
pub(super) fn differences(baseline: &Baseline, seen: &[Seen]) -> Vec<Difference> {
    let mut found = Vec::new();
    for (arm, counted) in &baseline.arms {
        let processes: Vec<&Seen> = seen.iter().filter(|seen| seen.arm == *arm).collect();
        if processes.is_empty() {
            found.push(of_arm(arm, "it ran", "it did not run"));
        }
        for seen in processes {
            let differ = Differ {
                seen,
                found: &mut found,
            };
            differ.all(counted, &baseline.answers);
        }
    }
    for seen in seen.iter().filter(|seen| seen.rep == 0) {
        if !baseline.arms.contains_key(&seen.arm) {
            found.push(of_arm(&seen.arm, "no such arm", "it ran"));
        }
    }
    let counted = || baseline.arms.values();
    for request in baseline.answers.keys() {
        if !counted().any(|it| it.requests.contains_key(request)) {
            found.push(Difference {
                request: Some(request.clone()),
                field: "answer".to_owned(),
                ..of_arm("every arm", "made", "not made")
            });
        }
    }
    found
}

fn of_arm(arm: &str, expected: &str, got: &str) -> Difference {
    Difference {
        arm: arm.to_owned(),
        rep: 0,
        request: None,
        field: "arm".to_owned(),
        expected: expected.to_owned(),
        got: got.to_owned(),
        expected_text: None,
        got_text: None,
        ids: None,
    }
}

struct Differ<'a> {
    seen: &'a Seen,
    found: &'a mut Vec<Difference>,
}

impl Differ<'_> {
    fn all(mut self, counted: &Counted, answers: &BTreeMap<String, Answered>) {
        let own = &self.seen.counted;
        let count = |counts: &BTreeMap<String, u64>, name: &String| {
            counts.get(name).map_or("absent".to_owned(), u64::to_string)
        };
        let names: BTreeSet<&String> = counted.counters.keys().chain(own.counters.keys()).collect();
        for name in names {
            let (expected, got) = (count(&counted.counters, name), count(&own.counters, name));
            self.hold(None, name, expected, got);
        }
        let (expected, got) = (counted.reuse_rate, own.reuse_rate);
        self.hold(None, "reuse_rate", expected.to_string(), got.to_string());
        let requests: BTreeSet<&String> =
            counted.requests.keys().chain(own.requests.keys()).collect();
        for request in requests {
            self.request(request, counted, answers);
        }
    }

    fn request(&mut self, name: &str, counted: &Counted, answers: &BTreeMap<String, Answered>) {
        let seen = self.seen;
        let there = |there: bool| if there { "made" } else { "not made" }.to_owned();
        let both = counted
            .requests
            .get(name)
            .zip(seen.counted.requests.get(name));
        let Some((expected, got)) = both else {
            let expected = there(counted.requests.contains_key(name));
            let got = there(seen.counted.requests.contains_key(name));
            return self.hold(Some(name), "request", expected, got);
        };
        for (field, (expected, got)) in REQUEST_COUNTS.iter().zip(expected.iter().zip(got)) {
            self.hold(Some(name), field, expected.to_string(), got.to_string());
        }
        let Some((expected, got)) = answers.get(name).zip(seen.answers.get(name)) else {
            let expected = there(answers.contains_key(name));
            let got = there(seen.answers.contains_key(name));
            return self.hold(Some(name), "answer", expected, got);
        };
        if expected.ids == got.ids {
            let (expected, got) = (&expected.logits_sha256, &got.logits_sha256);
            self.hold(Some(name), "logits_sha256", expected.clone(), got.clone());
        } else {
            let (expected, got) = (expected.ids.clone(), got.ids.clone());
            self.hold(
                Some(name),
                &format!("ids, from token {}", first_difference(&expected, &got)),
                around(&expected, &got),
                around(&got, &expected),
            );
            if let Some(last) = self.found.last_mut() {
                last.ids = Some((expected, got));
            }
        }
    }

    fn hold(&mut self, request: Option<&str>, field: &str, expected: String, got: String) {
        if expected != got {
            self.found.push(Difference {
                arm: self.seen.arm.clone(),
                rep: self.seen.rep,
                request: request.map(str::to_owned),
                field: field.to_owned(),
                expected,
                got,
                expected_text: None,
                got_text: None,
                ids: None,
            });
        }
    }
}

/// Tokens both have in common at their start.
pub(crate) fn first_difference(first: &[u32], second: &[u32]) -> usize {
    let pairs = first.iter().zip(second);
    pairs.take_while(|(first, second)| first == second).count()
}

/// The ids of `own` around where it departs from `other`, that id in brackets.
pub(crate) fn around(own: &[u32], other: &[u32]) -> String {
    let at = first_difference(own, other);
    let (from, to) = (
        at.saturating_sub(IDS_BESIDE),
        own.len().min(at + IDS_BESIDE + 1),
    );
    let mut words: Vec<String> = Vec::new();
    if from > 0 {
        words.push("...".to_owned());
    }
    for (place, id) in own.iter().enumerate().take(to).skip(from) {
        words.push(if place == at {
            format!("[{id}]")
        } else {
            id.to_string()
        });
    }
    if at >= own.len() {
        words.push("[end]".to_owned());
    } else if to < own.len() {
        words.push("...".to_owned());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shown_around_the_first_that_differs() {
        let long: Vec<u32> = (0..20).collect();
        let mut other = long.clone();
        other[10] = 99;
        assert_eq!(around(&long, &other), "... 6 7 8 9 [10] 11 12 13 14 ...");
        assert_eq!(around(&other, &long), "... 6 7 8 9 [99] 11 12 13 14 ...");
        assert_eq!(around(&[1, 2], &[1, 2, 3]), "1 2 [end]");
        assert_eq!(around(&[], &[1]), "[end]");
    }

    #[test]
    fn documents_differ_by_the_path_of_the_field() {
        let flat = |value: serde_json::Value| {
            let mut flat = BTreeMap::new();
            flatten("", &value, &mut flat);
            flat
        };
        let first = flat(serde_json::json!({"mode": "exact", "workload": {"turns": 4}}));
        let second = flat(serde_json::json!({"mode": "exact", "workload": {"turns": 5}, "x": 1}));
        let texts = |field: &str, first: &str, second: &str| {
            (field.to_owned(), first.to_owned(), second.to_owned())
        };
        assert_eq!(
            fields(&first, &second),
            [texts("workload.turns", "4", "5"), texts("x", "absent", "1")]
        );
    }
}
