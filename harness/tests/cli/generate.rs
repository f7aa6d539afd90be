//! `model generate` with sampling parameters: what reaches the engine, what comes back, what is refused.

use serde_json::Value;

use super::Place;

/// Runs `model generate synthetic-tiny` on a few ids with further arguments.
fn generate(arguments: &[&str], code: i32) -> super::Finished {
    let place = Place::new();
    std::fs::write(place.work().join("ids.json"), "[3, 1, 4, 1, 5]").unwrap();
    let base = [
        "model",
        "generate",
        "synthetic-tiny",
        "--ids",
        "ids.json",
        "-n",
        "24",
        "--ignore-eos",
    ];
    place.run(&[&base[..], arguments].concat()).expect(code)
}

fn ids(arguments: &[&str]) -> Vec<u64> {
    let found = generate(&[arguments, &["--json"]].concat(), 0).json();
    found["ids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap())
        .collect()
}

#[test]
fn a_seed_gives_its_stream_and_every_parameter_reaches_the_engine() {
    let warm = |seed| ids(&["--temperature", "1.5", "--seed", seed]);
    assert_eq!(warm("7"), warm("7"));
    assert_ne!(warm("7"), warm("8"));
    let greedy = ids(&[]);
    assert_ne!(warm("7"), greedy);
    for same in [["--top-k", "1"], ["--top-p", "1e-9"], ["--min-p", "1"]] {
        assert_eq!(
            ids(&[&["--temperature", "1.5"], &same[..]].concat()),
            greedy,
            "{same:?}"
        );
    }
    let first = greedy[0].to_string();
    assert!(!ids(&["--logit-bias", &format!("{first}=-inf")]).contains(&greedy[0]));
    assert_eq!(ids(&["--logit-bias", "9=1000"]), [9; 24]);
    for penalty in [
        "--repetition-penalty",
        "--presence-penalty",
        "--frequency-penalty",
    ] {
        assert_ne!(
            ids(&["--logit-bias", "9=1000", penalty, "2000"]),
            [9; 24],
            "{penalty}"
        );
    }
}

#[test]
fn a_stop_id_ends_the_answer_and_logprobs_come_when_asked() {
    let greedy = ids(&[]);
    let stop = greedy[3].to_string();
    let found = generate(&["--stop-id", &stop, "--logprobs", "2", "--json"], 0).json();
    assert_eq!(found["finish"], "stop");
    let kept = greedy.iter().position(|id| *id == greedy[3]).unwrap() + 1;
    assert_eq!(found["ids"].as_array().unwrap().len(), kept);
    let told = found["logprobs"].as_array().unwrap();
    assert_eq!(told.len(), kept);
    for (id, told) in greedy.iter().zip(told) {
        // The likeliest token was taken, so it leads the list too.
        assert_eq!(
            (&told["id"], &told["top"][0]["id"]),
            (&(*id).into(), &(*id).into())
        );
        assert_eq!(told["logprob"], told["top"][0]["logprob"]);
        let logprob = |it: &Value| it["logprob"].as_f64().unwrap();
        assert!(logprob(&told["top"][1]) <= logprob(told) && logprob(told) < 0.0);
    }
    assert_eq!(generate(&["--json"], 0).json()["logprobs"], Value::Null);
}

#[test]
fn what_cannot_be_done_is_refused_with_what_can() {
    for (arguments, words) in [
        (&["--top-p", "2"][..], &["top_p is 2", "at most 1"][..]),
        (&["--temperature", "NaN"], &["temperature is NaN"]),
        (&["--presence-penalty=-inf"], &["presence_penalty is -inf"]),
        (&["--temperature", "-1"], &["temperature is -1"]),
        (&["--top-p", "-1"], &["top_p is -1"]),
        (&["--min-p", "-1"], &["min_p is -1"]),
        (&["--threads", "0"], &["--threads is 0", "1 to"]),
        (&["--top-k", "0"], &["top_k is 0"]),
        (
            &["--stop-id", "256"],
            &["stop id is 256", "vocabulary of 256"],
        ),
        (&["--logit-bias", "3"], &["ID=VALUE"]),
        (&["--logit-bias", "3=1", "--logit-bias", "3=2"], &["twice"]),
        (&["--stop", "x"], &["no tokenizer", "--stop-id"]),
        (&["--logprobs", "3"], &["--json"]),
        (&["--chat"], &["--chat", "--ids"]),
    ] {
        generate(arguments, 2).complains(words);
    }
}

#[test]
fn a_refusal_names_the_flag_that_was_typed() {
    let place = Place::new();
    let ids = |text: &str| std::fs::write(place.work().join("ids.json"), text).unwrap();
    let ask = |file: &str, count: &str| {
        let line = [
            "model",
            "generate",
            "synthetic-tiny",
            "--ids",
            file,
            "-n",
            count,
        ];
        place.run(&line).expect(2)
    };
    ids("[1]");
    ask("absent.json", "1").complains(&["--ids absent.json", "cannot read"]);
    ask("ids.json", "0").complains(&["-n is 0", "1 or more"]);
    ask("ids.json", "99999999").complains(&["--ids ids.json", "context"]);
    ids("[1, 256]");
    ask("ids.json", "1").complains(&["--ids ids.json", "vocabulary of 256"]);
}
