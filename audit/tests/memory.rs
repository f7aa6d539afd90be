//! A long trace is read in little memory: what is held grows with the ids it states, not with its bytes.
//!
//! The auditor runs as a program of its own in an address space that has no room for more. Not here: speed.
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]
#![cfg(target_os = "linux")] // where a shell can limit the address space of what it starts

mod fixture;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use fixture::{Fixture, ids_sha256, pretty, seal, sha256, simulate, toml};
use serde_json::{Value, json};

/// Ids each of the two turns of two agents decodes, and bytes of trace each takes at least: a step of its own.
const DECODE: u64 = 250_000;
const BYTES_PER_ID: u64 = 150;

/// How the auditor ends in an address space of so many bytes, and what it says; `None` where it was ended by a signal.
fn audited_within(bytes: u64, dir: &Path) -> (Option<i32>, String) {
    let within = "ulimit -v \"$0\" && exec \"$1\" \"$2\"";
    let output = Command::new("sh")
        .args(["-c", within, &(bytes / 1024).to_string()])
        .arg(env!("CARGO_BIN_EXE_audit"))
        .arg(dir)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// Writes lines one by one, chained.
struct Chain {
    file: BufWriter<File>,
    prev: String,
    seq: u64,
    t_ns: u64,
}

impl Chain {
    fn say(&mut self, kind: &str, fields: &Value) {
        self.t_ns += fields["wall_ns"]
            .as_u64()
            .filter(|_| kind == "step")
            .unwrap_or(1);
        let head = format!(
            r#"{{"seq":{},"prev":"{}","t_ns":{},"kind":"{kind}","#,
            self.seq, self.prev, self.t_ns
        );
        let line = head + &fields.to_string()[1..];
        self.prev = sha256(&line);
        self.seq += 1;
        writeln!(self.file, "{line}").unwrap();
    }
}

fn output(turn: u64) -> Vec<u64> {
    (0..DECODE)
        .map(|place| 1_000 + (place * 7 + turn) % 40_000)
        .collect()
}

/// One agent's two turns without a cache: a prompt, then a step for every further id.
fn write_trace(path: &Path, begin: &Value) -> [u64; 3] {
    let file = BufWriter::new(File::create(path).unwrap());
    let mut chain = Chain {
        file,
        prev: "0".repeat(64),
        seq: 0,
        t_ns: 20,
    };
    chain.say("begin", begin);
    let mut prompt = simulate::prefix(5);
    chain.say("text", &json!({ "name": "prefix", "ids": prompt }));
    let (mut logical, start) = (0, chain.t_ns + 1);
    for turn in 0..2 {
        let (base, append) = match turn {
            0 => (json!({ "text": "prefix" }), Vec::new()),
            _ => (json!({ "request": "a0-t0" }), simulate::own(0, 1, 2)),
        };
        let keep = prompt.len();
        prompt.extend(&append);
        logical += prompt.len() as u64;
        let id = format!("a0-t{turn}");
        chain.say("request", &json!({
            "id": id, "session": "a0", "agent": 0, "turn": turn, "worker": 0, "base": base, "keep": keep,
            "append": append, "prompt_len": prompt.len(), "prompt_sha256": ids_sha256(&prompt),
            "decode_max": DECODE, "ignore_eos": true,
        }));
        let asked_t_ns = chain.t_ns;
        chain.say(
            "prefix",
            &json!({
                "request": id, "matched": 0, "own": 0, "instance": 0, "fleet": 0, "store": 0,
            }),
        );
        let step = |phase: &str, rows: usize| json!({ "phase": phase, "rows": rows, "requests": 1, "wall_ns": 1 });
        let chunks = prompt.len().div_ceil(256);
        for chunk in 0..chunks {
            chain.say(
                "step",
                &step("prefill", (prompt.len() - 256 * chunk).min(256)),
            );
        }
        chain.say("prefill", &json!({
            "request": id, "computed": prompt.len(), "carried": 0, "replayed": 0, "chunks": chunks,
        }));
        let first_t_ns = chain.t_ns - asked_t_ns;
        let decode = step("decode", 1);
        (1..DECODE).for_each(|_| chain.say("step", &decode));
        let ids = output(turn);
        chain.say("finish", &json!({
            "request": id, "ids": ids, "token_t_ns": (0..DECODE).map(|place| first_t_ns + place).collect::<Vec<_>>(),
            "batch": vec![1; ids.len()], "reason": "length", "logits_sha256": sha256("logits"),
        }));
        prompt.extend(ids);
    }
    let wall_ns = chain.t_ns - start;
    let (computed, decode_ns) = (logical, 2 * (DECODE - 1));
    let prefill_ns = 1 + (DECODE + 7).div_ceil(256);
    chain.say("end", &json!({
        "requests": 2, "prefill_tokens_computed": computed, "prefill_tokens_logical": logical,
        "prefix_tokens_hit": 0, "decode_tokens": 2 * DECODE, "carried_tokens": 0, "replayed_tokens": 0,
        "load_ns": 7, "warmup_ns": 8, "wall_ns": wall_ns, "prefill_ns": prefill_ns, "decode_ns": decode_ns,
        "kv_bytes_peak": 4096, "rss_bytes_peak": 9000,
    }));
    chain.file.flush().unwrap();
    [logical, wall_ns, prefill_ns]
}

/// A valid run of one long repetition of `naive`.
fn write_run(dir: &Path) {
    let mut fixture = Fixture::new(&["naive"], 1);
    let work = &mut fixture.envelope["workload"];
    (work["agents"], work["decode"]) = (json!(1), json!(DECODE));
    fixture.redeclare();
    fs::create_dir(dir.join("trace")).unwrap();
    let mut begin = fixture.traces["naive-0"][0].clone();
    for field in ["t_ns", "kind"] {
        begin.as_object_mut().unwrap().remove(field);
    }
    let [logical, wall_ns, prefill_ns] = write_trace(&dir.join("trace/naive-0.jsonl"), &begin);
    let ids = [output(0), output(1)].concat();
    let figures = json!({
        "requests": 2, "prefill_tokens_computed": logical, "prefill_tokens_logical": logical,
        "oracle_prefill_tokens": logical, "decode_tokens": 2 * DECODE, "wall_ns": wall_ns,
        "prefill_ns": prefill_ns, "decode_ns": 2 * (DECODE - 1), "output_sha256": ids_sha256(&ids),
        "logits_sha256": sha256(sha256("logits").repeat(2)), "kv_bytes_peak": 4096, "rss_bytes_peak": 9000,
    });
    let arm = fixture.record["arms"]["naive"].as_object_mut().unwrap();
    arm.extend(figures.as_object().unwrap().clone());
    for field in ["wall_ns", "prefill_ns", "decode_ns"] {
        let value = arm[field].clone();
        arm["samples"][0][field] = value;
    }
    fixture.set("/identity/requests", json!(2));
    fs::write(dir.join("envelope.toml"), toml(&fixture.envelope)).unwrap();
    fs::write(dir.join("envelope.json"), pretty(&fixture.envelope)).unwrap();
    fs::write(dir.join("run.json"), pretty(&fixture.record)).unwrap();
    seal(dir);
}

#[test]
fn a_long_trace_is_read_in_a_small_part_of_its_size() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path());
    let trace_bytes = fs::metadata(dir.path().join("trace/naive-0.jsonl"))
        .unwrap()
        .len();
    assert!(trace_bytes > 2 * DECODE * BYTES_PER_ID);
    let (code, said) = audited_within(trace_bytes / 3, dir.path());
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = audited_within(1 << 20, dir.path());
    assert_ne!(code, Some(0), "the limit is none: {said}");
}
