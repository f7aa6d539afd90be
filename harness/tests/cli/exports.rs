//! Results handed to others in layouts that other tools read.
//!
//! Not here: SQL (`queries`). Figures are held against run.json and the traces, read here with nothing of the program under test but its types.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use workloads::trace::{Body, Line};

use super::{Finished, Place, read_json};

pub(crate) const FEW_SHOT: &str = "results/radix-few-shot/2026-11-30-x86_64-avx512-2c-2";
pub(crate) const SMOKE: &str = "results/smoke/2026-11-30-x86_64-avx512-2c-3";
const FIFTY: &str = "results/session-50x5/2026-11-30-x86_64-avx512-2c-3";
const DECODE: &str = "results/engine-decode/2026-11-30-x86_64-avx512-2c-1";

pub(crate) fn root() -> PathBuf {
    let harness = Path::new(env!("CARGO_MANIFEST_DIR"));
    harness.parent().unwrap().to_owned()
}

/// The program at the root of the repository, where the committed results are.
pub(crate) fn here(arguments: &[&str]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    let output = command.args(arguments).current_dir(root()).output();
    Finished {
        output: output.unwrap(),
    }
}

/// Exports to `name` in a place of its own; returns where.
fn exported(place: &Place, name: &str, arguments: &[&str]) -> PathBuf {
    let out = place.work().join(name);
    let rest = ["--out", out.to_str().unwrap()];
    let arguments: Vec<&str> = ["export"]
        .iter()
        .chain(arguments)
        .chain(&rest)
        .copied()
        .collect();
    here(&arguments).expect(0);
    out
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A copy of a committed run that may be spoilt.
pub(crate) fn copy(place: &Place, run: &str) -> PathBuf {
    let to = place.work().join("copy");
    fs::create_dir_all(to.join("trace")).unwrap();
    for (from, to) in [
        (root().join(run), to.clone()),
        (root().join(run).join("trace"), to.join("trace")),
    ] {
        for name in names(&from) {
            if from.join(&name).is_file() {
                fs::copy(from.join(&name), to.join(&name)).unwrap();
            }
        }
    }
    to
}

#[track_caller]
fn close(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap_or(f64::NAN);
    let tolerance = expected.abs() * 1e-12;
    assert!(
        (found - expected).abs() <= tolerance,
        "{found} is not {expected}"
    );
}

/// What a trace says of requests: prompt tokens, output tokens, and of each when its tokens came.
struct Read {
    input: u64,
    output: u64,
    tokens_ns: Vec<Vec<u64>>,
}

fn read_trace(path: &Path) -> Read {
    let text = fs::read_to_string(path).unwrap();
    let mut read = Read {
        input: 0,
        output: 0,
        tokens_ns: Vec::new(),
    };
    for line in text.lines() {
        match serde_json::from_str::<Line>(line).unwrap().body {
            Body::Request { prompt_len, .. } => read.input += prompt_len as u64,
            Body::Finish {
                ids, token_t_ns, ..
            } => {
                read.output += ids.len() as u64;
                read.tokens_ns.push(token_t_ns);
            }
            _ => {}
        }
    }
    read
}

fn mean(values: impl Iterator<Item = u64>) -> f64 {
    let values: Vec<u64> = values.collect();
    values.iter().sum::<u64>() as f64 / values.len() as f64
}

#[test]
fn a_bench_file_says_of_a_repetition_what_its_trace_and_record_say() {
    let place = Place::new();
    let out = exported(
        &place,
        "bench",
        &[FEW_SHOT, "--format", "vllm-bench", "--arm", "fused"],
    );
    let record = read_json(&root().join(FEW_SHOT).join("run.json"));
    let arm = &record["arms"]["fused"];
    let samples = arm["samples"].as_array().unwrap();
    assert_eq!(names(&out).len(), samples.len());
    for sample in samples {
        let rep = sample["rep"].as_u64().unwrap();
        let file = read_json(&out.join(format!("fused-{rep}.json")));
        let read = read_trace(
            &root()
                .join(FEW_SHOT)
                .join(format!("trace/fused-{rep}.jsonl")),
        );
        let seconds = sample["wall_ns"].as_u64().unwrap() as f64 / 1e9;
        close(&file["duration"], seconds);
        assert_eq!(file["completed"], arm["requests"]);
        assert_eq!(file["failed"], 0);
        assert_eq!(file["total_input_tokens"], read.input);
        assert_eq!(file["total_input_tokens"], arm["prefill_tokens_logical"]);
        assert_eq!(file["total_output_tokens"], read.output);
        assert_eq!(file["total_output_tokens"], arm["decode_tokens"]);
        close(&file["output_throughput"], read.output as f64 / seconds);
        close(
            &file["total_token_throughput"],
            (read.input + read.output) as f64 / seconds,
        );
        close(
            &file["mean_ttft_ms"],
            mean(read.tokens_ns.iter().map(|it| it[0])) / 1e6,
        );
        close(
            &file["mean_e2el_ms"],
            mean(read.tokens_ns.iter().map(|it| it[it.len() - 1])) / 1e6,
        );
        let gaps = read
            .tokens_ns
            .iter()
            .flat_map(|it| it.windows(2).map(|pair| pair[1] - pair[0]));
        close(&file["mean_itl_ms"], mean(gaps) / 1e6);
        let several = read.tokens_ns.iter().filter(|it| it.len() > 1);
        let each = several.map(|it| (it[it.len() - 1] - it[0]) / (it.len() as u64 - 1));
        close(&file["mean_tpot_ms"], mean(each) / 1e6);
        assert_eq!(file["backend"], "fak");
        assert_eq!(file["model_id"], record["model"]["name"]);
        let fak = &file["fak"];
        assert_eq!(fak["run"], FEW_SHOT.strip_prefix("results/").unwrap());
        assert_eq!(fak["build"]["commit"], record["build"]["commit"]);
        assert_eq!(fak["provenance"], "WITNESSED");
        assert_eq!(fak["anchored"], true);
        assert_eq!(fak["sample"], *sample);
    }
}

#[test]
fn medians_of_one_repetition_are_those_of_its_requests_and_no_percentile_stands_without_the_values_for_it()
 {
    let place = Place::new();
    let out = exported(&place, "bench", &[FEW_SHOT, "--format", "vllm-bench"]);
    let needed = BTreeMap::from([("p90", 64), ("p95", 130), ("p99", 662), ("p99.9", 6636)]);
    let (mut stated, mut withheld) = (0, 0);
    for name in names(&out) {
        let file = read_json(&out.join(&name));
        let requests = file["completed"].as_u64().unwrap();
        let tokens = file["total_output_tokens"].as_u64().unwrap();
        for (percentile, needed) in &needed {
            for (family, count) in [
                ("ttft", requests),
                ("e2el", requests),
                ("itl", tokens - requests),
            ] {
                let found = &file[format!("{percentile}_{family}_ms")];
                assert_eq!(
                    found.is_number(),
                    count >= *needed,
                    "{name}: {percentile} of {count} {family}"
                );
                stated += usize::from(found.is_number());
                withheld += usize::from(!found.is_number());
            }
        }
        let said = file["fak"]["left_out"]["ttft"].as_str().unwrap();
        assert!(said.contains("p99 needs 662"), "{said}");
    }
    assert!(
        stated > 0 && withheld > 0,
        "{stated} stated, {withheld} withheld"
    );
    let rep = read_json(&out.join("fused-0.json"));
    let read = read_trace(&root().join(FEW_SHOT).join("trace/fused-0.jsonl"));
    let mut first: Vec<u64> = read.tokens_ns.iter().map(|it| it[0]).collect();
    first.sort_unstable();
    let half = first.len() / 2;
    let median = if first.len() % 2 == 1 {
        first[half] as f64
    } else {
        (first[half - 1] + first[half]) as f64 / 2.0
    };
    close(&rep["median_ttft_ms"], median / 1e6);
}

#[test]
fn of_another_engine_whose_answers_came_whole_no_first_token_is_told() {
    let place = Place::new();
    let arm = "llama-server:shared";
    let record = read_json(&root().join(FIFTY).join("run.json"));
    for (format, absent, there) in [
        (
            "vllm-bench",
            ["mean_ttft_ms", "mean_tpot_ms", "mean_itl_ms"],
            "mean_e2el_ms",
        ),
        (
            "aiperf",
            [
                "time_to_first_token",
                "inter_token_latency",
                "inter_chunk_latency",
            ],
            "request_latency",
        ),
    ] {
        let out = exported(&place, format, &[FIFTY, "--format", format, "--arm", arm]);
        assert_eq!(
            names(&out).len(),
            record["arms"][arm]["samples"].as_array().unwrap().len()
        );
        let file = read_json(&out.join("llama-server.shared-0.json"));
        for name in absent {
            assert!(file.get(name).is_none(), "{format} has {name}");
        }
        assert!(!file[there].is_null(), "{format} has no {there}");
        assert_eq!(file["fak"]["provenance"], "OBSERVED");
        assert_eq!(file["fak"]["engine"], "llama-server");
        assert!(
            file["fak"]["left_out"]["ttft"]
                .as_str()
                .unwrap()
                .contains("not measured")
        );
        assert_eq!(file["fak"]["score"], record["arms"][arm]["score"]);
    }
}

#[test]
fn the_aiperf_layout_and_the_bench_layout_say_the_same() {
    let place = Place::new();
    let bench = exported(&place, "bench", &["smoke", "--format", "vllm-bench"]);
    let aiperf = exported(&place, "aiperf", &["smoke", "--format", "aiperf"]);
    assert_eq!(names(&bench), names(&aiperf));
    for name in names(&bench) {
        let (bench, aiperf) = (
            read_json(&bench.join(&name)),
            read_json(&aiperf.join(&name)),
        );
        for (flat, nested) in [
            ("completed", "request_count"),
            ("failed", "error_request_count"),
            ("output_throughput", "output_token_throughput"),
            ("mean_ttft_ms", "time_to_first_token"),
            ("mean_tpot_ms", "inter_token_latency"),
            ("mean_e2el_ms", "request_latency"),
        ] {
            close(&aiperf[nested]["avg"], bench[flat].as_f64().unwrap());
        }
        assert_eq!(aiperf["request_latency"]["p50"], bench["median_e2el_ms"]);
        assert_eq!(aiperf["request_latency"]["unit"], "ms");
    }
}

#[test]
fn rows_of_llama_bench_are_the_samples_of_every_arm_and_cells_of_several_agents_are_named() {
    let rows = here(&["export", DECODE, "--format", "llama-bench", "--out", "-"])
        .expect(0)
        .json();
    let record = read_json(&root().join(DECODE).join("run.json"));
    let asked = read_json(&root().join(DECODE).join("envelope.json"));
    let mut seen = BTreeSet::new();
    for row in rows.as_array().unwrap() {
        let (cell, arm) = (
            row["fak"]["cell"].as_str().unwrap(),
            row["fak"]["arm"].as_str().unwrap(),
        );
        seen.insert((cell.to_owned(), arm.to_owned()));
        let cells = record["cells"].as_array().unwrap();
        let recorded = &cells.iter().find(|it| it["name"] == cell).unwrap()["arms"][arm];
        let declared = asked["workload"]["cells"].as_array().unwrap();
        let declared = declared.iter().find(|it| it["name"] == cell).unwrap();
        let samples = recorded["samples"].as_array().unwrap();
        let times: Vec<&Value> = samples.iter().map(|it| &it["timed_ns"]).collect();
        assert_eq!(
            row["samples_ns"]
                .as_array()
                .unwrap()
                .iter()
                .collect::<Vec<_>>(),
            times
        );
        assert_eq!(row["n_gen"], declared["decode"]);
        assert_eq!(row["n_depth"], declared["depth"]);
        let rates = row["samples_ts"].as_array().unwrap();
        for (rate, time_ns) in rates.iter().zip(&times) {
            let tokens = row["n_prompt"].as_u64().unwrap() + row["n_gen"].as_u64().unwrap();
            close(rate, tokens as f64 * 1e9 / time_ns.as_f64().unwrap());
        }
        let mut rates: Vec<f64> = rates.iter().map(|it| it.as_f64().unwrap()).collect();
        rates.sort_by(f64::total_cmp);
        let median = (rates[rates.len() / 2] * 1e6).round() / 1e6;
        assert_eq!(recorded["tokens_per_s"], median);
        assert_eq!(row["model_filename"], record["model"]["name"]);
        assert_eq!(row["n_threads"], record["effective"]["threads"]);
        assert_eq!(row["type_k"], record["effective"]["kv_dtype"]);
    }
    let cells = record["cells"].as_array().unwrap();
    let arms = cells
        .iter()
        .map(|it| it["arms"].as_object().unwrap().len())
        .sum::<usize>();
    assert_eq!(seen.len(), arms);
    here(&[
        "export",
        "engine-fleet",
        "--format",
        "llama-bench",
        "--out",
        "-",
    ])
    .expect(0)
    .complains(&["16-agents", "one sequence"]);
}

#[test]
fn a_table_of_one_arm_as_csv_has_its_rows_alone() {
    let arguments = [
        "export", FEW_SHOT, "--format", "csv", "--arm", "fused", "--out", "-",
    ];
    let text = here(&arguments).expect(0).stdout();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|it| *it == name).unwrap();
    let (arm, wall) = (column("arm"), column("wall_ns"));
    let record = read_json(&root().join(FEW_SHOT).join("run.json"));
    let samples = record["arms"]["fused"]["samples"].as_array().unwrap();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), samples.len());
    for (row, sample) in rows.iter().zip(samples) {
        assert_eq!(row[arm], "fused");
        assert_eq!(row[wall], sample["wall_ns"].to_string());
    }
}

