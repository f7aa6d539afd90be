//! No ratio of a group of envelopes stands on a page without what the group was made to lose.
//!
//! Not here: which envelopes those are; `workloads` holds its registry to account.

use serde_json::{Value, json};

use crate::fixture::{LOSING, PAGES, Repository, Run};

/// A repository with one fit run of each of these.
fn with(envelopes: &[&str]) -> Repository {
    let repository = Repository::new();
    for envelope in envelopes {
        repository.anchor(&Run::new(envelope, "first"));
    }
    repository
}

/// The refusal names the group, what speaks, what is missing, and what to type.
#[track_caller]
fn expect_unbalanced(repository: &Repository, losing: &str, why: &str) {
    let (message, code) = repository.refusal();
    for words in [
        "group `sharing` (What sharing a prefix saves): results/session-small/first speaks",
        &format!("`{losing}`, made for us to lose, has no anchored run that speaks{why}."),
        &format!("type `harness run {losing}`, then `harness anchor DIR`"),
        "then `harness report`",
    ] {
        assert!(message.contains(words), "{message}\nlacks: {words}");
    }
    assert_eq!(code, 1);
    assert_eq!(repository.check().unwrap_err().exit_code(), 1);
}

#[test]
fn a_group_without_a_run_of_what_it_loses_makes_no_page() {
    expect_unbalanced(&with(&["session-small"]), LOSING[0], "");
    for losing in LOSING {
        let others = LOSING.into_iter().filter(|it| *it != losing);
        let all: Vec<&str> = ["session-small"].into_iter().chain(others).collect();
        let repository = with(&all);
        expect_unbalanced(&repository, losing, "");
        for page in PAGES {
            assert!(!repository.path(page).exists(), "{page} was written");
        }
        repository.anchor(&Run::new(losing, "first"));
        repository.report();
        assert_eq!(repository.check().unwrap().exit_code(), 0);
    }
}

#[test]
fn a_losing_run_that_is_silent_or_has_no_ratio_is_as_good_as_none_and_said_to_be_there() {
    let lost = LOSING[1];
    let unfit = |pointer: &str, value: Value, why: &str| {
        let repository = with(&["session-small", LOSING[0]]);
        repository.anchor(&Run::new(lost, "first").with(pointer, value));
        expect_unbalanced(&repository, lost, &format!(": results/{lost}/first {why}"));
    };
    unfit(
        "/complete",
        json!(false),
        "is silent, incomplete: not every requested repetition ended well",
    );
    let none = "has no ratio of `fused` over an arm that is no floor, or all are withheld";
    unfit("/ratios", json!([]), none);
    let floor = json!([{
        "arm": "fused", "denominator": "naive", "label": "floor", "pairs": 5, "prefill_tokens": 2.0, "wall": 2.0,
        "wall_low": 2.0, "wall_high": 2.0, "prefill": 2.0, "verdict": "FASTER", "withheld": null
    }]);
    unfit("/ratios", floor, none);
    let withheld = json!([{
        "arm": "fused", "denominator": "instance-shared", "label": null, "pairs": 5, "prefill_tokens": 1.0, "wall": null,
        "wall_low": null, "wall_high": null, "prefill": null, "verdict": null, "withheld": "another reason"
    }]);
    unfit("/ratios", withheld, none);
}

#[test]
fn groups_that_lose_nothing_and_runs_of_losing_envelopes_need_nobody_beside_them() {
    for alone in [&["smoke"][..], &LOSING, &LOSING[1..], &["of-my-own"]] {
        with(alone).report();
    }
    let repository = Repository::new();
    repository.anchor(&Run::of_cells("engine-decode", "first"));
    repository.report();
    let authority = repository.read("BENCHMARK-AUTHORITY.md");
    assert!(
        authority.contains("No envelope of this group was made to lose"),
        "{authority}"
    );
}

#[test]
fn what_a_group_loses_stands_beside_its_ratios_and_first() {
    let repository = Repository::published();
    let authority = repository.read("BENCHMARK-AUTHORITY.md");
    let group = authority
        .split("\n### What sharing a prefix saves (`sharing`)\n")
        .nth(1)
        .unwrap();
    let rows: Vec<&str> = (group.split("\n## ").next().unwrap().lines())
        .filter(|line| {
            line.starts_with("| ") && !line.starts_with("| envelope") && !line.starts_with("| ---")
        })
        .collect();
    let expected: Vec<String> = LOSING
        .map(|name| format!("**`{name}`, made to lose**"))
        .into_iter()
        .chain(["`session-small`".into()])
        .flat_map(|name| {
            [
                (name.clone(), "instance-shared", "1.00×"),
                (name, "agent-kv", "2.03×"),
            ]
        })
        .map(|(name, over, times)| {
            format!("| {name} | 91.3 % | `{over}` | {times} | {times} | 5, ")
        })
        .collect();
    assert_eq!(rows.len(), expected.len(), "{rows:#?}");
    for (row, start) in rows.iter().zip(&expected) {
        assert!(row.starts_with(start), "{row}\nis not\n{start}");
    }
    // The fixture asks all of them what `session-small` asks.
    let changed = ", before the envelope's workload was changed |";
    for (row, start) in rows.iter().zip(&expected) {
        assert_eq!(
            row.ends_with(changed),
            start.contains("made to lose"),
            "{row}"
        );
    }
    let said = repository.report().render(None);
    let changed = "is unknown); its envelope asks another workload by now\n";
    assert!(
        said.contains(&format!(
            "speaks: zero-shared/first (whether its source changed since {changed}"
        )),
        "{said}"
    );
    assert!(
        said.contains(
            "speaks: session-small/first (whether its source changed since is unknown)\n"
        ),
        "{said}"
    );
    let claims = repository.read("CLAIMS.md");
    let words = "- `zero-shared`: `instance-shared` takes 1.00× the time of `fused`, PARITY ([1970-04-11](results/zero-shared/first), before ";
    assert!(claims.contains(words), "{claims}");
}

#[test]
fn a_page_that_links_a_run_and_not_what_its_group_loses_is_refused() {
    for (page, from, to, missing) in [
        (
            "CLAIMS.md",
            "{% if run.losing %}",
            "{% if run.winning %}",
            LOSING[0],
        ),
        (
            "BENCHMARK-AUTHORITY.md",
            "{%- for run in runs %}",
            "{%- for run in runs | slice(end=1) %}", // the first of what is lost
            LOSING[1],
        ),
    ] {
        let repository = Repository::published();
        let template = format!("reports/templates/{page}.tera");
        repository.edit(&template, from, to);
        if page != "CLAIMS.md" {
            repository.edit(
                &template,
                "{% for run in class.runs -%}",
                "{% for run in class.runs | slice(start=2) -%}",
            );
        }
        let before = repository.read(page);
        let (message, code) = repository.refusal();
        for words in [
            &format!(
                "{page} links results/session-small/first of the group `sharing` and no run of `{missing}`"
            ),
            &"are `losing`, each with a link".to_owned(),
            &template,
        ] {
            assert!(
                message.contains(words.as_str()),
                "{message}\nlacks: {words}"
            );
        }
        assert_eq!(code, 1);
        assert_eq!(repository.read(page), before, "nothing is written");
    }
}
