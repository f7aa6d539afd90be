//! A lie that only a replay can find: an answer no model gave, in evidence that is otherwise of one piece.

use std::fs;
use std::path::Path;

use serde_json::Value;
use workloads::trace::{ids_sha256, sha256_hex};

use super::read_json;

/// Applies `lie` to every `finish` line of the one trace of a run, chains the trace again, and seals the run again.
pub(crate) fn answers(directory: &Path, trace: &str, lie: impl Fn(&mut Value)) {
    let path = directory.join("trace").join(format!("{trace}.jsonl"));
    let mut prev = "0".repeat(64);
    let mut kept = String::new();
    let (mut ids, mut hashes) = (Vec::new(), Vec::new());
    for line in fs::read_to_string(&path).unwrap().lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["kind"] == "finish" {
            lie(&mut line);
            let own: Vec<u32> = serde_json::from_value(line["ids"].clone()).unwrap();
            let name = line["request"].as_str().unwrap().to_owned();
            ids.push((name.clone(), own));
            hashes.push((name, line["logits_sha256"].as_str().unwrap().to_owned()));
        }
        line["prev"] = prev.into();
        let text = line.to_string();
        prev = sha256_hex(text.as_bytes());
        kept.push_str(&text);
        kept.push('\n');
    }
    fs::write(&path, kept).unwrap();
    // The record lists answers by agent, then turn, which is the order of their names.
    ids.sort();
    hashes.sort();
    let ids: Vec<u32> = ids.into_iter().flat_map(|(_, ids)| ids).collect();
    let hashes: String = hashes.into_iter().map(|(_, hash)| hash).collect();
    let arm = trace.rsplit_once('-').unwrap().0;
    edit_record(directory, |record| {
        record["arms"][arm]["output_sha256"] = ids_sha256(&ids).into();
        record["arms"][arm]["logits_sha256"] = sha256_hex(hashes.as_bytes()).into();
    });
}

/// Changes run.json and seals the run again.
pub(crate) fn edit_record(directory: &Path, edit: impl Fn(&mut Value)) {
    let path = directory.join("run.json");
    let mut record = read_json(&path);
    edit(&mut record);
    fs::write(&path, format!("{record:#}\n")).unwrap();
    fs::remove_file(directory.join("SHA256SUMS")).unwrap();
    harness::seal::seal(directory).unwrap();
}
