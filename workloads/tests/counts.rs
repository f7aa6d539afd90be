//! Counted envelopes: what is read, what is refused and in which words, and counts against closed forms.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use workloads::counts::{CountsEnvelope, count};
use workloads::envelope::{Declared, Envelope, embedded};
use workloads::oracle::{self, Shape};
use workloads::trace::sha256_hex;

fn text_of(name: &str) -> &'static str {
    embedded().iter().find(|it| it.0 == name).unwrap().1
}

/// An envelope of this workload.
fn asking(workload: &str) -> String {
    let head = "schema = \"fak.envelope/1\"\nname = \"mine\"\nquestion = \"how many?\"\n";
    format!("{head}[workload]\nkind = \"counts\"\n{workload}\n")
}

fn refusal(workload: &str) -> String {
    let refused = CountsEnvelope::parse(&asking(workload), "x.toml");
    refused.unwrap_err().to_string()
}

const SESSION: &str = "{ name = \"a\", agents = 2, turns = 3, prefix = 5, decode = 2, result = 3 }";
const DATASET: &str = "dataset = { kind = \"swebench\", file = \"a.json\", sha256 = \"";

#[test]
fn what_is_counted_is_told_from_what_is_run_by_its_kind() {
    let counted = Declared::named("session-ladder").unwrap();
    assert!(matches!(counted, Declared::Counts(_)) && counted.model().is_none());
    assert!(Envelope::named("session-ladder").is_err());
    assert!(CountsEnvelope::parse(text_of("smoke"), "smoke").is_err());
    let other = asking(&format!("sessions = [{SESSION}]")).replace("envelope/1", "envelope/2");
    let refused = CountsEnvelope::parse(&other, "x.toml").unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("x.toml, line 1: schema = \"fak.envelope/2\"")
    );
}

#[test]
fn what_cannot_be_counted_is_refused_with_field_line_and_remedy() {
    let session = |from: &str, to: &str| format!("sessions = [{}]", SESSION.replace(from, to));
    let both = format!("sessions = [{SESSION}]\nstreams = [{{ name = \"chat\" }}]");
    let twice = format!("sessions = [{SESSION}, {SESSION}]");
    for (workload, words) in [
        (
            String::new(),
            "workload = nothing to count; give dataset, sessions, streams or routing",
        ),
        (both, "sessions and streams"),
        (twice, "\"a\" twice"),
        ("agents = 3".to_owned(), "unknown field `agents`"),
        (
            session("turns = 3", "turns = 0"),
            "x.toml, line 6: workload.sessions",
        ),
        (session("turns = 3", "turns = 0"), "turns from 1 to 1000"),
        (
            session("agents = 2", "agents = 1025"),
            "agents from 1 to 1024",
        ),
        (session("prefix = 5", "prefix = 0"), "prefix from 1"),
        (
            session("agents = 2, turns = 3", "agents = 1024, turns = 1000"),
            "agents x turns x turns",
        ),
        (
            session("result = 3", "result = 65537"),
            "result from 0 to 65536",
        ),
        (session(", result = 3", ""), "missing field `result`"),
        (
            format!("sessions = [{SESSION}]\nworkers = [1]"),
            "workers are those of a dataset",
        ),
    ] {
        let said = refusal(&workload);
        assert!(said.contains(words), "{workload}: {said}");
    }
}

#[test]
fn sets_streams_and_fleets_that_cannot_be_counted_are_refused_with_field_and_remedy() {
    let dataset = format!("{DATASET}{}\" }}", sha256_hex(b"a set"));
    for (workload, words) in [
        (
            dataset.clone(),
            "workload.workers = []; give numbers from 1 to 1024",
        ),
        (format!("{dataset}\nworkers = [4, 1]"), "ascending"),
        (format!("{dataset}\nworkers = [0]"), "numbers from 1"),
        (
            format!("{DATASET}latest\" }}\nworkers = [1]"),
            "64 lower-case hexadecimal digits",
        ),
        (
            format!("{dataset}\nworkers = [1]").replace("a.json", "../a.json"),
            "the name of a file, no path",
        ),
        (
            format!("{dataset}\nworkers = [1]").replace("\"swebench\"", "\"other\""),
            "swebench or webbench",
        ),
        (
            "streams = [{ name = \"torrent\" }]".to_owned(),
            "few-shot or chat",
        ),
        (
            "streams = [{ name = \"chat\", capacity_tokens = 0 }]".to_owned(),
            "capacity_tokens from 1",
        ),
        (
            "routing = { instances = 0, capacity = 8, families = 28, hot_weight = 120 }".to_owned(),
            "workload.routing.instances = 0; give 1 to 64",
        ),
        (
            "routing = { instances = 4, capacity = 8, families = 28, hot_weight = 20 }".to_owned(),
            "workload.routing.families = 28; give 1 to 20",
        ),
        (
            "streams = [{ name = \"chat\" }, { name = \"chat\" }]".to_owned(),
            "with the same cache twice",
        ),
    ] {
        let said = refusal(&workload);
        assert!(said.contains(words), "{workload}: {said}");
    }
}

