//! SQL over all results, and the tables it asks.
//!
//! Not here: files that other tools read (`exports`). Answers are held against run.json and results/INDEX.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::exports::{FEW_SHOT, SMOKE, copy, here, root};
use super::{Place, read_json};

#[test]
fn the_median_wall_by_arm_of_the_session_is_that_of_its_record() {
    let sql = "SELECT run, arm, MEDIAN(wall_ns) AS wall_ns FROM samples WHERE envelope = 'session-50x5' AND speaks \
               GROUP BY run, arm ORDER BY wall_ns";
    let answer = here(&["query", sql, "--json"]).expect(0).json();
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!(
        answer["columns"],
        serde_json::json!(["run", "arm", "wall_ns"])
    );
    let run = rows[0]["run"].as_str().unwrap();
    let record = read_json(&root().join("results").join(run).join("run.json"));
    let arms = record["arms"].as_object().unwrap();
    assert_eq!(rows.len(), arms.len());
    for row in rows {
        assert_eq!(row["run"], run, "one run speaks");
        let recorded = arms[row["arm"].as_str().unwrap()]["wall_ns"]
            .as_u64()
            .unwrap();
        assert_eq!(row["wall_ns"].as_f64().unwrap() as u64, recorded);
    }
    let walls: Vec<f64> = rows
        .iter()
        .map(|it| it["wall_ns"].as_f64().unwrap())
        .collect();
    assert!(walls.is_sorted());
    let shown = here(&["query", sql]).expect(0).stdout();
    assert_eq!(shown.lines().count(), 2 + rows.len());
    let csv = here(&["query", sql, "--csv"]).expect(0).stdout();
    assert!(csv.starts_with("run,arm,wall_ns\n"));
}

#[test]
fn every_sample_and_ratio_of_every_anchored_run_is_a_row() {
    let index = fs::read_to_string(root().join("results/INDEX")).unwrap();
    let mut expected = BTreeMap::new();
    for run in index.lines().map(|line| line.split_once("  ").unwrap().1) {
        let record = read_json(&root().join("results").join(run).join("run.json"));
        if record["schema"] != "fak.run/1" {
            continue;
        }
        let list = |value: &Value| value.as_array().map_or(0, Vec::len) as u64;
        let arms = |of: &Value| {
            of.as_object()
                .unwrap()
                .values()
                .map(|it| list(&it["samples"]))
                .sum::<u64>()
        };
        let cells = record["cells"].as_array().into_iter().flatten();
        let of_cells = cells.fold((0, 0), |(samples, ratios), cell| {
            (
                samples + arms(&cell["arms"]),
                ratios + list(&cell["ratios"]),
            )
        });
        let samples = arms(&record["arms"]) + of_cells.0;
        expected.insert(
            run.to_owned(),
            (samples, list(&record["ratios"]) + of_cells.1),
        );
    }
    let count = |table: &str| -> BTreeMap<String, u64> {
        let sql = format!("SELECT run, COUNT(*) AS n FROM {table} GROUP BY run");
        let answer = here(&["query", &sql, "--json"]).expect(0).json();
        let rows = answer["rows"].as_array().unwrap().iter();
        rows.map(|it| {
            (
                it["run"].as_str().unwrap().to_owned(),
                it["n"].as_u64().unwrap(),
            )
        })
        .collect()
    };
    let (samples, ratios, runs) = (count("samples"), count("ratios"), count("runs"));
    for (run, (expected_samples, expected_ratios)) in &expected {
        assert_eq!(
            samples.get(run).copied().unwrap_or(0),
            *expected_samples,
            "{run}"
        );
        assert_eq!(
            ratios.get(run).copied().unwrap_or(0),
            *expected_ratios,
            "{run}"
        );
        assert_eq!(runs[run], 1);
    }
    assert_eq!(runs.len(), expected.len());
}

#[test]
fn what_was_not_measured_is_null_and_no_zero() {
    let sql = "SELECT COUNT(*) AS n, COUNT(prefill_ns) AS prefill, COUNT(kv_bytes_peak) AS kv, COUNT(timed_ns) AS timed, \
               COUNT(wall_ns) AS wall FROM samples WHERE provenance = 'OBSERVED' AND cell IS NULL";
    let answer = here(&["query", sql, "--json"]).expect(0).json();
    let row = &answer["rows"][0];
    assert!(row["n"].as_u64().unwrap() > 10);
    assert_eq!(row["wall"], row["n"]);
    for nothing in ["prefill", "kv", "timed"] {
        assert_eq!(row[nothing], 0, "{nothing}");
    }
    let sql = "SELECT arm, rate FROM (SELECT arm, reuse_rate AS rate FROM samples WHERE cell IS NOT NULL) AS s LIMIT 1";
    let row = here(&["query", sql, "--json"]).expect(0).json()["rows"][0].clone();
    assert_eq!(row["rate"], Value::Null);
    let shown = here(&["query", sql]).expect(0).stdout();
    assert!(shown.trim_end().ends_with('-'), "{shown}");
}

