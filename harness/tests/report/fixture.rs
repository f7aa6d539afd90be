//! A repository in a temporary directory and the fabricated runs anchored in it.
//!
//! Not here: traces that would satisfy an auditor; pages only need records and hashes that agree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use harness::report::{Outcome, ReportError, report};
use serde_json::{Value, json};
use tempfile::TempDir;
use workloads::trace::sha256_hex;

pub(crate) const PAGES: [&str; 3] = ["README.md", "CLAIMS.md", "BENCHMARK-AUTHORITY.md"];
/// What the scorecard is made of, what is bound to it first.
pub(crate) const SCORECARD: [&str; 4] = [
    "reports/scorecard/evidence.toml",
    "reports/scorecard/dimensions.toml",
    "reports/templates/scorecard.md.tera",
    "reports/templates/scorecard-category.md.tera",
];
/// Templates of the pages of runs.
pub(crate) const OF_RUNS: [&str; 4] = [
    "reports/templates/run.md.tera",
    "reports/templates/page.html.tera",
    "reports/templates/run.html.tera",
    "reports/templates/index.html.tera",
];
/// What the group `sharing` loses; no run of another of its envelopes speaks alone.
pub(crate) const LOSING: [&str; 4] = ["one-agent", "single-turn", "tiny-context", "zero-shared"];
/// What the page on serving is made of.
pub(crate) const SERVING: [&str; 2] = ["reports/serving.toml", "reports/templates/SERVING.md.tera"];
const DAY_S: u64 = 86_400;

/// A repository with templates and claims, and no runs.
pub(crate) struct Repository(TempDir);

impl Repository {
    pub(crate) fn new() -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let repository = Self(TempDir::new().unwrap());
        let own = ["reports/allow.txt", "reports/claims.toml"].map(String::from);
        let pages = PAGES.into_iter().chain(["status.md"]);
        let templates = pages.map(|page| format!("reports/templates/{page}.tera"));
        let claims = fs::read_to_string(source.join("reports/claims.toml")).unwrap();
        let witness = |line: &str| {
            line.strip_prefix("witness = \"")?
                .split_once('#')
                .map(|(file, _)| file.to_owned())
        };
        let witnesses = claims.lines().filter_map(witness);
        let serving = SERVING.map(String::from);
        let bound = SCORECARD.map(String::from);
        let evidence = fs::read_to_string(source.join(&bound[0])).unwrap();
        let tests = evidence.lines().filter_map(|line| {
            let (_, value) = line.split_once("= \"").or(line.split_once("= { \""))?;
            let value = value.rsplit_once(" = \"").map_or(value, |it| it.1);
            Some(value.split_once('#')?.0.to_owned())
        });
        let sources = claims.lines().filter(|line| line.starts_with("sources = "));
        for source in sources.flat_map(|line| line.split('"').skip(1).step_by(2)) {
            fs::create_dir_all(repository.path(source)).unwrap();
        }
        let templates = templates.chain(OF_RUNS.map(String::from));
        let files = own.into_iter().chain(templates).chain(witnesses);
        for file in files.chain(bound.clone()).chain(serving).chain(tests) {
            repository.write(&file, &fs::read_to_string(source.join(&file)).unwrap());
        }
        repository
    }

    /// With one fit run of each envelope the claims name, what their groups lose, and current pages.
    pub(crate) fn published() -> Self {
        let repository = Self::new();
        for envelope in ["smoke", "session-small"].into_iter().chain(LOSING) {
            repository.anchor(&Run::new(envelope, "first"));
        }
        repository.report();
        repository
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    pub(crate) fn edit(&self, file: &str, from: &str, to: &str) {
        let text = self.read(file);
        assert!(text.contains(from), "{file} has no `{from}`");
        self.write(file, &text.replacen(from, to, 1));
    }

    pub(crate) fn anchor(&self, run: &Run) {
        let directory = format!("results/{}", run.path());
        let index = self.path("results/INDEX");
        let index = fs::read_to_string(index).unwrap_or_default();
        let sums = self.seal(run, &directory);
        self.write(
            "results/INDEX",
            &format!("{index}{}  {}\n", sha256_hex(sums.as_bytes()), run.path()),
        );
    }

    pub(crate) fn seal(&self, run: &Run, directory: &str) -> String {
        let mut sums = String::new();
        for (file, text) in run.files() {
            self.write(&format!("{directory}/{file}"), &text);
            sums.extend([&sha256_hex(text.as_bytes()), "  ", file, "\n"]);
        }
        self.write(&format!("{directory}/SHA256SUMS"), &sums);
        sums
    }

    pub(crate) fn report(&self) -> Outcome {
        report(self.0.path(), false).unwrap()
    }

    pub(crate) fn check(&self) -> Result<Outcome, ReportError> {
        report(self.0.path(), true)
    }

    /// The message and exit code of a report that must fail.
    pub(crate) fn refusal(&self) -> (String, u8) {
        let error = report(self.0.path(), false).unwrap_err();
        (error.to_string(), error.exit_code())
    }

    /// Other claims than the repository's, of which the page on serving names none.
    pub(crate) fn claims(&self, entries: &[&str]) {
        self.write("reports/claims.toml", &entries.concat());
        let text = self.read(SERVING[0]);
        let names_claims = |line: &&str| !line.starts_with("claims = ");
        let mut lines: Vec<&str> = text.lines().filter(names_claims).collect();
        for line in &mut lines {
            if line.starts_with("status = ") {
                *line = "status = \"not here\"\nclaims = []";
            }
        }
        self.write(SERVING[0], &lines.join("\n"));
    }
}

