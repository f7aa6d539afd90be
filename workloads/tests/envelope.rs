//! Envelopes: what is read, what is refused and in which words, what a run resolves them to.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use workloads::envelope::{Declared, Envelope, Overrides, ResolvedEnvelope, embedded, template};

fn smoke() -> &'static str {
    embedded()
        .iter()
        .find(|(name, _)| *name == "smoke")
        .unwrap()
        .1
}

/// The refusal of `smoke` with one text replaced.
fn refusal(from: &str, to: &str) -> String {
    assert!(smoke().contains(from), "smoke.toml has no `{from}`");
    Envelope::parse(&smoke().replacen(from, to, 1), "x.toml")
        .unwrap_err()
        .to_string()
}

/// The line of smoke.toml on which `needle` stands.
fn line_of(needle: &str) -> usize {
    1 + smoke()
        .lines()
        .position(|line| line.contains(needle))
        .unwrap()
}

#[test]
fn every_embedded_envelope_resolves_under_its_own_name() {
    for (name, _) in embedded() {
        let none = Overrides::default();
        let found = match Declared::named(name).unwrap() {
            Declared::Session(envelope) => envelope.resolve(&none, 2).unwrap().name,
            Declared::Engine(envelope) => envelope.resolve(&none, 2).unwrap().name,
            Declared::Counts(envelope) => envelope.resolve(None).name,
        };
        assert_eq!(found, *name);
    }
    let error = Envelope::named("smok").unwrap_err().to_string();
    assert!(
        error.contains("`smok`") && error.contains("smoke, session-small"),
        "{error}"
    );
}

#[test]
fn smoke_resolves_to_the_json_of_the_format_page() {
    let resolved = Envelope::named("smoke")
        .unwrap()
        .resolve(&Overrides::default(), 2)
        .unwrap();
    let text = resolved.to_json().unwrap();
    let expected = r#"{
  "schema": "fak.envelope/1",
  "name": "smoke",
  "question": "Do all five arms give the same answers, and how many prefill tokens does each compute?",
  "model": "synthetic-tiny",
  "mode": "exact",
  "workload": {
    "kind": "session",
    "agents": 3,
    "turns": 4,
    "prefix": 100,
    "decode": 8,
    "result": 12,
    "workers": 1,
    "seed": 1
  },
  "run": {
    "arms": [
      "naive",
      "agent-kv",
      "agent-kv-batched",
      "instance-shared",
      "fused"
    ],
    "reps": 5,
    "arm_reps": {
      "agent-kv": 5,
      "agent-kv-batched": 5,
      "fused": 5,
      "instance-shared": 5,
      "naive": 5
    },
    "threads": 2,
    "kernels": "auto",
    "chunk_tokens": 256,
    "kv_pages": 4096
  },
  "evidence": {
    "prompts": "ids"
  }
}
"#;
    assert_eq!(text, expected);
    assert_eq!(
        serde_json::from_str::<ResolvedEnvelope>(&text).unwrap(),
        resolved
    );
    assert_eq!(
        resolved.sha256().unwrap(),
        workloads::trace::sha256_hex(expected.as_bytes())
    );
}

#[test]
fn only_name_question_model_and_workload_are_needed() {
    let text = "schema = \"fak.envelope/1\"\nname = \"x\"\nquestion = \"q\"\nmodel = \"m\"\n\
        [workload]\nkind = \"session\"\nagents = 1\nturns = 1\nprefix = 1\ndecode = 1\nresult = 1";
    let resolved = Envelope::parse(text, "x")
        .unwrap()
        .resolve(&Overrides::default(), 3)
        .unwrap();
    assert_eq!(resolved.run.arms.len(), 5);
    assert_eq!(
        (
            resolved.run.threads,
            resolved.run.reps,
            resolved.workload.seed
        ),
        (3, 5, 1)
    );
}