#[test]
fn labels_of_a_data_set_are_those_its_envelope_declares() {
    let set = r#"{"a": "quick", "b": "<15min", "c": "quick"}"#;
    let asked = |turns: &str| {
        let digest = sha256_hex(set.as_bytes());
        let dataset = format!("{DATASET}{digest}\"{turns} }}\nworkers = [1]");
        CountsEnvelope::parse(&asking(&dataset), "x.toml").unwrap()
    };
    let read = |envelope: &CountsEnvelope| envelope.workload.dataset.as_ref().unwrap().read(set);
    let refused = read(&asked("")).unwrap_err().to_string();
    for words in [
        "a.json, row 1",
        "write turns = { \"quick\" = N } into the dataset's table",
    ] {
        assert!(refused.contains(words), "{refused}");
    }
    let stray = read(&asked(", turns = { quick = 3, slow = 9 }")).unwrap_err();
    assert!(
        stray
            .to_string()
            .contains("the envelope gives turns for \"slow\""),
        "{stray}"
    );
    let envelope = asked(", turns = { quick = 3 }");
    let resolved = envelope.resolve(Some(&read(&envelope).unwrap()));
    let shapes = resolved
        .workload
        .tasks
        .iter()
        .map(|it| (it.turns, it.count));
    assert_eq!(shapes.collect::<Vec<_>>(), [(3, 2), (12, 1)]);
    let json = resolved.to_json().unwrap();
    assert!(
        json.contains("\"quick\": 3") && !json.contains("\"a\""),
        "{json}"
    );
    assert_eq!(resolved.sha256().unwrap(), sha256_hex(json.as_bytes()));
}

#[test]
fn more_tokens_than_can_be_counted_are_an_error() {
    let longest = "{ name = \"a\", agents = 100, turns = 1000, prefix = 1048576, decode = 65536, result = 65536 }";
    let text = asking(&format!("sessions = [{longest}]"));
    let envelope = CountsEnvelope::parse(&text, "x.toml").unwrap();
    let error = count(&envelope.resolve(None)).unwrap_err().to_string();
    assert!(error.contains("2^64"), "{error}");
}

proptest! {
    #[test]
    fn sessions_are_counted_as_the_oracle_says(
        agents in 1_u64..6, turns in 1_u64..9, prefix in 1_u64..300, decode in 0_u64..40, result in 0_u64..40,
    ) {
        let session = format!(
            "sessions = [{{ name = \"a\", agents = {agents}, turns = {turns}, prefix = {prefix}, decode = {decode}, result = {result} }}]"
        );
        let envelope = CountsEnvelope::parse(&asking(&session), "x.toml").unwrap();
        let rows = count(&envelope.resolve(None)).unwrap();
        let shape = Shape { agents, turns, prefix, decode, result, workers: 1, ..Shape::default() };
        for (arm, found) in &rows[0].arms {
            let expected = oracle::counts(workloads::arm::named(arm).unwrap(), &shape).unwrap();
            prop_assert_eq!(found.prefill_tokens_computed, expected.prefill_tokens_computed);
            prop_assert_eq!(found.prefill_tokens_logical, expected.prefill_tokens_logical);
            prop_assert_eq!(found.decode_tokens, expected.decode_tokens);
            // What an engine carries, a modelled cache has.
            let hit = expected.prefix_tokens_hit + expected.carried_tokens;
            prop_assert_eq!(found.prefix_tokens_hit, hit);
        }
    }
}
