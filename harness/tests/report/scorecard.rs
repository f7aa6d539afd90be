//! The scorecard: verdicts follow samples, and what may not back one is refused.
//!
//! Not here: the rule itself, row by row; unit tests beside it do this.

use std::path::Path;
use std::process::Command;

use harness::report::scorecard::show::document_of;
use serde_json::Value;

use crate::fixture::{Repository, Run};

const EVIDENCE: &str = "reports/scorecard/evidence.toml";
const ROW: &str = "prefix-caching-kv-reuse";

/// A repository whose run of `session-small` has a server that takes `seconds` where ours takes one.
fn beside_a_server(seconds: [f64; 5]) -> Repository {
    let repository = published();
    let run = Run::timed_beside_a_server("session-small", "timed", seconds).on_day(101);
    repository.anchor(&run);
    repository
}

/// A repository without runs whose row wants no more engines than there are.
fn published() -> Repository {
    let repository = Repository::published();
    let missing = "missing = [\"llama-server with flash attention\"]\n";
    repository.edit(
        EVIDENCE,
        &format!("{missing}note = \"The same"),
        "note = \"The same",
    );
    repository
}

fn row(repository: &Repository, id: &str) -> Value {
    let document = document_of(&repository.path("")).unwrap();
    let rows = document["rows"].as_array().unwrap();
    rows.iter().find(|row| row["id"] == id).unwrap().clone()
}

#[test]
fn a_verdict_follows_the_samples_of_the_run_that_speaks() {
    for (seconds, verdict) in [
        ([3.0, 3.1, 2.9, 3.2, 3.0], "lead"),
        ([1.0, 1.01, 0.99, 1.02, 1.0], "parity"),
        ([0.5, 0.51, 0.49, 0.52, 0.5], "trails"),
        ([0.5, 3.0, 0.6, 1.0, 2.0], "no-claim"),
    ] {
        let repository = beside_a_server(seconds);
        let found = row(&repository, ROW);
        assert_eq!(found["verdict"], verdict, "{found:#}");
        assert_eq!(found["apples_to_apples"], true);
        repository.report();
        let page = repository.read("reports/scorecard/kv-cache.md");
        let (_, section) = page.split_once(&format!("<a id=\"{ROW}\">")).unwrap();
        assert!(section.contains(&format!("**{verdict}**")), "{section}");
        assert!(section.contains("(../../results/session-small/timed)"));
    }
}

#[test]
fn a_sample_that_its_own_ratio_does_not_follow_from_is_broken_evidence() {
    let repository = published();
    let run = Run::timed_beside_a_server("session-small", "timed", [3.0; 5]).on_day(101);
    let pointer = "/arms/llama-server:shared/samples";
    let run = [0, 1, 2].into_iter().fold(run, |run, rep| {
        run.with(&format!("{pointer}/{rep}/wall_ns"), 9_000_000_000_u64)
    });
    repository.anchor(&run);
    let (message, code) = repository.refusal();
    assert_eq!(code, 4, "{message}");
    assert!(
        message.contains(ROW) && message.contains("samples give 9"),
        "{message}"
    );
}

#[test]
fn unlike_settings_forbid_a_verdict_and_are_shown() {
    let repository = published();
    let run = Run::timed_beside_a_server("session-small", "timed", [3.0; 5]).on_day(101);
    let kv_dtype = "/arms/llama-server:shared/server/settings/kv_dtype";
    repository.anchor(&run.with(kv_dtype, "f16"));
    let found = row(&repository, ROW);
    assert_eq!(found["verdict"], "no-claim");
    assert_eq!(found["apples_to_apples"], false);
    let reason = found["reason"].as_str().unwrap();
    assert!(reason.contains("its cache holds f16, ours f32"), "{reason}");
}

#[test]
fn floors_and_arms_of_our_own_are_no_peers() {
    for over in ["naive", "agent-kv", "instance-shared", "nobody"] {
        let repository = beside_a_server([3.0; 5]);
        let peer = "{ run = \"session-small\", arm = \"fused\", over = \"";
        repository.edit(
            EVIDENCE,
            &format!("{peer}llama-server:shared"),
            &format!("{peer}{over}"),
        );
        let (message, code) = repository.refusal();
        assert_eq!(code, 1);
        let said = format!("`{ROW}`: `{over}` is no other engine");
        assert!(message.contains(&said), "{message}");
    }
}

