//! Lies in evidence that is otherwise of one piece: chained, counted and sealed again.
//!
//! Not here: lies that an audit finds (`audit`'s own corpus).

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use workloads::trace::{Body, Line, ids_sha256, sha256_hex};

use super::{Place, read_json};

/// Applies `lie` to every line of the only trace of a run, chains the trace and seals the run again.
pub(crate) fn trace(directory: &Path, trace: &str, lie: impl Fn(&mut Body)) {
    let path = directory.join("trace").join(format!("{trace}.jsonl"));
    let mut kept = String::new();
    let mut last_sha256 = "0".repeat(64);
    let mut answers = Vec::new();
    for text in fs::read_to_string(&path).unwrap().lines() {
        let mut line: Line = serde_json::from_str(text).unwrap();
        lie(&mut line.body);
        if let Body::Finish {
            request,
            ids,
            logits_sha256,
            ..
        } = &line.body
        {
            answers.push((request.clone(), ids.clone(), logits_sha256.clone()));
        }
        line.prev = last_sha256;
        let text = serde_json::to_string(&line).unwrap();
        last_sha256 = sha256_hex(text.as_bytes());
        kept.push_str(&text);
        kept.push('\n');
    }
    fs::write(&path, kept).unwrap();
    // Digests of the record go by agent, then turn, which here is the order of the names.
    answers.sort();
    let ids: Vec<u32> = answers.iter().flat_map(|(_, ids, _)| ids.clone()).collect();
    let hashes: String = answers.iter().map(|(_, _, hash)| hash.as_str()).collect();
    let arm = trace.rsplit_once('-').unwrap().0;
    edit_record(directory, |record| {
        record["arms"][arm]["output_sha256"] = ids_sha256(&ids).into();
        record["arms"][arm]["logits_sha256"] = sha256_hex(hashes.as_bytes()).into();
    });
}

/// A sealed run in which the logits of one answer of `fused` are not those of `instance-shared`, and which says so.
pub(crate) fn disagreement(place: &Place) -> PathBuf {
    let arms = ["--arm", "instance-shared", "--arm", "fused"];
    let arguments = [&["run", "smoke", "--reps", "1", "--json"][..], &arms].concat();
    let outcome = place.run(&arguments).expect(0).json();
    let run = PathBuf::from(outcome["dir"].as_str().unwrap());
    trace(&run, "fused-0", |body| match body {
        Body::Finish {
            request,
            logits_sha256,
            ..
        } if request == "a2-t3" => *logits_sha256 = "0".repeat(64),
        _ => {}
    });
    edit_record(&run, |record| {
        record["identity"]["equal"] = false.into();
        record["identity"]["first_divergence"] =
            json!({ "arm": "fused", "rep": 0, "agent": 2, "turn": 3, "position": null });
        record["verdict"] = Value::Null;
        let ratio = record["ratios"][0].as_object_mut().unwrap();
        for field in ["wall", "wall_low", "wall_high", "prefill", "verdict"] {
            ratio[field] = Value::Null;
        }
        ratio.remove("outliers");
        ratio["withheld"] = "answers differ: fused-0, agent 2, turn 3, logits".into();
    });
    place.run(&["audit", run.to_str().unwrap()]).expect(1);
    run
}

/// Changes run.json and seals the run again.
pub(crate) fn edit_record(directory: &Path, edit: impl Fn(&mut Value)) {
    let mut record = read_json(&directory.join("run.json"));
    edit(&mut record);
    reseal(directory, &record);
}

/// Writes run.json anew and seals the run again.
pub(crate) fn reseal(directory: &Path, record: &Value) {
    fs::write(directory.join("run.json"), format!("{record:#}\n")).unwrap();
    fs::remove_file(directory.join("SHA256SUMS")).unwrap();
    harness::seal::seal(directory).unwrap();
}

/// Has the noise guard of a run read that one repetition in ten took so many nanoseconds, where the best took 1000.
pub(crate) fn noise(directory: &Path, p90_ns: u64) {
    edit_record(directory, |record| {
        record["sittings"][0]["noise"] = json!({
            "repetitions": 64, "least_ns": 1000, "median_ns": 1000, "p90_ns": p90_ns,
            "spread": (p90_ns - 1000) as f64 / 1000.0, "load1": null, "waited_s": 0,
        });
    });
}