/// A fabricated run record; `record` may be bent before it is sealed.
pub(crate) struct Run {
    name: &'static str,
    record: Value,
    declared: Value,
}

impl Run {
    pub(crate) fn new(envelope: &str, name: &'static str) -> Self {
        let tokens = [
            ("naive", 11_376),
            ("agent-kv", 2_016),
            ("instance-shared", 992),
            ("fused", 992),
        ];
        let names = tokens.map(|(arm, _)| arm);
        let declared = json!({
            "schema": "fak.envelope/1", "name": envelope,
            "workload": { "kind": "session", "agents": 3, "turns": 6, "prefix": 512, "decode": 16, "result": 32,
                          "workers": 1, "seed": 1 },
            "run": { "arms": names }
        });
        let arms: BTreeMap<&str, Value> = tokens
            .iter()
            .map(|&(name, computed)| (name, arm(computed)))
            .collect();
        let record = json!({
            "schema": "fak.run/1", "envelope": envelope, "envelope_sha256": sha256_hex(declared.to_string().as_bytes()),
            "complete": true,
            "model": { "name": "synthetic-tiny", "sha256": "ab".repeat(32), "tokenizer_sha256": null, "label": "synthetic" },
            "requested": { "mode": "exact", "kernels": "auto", "threads": 2 },
            "effective": { "mode": "exact", "kernels": "avx2", "threads": 2, "kv_dtype": "f32" },
            "build": { "version": "0.1.0", "commit": "0123456789abcdef", "dirty": false,
                       "trees": { "engine": "e1", "harness": "h1" }, "rustc": "rustc", "debug_assertions": false },
            "machine": { "class": "x86_64-avx2-2c", "cpu": "a cpu", "isa": ["avx2"], "cores": 2, "memory_bytes": 1, "os": "linux" },
            "sittings": [{ "started_unix_s": 100 * DAY_S, "boot_id": null, "load1_before": null, "load1_after": null }],
            "order": [], "arms": arms,
            "ratios": [
                ratio("agent-kv", "naive", 5.642_857, "FASTER"), ratio("fused", "instance-shared", 1.0, "PARITY"),
                ratio("fused", "agent-kv", 2.032_258, "FASTER"), ratio("fused", "naive", 11.467_742, "FASTER"),
            ],
            "identity": { "equal": true, "arms": names, "requests": 18, "first_divergence": null },
            "verdict": "PARITY"
        });
        Self {
            name,
            record,
            declared,
        }
    }

