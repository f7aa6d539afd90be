//! What an attestation states: an in-toto Statement whose subjects are the files of a run and whose predicate follows from
//! run.json, worked out here once more.
//!
//! Not here: who signed it (`envelope`, `key`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::envelope::Envelope;
use super::unique::Unique;
use crate::notebook::{Layer, Notebook, brief, quote};
use crate::schema;
use crate::seal::Sums;

/// The statement in an envelope, or a note why there is none.
pub(crate) fn parse(envelope: &Envelope, notes: &mut Notebook) -> Option<Value> {
    match serde_json::from_slice(&envelope.payload) {
        Ok(Unique(statement)) => Some(statement),
        Err(error) => {
            let message = format!("its payload is no JSON to rely on: {error}");
            notes.broken(Layer::Attestation, message);
            None
        }
    }
}

/// Notes another kind of statement or predicate.
pub(crate) fn check_types(statement: &Value, notes: &mut Notebook) {
    for (field, known) in [
        ("_type", "https://in-toto.io/Statement/v1"),
        ("predicateType", "https://slsa.dev/provenance/v1"),
    ] {
        let what = format!("{field} of its payload");
        notes.same(
            Layer::Attestation,
            &what,
            &statement[field],
            &Value::from(known),
        );
    }
}

/// Subjects are exactly these files, each once, with these digests.
pub(crate) fn check_subjects(statement: &Value, files: &Sums, notes: &mut Notebook) {
    let mut left: BTreeMap<&str, &str> = files
        .iter()
        .map(|(path, digest)| (path.as_str(), digest.as_str()))
        .collect();
    let subjects = statement["subject"].as_array();
    for (place, subject) in subjects.into_iter().flatten().enumerate() {
        let name = subject["name"].as_str().unwrap_or_default();
        let at = format!("subject[{place}], {},", quote(name));
        let Some(digest) = left.remove(name) else {
            let message = format!("{at} is no file of the run, or stands there before");
            notes.broken(Layer::Attestation, message);
            continue;
        };
        let expected = json!({ "name": name, "digest": { "sha256": digest } });
        notes.check(Layer::Attestation, *subject == expected, || {
            let found = brief(subject.to_string());
            format!("{at} is {found}, and the run's file has the SHA-256 {digest}")
        });
    }
    notes.check(Layer::Attestation, left.is_empty(), || {
        let missing: Vec<&str> = left.into_keys().collect();
        format!(
            "its subjects leave out files of the run: {}",
            quote(&missing)
        )
    });
    notes.recomputed("subjects", files.len() as u64);
}

/// The predicate is what run.json gives.
pub(crate) fn check_predicate(statement: &Value, record: &Value, notes: &mut Notebook) {
    let found = &statement["predicate"];
    let mut expected = predicate(record);
    // What the directory was called is nobody's to say afterwards.
    let metadata = &found["runDetails"]["metadata"];
    if let Some(name) = metadata["invocationId"].as_str() {
        expected["runDetails"]["metadata"]["invocationId"] = name.into();
    }
    let difference = difference("predicate", found, &expected);
    notes.check(Layer::Attestation, difference.is_none(), || {
        let (path, found, expected) = difference.unwrap_or_default();
        format!("{path} is {found}, and run.json gives {expected}")
    });
}

/// Where two documents first differ: path, and what stands there in each.
fn difference(path: &str, found: &Value, expected: &Value) -> Option<(String, String, String)> {
    if found == expected {
        return None;
    }
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let below = format!("{path}.{key}");
                let nothing = &Value::Null;
                match (a.get(key), b.get(key)) {
                    (None, Some(value)) => {
                        Some((below, "left out".to_owned(), brief(value.to_string())))
                    }
                    (Some(value), None) => {
                        Some((below, brief(value.to_string()), "nothing there".to_owned()))
                    }
                    (a, b) => difference(&below, a.unwrap_or(nothing), b.unwrap_or(nothing)),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(place, (a, b))| difference(&format!("{path}[{place}]"), a, b))
        }
        _ => {
            let show = |value: &Value| brief(value.to_string());
            Some((path.to_owned(), show(found), show(expected)))
        }
    }
}

