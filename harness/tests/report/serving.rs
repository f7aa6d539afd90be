//! The page on serving: status follows claims, cells follow runs, and nothing of it can be edited or typed in.
//!
//! Not here: verdicts of the scorecard and numbers of claims, which have tests of their own.

use std::fs;
use std::path::Path;

use crate::fixture::{Repository, Run, SERVING};

const PAGE: &str = "reports/SERVING.md";

/// A repository in which `session-50x5` was run beside another engine.
fn published(bend: impl Fn(Run) -> Run) -> Repository {
    let repository = Repository::published();
    let run = Run::timed_beside_a_server("session-50x5", "first", [3.0; 5]);
    repository.anchor(&bend(run));
    repository.report();
    repository
}

/// A row of the table of an envelope.
fn row(repository: &Repository, envelope: &str, what: &str) -> String {
    let page = repository.read(PAGE);
    let (_, table) = page.split_once(&format!("\n### `{envelope}`\n")).unwrap();
    let mut lines = table.lines();
    let line = lines.find(|line| line.starts_with(&format!("| {what} |")));
    line.unwrap_or_else(|| panic!("no row {what} in\n{table}"))
        .to_owned()
}

/// What is changed in the file, to what, and what is said of it.
const REFUSED: [(&str, &str, &str); 12] = [
    (
        "claims = [\"fan-out-in-waves\", \"shared-prefix\"]",
        "claims = [\"fused-over-instance-shared\"]",
        "`paged-cache`: says shipped, and no claim with the tag SHIPPED speaks for it",
    ),
    (
        "claims = [\"fan-out-in-waves\", \"shared-prefix\"]",
        "claims = []",
        "`paged-cache`: says shipped, and no claim with the tag SHIPPED",
    ),
    (
        "claims = [\"agrees-with-transformers\"]",
        "claims = []",
        "`quantisation`: says `in part`, and no claim says of what",
    ),
    (
        "claims = []",
        "claims = [\"same-bits\"]",
        "`tensor-parallel`: says `not here`, and has claims",
    ),
    (
        "\"radix-streams-live\"",
        "\"radix-streams\"",
        "`prefix-reuse`: there is no claim `radix-streams`",
    ),
    (
        "\"goodput-under-slo\"",
        "\"goodput\"",
        "`continuous-batching`: the scorecard has no row `goodput`",
    ),
    (
        "rows = [\"kv-cache-aware-routing\", \"model-routing-granularity\"]",
        "rows = []",
        "`routing`: names no row of the scorecard",
    ),
    (
        "id = \"batching\"",
        "id = \"prefix-reuse\"",
        "`prefix-reuse` stands there twice",
    ),
    (
        "missing = \"All of it.\"",
        "missing = \"\"",
        "`speculation` has an empty field",
    ),
    (
        "status = \"shipped\"",
        "status = \"done\"",
        "unknown variant `done`",
    ),
    (
        "arm = \"fused\"",
        "arm = \"faster\"",
        "`faster` is no arm of sessions",
    ),
    (
        "fak.serving/1",
        "fak.serving/2",
        "schema fak.serving/2, not fak.serving/1",
    ),
];

#[test]
fn status_that_does_not_follow_from_claims_and_names_that_are_not_there_are_refused_by_name() {
    for (from, to, words) in REFUSED {
        let repository = Repository::published();
        repository.edit(SERVING[0], from, to);
        let before = repository.read(PAGE);
        let (message, code) = repository.refusal();
        assert!(
            message.starts_with("reports/serving.toml: ") && message.contains(words),
            "{message}\nlacks {words}"
        );
        assert_eq!((code, repository.read(PAGE)), (1, before), "{words}");
    }
}

#[test]
fn a_claim_that_loses_its_tag_takes_the_status_with_it() {
    let repository = Repository::published();
    for id in ["fan-out-in-waves", "shared-prefix"] {
        repository.edit(
            "reports/claims.toml",
            &format!("id = \"{id}\"\ntag = \"SHIPPED\""),
            &format!("id = \"{id}\"\ntag = \"STUB\""),
        );
    }
    let (message, code) = repository.refusal();
    assert_eq!(code, 1);
    assert!(message.contains("`paged-cache`: says shipped"), "{message}");
}