/// Text of smoke.toml, its replacement, how the refusal names it, what it asks for instead.
const WRONG: [[&str; 4]; 17] = [
    [
        "agents = 3",
        "agents = 0",
        "workload.agents = 0",
        "1 to 1024",
    ],
    [
        "turns = 4",
        "turns = 1001",
        "workload.turns = 1001",
        "1 to 1000",
    ],
    [
        "prefix = 100",
        "prefix = 0",
        "workload.prefix = 0",
        "1 to 1048576",
    ],
    [
        "decode = 8",
        "decode = 0",
        "workload.decode = 0",
        "1 to 65536",
    ],
    [
        "result = 12",
        "result = 0",
        "workload.result = 0",
        "1 to 65536",
    ],
    [
        "workers = 1",
        "workers = 2",
        "workload.workers = 2",
        "one worker for now",
    ],
    ["reps = 5", "reps = 51", "run.reps = 51", "1 to 50"],
    [
        "chunk_tokens = 256",
        "chunk_tokens = 0",
        "run.chunk_tokens = 0",
        "1 to 65536",
    ],
    [
        "kv_pages = 4096",
        "kv_pages = 0",
        "run.kv_pages = 0",
        "1 to 1048576",
    ],
    [
        "kernels = \"auto\"",
        "kernels = \"sse\"",
        "run.kernels = \"sse\"",
        "auto or scalar",
    ],
    [
        "mode = \"exact\"",
        "mode = \"quick\"",
        "mode = \"quick\"",
        "exact",
    ],
    [
        "kind = \"session\"",
        "kind = \"fanout\"",
        "workload.kind = \"fanout\"",
        "session",
    ],
    [
        "prompts = \"ids\"",
        "prompts = \"none\"",
        "evidence.prompts = \"none\"",
        "ids",
    ],
    [
        "envelope/1",
        "envelope/2",
        "schema = \"fak.envelope/2\"",
        "fak.envelope/1",
    ],
    [
        "name = \"smoke\"",
        "name = \"../x\"",
        "name = \"../x\"",
        "lower-case letters",
    ],
    [
        "\"naive\", ",
        "\"native\", ",
        "run.arms = \"native\"",
        "names out of naive",
    ],
    [
        "\"naive\", ",
        "\"fused\", ",
        "run.arms = \"fused\" twice",
        "every arm once",
    ],
];

#[test]
fn a_value_out_of_range_is_refused_with_field_value_range_and_line() {
    for [from, to, field, wanted] in WRONG {
        let error = refusal(from, to);
        let place = format!("x.toml, line {}", line_of(from));
        for part in [&place, field, wanted] {
            assert!(error.contains(part), "`{part}` not in: {error}");
        }
    }
}

#[test]
fn unknown_and_mistyped_fields_are_refused_with_their_line() {
    for (from, to, part) in [
        ("agents = 3", "agent = 3", "unknown field `agent`"),
        ("agents = 3", "agents = -1", "invalid value: integer `-1`"),
        ("agents = 3", "agents = 99999999999999999999", "agents"),
        ("agents = 3", "agents = \"3\"", "invalid type: string \"3\""),
    ] {
        let error = refusal(from, to);
        assert!(
            error.contains(&format!("line {}", line_of(from))),
            "{error}"
        );
        assert!(error.contains(part), "{error}");
    }
    assert!(refusal("agents = 3", "").contains("missing field `agents`"));
}

#[test]
fn repetitions_of_an_arm_may_differ_but_only_of_an_arm_that_runs() {
    let own = "reps = 5\narm_reps = { naive = 2 }";
    let text = smoke().replacen("reps = 5", own, 1);
    let envelope = Envelope::parse(&text, "x").unwrap();
    let resolved = envelope.resolve(&Overrides::default(), 1).unwrap();
    assert_eq!(
        (
            resolved.run.arm_reps["naive"],
            resolved.run.arm_reps["fused"]
        ),
        (2, 5)
    );
    let fused = Overrides {
        arms: vec!["fused".to_owned()],
        ..Overrides::default()
    };
    assert_eq!(envelope.resolve(&fused, 1).unwrap().run.arm_reps.len(), 1);
    let three = Overrides {
        reps: Some(3),
        ..Overrides::default()
    };
    assert_eq!(
        envelope.resolve(&three, 1).unwrap().run.arm_reps["naive"],
        3
    );
    let error = refusal("reps = 5", "reps = 5\narm_reps = { mock = 2 }");
    assert!(error.contains("arms of this run only"), "{error}");
}

#[test]
fn an_arm_may_play_fewer_turns_but_at_least_one_and_only_an_arm_that_runs() {
    let own = "reps = 5\narm_turns = { naive = 2 }";
    let text = smoke().replacen("reps = 5", own, 1);
    let envelope = Envelope::parse(&text, "x").unwrap();
    let resolved = envelope.resolve(&Overrides::default(), 1).unwrap();
    assert_eq!(resolved.workload_of("naive").turns, 2);
    assert_eq!(resolved.workload_of("fused"), resolved.workload);
    assert_eq!(
        (resolved.requests_of("naive"), resolved.requests()),
        (6, 12)
    );
    for (arm, requests) in [("fused", 12), ("naive", 6)] {
        let alone = Overrides {
            arms: vec![arm.to_owned()],
            ..Overrides::default()
        };
        assert_eq!(envelope.resolve(&alone, 1).unwrap().requests(), requests);
    }
    for (wrong, part) in [
        ("naive = 0", "fewer than workload.turns, which is 4"),
        ("naive = 4", "fewer than workload.turns, which is 4"),
        ("mock = 2", "arms of this run only"),
    ] {
        let error = refusal("reps = 5", &format!("reps = 5\narm_turns = {{ {wrong} }}"));
        assert!(error.contains(part) && error.contains(wrong), "{error}");
    }
}