#[test]
fn requests_are_those_of_the_traces_and_are_read_only_when_asked_for() {
    let sql = "SELECT arm, rep, COUNT(*) AS n, SUM(prompt_len) AS input, SUM(output_tokens) AS output, \
               SUM(matched) AS matched, SUM(computed) AS computed, MAX(finish_ns) - MIN(submit_ns) AS wall_ns \
               FROM requests GROUP BY arm, rep";
    let finished = here(&["query", sql, "--run", FEW_SHOT, "--json"])
        .expect(0)
        .complains(&["reading the traces"]);
    let record = read_json(&root().join(FEW_SHOT).join("run.json"));
    let answer = finished.json();
    let rows = answer["rows"].as_array().unwrap();
    let arms = record["arms"].as_object().unwrap();
    let expected: usize = arms
        .values()
        .map(|it| it["samples"].as_array().unwrap().len())
        .sum();
    assert_eq!(rows.len(), expected);
    for row in rows {
        let arm = &arms[row["arm"].as_str().unwrap()];
        let sample = &arm["samples"][row["rep"].as_u64().unwrap() as usize];
        for (found, stated) in [
            ("n", &arm["requests"]),
            ("input", &arm["prefill_tokens_logical"]),
            ("output", &arm["decode_tokens"]),
            ("matched", &arm["prefix_tokens_hit"]),
            ("computed", &arm["prefill_tokens_computed"]),
            ("wall_ns", &sample["wall_ns"]),
        ] {
            assert_eq!(&row[found], stated, "{found} of {row}");
        }
    }
    let quiet = here(&[
        "query",
        "SELECT SUM(requests) AS n FROM samples",
        "--run",
        FEW_SHOT,
    ])
    .expect(0);
    assert!(!quiet.stderr().contains("traces"));
}

#[test]
fn sql_that_cannot_be_answered_is_a_usage_error_that_lists_the_tables() {
    for sql in [
        "SELECT nothing FROM samples",
        "SELEKT",
        "DROP TABLE samples",
        "SELECT * FROM read_csv('README.md')",
        "SELECT 1 FROM nowhere",
        "",
        "SELECT * FROM samples; SELECT 2",
    ] {
        here(&["query", sql]).expect(2).complains(&[
            "samples",
            "requests",
            "wall_ns",
            "harness query --tables",
        ]);
    }
    let place = Place::new();
    place
        .run(&["query", "SELECT 1"])
        .expect(2)
        .complains(&["results/INDEX"]);
    here(&["query", "SELECT 1", "--run", "results/none"]).expect(2);
}

#[test]
fn the_tables_are_listed_with_a_meaning_for_every_column() {
    let listed = here(&["query", "--tables", "--json"]).expect(0).json();
    let shown = here(&["query"]).expect(0).stdout();
    let tables = listed["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 4);
    for table in tables {
        let name = table["name"].as_str().unwrap();
        let sql = format!("SELECT * FROM {name} LIMIT 0");
        let found = here(&["query", &sql, "--run", SMOKE, "--json"])
            .expect(0)
            .json();
        let columns = table["columns"].as_array().unwrap();
        let listed: Vec<&Value> = columns.iter().map(|it| &it["name"]).collect();
        assert_eq!(
            found["columns"]
                .as_array()
                .unwrap()
                .iter()
                .collect::<Vec<_>>(),
            listed
        );
        for column in columns {
            let meaning = column["meaning"].as_str().unwrap();
            assert!(meaning.len() > 3 && shown.contains(meaning), "{column}");
        }
    }
}

#[test]
fn anchored_evidence_that_changed_answers_no_query() {
    let place = Place::new();
    let results = place.work().join("results/smoke");
    fs::create_dir_all(&results).unwrap();
    let name = SMOKE.rsplit('/').next().unwrap();
    let run = results.join(name);
    fs::rename(copy(&place, SMOKE), &run).unwrap();
    let index = fs::read_to_string(root().join("results/INDEX")).unwrap();
    let line = index
        .lines()
        .find(|it| it.ends_with(name) && it.contains("  smoke/"))
        .unwrap();
    fs::write(place.work().join("results/INDEX"), format!("{line}\n")).unwrap();
    let sql = "SELECT COUNT(*) AS n FROM samples";
    assert!(place.run(&["query", sql]).expect(0).stdout().contains("25"));
    let trace = run.join("trace/fused-0.jsonl");
    let text = fs::read_to_string(&trace).unwrap();
    fs::write(&trace, text.replacen("\"seq\":1,", "\"seq\":2,", 1)).unwrap();
    place
        .run(&["query", sql])
        .expect(4)
        .complains(&["trace/fused-0.jsonl"]);
}

#[test]
fn an_arm_of_fewer_turns_is_told_by_its_turns_and_an_answer_our_model_rejects_by_a_flag() {
    let sql = "SELECT arm, turns, beyond_margin, MAX(requests) AS requests FROM samples WHERE run = \
               'session-50x5/2026-11-30-x86_64-avx512-2c-2' GROUP BY arm, turns, beyond_margin";
    let answer = here(&["query", sql, "--json"]).expect(0).json();
    let rows = answer["rows"].as_array().unwrap();
    let of = |arm: &str| rows.iter().find(|it| it["arm"] == arm).unwrap();
    assert_eq!(
        (&of("naive")["turns"], &of("naive")["requests"]),
        (&8.into(), &40.into())
    );
    assert_eq!(
        (&of("fused")["turns"], &of("fused")["requests"]),
        (&50.into(), &250.into())
    );
    assert_eq!(of("fused")["beyond_margin"], Value::Null);
    assert_eq!(of("llama-server:shared")["beyond_margin"], true);
}
