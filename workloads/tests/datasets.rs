//! Data sets: the published counts of those we were handed, and what is refused of others.
#![allow(clippy::unwrap_used)]

mod common;

use common::reference;
use proptest::prelude::*;
use workloads::datasets::{Task, TaskSet, Turns, declared, swebench, webbench};

fn swebench_turns() -> Turns {
    declared(&swebench::TURNS, &[])
}

fn webbench_turns() -> Turns {
    declared(&webbench::TURNS, &[])
}

/// Computed prompt tokens: naive, kept by each worker, shared by the workers on a task; counted, and by closed form.
fn computed(set: &TaskSet, workers: u64) -> [u64; 3] {
    let costs = set.costs(workers, false).unwrap();
    let counted = [costs.naive, costs.agent_kv, costs.shared].map(|it| it.computed_tokens);
    assert_eq!(counted, set.closed_forms(workers).unwrap());
    counted
}

#[test]
fn the_smoke_set_of_swebench_gives_the_published_counts() {
    let Some(text) = reference("swebench_smoke.json") else {
        return;
    };
    let set = swebench::read(&text, "smoke", &swebench_turns()).unwrap();
    let turns = set.turns();
    assert_eq!(
        (turns.min, turns.median, turns.max, turns.total),
        (12, 22, 38, 106)
    );
    for (workers, expected) in [
        (1, [1_043_200, 52_900, 52_900]),
        (2, [2_086_400, 105_800, 93_300]),
        (4, [4_172_800, 211_600, 174_100]),
        (8, [8_345_600, 423_200, 335_700]),
    ] {
        assert_eq!(computed(&set, workers), expected, "{workers} workers");
    }
}

/// fak-facts 1.1: what is left where a process-wide cache finds the base of every prompt.
#[test]
fn tasks_that_share_their_base_gain_already_with_one_worker() {
    let Some(text) = reference("swebench_smoke.json") else {
        return;
    };
    let set = swebench::read(&text, "smoke", &swebench_turns()).unwrap();
    for (workers, times) in [(1, "1.233"), (2, "1.270"), (4, "1.289"), (8, "1.299")] {
        let costs = set.costs(workers, true).unwrap();
        let (kept, shared) = (costs.agent_kv, costs.shared_base.unwrap());
        let found = kept.computed_tokens as f64 / shared.computed_tokens as f64;
        assert_eq!(format!("{found:.3}"), times, "{workers} workers");
        assert_eq!(kept.prompt_tokens, shared.prompt_tokens);
    }
}

#[test]
fn the_set_of_twenty_is_refused_until_its_labels_are_declared() {
    let Some(text) = reference("swebench_verified_20_difficulty.json") else {
        return;
    };
    let refused = swebench::read(&text, "twenty", &swebench_turns())
        .unwrap_err()
        .to_string();
    for words in [
        "twenty, row 1",
        "\"15 min - 1 hour\"",
        "--turns \"15 min - 1 hour=N\"",
    ] {
        assert!(refused.contains(words), "{refused}");
    }
    let given = [
        ("<15 min fix", 12),
        ("15 min - 1 hour", 22),
        ("1-4 hours", 38),
    ];
    let given = given.map(|(label, turns)| (label.to_owned(), turns));
    let set = swebench::read(&text, "twenty", &declared(&swebench::TURNS, &given)).unwrap();
    assert_eq!(set.tasks.len(), 20);
    let labels: Vec<usize> = given
        .iter()
        .map(|(label, _)| set.labels()[label.as_str()])
        .collect();
    assert_eq!(labels, [4, 13, 3]);
    assert_eq!(set.turns().total, 4 * 12 + 13 * 22 + 3 * 38);
    computed(&set, 4);
}

#[test]
fn the_sample_of_webbench_gives_the_published_counts() {
    let Some(text) = reference("sample-tasks.jsonl") else {
        return;
    };
    let set = webbench::read(&text, "sample", &webbench_turns()).unwrap();
    assert_eq!(set.turns().total, 99);
    assert_eq!(computed(&set, 1), [3_381_379, 217_382, 217_382]);
    assert_eq!(computed(&set, 4), [13_525_516, 869_528, 823_682]);
}

#[test]
fn webvoyager_gives_the_published_counts() {
    let Some(text) = reference("webvoyager-converted.jsonl") else {
        return;
    };
    let set = webbench::read(&text, "webvoyager", &webbench_turns()).unwrap();
    assert_eq!((set.tasks.len(), set.turns().total), (643, 8745));
    assert_eq!(computed(&set, 1), [170_930_292, 19_386_804, 19_386_804]);
    assert_eq!(computed(&set, 8), [1_367_442_336, 155_094_432, 141_321_904]);
}

