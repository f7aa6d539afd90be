//! Bad inputs of a server as whole runs: each has its exit code, and what went wrong is said with the request it went wrong
//! in. baselines/BAD-INPUTS.md has the whole list. Not here: what only other wires can say (`baselines/tests/wire`).

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::read_json;
use super::servers::{Stage, ratio};

/// What the server does, the exit code, what the failed arm says, what the auditor says.
struct Case {
    does: &'static str,
    code: i32,
    failed: &'static [&'static str],
    broken: &'static [&'static str],
}

/// A server that fails an arm.
const fn fails(does: &'static str, failed: &'static [&'static str]) -> Case {
    Case {
        does,
        code: 5,
        failed,
        broken: &[],
    }
}

/// A server that says what cannot be.
const fn breaks(does: &'static str, broken: &'static [&'static str]) -> Case {
    Case {
        does,
        code: 4,
        failed: &[],
        broken,
    }
}

#[test]
fn each_has_its_exit_code_and_names_the_request() {
    for case in [
        fails("refuses all", &["a probe", "503", "busy"]),
        fails("refuses", &["request a", "503", "busy"]),
        fails("dies in its answer", &["request a"]),
        fails(
            "counts more than came",
            &["request a", "5 tokens, and 4 came"],
        ),
        fails("counts what is no number", &["request a"]),
        fails("found more than was sent", &["request a"]),
        fails("cuts prompts", &["request a", "truncated"]),
        fails("cuts prompts in silence", &["request a"]),
        breaks("is warm", &["the probe salted found"]),
        breaks(
            "finds what it never saw",
            &["a0-t0: cached is", "beyond the oracle"],
        ),
    ] {
        let stage = Stage::new();
        let run = stage.run(&["run", "beside.toml", "--reps", "1", "--json"], case.does);
        let outcome = run.expect(case.code).json();
        for server in ["llama-server:shared", "llama-server:agent"] {
            let arm = &outcome["arms"][server];
            for word in case.failed {
                let said = arm["error"].as_str().unwrap_or("no error");
                assert!(said.contains(word), "{}: {server}: {said}", case.does);
            }
            if case.code == 5 {
                // Nothing measured is nothing, and no zero.
                assert_eq!(arm["wall"], Value::Null, "{}", case.does);
                assert!(ratio(&outcome, "fused", "instance-shared")["wall"].is_number());
            }
        }
        for word in case.broken {
            let dir = outcome["dir"].as_str().unwrap();
            let said = stage.run(&["audit", dir], "").expect(4).stdout();
            assert!(said.contains(word), "{}: {said}", case.does);
        }
    }
}

#[test]
fn a_cache_that_is_not_spoken_of_is_unknown_in_the_record_and_no_0() {
    let stage = Stage::new();
    let run = ["run", "beside.toml", "--reps", "1", "--json"];
    let outcome = stage.run(&run, "does not count its cache").expect(0).json();
    let arm = &outcome["arms"]["llama-server:agent"];
    assert_eq!(arm["reuse"], Value::Null);
    assert!(ratio(&outcome, "fused", "llama-server:agent")["wall"].is_number());
}

#[test]
fn a_pipe_loses_the_verdict_unless_the_shell_is_told_not_to() {
    let harness = env!("CARGO_BIN_EXE_harness");
    let status = |options: &str| {
        let script = format!("{options} \"$0\" audit nowhere 2>&1 | cat > /dev/null");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script, harness]);
        shell.status().unwrap().code()
    };
    assert_eq!(status(""), Some(0));
    assert_eq!(status("set -o pipefail;"), Some(2));
    // So is every script of this project that decides anything.
    for script in ["test.sh", ".ci/run"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(script);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains("set -euo pipefail"), "{script}");
    }
}

/// Ten requests a second, and an answer is good within so many milliseconds of when it was due.
fn ten_a_second(e2e_ms: u64) -> String {
    format!(
        "arrivals = {{ process = \"constant\", interval_us = 100000 }}\nslo = {{ e2e_ms = {e2e_ms} }}"
    )
}

#[test]
fn one_at_a_time_at_ten_a_second_shows_the_waiting_beside_the_service() {
    let stage = Stage::new();
    stage.declare(&ten_a_second(300), "[\"fused\", \"llama-server:agent\"]");
    let run = ["run", "beside.toml", "--reps", "1", "--json"];
    // A quarter of a second for each: the six are answered after 1.5 s, the last of them was due after 0.5 s.
    let outcome = stage.run(&run, "takes its time").expect(0).json();
    assert_eq!(outcome["audit_exit_code"], 0);
    let record = read_json(&Path::new(outcome["dir"].as_str().unwrap()).join("run.json"));
    let theirs = &record["arms"]["llama-server:agent"];
    let p50_ms = |kind: &str| {
        let p50 = &theirs["latencies"][kind]["percentiles"]["p50"]["nearest"];
        p50.as_u64().unwrap() / 1_000_000
    };
    let (service, scheduled) = (p50_ms("e2e_ns"), p50_ms("scheduled_e2e_ns"));
    assert!(service >= 250, "{service} ms");
    // The third was due after 0.2 s and cannot have been answered before 0.75 s.
    assert!(scheduled >= 550, "{scheduled} ms");
    // The second was due after 0.1 s and cannot have been answered before 0.5 s.
    let good = theirs["goodput"]["good"].as_u64().unwrap();
    assert!(theirs["goodput"]["offered"] == 6 && good <= 1, "{good}");
    let withheld = &ratio(&outcome, "fused", "llama-server:agent")["withheld"];
    assert_eq!(withheld, "requests come by the clock");
    let shown = stage.run(&run[..4], "takes its time").expect(0);
    let shown = shown.stderr() + &shown.stdout();
    for words in [
        "scheduled E2E p50",
        "good/s",
        "10.000 requests/s (constant)",
    ] {
        assert!(shown.contains(words), "no {words:?} in:\n{shown}");
    }
}

#[test]
fn an_arm_with_a_request_that_failed_has_no_goodput_however_many_were_good() {
    let stage = Stage::new();
    stage.declare(
        &ten_a_second(7_000_000),
        "[\"fused\", \"llama-server:agent\"]",
    );
    let run = ["run", "beside.toml", "--reps", "1", "--json"];
    let outcome = stage.run(&run, "refuses").expect(5).json();
    assert_eq!(outcome["audit_exit_code"], 0);
    let record = read_json(&Path::new(outcome["dir"].as_str().unwrap()).join("run.json"));
    let goodput = |arm: &str| record["arms"][arm]["goodput"].clone();
    assert_eq!(goodput("llama-server:agent"), Value::Null);
    assert_eq!(
        (&goodput("fused")["offered"], &goodput("fused")["good"]),
        (&6.into(), &6.into())
    );
}
