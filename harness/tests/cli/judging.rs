//! What is said of runs that exist: explained, compared, replayed.

use std::fs;
use std::path::{Path, PathBuf};

use workloads::trace::Body;

use super::{Place, forge, read_json};

fn committed(run: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("results").join(run).display().to_string()
}

/// A run of one arm once, whose evidence can be forged consistently.
fn lone_run(place: &Place) -> PathBuf {
    let arguments = ["run", "smoke", "--arm", "fused", "--reps", "1", "--json"];
    let outcome = place.run(&arguments).expect(0).json();
    PathBuf::from(outcome["dir"].as_str().unwrap())
}

#[test]
fn a_committed_run_is_explained_in_these_words() {
    let place = Place::new();
    let run = committed("smoke/2026-11-29-x86_64-avx512-2c-3");
    let told = place.run(&["explain", &run]).expect(0).stdout();
    let expected = include_str!("explained.txt");
    for (line, (told, expected)) in (1..).zip(told.lines().zip(expected.lines())) {
        assert_eq!(told, expected, "line {line}");
    }
    assert_eq!(told, expected);
}

#[test]
fn what_is_explained_adds_up() {
    let place = Place::new();
    let run = committed("smoke/2026-11-29-x86_64-avx512-2c-3");
    let told = place.run(&["explain", &run, "--json"]).expect(0).json();
    for arm in told["explained"].as_array().unwrap() {
        let record = &told["arms"][arm["arm"].as_str().unwrap()];
        let sum = |field: &str| -> u64 {
            let groups = arm["misses"].as_array().unwrap().iter();
            groups.map(|group| group[field].as_u64().unwrap()).sum()
        };
        assert_eq!(record["prefix_tokens_hit"], sum("matched"));
        assert_eq!(record["carried_tokens"], sum("carried"));
        assert_eq!(record["prefill_tokens_computed"], sum("known") + sum("new"));
    }
    assert_eq!(told["explained"].as_array().unwrap().len(), 5);
}

#[test]
fn engine_work_is_explained_and_broken_evidence_is_not() {
    let place = Place::new();
    let run = committed("engine-decode/2026-11-29-x86_64-avx512-2c-1");
    let told = place.run(&["explain", &run]).expect(0).stdout();
    assert!(told.contains("decode-64-at-2048  fak"), "{told}");
    let run = lone_run(&place);
    fs::write(run.join("run.json"), "{}").unwrap();
    place
        .run(&["explain", run.to_str().unwrap()])
        .expect(4)
        .complains(&["BROKEN", "run.json"]);
    place
        .run(&["explain", "nowhere"])
        .expect(2)
        .complains(&["no directory nowhere"]);
}

#[test]
fn two_runs_of_one_question_did_the_same_work_and_one_repetition_judges_no_time() {
    let place = Place::new();
    let runs = [place.sealed_run(), place.sealed_run()];
    let [first, second] = runs.each_ref().map(|run| run.to_str().unwrap());
    let compared = place.run(&["compare", first, second]).expect(3).stdout();
    for words in [
        "Same work, same answers",
        "all equal",
        "INCONCLUSIVE",
        "not pairs",
    ] {
        assert!(compared.contains(words), "no {words:?} in:\n{compared}");
    }
    forge::noise(&runs[0], 1050);
    forge::noise(&runs[1], 1051);
    let document = place
        .run(&["compare", first, second, "--json"])
        .expect(3)
        .json();
    let warnings = document["times"]["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "five in a hundred is still quiet");
    let warned = warnings[0].as_str().unwrap();
    assert!(
        warned.contains("not quiet before the second run"),
        "{warned}"
    );
    assert_eq!(document["rows_that_differ"], 0);
    assert_eq!(
        document["rows"].as_array().unwrap().len(),
        50,
        "ten for each arm"
    );
    assert_eq!(document["times"]["rows"][0]["n"], 1);
}

#[test]
fn unlike_runs_are_refused_with_every_key_that_differs() {
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let all = [&["run", "smoke", "--reps", "1", "--json"], arguments].concat();
        let outcome = place.run(&all).expect(0).json();
        outcome["dir"].as_str().unwrap().to_owned()
    };
    let plain = run(&["--threads", "2"]);
    let fast = run(&["--threads", "1", "--mode", "fast", "--kernels", "scalar"]);
    let refused = place.run(&["compare", &plain, &fast]).expect(3).stdout();
    for key in [
        "unlike",
        "envelope_sha256",
        "envelope.mode",
        "effective.mode",
        "effective.threads",
        "effective.kv_dtype",
    ] {
        assert!(refused.contains(key), "no {key} in:\n{refused}");
    }
    // On a CPU that has no other, both ran the scalar set.
    let ran = read_json(&Path::new(&plain).join("run.json"))["effective"]["kernels"].clone();
    let named = refused.contains("effective.kernels");
    assert_eq!(named, ran != "scalar", "{refused}");
    let shape = place.run(&[
        "compare",
        &plain,
        &committed("session-small/2026-11-29-x86_64-avx512-2c-3"),
    ]);
    let refused = shape.expect(3).stdout();
    for key in ["envelope.workload.turns", "model.sha256", "envelope.name"] {
        assert!(refused.contains(key), "no {key} in:\n{refused}");
    }
    forge::edit_record(Path::new(&fast), |record| {
        let built = &mut record["build"]["debug_assertions"];
        *built = (!built.as_bool().unwrap()).into();
    });
    let refused = place.run(&["compare", &plain, &fast]).expect(3).stdout();
    assert!(refused.contains("build.debug_assertions"), "{refused}");
}