proptest! {
    #[test]
    fn sets_of_any_tasks_are_counted_as_their_closed_forms_say(
        shapes in prop::collection::vec((1_u64..300, 1_u64..9), 1..5), decode in 0_u64..50, result in 1_u64..50,
        workers in 1_u64..5,
    ) {
        let tasks = shapes.iter().enumerate().map(|(place, (prefix, turns))| Task {
            name: place.to_string(), label: None, prefix: *prefix, turns: *turns,
        });
        let set = TaskSet { tasks: tasks.collect(), base: 0, decode, result };
        let found = computed(&set, workers);
        prop_assert!(found[0] >= found[1] && found[1] >= found[2]);
        prop_assert!(workers > 1 || found[1] == found[2]);
    }
}

#[test]
fn what_a_swebench_set_may_not_say_is_refused_with_the_row() {
    for (text, words) in [
        ("{}", "there is no task in it"),
        ("", "EOF"),
        ("[1]", "an object from task to label"),
        (
            r#"{"a": "<15min", "b": "soon"}"#,
            "row 2: nobody said how many turns the label \"soon\"",
        ),
        (
            r#"{"a": "<15min", "a": "<15min"}"#,
            "row 2: the task \"a\" stands in row 1 already",
        ),
        (
            r#"{"a": 12}"#,
            "row 1: \"a\" has no label of difficulty but 12",
        ),
        (
            r#"{"_meta": {"_total_instances": 3}, "a": "<15min"}"#,
            "_meta says 3 tasks, and there are 1",
        ),
        (r#"{"a": "<15min", "#, "EOF"),
    ] {
        let refused = swebench::read(text, "x.json", &swebench_turns())
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(words) && refused.contains("x.json"),
            "{refused}"
        );
    }
    for turns in [0, 1001, u64::MAX] {
        let declared = declared(&[], &[("a".to_owned(), turns)]);
        let refused = swebench::read(r#"{"t": "a"}"#, "x.json", &declared)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("row 1") && refused.contains("1 to 1000"),
            "{refused}"
        );
    }
}

#[test]
fn what_a_webbench_set_may_not_say_is_refused_with_the_row() {
    for (text, words) in [
        ("", "there is no task in it"),
        ("# nothing\n\n// else\n", "there is no task in it"),
        (
            "{\"task_id\":\"a\",\"difficulty\":\"simple\"}",
            "row 1: nobody said how many turns the label \"simple\"",
        ),
        (
            "\n{\"task_id\":\"a\",\"difficulty\":\"easy\",\"level\":2}",
            "row 2: unknown field `level`",
        ),
        (
            "{\"task_id\":\"a\"}",
            "row 1: neither difficulty nor actions",
        ),
        (
            "{\"task_id\":\"a\",\"difficulty\":\"easy\"}\n{\"task_id\":\"a\",\"difficulty\":\"easy\"}",
            "row 2: the task \"a\" stands in row 1 already",
        ),
        ("{\"task_id\":", "row 1: EOF"),
    ] {
        let refused = webbench::read(text, "x.jsonl", &webbench_turns())
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(words) && refused.contains("x.jsonl"),
            "{refused}"
        );
    }
    let long = format!(
        "{{\"task_id\":\"a\",\"difficulty\":\"easy\",\"description\":\"{}\"}}",
        "x".repeat(5 << 20)
    );
    let refused = webbench::read(&long, "x.jsonl", &webbench_turns())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("row 1: a prompt of"), "{refused}");
}

#[test]
fn a_label_given_for_nothing_and_an_empty_one_are_refused() {
    let given = declared(&swebench::TURNS, &[("<15mn".to_owned(), 30)]);
    let refused = swebench::read(r#"{"t": "<15min"}"#, "x", &given);
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("\"<15mn\", and no task has that label"),
        "{refused}"
    );
    assert!(swebench::read(r#"{"t": "<15min"}"#, "x", &given.for_several_sets()).is_ok());
    let refused = swebench::read(r#"{"t": ""}"#, "x", &swebench_turns());
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("row 1: the label of difficulty is empty"),
        "{refused}"
    );
}

#[test]
fn shapes_nobody_means_are_refused_before_anything_is_counted() {
    let set = swebench::read(r#"{"t": "<15min"}"#, "x", &swebench_turns()).unwrap();
    for workers in [0, 1025, u64::MAX] {
        let refused = set.costs(workers, false).unwrap_err().to_string();
        assert!(
            refused.contains("workers") && refused.contains("1 to 1024"),
            "{refused}"
        );
    }
    let long = declared(&[("long", 1000)], &[]);
    let many = swebench::read(r#"{"t": "long"}"#, "x", &long).unwrap();
    let refused = many.costs(1024, false).unwrap_err().to_string();
    assert!(refused.contains("fewer workers or turns"), "{refused}");
    let set = TaskSet {
        result: u64::MAX,
        ..set
    };
    assert!(
        set.costs(1, false)
            .unwrap_err()
            .to_string()
            .contains("result")
    );
}
