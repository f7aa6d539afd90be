//! Runs and their evidence: sealed, audited, anchored; killed, forged, never overwritten.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Place, read_json};

const ARMS: [&str; 5] = [
    "naive",
    "agent-kv",
    "agent-kv-batched",
    "instance-shared",
    "fused",
];

#[test]
fn smoke_ends_in_a_sealed_run_that_counts_what_the_closed_forms_say() {
    let place = Place::new();
    let outcome = place
        .run(&["run", "smoke", "--reps", "2", "--json"])
        .expect(0)
        .json();
    assert_eq!(outcome["complete"], true);
    assert_eq!(outcome["identity"]["equal"], true);
    let shape = "describe session --turns 4 --agents 3 --prefix 100 --decode 8 --result 12 --json";
    let shape: Vec<&str> = shape.split(' ').collect();
    let modelled = place.run(&shape).expect(0).json();
    for arm in ARMS {
        let (ran, said) = (&outcome["arms"][arm], &modelled["arms"][arm]);
        for field in [
            "prefill_tokens_computed",
            "prefill_tokens_logical",
            "decode_tokens",
        ] {
            assert_eq!(ran[field], said[field], "{arm} {field}");
        }
        assert_eq!(ran["samples"].as_array().unwrap().len(), 2);
        assert!(ran["wall_ns"].as_u64().unwrap() > 0);
    }
    let directory = outcome["dir"].as_str().unwrap();
    place.run(&["audit", directory]).expect(0);
    let record = read_json(&Path::new(directory).join("run.json"));
    assert!(
        record["build"]["commit"].is_null(),
        "no repository here, so no commit is claimed"
    );
}