    /// Engine work in one cell: our engine beside another.
    pub(crate) fn of_cells(envelope: &str, name: &'static str) -> Self {
        let mut run = Self::new(envelope, name);
        let arm = |provenance: &str, rate: f64| {
            json!({
                "provenance": provenance, "reps": 5, "completed": 5, "error": null, "note": null,
                "needs": { "bytes": 1, "matrix_operations": 1, "attention_operations": 1, "limit_ns": 1, "withheld": null },
                "tokens_per_s": rate, "share_of_limit": 0.5, "output_sha256": null, "logits_sha256": null, "samples": []
            })
        };
        let cell = json!({ "name": "decode-64", "prompt": 0, "depth": 2048, "decode": 64, "agents": 1, "shared": 0 });
        run.declared["workload"] =
            json!({ "kind": "engine", "limit_s": 9, "seed": 1, "cells": [cell] });
        run.declared["run"]["arms"] = json!(["fak", "llama-bench:fa0"]);
        run.record["cells"] = json!([{
            "name": "decode-64",
            "arms": { "fak": arm("WITNESSED", 81.25), "llama-bench:fa0": arm("OBSERVED", 39.0) },
            "ratios": [{ "arm": "fak", "denominator": "llama-bench:fa0", "pairs": 5, "speed": 2.083_333, "low": 2.0,
                         "high": 2.1, "verdict": "FASTER", "withheld": null }]
        }]);
        (run.record["arms"], run.record["ratios"]) = (json!({}), json!([]));
        run.record["verdict"] = Value::Null;
        run.record["envelope_sha256"] = json!(sha256_hex(run.declared.to_string().as_bytes()));
        run
    }

    /// A session beside another engine, of which not everything is known.
    pub(crate) fn beside_a_server(envelope: &str, name: &'static str) -> Self {
        let mut run = Self::new(envelope, name);
        let server = "llama-server:shared";
        let mut theirs = arm(992);
        for field in [
            "prefill_tokens_computed",
            "prefix_tokens_hit",
            "carried_tokens",
            "replayed_tokens",
            "reuse_rate",
            "prefill_ns",
            "decode_ns",
            "kv_bytes_peak",
        ] {
            theirs[field] = Value::Null;
        }
        theirs["provenance"] = json!("OBSERVED");
        theirs["wall_ns"] = json!(4_960_000_000_u64);
        theirs["score"] = json!({ "tokens": 1440, "exact_tokens": 1433, "exact_share": 0.995_139,
                                  "worst_micronats": 40_000, "first_divergence": null, "beyond_margin": null });
        theirs["server"] = json!({ "program": {
            "name": "llama-server", "sha256": null, "libraries_sha256": null, "version": null, "arguments": []
        }, "settings": null });
        run.record["arms"][server] = theirs;
        let mut over = ratio("fused", server, 5.0, "FASTER");
        (over["prefill_tokens"], over["prefill"]) = (Value::Null, Value::Null);
        run.record["ratios"].as_array_mut().unwrap().push(over);
        run.declared["run"]["arms"]
            .as_array_mut()
            .unwrap()
            .push(json!(server));
        run.record["envelope_sha256"] = json!(sha256_hex(run.declared.to_string().as_bytes()));
        run
    }

