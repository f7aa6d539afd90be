//! Lies about which files there are, and about what was declared.
//!
//! Not here: how a lie is told consistently (`tell`).

use std::fs;

use audit::Layer::{self, Chain, Declared, Format, Prompt, Seal};
use serde_json::json;

use super::{FUSED, Forgery, SUMS, told, written};
use crate::fixture::seal;
use crate::tell::{edit, trace};
pub(crate) static SEALS_AND_CHAINS: &[Forgery] = &[
    written(
        "an edited number, not sealed again",
        Seal,
        ("run.json", ""),
        "the file's SHA-256 is",
        |dir| {
            edit(dir, "run.json", ("\"cpu\": \"p\"", "\"cpu\": \"q\""), false);
        },
    ),
    written(
        "an edited trace row, not sealed again",
        Seal,
        (FUSED, ""),
        "the file's SHA-256 is",
        |dir| {
            edit(dir, FUSED, ("\"warmup_ns\":8", "\"warmup_ns\":7"), false);
        },
    ),
    written(
        "a manifest in capitals",
        Seal,
        (SUMS, "envelope.json"),
        "64 hex digits",
        |dir| {
            let text = fs::read_to_string(dir.join(SUMS)).unwrap();
            fs::write(dir.join(SUMS), text[..64].to_uppercase() + &text[64..]).unwrap();
        },
    ),
    written(
        "a manifest out of order",
        Seal,
        (SUMS, "envelope.json"),
        "unsorted or repeated",
        |dir| {
            let text = fs::read_to_string(dir.join(SUMS)).unwrap();
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            lines.swap(0, 1);
            fs::write(dir.join(SUMS), lines.concat()).unwrap();
        },
    ),
    written(
        "a manifest that ends early",
        Seal,
        ("trace/naive-4.jsonl", ""),
        "is not listed",
        |dir| {
            let text = fs::read_to_string(dir.join(SUMS)).unwrap();
            let last = text.trim_end().rfind('\n').unwrap();
            fs::write(dir.join(SUMS), &text[..=last]).unwrap();
        },
    ),
    written(
        "a file that leads out of the run",
        Seal,
        (SUMS, "../"),
        "may not be listed",
        |dir| {
            edit(dir, SUMS, ("  envelope.toml", "  ../envelope.toml"), false);
        },
    ),
    written(
        "a file nobody asked for",
        Seal,
        ("trace/fused-5.jsonl", ""),
        "does not belong",
        |dir| {
            fs::copy(dir.join(FUSED), dir.join("trace/fused-5.jsonl")).unwrap();
            seal(dir);
        },
    ),
    told(
        "fewer repetitions declared than ran",
        Seal,
        ("trace/fused-4.jsonl", ""),
        "does not belong",
        |it| {
            it.envelope["run"]["arm_reps"]["fused"] = json!(4);
            it.redeclare();
        },
    ),
    told(
        "more repetitions declared than ran",
        Seal,
        ("trace/fused-5.jsonl", ""),
        "is missing",
        |it| {
            it.envelope["run"]["arm_reps"]["fused"] = json!(6);
            it.redeclare();
        },
    ),
    written(
        "an edited trace row, sealed again",
        Chain,
        (FUSED, "\"kind\":\"end\""),
        "prev is",
        |dir| {
            edit(dir, FUSED, ("\"batch\":[1,2]", "\"batch\": [1,2]"), true);
            let text = fs::read_to_string(dir.join(FUSED)).unwrap();
            // Only the last link: everything before is honest.
            let place = text.rfind("\"batch\":[1,2]").unwrap();
            fs::write(
                dir.join(FUSED),
                format!("{} {}", &text[..place], &text[place..]),
            )
            .unwrap();
            seal(dir);
        },
    ),
    written(
        "swapped run ids",
        Layer::Format,
        ("trace/naive-0.jsonl", "\"kind\":\"begin\""),
        "rep is 1",
        |dir| {
            for (from, to) in [("naive-0", "t"), ("naive-1", "naive-0"), ("t", "naive-1")] {
                let path = |name| dir.join(format!("trace/{name}.jsonl"));
                fs::rename(path(from), path(to)).unwrap();
            }
            seal(dir);
        },
    ),
    written(
        "an envelope of another run",
        Layer::Format,
        ("trace/naive-0.jsonl", "\"kind\":\"begin\""),
        "envelope_sha256",
        |dir| {
            edit(
                dir,
                "envelope.json",
                ("what does sharing buy?", "what does hashing buy?"),
                true,
            );
        },
    ),
];