#[test]
fn a_changed_character_fails_the_check() {
    let repository = published(|run| run);
    let path = repository.path(PAGE);
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(211) {
        let mut edited = good.clone();
        edited[at] ^= 1;
        fs::write(&path, &edited).unwrap();
        let outcome = repository.check().unwrap();
        assert_eq!(outcome.exit_code(), 1, "byte {at}");
        assert!(
            outcome
                .render(None)
                .contains(&format!("{PAGE}: differs first"))
        );
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(repository.check().unwrap().exit_code(), 0);
    fs::remove_file(&path).unwrap();
    assert_eq!(repository.check().unwrap().exit_code(), 1);
}

#[test]
fn cells_are_those_of_the_run_with_who_counted_them() {
    let repository =
        published(|run| run.with("/arms/llama-server:shared/prefill_tokens_computed", 1234));
    for (what, cells) in [
        (
            "prompt tokens computed",
            "1 234 (OBSERVED) | 992 (WITNESSED) | 992 (WITNESSED) |",
        ),
        (
            "share of positions found in a cache",
            "not reported | 91.3 % (WITNESSED) | 91.3 % (WITNESSED) |",
        ),
        (
            "wall, median",
            "4.96 s (WITNESSED, n = 5) | 992.0 ms (WITNESSED, n = 5) | 992.0 ms (WITNESSED, n = 5) |",
        ),
        (
            "KV peak",
            "not reported | 1.0 MiB (WITNESSED) | 1.0 MiB (WITNESSED) |",
        ),
        (
            "decoding",
            "all agents in flight | all agents in flight | all agents in flight |",
        ),
    ] {
        let found = row(&repository, "session-50x5", what);
        assert_eq!(found, format!("| {what} | {cells}"));
    }
    let set = row(&repository, "session-50x5", "set to");
    let theirs = "keys and values in f32, fused attention off (OBSERVED)";
    assert!(
        set.contains(theirs) && set.contains("| keys and values in f32 |"),
        "{set}"
    );
    let over = row(&repository, "session-50x5", "`fused` over it, wall");
    assert!(
        over.contains("| 3.00× (") && over.ends_with("| itself |"),
        "{over}"
    );
    let answers = row(&repository, "session-50x5", "answers");
    assert!(
        answers.contains("99.5 % of 1 440 tokens are the best by our model"),
        "{answers}"
    );
    assert!(
        answers.contains("the worst 0.04 nats below it, all within the margin"),
        "{answers}"
    );
    assert!(
        answers.contains("the same bits in 4 arms of ours"),
        "{answers}"
    );
    let page = repository.read(PAGE);
    assert!(
        page.contains("Not run in it: `llama-server:agent`."),
        "{page}"
    );
    assert!(
        page.contains("[first](../results/session-50x5/first)"),
        "{page}"
    );
    let across = row(&repository, "session-50x5", "across workers");
    assert!(across.contains("not built yet"), "{across}");
}

#[test]
fn a_cell_follows_the_evidence() {
    let wall = |run: &Repository| row(run, "session-50x5", "wall, median");
    let before = wall(&published(|run| run));
    let after = wall(&published(|run| {
        run.with("/arms/fused/wall_ns", 777_000_000_u64)
    }));
    assert!(
        !before.contains("777.0 ms") && after.contains("777.0 ms"),
        "{before}\n{after}"
    );
    let withheld = published(|run| {
        let at = "/ratios/4";
        let run = run.with(&format!("{at}/withheld"), "outside the margin: somewhere");
        run.with(&format!("{at}/wall"), serde_json::Value::Null)
    });
    let over = row(&withheld, "session-50x5", "`fused` over it, wall");
    assert!(
        over.contains("withheld: outside the margin: somewhere"),
        "{over}"
    );
    let failed = published(|run| {
        let arm = "/arms/instance-shared";
        let run = run.with(&format!("{arm}/error"), "out of pages");
        run.with(&format!("{arm}/completed"), 4)
    });
    let failed = row(&failed, "session-50x5", "wall, median");
    assert!(failed.contains("failed in 1 of 5"), "{failed}");
}

#[test]
fn what_the_group_loses_stands_on_the_page_or_there_is_none() {
    let repository = published(|run| run);
    let page = repository.read(PAGE);
    assert!(page.contains("- `zero-shared`: "), "{page}");
    assert!(page.contains("](../results/zero-shared/first)"), "{page}");
    repository.edit(SERVING[1], "{% for run in losing %}", "{% for run in [] %}");
    let (message, code) = repository.refusal();
    assert_eq!(code, 1);
    assert!(
        message.contains("reports/SERVING.md links results/")
            && message.contains("made for us to lose"),
        "{message}"
    );
}

#[test]
fn a_number_typed_into_the_file_or_its_template_is_found() {
    for (file, from, to) in [
        (SERVING[0], "what = \"A cheap", "what = \"A 3 times cheaper"),
        (SERVING[0], "across = \"each", "across = \"each of 2"),
        (SERVING[1], "Everybody is asked", "All 5 are asked"),
    ] {
        let repository = Repository::published();
        repository.edit(file, from, to);
        let (message, code) = repository.refusal();
        assert_eq!(code, 1);
        assert!(message.starts_with(&format!("{file}:")), "{message}");
    }
}

#[test]
fn without_runs_the_page_says_so_and_has_no_figure() {
    let repository = Repository::new();
    repository.report();
    let page = repository.read(PAGE);
    assert!(
        page.contains("has a run that speaks yet, so there is no figure"),
        "{page}"
    );
    assert!(
        page.contains("waits for a run of `session-small`"),
        "{page}"
    );
    assert!(!page.contains("WITNESSED) |"), "{page}");
}

#[test]
fn the_committed_page_has_ten_optimisations_and_every_alternative() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join(PAGE)).unwrap();
    assert_eq!(page.matches("\n- not shown: ").count(), 10);
    let (_, table) = page.split_once("\n### `session-50x5`\n").unwrap();
    let header = "| | `llama-server:agent` | `llama-server:shared` | `instance-shared` | `fused` |";
    assert!(table.contains(header), "{table}");
}
