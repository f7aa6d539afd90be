//! What is said to someone who types something: tables, JSON, near names, exit codes.

use std::fs;

use super::Place;

#[test]
fn a_mistyped_name_is_answered_with_the_near_one() {
    let place = Place::new();
    let known = place.run(&["run", "smok"]).expect(2);
    known.complains(&["did you mean smoke?", "harness list"]);
    place
        .run(&["run", "smoke", "--arm", "fuzed"])
        .expect(2)
        .complains(&["'fused'"]);
    place
        .run(&["run", "smoke", "--rep", "3"])
        .expect(2)
        .complains(&["--reps"]);
    place.run(&["descripe"]).expect(2).complains(&["describe"]);
    let model = place
        .run(&["run", "smoke", "--model", "smolm2-135m"])
        .expect(2);
    model.complains(&["did you mean smollm2-135m"]);
    place.run(&["audit"]).expect(2).complains(&["--all"]);
    for path in ["absent", "file"] {
        fs::write(place.work().join("file"), "").unwrap();
        let refused = place.run(&["audit", path]).expect(2);
        refused.complains(&[&format!("no directory {path}")]);
    }
    assert!(
        !place.work().join("results").exists(),
        "a refused command leaves nothing behind"
    );
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    let place = Place::new();
    place
        .run(&["run", "smoke", "--reps", "0"])
        .expect(2)
        .complains(&["reps", "1 to 50"]);
    place
        .run(&["run", "smoke", "--threads", "0"])
        .expect(2)
        .complains(&["threads", "1 to"]);
    place
        .run(&["run", "smoke", "--mode", "quick"])
        .expect(2)
        .complains(&["exact", "fast"]);
    let huge = u64::MAX.to_string();
    let shape = ["describe", "session", "--turns", &huge, "--agents", &huge];
    let rest = ["--prefix", "1", "--decode", "1", "--result", "1"];
    place
        .run(&[&shape[..], &rest[..]].concat())
        .expect(2)
        .complains(&["2^64"]);
}

#[test]
fn a_bad_envelope_file_is_refused_with_its_line() {
    let place = Place::new();
    for (text, words) in [
        ("", "schema"),
        ("schema = \"fak.envelope/1\"\nname = \"x\"\nfoo = 1\n", "3"),
        // Another version, whose fields need not be ours.
        (
            "schema = \"fak.envelope/2\"\nfoo = 1\n",
            "line 1: schema = \"fak.envelope/2\"; give fak.envelope/1",
        ),
        ("\u{0}", "bad.toml"),
        ("[[[[", "bad.toml"),
    ] {
        fs::write(place.work().join("bad.toml"), text).unwrap();
        place
            .run(&["run", "bad.toml"])
            .expect(2)
            .complains(&["bad.toml", words]);
    }
    fs::write(place.work().join("bad.toml"), "[[[[").unwrap();
    let said = place.run(&["run", "bad.toml"]).stderr();
    assert_eq!(said.matches("bad.toml").count(), 1, "{said}");
    fs::write(place.work().join("bad.toml"), [0xff, 0xfe]).unwrap();
    assert_ne!(
        place.run(&["run", "bad.toml"]).output.status.code(),
        Some(0)
    );
}

#[test]
fn describe_session_gives_the_known_counts() {
    let place = Place::new();
    let counts = |workers: &str| {
        let shape = "describe session --turns 50 --agents 5 --prefix 2048 --decode 32 --result 64";
        let mut arguments: Vec<&str> = shape.split(' ').collect();
        arguments.extend(["--workers", workers, "--json"]);
        let document = place.run(&arguments).expect(0).json();
        assert_eq!(document["provenance"], "MODELED");
        [
            "naive",
            "agent-kv",
            "agent-kv-batched",
            "instance-shared",
            "fused",
        ]
        .map(|arm| {
            document["arms"][arm]["prefill_tokens_computed"]
                .as_u64()
                .unwrap()
        })
    };
    assert_eq!(counts("1"), [1_100_000, 25_920, 25_920, 17_728, 17_728]);
    assert_eq!(counts("2"), [1_100_000, 25_920, 25_920, 19_776, 17_728]);
}

#[test]
fn everything_with_a_table_has_json() {
    let place = Place::new();
    let list = place.run(&["list", "--json"]).expect(0).json();
    assert_eq!(list["envelopes"][0]["name"], "smoke");
    let models = place.run(&["model", "list", "--json"]).expect(0).json();
    assert_eq!(models["models"][0]["name"], "smollm2-135m");
    let machine = place.run(&["machine", "--json"]).expect(0).json();
    assert!(machine["cores"].as_u64().unwrap() > 0);
    let inspected = place
        .run(&["model", "inspect", "synthetic-tiny", "--json"])
        .expect(0)
        .json();
    assert!(inspected["vocab"].as_u64().unwrap() > 0);
}

#[test]
fn a_new_envelope_runs_as_it_is_and_is_never_overwritten() {
    let place = Place::new();
    place.run(&["new", "mine"]).expect(0);
    let text = fs::read_to_string(place.work().join("mine.toml")).unwrap();
    place
        .run(&["new", "mine"])
        .expect(2)
        .complains(&["mine.toml exists"]);
    assert_eq!(
        fs::read_to_string(place.work().join("mine.toml")).unwrap(),
        text
    );
    place
        .run(&["new", "../mine"])
        .expect(2)
        .complains(&["lower-case"]);
    place
        .run(&["run", "mine.toml", "--arm", "fused", "--reps", "1"])
        .expect(0);
    assert!(place.work().join("results/local/mine").is_dir());
}

#[test]
fn help_shows_examples_and_hides_what_is_internal() {
    let place = Place::new();
    let help = place.run(&["--help"]).expect(0).stdout();
    assert!(help.contains("harness run smoke"), "{help}");
    assert!(!help.contains("  arm "), "{help}");
    for command in ["list", "machine"] {
        let help = place.run(&[command, "--help"]).expect(0).stdout();
        let example = format!("  harness {command} --json");
        assert!(help.contains(&example), "{help}");
    }
    place.run(&["arm"]).expect(2).complains(&["job"]);
}