#[test]
fn across_machines_work_and_answers_are_compared_and_times_withheld() {
    let place = Place::new();
    let runs = [place.sealed_run(), place.sealed_run()];
    let [first, second] = runs.each_ref().map(|run| run.to_str().unwrap());
    forge::edit_record(&runs[1], |record| {
        record["machine"]["cpu"] = "another".into();
    });
    let compared = place.run(&["compare", first, second]).expect(0).stdout();
    for words in [
        "Same work, same answers",
        "Times withheld",
        "different machines",
        "machine.cpu",
    ] {
        assert!(compared.contains(words), "no {words:?} in:\n{compared}");
    }
}

#[test]
fn a_run_replayed_on_other_kernels_and_threads_gives_its_answers_again() {
    let place = Place::new();
    let run = place.sealed_run();
    let directory = run.to_str().unwrap();
    let replay = [
        "audit", directory, "--replay", "10%", "--seed", "7", "--json",
    ];
    let document = place.run(&replay).expect(0).json();
    let replayed = &document["replay"];
    assert_eq!(
        replayed["arms"].as_array().unwrap().len(),
        5,
        "at least one answer of each arm"
    );
    assert_ne!(replayed["threads"], replayed["run_threads"]);
    assert_eq!(replayed["prompts"], 1, "a tenth of ten distinct prompts");
    let left = document["not_checked"].to_string();
    assert!(
        left.contains("of the other 9 of 10 distinct prompts"),
        "{left}"
    );
    assert!(!left.contains("replay with the engine"), "{left}");
    assert_eq!(
        document,
        place.run(&replay).expect(0).json(),
        "the seed decides"
    );
    let all = [
        "audit",
        directory,
        "--replay",
        "100%",
        "--kernels",
        "scalar",
        "--threads",
        "3",
    ];
    let shown = place.run(&all).expect(0).stdout();
    for words in [
        "replay of 10 of 10",
        "scalar kernels, 3 threads",
        "REPRODUCED: 60 answers",
    ] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
    assert!(
        !shown.contains("named model gives"),
        "nothing is left to replay: {shown}"
    );
    place.run(&["audit", directory, "--replay", "0"]).expect(2);
    place.run(&["audit", directory, "--threads", "2"]).expect(2);
}

/// What is done to the ids and the logit hash of an answer.
type Lie = fn(&mut Vec<u32>, &mut String);

#[test]
fn an_answer_no_model_gave_passes_every_check_but_the_replay() {
    let place = Place::new();
    let lies: [(&str, Lie); 2] = [
        ("ids, from token 7", |ids, _| ids[7] ^= 1),
        ("logits_sha256", |_, hash| *hash = "0".repeat(64)),
    ];
    for (field, lie) in lies {
        let run = lone_run(&place);
        forge::trace(&run, "fused-0", |body| match body {
            Body::Finish {
                request,
                ids,
                logits_sha256,
                ..
            } if request == "a1-t3" => lie(ids, logits_sha256),
            _ => {}
        });
        let directory = run.to_str().unwrap();
        place.run(&["audit", directory]).expect(0);
        let shown = place
            .run(&["audit", directory, "--replay", "100%"])
            .expect(4)
            .stdout();
        for words in [
            "NOT REPRODUCED: 1 of 12",
            "trace/fused-0.jsonl:",
            "a1-t3",
            field,
        ] {
            assert!(shown.contains(words), "no {words:?} in:\n{shown}");
        }
    }
}

#[test]
fn a_replay_without_the_very_model_says_how_to_get_it() {
    let place = Place::new();
    let run = committed("session-small/2026-11-29-x86_64-avx512-2c-3");
    place
        .run(&["audit", &run, "--replay", "10%"])
        .expect(5)
        .complains(&["smollm2-135m-q8_0 is not here", "model pull"]);
    let run = lone_run(&place);
    forge::trace(&run, "fused-0", |body| {
        if let Body::Begin { model_sha256, .. } = body {
            *model_sha256 = "1".repeat(64);
        }
    });
    forge::edit_record(&run, |record| {
        record["model"]["sha256"] = "1".repeat(64).into();
    });
    let directory = run.to_str().unwrap();
    place.run(&["audit", directory]).expect(0);
    place
        .run(&["audit", directory, "--replay", "10%"])
        .expect(5)
        .complains(&["not the one of the run", &"1".repeat(64)]);
}

#[test]
fn arms_of_one_run_are_named_and_runs_without_a_common_arm_say_nothing() {
    let place = Place::new();
    let (all, fused) = (place.sealed_run(), lone_run(&place));
    let arguments = ["run", "smoke", "--arm", "naive", "--reps", "1", "--json"];
    let naive = place.run(&arguments).expect(0).json();
    let [all, fused] = [&all, &fused].map(|run| run.to_str().unwrap());
    let compared = place.run(&["compare", all, fused]).expect(3).stdout();
    assert!(compared.contains("10 rows"), "{compared}");
    assert!(
        compared.contains("not compared: agent-kv; agent-kv-batched;"),
        "{compared}"
    );
    let naive = naive["dir"].as_str().unwrap();
    forge::edit_record(Path::new(naive), |record| {
        record["machine"]["cpu"] = "another".into();
    });
    place.run(&["compare", naive, fused]).expect(3);
}