#[test]
fn the_closing_table_shows_every_arm_identity_and_where_the_evidence_is() {
    let place = Place::new();
    let shown = place
        .run(&["run", "smoke", "--reps", "1"])
        .expect(0)
        .stdout();
    for words in ARMS
        .iter()
        .chain(&["bit-equal", "results/local/smoke/", "audit", "floor"])
    {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
}

#[test]
fn an_arm_of_fewer_turns_runs_those_and_is_compared_over_them() {
    let place = Place::new();
    let smoke = include_str!("../../../workloads/envelopes/smoke.toml");
    let short = smoke.replacen("reps = 5", "arm_turns = { naive = 2 }\nreps = 1", 1);
    fs::write(place.work().join("short.toml"), short).unwrap();
    let outcome = place.run(&["run", "short.toml", "--json"]).expect(0).json();
    let (naive, fused) = (&outcome["arms"]["naive"], &outcome["arms"]["fused"]);
    assert_eq!(
        (&naive["requests"], &fused["requests"]),
        (&6.into(), &12.into())
    );
    assert_eq!(naive["prefill_tokens_computed"], 3 * (2 * 100 + 20));
    // Of `fused`, the prefix and one result for each agent fall into those two turns.
    let floor = &outcome["ratios"][5];
    assert_eq!(floor["prefill_tokens"], 4.852_941); // 660 over 100 + 3 * 12
    assert_eq!(floor["withheld"], "unequal turns: fused 4, naive 2");
    let shown = place.run(&["run", "short.toml"]).expect(0).stdout();
    for words in [
        "in the turns each plays",
        "plays the first 2 of 4 turns",
        "the tokens are those of the turns both play",
    ] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
}

#[test]
fn running_again_never_overwrites() {
    let place = Place::new();
    let first = place.sealed_run();
    let sums = fs::read(first.join("SHA256SUMS")).unwrap();
    let second = place.sealed_run();
    assert_ne!(first, second);
    assert_eq!(fs::read(first.join("SHA256SUMS")).unwrap(), sums);
    let out = second.to_str().unwrap();
    let refused = place.run(&["run", "smoke", "--reps", "1", "--out", out]);
    refused
        .expect(2)
        .complains(&["not empty", "never overwritten"]);
}

#[test]
fn a_run_killed_at_any_moment_is_refused_and_left_alone() {
    let place = Place::new();
    let local = place.work().join("results/local/smoke");
    for traces in [1, 4] {
        let mut command = place.command(&["run", "smoke", "--reps", "50"]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let directory = loop {
            let begun = fs::read_dir(&local)
                .into_iter()
                .flatten()
                .flatten()
                .map(|it| it.path());
            let count =
                |path: &PathBuf| fs::read_dir(path.join("trace")).map_or(0, Iterator::count);
            if let Some(path) = begun.max().filter(|path| count(path) >= traces) {
                break path;
            }
            assert!(Instant::now() < deadline, "no run with {traces} traces");
            std::thread::sleep(Duration::from_millis(1));
        };
        child.kill().unwrap();
        child.wait().unwrap();
        place.run(&["audit", directory.to_str().unwrap()]).expect(4);
        place
            .run(&["anchor", directory.to_str().unwrap()])
            .expect(4)
            .complains(&["not sealed"]);
        let next = place.sealed_run();
        assert_ne!(next, directory);
        fs::remove_dir_all(next).unwrap();
        fs::rename(
            &directory,
            place.root.path().join(format!("killed-{traces}")),
        )
        .unwrap();
    }
}

#[test]
fn every_flipped_byte_of_a_sealed_run_is_found() {
    let place = Place::new();
    place.run(&["new", "tiny"]).expect(0);
    let path = place.work().join("tiny.toml");
    fs::write(&path, smallest(&fs::read_to_string(&path).unwrap())).unwrap();
    let outcome = place.run(&[
        "run",
        "tiny.toml",
        "--arm",
        "naive",
        "--reps",
        "1",
        "--json",
    ]);
    let outcome = outcome.expect(0).json();
    let directory = Path::new(outcome["dir"].as_str().unwrap());
    assert_eq!(audit::audit_run(directory).exit_code(), 0);
    let entries = |path: PathBuf| {
        fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let mut paths: Vec<PathBuf> = entries(directory.to_path_buf()).collect();
    paths.extend(entries(directory.join("trace")));
    paths.retain(|path| path.is_file());
    assert_eq!(paths.len(), 5);
    for path in paths {
        let bytes = fs::read(&path).unwrap();
        for place in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[place] ^= 1;
            fs::write(&path, forged).unwrap();
            let code = audit::audit_run(directory).exit_code();
            assert_eq!(code, 4, "byte {place} of {} went unnoticed", path.display());
        }
        fs::write(&path, bytes).unwrap();
    }
    assert_eq!(audit::audit_run(directory).exit_code(), 0);
}

/// An envelope without its comments and with one agent that says one thing.
fn smallest(text: &str) -> String {
    let shrunk = text.lines().map(|line| {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        match line.split_once(" = ") {
            Some((key @ ("agents" | "turns" | "prefix" | "decode" | "result"), _)) => {
                format!("{key} = 1")
            }
            _ => line.to_owned(),
        }
    });
    shrunk.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_arm_that_cannot_run_keeps_its_record_and_the_run_exits_5() {
    let place = Place::new();
    place.run(&["new", "crowded"]).expect(0);
    let path = place.work().join("crowded.toml");
    let text = fs::read_to_string(&path).unwrap();
    // Enough pages for the one turn that `naive` plays, too few for a whole transcript.
    let crowded = text
        .replace("kv_pages = 4096", "kv_pages = 3")
        .replace("# arm_turns = { naive = 2 }", "arm_turns = { naive = 1 }")
        .replace("reps = 5", "reps = 1");
    assert_ne!(text, crowded);
    fs::write(&path, crowded).unwrap();
    let outcome = place
        .run(&["run", "crowded.toml", "--json"])
        .expect(5)
        .json();
    assert_eq!(outcome["complete"], false);
    let failed: Vec<_> = ARMS
        .iter()
        .filter(|&&arm| !outcome["arms"][arm]["error"].is_null())
        .collect();
    assert!(!failed.is_empty());
    for arm in failed {
        assert!(
            outcome["arms"][*arm]["error"]
                .as_str()
                .unwrap()
                .contains("kv_pages")
        );
        assert!(outcome["arms"][*arm]["wall_ns"].is_null());
    }
    let directory = outcome["dir"].as_str().unwrap();
    place.run(&["audit", directory]).expect(0);
    place.run(&["anchor", directory]).expect(2).complains(&[
        "not every requested arm completed",
        "agent-kv failed in 1 of 1",
        "kv_pages",
    ]);
    assert!(Path::new(directory).is_dir() && !place.work().join("results/INDEX").exists());
}

#[test]
fn a_lone_arm_is_not_said_to_agree_with_anyone() {
    let place = Place::new();
    let shown = place.run(&["run", "smoke", "--arm", "fused", "--reps", "1"]);
    let shown = shown.expect(0).stdout();
    assert!(shown.contains("same answers: nothing to compare, only fused ran"));
}

#[test]
fn anchoring_moves_a_run_once_and_the_index_holds_it() {
    let place = Place::new();
    let directory = place.sealed_run();
    let sums = fs::read(directory.join("SHA256SUMS")).unwrap();
    let shown = place
        .run(&["anchor", directory.to_str().unwrap()])
        .expect(0)
        .stdout();
    assert!(shown.contains("git add results/smoke/"), "{shown}");
    assert!(!directory.exists());
    let index = fs::read_to_string(place.work().join("results/INDEX")).unwrap();
    let (digest, name) = index.trim_end().split_once("  ").unwrap();
    assert_eq!(digest, workloads::trace::sha256_hex(&sums));
    let anchored = place.work().join("results").join(name);
    assert_eq!(fs::read(anchored.join("SHA256SUMS")).unwrap(), sums);
    place.run(&["audit", "--all"]).expect(0);
    let again = place.run(&["anchor", anchored.to_str().unwrap()]);
    again.expect(2).complains(&["already anchored"]);
    assert_eq!(
        fs::read_to_string(place.work().join("results/INDEX")).unwrap(),
        index
    );

    let run = anchored.join("run.json");
    let forged = fs::read_to_string(&run)
        .unwrap()
        .replacen("\"naive\"", "\"naiwe\"", 1);
    fs::write(run, forged).unwrap();
    place.run(&["audit", "--all"]).expect(4);
}
