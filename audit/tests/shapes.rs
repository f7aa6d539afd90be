//! The shape of every document: an object with a field more, a field less or a field twice is refused, whichever it is.
//!
//! What the mutation test cannot leave out, since serde refuses it before any check is made. Not here: values.
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use std::collections::BTreeSet;
use std::fs;

use audit::{Layer, Report, audit_run};
use fixture::{Fixture, measured, seal};
use serde_json::{Value, json};

/// Objects whose keys are names and no fields, or whose one key is the name of a kind.
const NAMED: [&str; 7] = [
    "arms",
    "arm_reps",
    "percentiles",
    "read_bytes_per_s",
    "f32_flop_per_s",
    "int8_op_per_s",
    "base",
];
/// Fields that may be left out.
const OPTIONAL: [&str; 8] = [
    "shared_attention",
    "ceilings",
    "noise",
    "margin_millinats",
    "request_limit_s",
    "ttft_ms",
    "tpot_ms",
    "e2e_ms",
];
/// Fields of a line that the fixture takes out before it writes the others.
const HEAD: [&str; 2] = ["t_ns", "kind"];
/// What is said of a field twice; the last where two kinds of work leave none to know.
const TWICE: [&str; 3] = ["duplicate field", "stated twice", "unknown field `cells`"];
/// Stands for a key that is there already until the text is written.
const TWIN: &str = "@twin";

/// A document, or one line of one.
#[derive(Clone, Copy, Debug)]
enum Part {
    Envelope,
    Record,
    Line(&'static str, usize),
}

impl Part {
    fn file(self) -> String {
        match self {
            Self::Envelope => "envelope.json".to_owned(),
            Self::Record => "run.json".to_owned(),
            Self::Line(trace, _) => format!("trace/{trace}.jsonl"),
        }
    }

    fn of(self, fixture: &mut Fixture) -> &mut Value {
        match self {
            Self::Envelope => &mut fixture.envelope,
            Self::Record => &mut fixture.record,
            Self::Line(trace, place) => &mut fixture.traces.get_mut(trace).unwrap()[place],
        }
    }
}

/// Pointers to the objects of a document, of those with equal keys the first.
fn objects(value: &Value, pointer: &str, seen: &mut BTreeSet<Vec<String>>) -> Vec<String> {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(table) => table.iter().map(|(key, it)| (key.clone(), it)).collect(),
        Value::Array(values) => {
            let places = values.iter().enumerate();
            places.map(|(place, it)| (place.to_string(), it)).collect()
        }
        _ => Vec::new(),
    };
    let keys: Vec<String> = below.iter().map(|(key, _)| key.clone()).collect();
    let new = value.is_object() && seen.insert(keys);
    let mut found = Vec::from_iter(new.then(|| pointer.to_owned()));
    for (key, it) in below {
        found.extend(objects(it, &format!("{pointer}/{key}"), seen));
    }
    found
}

/// The audit of a run one object of which was changed; a twin then gets the name of `key`.
fn audited(
    honest: fn() -> Fixture,
    part: Part,
    pointer: &str,
    change: impl Fn(&mut Value),
    key: &str,
) -> Report {
    let mut fixture = honest();
    change(part.of(&mut fixture).pointer_mut(pointer).unwrap());
    if matches!(part, Part::Envelope) {
        fixture.redeclare();
    }
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    let path = dir.path().join(part.file());
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(TWIN, key)).unwrap();
    seal(dir.path());
    audit_run(dir.path())
}

/// Holds every object of a part to its shape; how many there are.
fn check(honest: fn() -> Fixture, part: Part, seen: &mut BTreeSet<Vec<String>>) -> usize {
    let mut fixture = honest();
    let whole = part.of(&mut fixture).clone();
    let pointers = objects(&whole, "", seen);
    for pointer in &pointers {
        let named = NAMED
            .iter()
            .any(|name| pointer.ends_with(&format!("/{name}")));
        let refused = |report: &Report, what: &str, words: &[&str]| {
            let said = report.render();
            let place = format!("{part:?} {pointer}, {what}: {said}");
            assert_eq!(report.exit_code(), 4, "{place}");
            let by_shape = report.findings.iter().any(|it| {
                it.layer == Layer::Format && words.iter().any(|word| it.message.contains(word))
            });
            assert!(by_shape || named || words.is_empty(), "{place}");
        };
        let more = audited(honest, part, pointer, |it| it["unknown"] = json!(0), "");
        refused(&more, "more", &["unknown field"]);
        for (key, value) in whole.pointer(pointer).unwrap().as_object().unwrap() {
            if matches!(part, Part::Line(..)) && HEAD.contains(&key.as_str()) {
                continue;
            }
            let remove = |it: &mut Value| {
                it.as_object_mut().unwrap().remove(key);
            };
            let less = audited(honest, part, pointer, remove, "");
            if !OPTIONAL.contains(&key.as_str()) {
                refused(&less, key, &[]);
            }
            let double = |it: &mut Value| it[TWIN] = value.clone();
            let twice = audited(honest, part, pointer, double, key);
            refused(&twice, key, &TWICE);
        }
    }
    pointers.len()
}

fn session() -> Fixture {
    let mut fixture = measured::with_instrument(Fixture::new(&["naive", "agent-kv"], 1));
    let rates = json!({ "1": 5 });
    fixture.record["machine"]["ceilings"] = json!({
        "read_bytes_per_s": rates, "f32_flop_per_s": rates, "int8_op_per_s": rates,
    });
    fixture
}

#[test]
fn no_object_takes_a_field_more_a_field_less_or_a_field_twice() {
    let mut seen = BTreeSet::new();
    let mut shapes = 0;
    for part in [Part::Envelope, Part::Record] {
        shapes += check(session, part, &mut seen);
        shapes += check(fixture::cells::run, part, &mut seen);
        shapes += check(fixture::served::outside, part, &mut seen);
        shapes += check(fixture::scheduled::run, part, &mut seen);
    }
    shapes += check(fixture::admitted::run, Part::Envelope, &mut seen);
    let mut lines = |honest: fn() -> Fixture, trace: &'static str| {
        for place in 0..honest().traces[trace].len() {
            shapes += check(honest, Part::Line(trace, place), &mut seen);
        }
    };
    lines(session, "agent-kv-0");
    lines(fixture::served::run, "llama-server.shared-0");
    lines(fixture::scheduled::run, "fused-0");
    lines(fixture::admitted::run, "fused-0");
    lines(fixture::served::run, "llama-server.shared-0.score");
    lines(fixture::cells::run, "fleet.fak-0");
    lines(fixture::cells::run, "prompt.llama-bench.fa1-0");
    assert!(shapes > 55, "{shapes}");
}