#[test]
fn parquet_begins_and_ends_as_such_and_is_not_written_to_a_terminal() {
    let place = Place::new();
    let out = exported(&place, "all.parquet", &["--all", "--format", "parquet"]);
    let bytes = fs::read(out).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    assert_eq!(
        names(&place.work()),
        ["all.parquet"],
        "no temporary is left"
    );
    here(&["export", "smoke", "--format", "parquet", "--out", "-"])
        .expect(2)
        .complains(&["--out a path"]);
}

#[test]
fn what_exists_is_never_overwritten_and_what_cannot_be_exported_leaves_nothing() {
    let place = Place::new();
    let bench = exported(&place, "bench", &["smoke", "--format", "vllm-bench"]);
    let before = fs::read(bench.join("fused-0.json")).unwrap();
    let again = [
        "export",
        "smoke",
        "--format",
        "vllm-bench",
        "--out",
        bench.to_str().unwrap(),
    ];
    here(&again)
        .expect(2)
        .complains(&["nothing is overwritten"]);
    assert_eq!(fs::read(bench.join("fused-0.json")).unwrap(), before);
    let out = place.work().join("new");
    let out = out.to_str().unwrap();
    for (arguments, words) in [
        (
            vec!["smoke", "--format", "vllm-bench", "--arm", "fusd"],
            "did you mean fused?",
        ),
        (
            vec!["smok", "--format", "vllm-bench"],
            "did you mean smoke?",
        ),
        (vec!["smoke", "--format", "llama-bench"], "is a session"),
        (
            vec!["engine-decode", "--format", "aiperf"],
            "is engine work",
        ),
        (
            vec!["smoke", "--format", "aiperf", "--table", "runs"],
            "--table is for csv and parquet",
        ),
        (
            vec!["--all", "--format", "vllm-bench"],
            "--all is for csv and parquet",
        ),
        (
            vec![
                "smoke", "--format", "csv", "--table", "runs", "--arm", "fused",
            ],
            "tables that have arms",
        ),
        (vec!["smoke", "--format", "vllm"], "possible values"),
        (
            vec![
                "results/session-ladder/2026-11-30-counted-1",
                "--format",
                "csv",
            ],
            "counted and not run",
        ),
        (
            vec!["./nowhere", "--format", "csv"],
            "no directory ./nowhere",
        ),
    ] {
        let arguments: Vec<&str> = ["export"]
            .into_iter()
            .chain(arguments)
            .chain(["--out", out])
            .collect();
        here(&arguments).expect(2).complains(&[words]);
        assert!(!Path::new(out).exists(), "{arguments:?}");
    }
}

#[test]
fn a_run_whose_evidence_is_broken_is_neither_exported_nor_asked() {
    let place = Place::new();
    let run = copy(&place, SMOKE);
    let record = fs::read_to_string(run.join("run.json")).unwrap();
    let spoilt = record.replacen("\"wall_ns\": ", "\"wall_ns\": 1", 1);
    assert_ne!(spoilt, record);
    fs::write(run.join("run.json"), spoilt).unwrap();
    let run = run.to_str().unwrap();
    let out = place.work().join("out");
    let out = out.to_str().unwrap();
    for format in ["vllm-bench", "csv"] {
        here(&["export", run, "--format", format, "--out", out]).expect(4);
    }
    here(&["query", "SELECT * FROM samples", "--run", run]).expect(4);
    assert!(!Path::new(out).exists());
}