    /// The same, with the server's settings as ours and five samples of each side: ours take a second, theirs `seconds`.
    pub(crate) fn timed_beside_a_server(
        envelope: &str,
        name: &'static str,
        seconds: [f64; 5],
    ) -> Self {
        let mut run = Self::beside_a_server(envelope, name);
        let server = "llama-server:shared";
        let samples = |walls: [f64; 5]| -> Vec<Value> {
            let sample = |(rep, wall): (usize, f64)| {
                json!({ "rep": rep, "load_ns": 1, "warmup_ns": 1, "wall_ns": (wall * 1e9) as u64, "prefill_ns": null,
                        "decode_ns": null, "kv_bytes_peak": null, "rss_bytes_peak": null })
            };
            walls.into_iter().enumerate().map(sample).collect()
        };
        run.record["arms"]["fused"]["samples"] = json!(samples([1.0; 5]));
        run.record["arms"][server]["samples"] = json!(samples(seconds));
        run.record["arms"][server]["prefix_tokens_hit"] = json!(1);
        run.record["arms"][server]["server"]["settings"] = json!({
            "build": null, "cpu": null, "threads": 2, "slots": 3, "slot_positions": 4096, "flash_attention": false,
            "kv_unified": false, "kv_dtype": "f32"
        });
        let mut sorted = seconds;
        sorted.sort_by(f64::total_cmp);
        let ratios = run.record["ratios"].as_array_mut().unwrap();
        let over = ratios.iter_mut().find(|it| it["denominator"] == server);
        over.unwrap()["wall"] = json!(sorted[2]);
        run
    }

    /// With one field of the record, named by JSON pointer, set to `value`.
    pub(crate) fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        *self.record.pointer_mut(pointer).unwrap() = value.into();
        self
    }

    /// With `naive` in its first turns only: its ratios have no times.
    pub(crate) fn with_short_naive(mut self, turns: u64) -> Self {
        self.declared["run"]["arm_turns"] = json!({ "naive": turns });
        self.record["envelope_sha256"] = sha256_hex(self.declared.to_string().as_bytes()).into();
        for ratio in self.record["ratios"].as_array_mut().unwrap() {
            if ratio["denominator"] != "naive" {
                continue;
            }
            for field in ["wall", "wall_low", "wall_high", "prefill", "verdict"] {
                ratio[field] = Value::Null;
            }
            let arm = ratio["arm"].as_str().unwrap().to_owned();
            ratio["withheld"] = format!("unequal turns: {arm} 6, naive {turns}").into();
        }
        self
    }

    /// With one field of the envelope, named by JSON pointer to what holds it and its name, set to `value`.
    pub(crate) fn asking(mut self, pointer: &str, field: &str, value: impl Into<Value>) -> Self {
        self.declared.pointer_mut(pointer).unwrap()[field] = value.into();
        self.record["envelope_sha256"] = sha256_hex(self.declared.to_string().as_bytes()).into();
        self
    }

    pub(crate) fn on_day(self, day: u64) -> Self {
        self.with("/sittings/0/started_unix_s", day * DAY_S)
    }

    pub(crate) fn path(&self) -> String {
        format!(
            "{}/{}",
            self.record["envelope"].as_str().unwrap(),
            self.name
        )
    }

    fn files(&self) -> [(&'static str, String); 3] {
        [
            ("envelope.json", self.declared.to_string()),
            ("run.json", self.record.to_string()),
            ("trace/fused-0.jsonl", String::new()),
        ]
    }
}

fn arm(computed: u64) -> Value {
    json!({
        "reps": 5, "completed": 5, "error": null, "provenance": "WITNESSED", "cache": "shared", "batched": true,
        "note": null, "requests": 18, "prefill_tokens_computed": computed, "prefill_tokens_logical": 11_376,
        "prefix_tokens_hit": 11_376 - computed, "decode_tokens": 288, "carried_tokens": 0, "replayed_tokens": 0,
        "oracle_prefill_tokens": computed, "reuse_rate": (11_376 - computed) as f64 / 11_376.0,
        "wall_ns": computed * 1_000_000, "prefill_ns": computed * 900_000, "decode_ns": 1_000_000,
        "kv_bytes_peak": 1 << 20, "rss_bytes_peak": null, "output_sha256": null, "logits_sha256": null, "samples": []
    })
}

fn ratio(arm: &str, denominator: &str, times: f64, verdict: &str) -> Value {
    json!({
        "arm": arm, "denominator": denominator, "label": if denominator == "naive" { Some("floor") } else { None },
        "pairs": 5, "prefill_tokens": times, "wall": times, "wall_low": times * 0.99, "wall_high": times * 1.01,
        "prefill": times, "verdict": verdict, "withheld": null
    })
}