pub(crate) static DECLARATIONS: &[Forgery] = &[
    told(
        "another question than was typed",
        Declared,
        ("envelope.toml", "question ="),
        "question",
        |it| {
            it.written = it
                .written
                .replace("what does sharing buy?", "what does it cost?");
        },
    ),
    told(
        "fewer agents than were asked for",
        Declared,
        ("envelope.toml", "agents ="),
        "workload.agents is 3",
        |it| {
            it.written = it.written.replace("agents = 2", "agents = 3");
        },
    ),
    told(
        "larger chunks than were asked for",
        Declared,
        ("envelope.toml", "chunk_tokens"),
        "run.chunk_tokens is 64",
        |it| {
            it.written = it
                .written
                .replace("chunk_tokens = 256", "chunk_tokens = 64");
        },
    ),
    told(
        "an arm that was to play fewer turns",
        Declared,
        ("envelope.toml", "arm_turns"),
        "run.arm_turns.naive is 1",
        |it| {
            let turns = "threads = 2\narm_turns = { naive = 1 }";
            it.written = it.written.replace("threads = 2", turns);
        },
    ),
    told(
        "an arm's repetitions beside the question",
        Declared,
        ("envelope.toml", "arm_reps"),
        "run.arm_reps.naive is 9",
        |it| {
            it.written = it.written.replace("\"naive\" = 5", "\"naive\" = 9");
            it.written = it.written.replace("reps = 5", "reps = 9");
            it.envelope["run"]["reps"] = json!(9);
            let written = std::mem::take(&mut it.written);
            it.redeclare();
            it.written = written;
        },
    ),
    told(
        "a declaration that nothing can read",
        Declared,
        ("envelope.toml", "= 1"),
        "is not TOML: a key is missing",
        |it| {
            it.written = it.written.replace("agents = 2", "agents = 3");
            it.written.push_str("= 1\n");
        },
    ),
    told(
        "a shape that was not run",
        Prompt,
        ("trace/naive-0.jsonl", "\"id\":\"a1-t0\""),
        "outside the declared",
        |it| {
            it.envelope["workload"]["agents"] = json!(1);
            it.redeclare();
        },
    ),
    told(
        "another arm's name in a trace",
        Format,
        (FUSED, "\"kind\":\"begin\""),
        "arm is",
        |it| {
            trace(it, "fused-0")[0]["arm"] = json!("naive");
        },
    ),
    told(
        "a trace of another envelope",
        Format,
        (FUSED, "\"kind\":\"begin\""),
        "envelope is",
        |it| {
            trace(it, "fused-0")[0]["envelope"] = json!("other");
        },
    ),
    told(
        "a shape beyond 64 bits",
        Format,
        ("envelope.json", ""),
        "64 bits",
        |it| {
            it.envelope["workload"]["turns"] = json!(u64::MAX);
            it.redeclare();
        },
    ),
    told(
        "repetitions without end",
        Format,
        ("envelope.json", ""),
        "run.arm_reps.fused",
        |it| {
            it.envelope["run"]["arm_reps"]["fused"] = json!(1_001);
            it.redeclare();
        },
    ),
    told(
        "no arms at all",
        Format,
        ("envelope.json", ""),
        "run.arms is empty",
        |it| {
            it.envelope["run"]["arms"] = json!([]);
            it.envelope["run"]["arm_reps"] = json!({});
            it.redeclare();
        },
    ),
];