/// FORMAT.md's table of the predicate, from run.json; `invocationId` is the caller's.
fn predicate(record: &Value) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut parameters = json!({
        "envelope": { "name": record["envelope"], "digest": { "sha256": record["envelope_sha256"] } },
        "arms": arms(record),
    });
    let build = &record["build"];
    let mut version = json!({ "harness": build["version"], "rustc": build["rustc"] });
    let started = if text(&record["schema"]) == schema::COUNTS {
        &record["counted_unix_s"]
    } else {
        parameters["requested"] = record["requested"].clone();
        version["kernels"] = record["effective"]["kernels"].clone();
        version["machine"] = record["machine"]["class"].clone();
        &record["sittings"][0]["started_unix_s"]
    };
    let started = moment(started.as_u64().unwrap_or_default());
    json!({
        "buildDefinition": {
            "buildType": format!("urn:fak:{}", text(&record["schema"])),
            "externalParameters": parameters,
            "resolvedDependencies": dependencies(record),
        },
        "runDetails": {
            "builder": { "id": "urn:fak:harness", "version": version },
            "metadata": { "invocationId": "", "startedOn": started },
        },
    })
}

/// Names of all arms, of cells and rows too, each once.
fn arms(record: &Value) -> BTreeSet<String> {
    let of = |it: &Value| -> Vec<String> {
        let arms = it["arms"].as_object();
        arms.into_iter().flat_map(Map::keys).cloned().collect()
    };
    let lists = ["cells", "rows"].map(|name| record[name].as_array());
    let parts = lists.into_iter().flatten().flatten();
    parts.chain([record]).flat_map(of).collect()
}

/// What went into it: model, tokenizer, source, other engines' programs.
fn dependencies(record: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    let (model, build) = (&record["model"], &record["build"]);
    if model.is_object() {
        found.push(json!({
            "name": "model", "digest": { "sha256": model["sha256"] },
            "annotations": { "name": model["name"], "label": model["label"] },
        }));
    }
    if model["tokenizer_sha256"].is_string() {
        let digest = &model["tokenizer_sha256"];
        found.push(json!({ "name": "tokenizer", "digest": { "sha256": digest } }));
    }
    if build["commit"].is_string() {
        found.push(json!({
            "name": "source", "digest": { "gitCommit": build["commit"] }, "annotations": { "dirty": build["dirty"] },
        }));
    }
    let trees: BTreeMap<_, _> = build["trees"].as_object().into_iter().flatten().collect();
    for (name, id) in trees {
        found.push(json!({ "name": format!("source/{name}"), "digest": { "gitTree": id } }));
    }
    let arms = record["arms"].as_object().into_iter().flatten();
    let programs = arms.map(|(_, arm)| &arm["server"]["program"]);
    let programs = programs.filter(|program| program["sha256"].is_string());
    let programs: BTreeMap<String, Value> = programs
        .map(|it| {
            let program = json!({
                "name": it["name"], "digest": { "sha256": it["sha256"] },
                "annotations": { "libraries_sha256": it["libraries_sha256"], "version": it["version"] },
            });
            (format!("{} {}", it["name"], it["sha256"]), program)
        })
        .collect();
    found.extend(programs.into_values());
    found
}

/// A moment as RFC 3339 writes it, in UTC.
fn moment(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    // Years are counted from March, so that the odd day comes last; an era of 400 years has 146 097 days.
    let since_march = days + 719_468;
    let (era, day) = (since_march / 146_097, since_march % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn known_moments_are_written_as_the_calendar_has_them() {
        for (unix_s, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(moment(unix_s), expected);
        }
    }
}
