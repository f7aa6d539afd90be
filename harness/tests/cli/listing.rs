//! `list` as a stranger reads it: groups, what is made to be lost, and one envelope whole.
//!
//! Not here: what is said of each envelope (`workloads`), or how long a run takes (`evidence`).

use serde_json::Value;

use super::Place;

#[test]
fn the_list_is_grouped_and_says_which_envelopes_are_made_to_be_lost() {
    let place = Place::new();
    let text = place.run(&["list"]).expect(0).stdout();
    let json = place.run(&["list", "--json"]).expect(0).json();
    let envelopes = json["envelopes"].as_array().unwrap();
    let mut shown = 0;
    for group in json["groups"].as_array().unwrap() {
        let id = group["id"].as_str().unwrap();
        let heading = format!("{} ({id})\n", group["title"].as_str().unwrap());
        let (_, rest) = text.split_once(&heading).unwrap();
        // The next heading is the next line that ends in an id in brackets and is not indented.
        let section: Vec<&str> = rest.lines().take_while(|line| !is_heading(line)).collect();
        for envelope in envelopes.iter().filter(|it| it["group"] == *id) {
            let name = envelope["name"].as_str().unwrap();
            let losing = group["losing"]
                .as_array()
                .unwrap()
                .contains(&envelope["name"]);
            assert_eq!(envelope["losing"], losing, "{name}");
            let mark = if losing { " [made for us to lose]" } else { "" };
            let line = format!("  {name}{mark}");
            assert!(
                section.contains(&line.as_str()),
                "no {line:?} in {id}:\n{text}"
            );
            shown += 1;
        }
    }
    assert_eq!(shown, envelopes.len());
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for envelope in envelopes {
        let question = envelope["question"].as_str().unwrap();
        assert!(flat.contains(question), "{question}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 110),
        "{text}"
    );
    assert!(
        text.contains("all about one:  harness list smoke"),
        "{text}"
    );
}

fn is_heading(line: &str) -> bool {
    !line.starts_with(' ') && line.ends_with(')')
}

#[test]
fn json_has_all_that_is_said_of_an_envelope_beside_what_it_had_before() {
    let place = Place::new();
    let all = place.run(&["list", "--json"]).expect(0).json();
    assert_eq!(all["envelopes"][0]["name"], "smoke");
    let json = place
        .run(&["list", "zero-shared", "--json"])
        .expect(0)
        .json();
    let envelopes = json["envelopes"].as_array().unwrap();
    assert_eq!(envelopes.len(), 1);
    let one = &envelopes[0];
    for text in [
        "name",
        "question",
        "model",
        "group",
        "origin",
        "asks",
        "does_not_show",
    ] {
        assert!(
            one[text].as_str().is_some_and(|it| !it.is_empty()),
            "{text}"
        );
    }
    assert_eq!((&one["losing"], &one["reps"]), (&true.into(), &5.into()));
    assert_eq!(
        (&one["model_present"], &one["estimate_ns"]),
        (&false.into(), &Value::Null)
    );
    assert_eq!(
        (&one["workload"]["bos_id"], &one["arms"][0]),
        (&1.into(), &"agent-kv-batched".into())
    );
}

#[test]
fn one_envelope_is_shown_whole_with_the_command_that_runs_it() {
    let place = Place::new();
    let text = place.run(&["list", "zero-shared"]).expect(0).stdout();
    let json = place
        .run(&["list", "zero-shared", "--json"])
        .expect(0)
        .json();
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (label, field) in [
        ("origin", "origin"),
        ("asks", "asks"),
        ("does not show", "does_not_show"),
    ] {
        let words = json["envelopes"][0][field].as_str().unwrap();
        assert!(
            flat.contains(&format!("{label} {words}")),
            "{label}: {text}"
        );
    }
    for words in [
        "What is left of the advantage where agents share nothing?",
        "(sharing). Made for us to lose",
        "4 agents x 3 turns, prefix 1, decode 32, result 512 tokens",
        "agent-kv-batched, instance-shared, fused, llama-server:agent-batched",
        "5 repetitions",
        "smollm2-135m-q8_0 (not here, `run --pull` gets it); mode fast",
        "not timed here yet",
        "harness run zero-shared --pull",
        "harness run zero-shared --pull --arm agent-kv-batched --arm instance-shared --arm fused\n",
        "llama-server:  harness baseline doctor llama-server\n",
    ] {
        assert!(
            text.contains(words) || flat.contains(words),
            "no {words:?} in:\n{text}"
        );
    }
    let text = place.run(&["list", "smoke"]).expect(0).stdout();
    assert!(
        text.contains("run it:        harness run smoke\n"),
        "{text}"
    );
    assert!(
        !text.contains("ours alone") && !text.contains("lose"),
        "{text}"
    );
}

#[test]
fn one_group_is_shown_alone_and_a_strange_name_gets_the_near_ones() {
    let place = Place::new();
    let json = place.run(&["list", "cache", "--json"]).expect(0).json();
    let groups = json["envelopes"].as_array().unwrap().iter();
    assert!(groups.map(|it| &it["group"]).all(|group| group == "cache"));
    let text = place.run(&["list", "cache"]).expect(0).stdout();
    assert!(
        text.contains("interleaved-order") && !text.contains("smoke"),
        "{text}"
    );
    place.run(&["list", "zero-share"]).expect(2).complains(&[
        "named `zero-share`",
        "did you mean zero-shared?",
        "`harness list` shows all",
    ]);
    place
        .run(&["list", "sharign"])
        .expect(2)
        .complains(&["did you mean sharing?"]);
    let lost = place.run(&["list", "xxxxxxxxxxxx"]).expect(2);
    lost.complains(&["known: smoke,"]);
}