#[test]
fn one_run_backs_one_verdict() {
    let repository = beside_a_server([3.0; 5]);
    let fleet = "run = \"fleet-8\", arm = \"fused\", over = \"llama-server:shared\"";
    repository.edit(EVIDENCE, fleet, &fleet.replace("fleet-8", "session-small"));
    let (message, code) = repository.refusal();
    assert_eq!(code, 1);
    for part in [
        ROW,
        "cross-agent-fleet-serving",
        "results/session-small/timed",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn evidence_of_another_season_backs_nothing() {
    let repository = beside_a_server([3.0; 5]);
    assert_eq!(row(&repository, ROW)["status"], "shipped");
    repository.anchor(&Run::new("smoke", "later").on_day(101 + 151));
    let found = row(&repository, ROW);
    assert_eq!(
        (&found["verdict"], &found["status"]),
        (&"no-claim".into(), &"in-flight".into())
    );
    assert!(
        found["reason"]
            .as_str()
            .unwrap()
            .contains("older than 150 days")
    );
}

#[test]
fn a_test_that_is_not_there_counts_for_nothing() {
    let repository = Repository::published();
    repository.edit(
        EVIDENCE,
        "#top_k_agrees_with_its_golden_vectors",
        "#no_such",
    );
    let (message, _) = repository.refusal();
    assert!(
        message.contains("sampler-coverage-correctness"),
        "{message}"
    );
    assert!(message.contains("has no test `no_such`"), "{message}");
}

#[test]
fn a_number_typed_into_a_note_is_found() {
    let repository = Repository::published();
    repository.edit(
        EVIDENCE,
        "note = \"A small model",
        "note = \"A 7 times small model",
    );
    let (message, _) = repository.refusal();
    assert!(
        message.starts_with("reports/scorecard/evidence.toml:"),
        "{message}"
    );
}

#[test]
fn the_committed_evidence_backs_verdicts_by_the_rule_and_losses_among_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let found = document_of(&root).unwrap();
    let count = |word: &str| found["counts"][word].as_u64().unwrap();
    let all = ["lead", "parity", "trails", "no-claim"].map(count);
    assert_eq!(all.iter().sum::<u64>(), 91);
    assert!(count("trails") > 0, "{:#}", found["counts"]);
    for row in found["rows"].as_array().unwrap() {
        let judged = row["verdict"] != "no-claim";
        let has_evidence = !row["evidence"].as_array().unwrap().is_empty();
        let alike = row["apples_to_apples"] == true || row["verdict"] == "trails";
        let stands = has_evidence && alike && row["status"] == "shipped";
        assert!(!judged || stands, "{row:#}");
        let class = row["dimension"]["class"].as_str().unwrap();
        let bound = ["ceiling", "oracle"].contains(&class);
        assert!(!(bound && row["verdict"] == "lead"), "{row:#}");
    }
}

fn scorecard(repository: &Repository, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_harness"))
        .arg("scorecard")
        .args(arguments)
        .current_dir(repository.path(""))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn the_command_shows_all_rows_or_one_and_checks_its_pages() {
    // Of the present, so that it is neither too old nor from the future.
    let today = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() / 86_400;
    let repository = published();
    let run = Run::timed_beside_a_server("session-small", "timed", [3.0; 5]).on_day(today);
    repository.anchor(&run);
    repository.report();
    let (code, text, _) = scorecard(&repository, &[]);
    assert_eq!(code, Some(0));
    for part in [
        "91 rows: ▲ 1 lead",
        ROW,
        "3× (3 to 3, n = 5)",
        "No verdict, and why:",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let (code, text, _) = scorecard(&repository, &[ROW]);
    assert_eq!(code, Some(0));
    assert!(
        text.starts_with(&format!("▲ {ROW}: lead (evidence: shipped)\n")),
        "{text}"
    );
    let (code, text, _) = scorecard(&repository, &["--json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &document["counts"]["lead"]), (Some(0), &1.into()));
    let (code, _, error) = scorecard(&repository, &["prefix-caching-kv-reus"]);
    assert_eq!(code, Some(2));
    assert!(error.contains(&format!("did you mean {ROW}")), "{error}");
    assert_eq!(scorecard(&repository, &["--check"]).0, Some(0));
    repository.edit("reports/scorecard/kv-cache.md", "**lead**", "**parity**");
    let (code, text, _) = scorecard(&repository, &["--check"]);
    assert_eq!(code, Some(1));
    assert!(
        text.starts_with("reports/scorecard/kv-cache.md: differs first"),
        "{text}"
    );
}

#[test]
fn evidence_that_got_too_old_to_speak_fails_the_check_by_name() {
    let repository = beside_a_server([3.0; 5]);
    repository.report();
    let (code, text, _) = scorecard(&repository, &["--check"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(
        text.contains(&format!("{ROW}: results/session-small/timed is older")),
        "{text}"
    );
}

#[test]
fn a_server_that_says_nothing_of_its_settings_is_not_alike() {
    let repository = published();
    let run = Run::timed_beside_a_server("session-small", "timed", [3.0; 5]).on_day(101);
    let settings = "/arms/llama-server:shared/server/settings";
    repository.anchor(&run.with(settings, Value::Null));
    let reason = row(&repository, ROW)["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("says nothing of its settings"), "{reason}");
}