/// `smoke` with two agents' arms, one of them scripted by this table.
fn scripted(table: &str) -> Result<Envelope, workloads::Error> {
    let arms = smoke().replacen("\"instance-shared\", \"fused\"", "\"mock\"", 1);
    Envelope::parse(&format!("{arms}\n[mock]\n{table}\n"), "x.toml")
}

#[test]
fn no_step_of_a_script_may_take_more_than_a_minute() {
    let minute = 60_000_000_000_u64;
    let per_row = minute / 256; // chunk_tokens of smoke
    for (field, before, most) in [
        ("step_ns", String::new(), minute),
        ("prefill_ns_per_token", "step_ns = 0\n".to_owned(), per_row),
        (
            "decode_ns_per_token",
            "step_ns = 60\n".to_owned(),
            minute - 60,
        ),
        ("jitter_thousandths", "step_ns = 1\n".to_owned(), 1000),
    ] {
        assert!(
            scripted(&format!("{before}{field} = {most}")).is_ok(),
            "{field}"
        );
        let error = scripted(&format!("{before}{field} = {}", most + 1));
        let error = error.unwrap_err().to_string();
        let named = format!("mock.{field} = {}; give 0 to {most}", most + 1);
        assert!(error.contains(&named), "{error}");
    }
}

#[test]
fn the_scripted_arm_is_no_part_of_what_is_compared() {
    let resolved = |arms: &[&str]| {
        let overrides = Overrides {
            arms: arms.iter().map(|&arm| arm.to_owned()).collect(),
            ..Overrides::default()
        };
        let envelope = scripted("step_ns = 1").unwrap();
        envelope.resolve(&overrides, 1).unwrap()
    };
    let mut both = resolved(&["naive", "mock"]);
    both.run.arm_turns.insert("naive".to_owned(), 2);
    assert_eq!((both.requests(), both.requests_compared()), (12, 6));
    let alone = resolved(&["mock"]);
    assert_eq!((alone.requests(), alone.requests_compared()), (12, 0));
    assert!(resolved(&["naive"]).mock.is_none());
}

#[test]
fn an_envelope_without_short_arms_is_written_as_before_there_were_any() {
    let envelope = Envelope::named("smoke").unwrap();
    let resolved = envelope.resolve(&Overrides::default(), 1).unwrap();
    assert!(!resolved.to_json().unwrap().contains("arm_turns"));
}

#[test]
fn the_command_line_overrides_the_file_and_is_checked_like_it() {
    let envelope = Envelope::named("smoke").unwrap();
    let overrides = Overrides {
        arms: vec!["fused".to_owned(), "naive".to_owned()],
        reps: Some(1),
        model: Some("m.gguf".to_owned()),
        threads: Some(7),
        kernels: Some("scalar".to_owned()),
        mode: Some("exact".to_owned()),
    };
    let resolved = envelope.resolve(&overrides, 2).unwrap();
    assert_eq!(resolved.run.arms, ["fused", "naive"]);
    assert_eq!(
        (resolved.run.threads, resolved.run.kernels.as_str()),
        (7, "scalar")
    );
    assert_eq!((resolved.model.as_str(), resolved.run.reps), ("m.gguf", 1));
    for wrong in [
        Overrides {
            reps: Some(0),
            ..Overrides::default()
        },
        Overrides {
            threads: Some(0),
            ..Overrides::default()
        },
        Overrides {
            mode: Some("quick".to_owned()),
            ..Overrides::default()
        },
        Overrides {
            kernels: Some(String::new()),
            ..Overrides::default()
        },
        Overrides {
            arms: vec!["naive".to_owned(), "naive".to_owned()],
            ..Overrides::default()
        },
        Overrides {
            model: Some(String::new()),
            ..Overrides::default()
        },
    ] {
        let error = envelope.resolve(&wrong, 2).unwrap_err().to_string();
        assert!(error.starts_with("command line: "), "{error}");
    }
}

#[test]
fn the_template_is_an_envelope_of_the_given_name() {
    let text = template("my-question").unwrap();
    assert_eq!(Envelope::parse(&text, "x").unwrap().name, "my-question");
    assert!(template("no\nname").is_err() && template("").is_err());
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _ = Envelope::parse(&text, "x.toml");
    }

    #[test]
    fn a_truncated_envelope_is_read_or_refused_never_a_panic(end in 0usize..2200) {
        let text: String = smoke().chars().take(end).collect();
        let parsed = Envelope::parse(&text, "x.toml");
        prop_assert!(parsed.is_ok() || text.len() < smoke().len());
    }
}
