//! What the pages show, and that they are exactly what templates, claims and results give.
//!
//! Not here: errors in those sources.

use std::collections::BTreeMap;
use std::fs;

use crate::fixture::{LOSING, PAGES, Repository, Run};

#[test]
fn a_second_report_changes_nothing_and_the_check_passes() {
    let repository = Repository::published();
    assert!(repository.report().unchanged());
    let outcome = repository.check().unwrap();
    assert_eq!(outcome.exit_code(), 0, "{}", outcome.render(None));
}

#[test]
fn editing_any_character_of_any_page_fails_the_check() {
    const STEP: usize = 101;
    let repository = Repository::published();
    let of_scorecard = [
        "reports/scorecard/README.md",
        "reports/scorecard/kv-cache.md",
    ];
    for page in PAGES.into_iter().chain(of_scorecard) {
        let path = repository.path(page);
        let good = fs::read(&path).unwrap();
        for at in (0..good.len()).step_by(STEP).chain([good.len() - 1]) {
            let mut edited = good.clone();
            edited[at] ^= 1;
            fs::write(&path, &edited).unwrap();
            let outcome = repository.check().unwrap();
            let line = good[..at].split(|&byte| byte == b'\n').count();
            let text = outcome.render(None);
            assert_eq!(outcome.exit_code(), 1, "{page} byte {at}");
            assert!(
                text.contains(&format!("{page}: differs first at line {line}:")),
                "{text}"
            );
            assert!(text.contains("`harness report` rewrites"), "{text}");
            assert_eq!(fs::read(&path).unwrap(), edited, "a check writes nothing");
        }
        for edited in [&good[..good.len() - 1], &[&good[..], b"\n"].concat(), b""] {
            fs::write(&path, edited).unwrap();
            assert_eq!(
                repository.check().unwrap().exit_code(),
                1,
                "{page} of another length"
            );
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(repository.check().unwrap().exit_code(), 1, "{page} missing");
        repository.report();
        assert_eq!(fs::read(&path).unwrap(), good);
    }
}

#[test]
fn what_is_not_known_of_another_engine_has_no_row_and_no_zero() {
    let repository = Repository::published();
    repository.anchor(&Run::beside_a_server("session-50x5", "first"));
    repository.report();
    let page = repository.read("BENCHMARK-AUTHORITY.md");
    let rows: Vec<&str> = (page.lines())
        .filter(|line| line.starts_with('|') && line.contains("llama-server:shared"))
        .collect();
    let expected = [
        "| **`fused` over `llama-server:shared`** | **5.00×** |",
        "| `session-50x5` | 91.3 % | `llama-server:shared` |  | 5.00× | 5, 4.95× to 5.05× | FASTER |",
        "| llama-server:shared wall, median | 4.96 s | OBSERVED |",
        "| llama-server:shared exact arg-max | 99.5 % | WITNESSED |",
        "| fused / llama-server:shared, wall | 5.00× | OBSERVED, derived |",
    ];
    assert_eq!(rows.len(), expected.len(), "{rows:#?}");
    for (row, start) in rows.iter().zip(expected) {
        assert!(row.starts_with(start), "{row}");
    }
}

#[test]
fn a_result_anchored_again_with_another_value_changes_the_pages() {
    let repository = Repository::published();
    assert!(
        repository
            .read("README.md")
            .contains("| `naive` | 11 376 |")
    );
    fs::remove_file(repository.path("results/INDEX")).unwrap();
    for envelope in ["smoke", "session-small"].into_iter().chain(LOSING) {
        let pointer = "/arms/naive/prefill_tokens_computed";
        repository.anchor(&Run::new(envelope, "first").with(pointer, 11_377));
    }
    let outcome = repository.check().unwrap();
    let quoting = |name: &str| PAGES.contains(&name);
    let mut pages = outcome.pages.iter().filter(|page| quoting(&page.name));
    assert!(pages.all(|page| page.difference.is_some()));
    repository.report();
    for page in PAGES {
        assert!(repository.read(page).contains("11 377"), "{page}");
    }
}

#[test]
fn changed_source_is_told_but_no_page_depends_on_it() {
    let repository = Repository::published();
    let outcome = repository.report();
    let trees = |engine: &str| {
        BTreeMap::from([
            ("engine".into(), engine.into()),
            ("harness".into(), "h1".into()),
        ])
    };
    assert!(
        outcome
            .render(Some(&trees("e1")))
            .contains("speaks: smoke/first (same source)")
    );
    assert!(
        outcome
            .render(Some(&trees("e2")))
            .contains("(source changed since in engine)")
    );
    assert!(outcome.render(None).contains("unknown"));
}

#[test]
fn the_losing_side_and_the_floor_are_visible() {
    let authority = Repository::published().read("BENCHMARK-AUTHORITY.md");
    for text in [
        "| fused / naive, tokens | 11.47× | WITNESSED, derived | synthetic-tiny (synthetic) | `naive` (floor) |",
        "| fused / instance-shared, tokens | 1.00× |",
        "1.00× | WITNESSED, derived | synthetic-tiny (synthetic) | `instance-shared` | 5, 0.99× to 1.01× | PARITY |",
        "exactly as many tokens as `fused`",
        "(`agent-kv`) already gives 5.64×",
    ] {
        assert!(authority.contains(text), "no `{text}` in:\n{authority}");
    }
}

#[test]
fn ratios_over_an_arm_of_fewer_turns_are_named_so_and_never_multiplied() {
    let repository = Repository::new();
    for envelope in ["session-small"].into_iter().chain(LOSING) {
        repository.anchor(&Run::new(envelope, "first").with_short_naive(2));
    }
    repository.report();
    let authority = repository.read("BENCHMARK-AUTHORITY.md");
    for text in [
        "`naive` (floor) | exact, turns both play |",
        "| fused / naive, wall | withheld |",
        "| unequal turns: fused 6, naive 2 |",
        "equal in 4 arms, in the turns each plays.",
        "**The losing side.** `instance-shared`",
    ] {
        assert!(authority.contains(text), "no `{text}` in:\n{authority}");
    }
    assert!(!authority.contains("already gives"), "{authority}");
}

#[test]
fn without_runs_pages_say_so_and_show_no_number() {
    let repository = Repository::new();
    let outcome = repository.report();
    assert!(outcome.render(None).contains("No anchored run yet"));
    assert!(
        repository
            .read("README.md")
            .contains("no anchored run of `smoke` yet")
    );
    assert!(
        repository
            .read("BENCHMARK-AUTHORITY.md")
            .contains("no anchored run yet")
    );
    let claims = repository.read("CLAIMS.md");
    assert!(claims.contains("Not witnessed yet: no anchored run speaks for `session-small`."));
    assert!(claims.contains("in all `?` requests"), "{claims}");
}

#[test]
fn a_template_that_asks_for_what_is_not_there_is_named() {
    let repository = Repository::published();
    repository.write(
        "reports/templates/CLAIMS.md.tera",
        "words\n{{ runs.none }}\n",
    );
    let (message, code) = repository.refusal();
    assert!(
        message.contains("CLAIMS.md") && message.contains("runs.none"),
        "{message}"
    );
    assert_eq!(code, 1);
    fs::remove_file(repository.path("reports/templates/CLAIMS.md.tera")).unwrap();
    let (message, code) = repository.refusal();
    assert!(
        message.contains("at the root of the repository"),
        "{message}"
    );
    assert_eq!(code, 2);
}

#[test]
fn engine_work_has_a_row_for_each_speed_share_and_ratio() {
    let repository = Repository::published();
    repository.anchor(&Run::of_cells("engine-decode", "first"));
    repository.report();
    let page = repository.read("BENCHMARK-AUTHORITY.md");
    for words in [
        "- `decode-64`: 1 agent(s), 2 048 positions cached (0 shared), 64 tokens decoded each.",
        "| decode-64, fak, speed | 81.2 tok/s | WITNESSED |",
        "| decode-64, llama-bench:fa0, speed | 39.0 tok/s | OBSERVED |",
        "| decode-64, fak, share of limit | 50.0 % | MODELED, derived |",
        "| decode-64, fak / llama-bench:fa0, speed | 2.08× | OBSERVED, derived |",
        "| `llama-bench:fa0` | 5, 2.00× to 2.10× | FASTER |",
    ] {
        assert!(page.contains(words), "no {words:?} in:\n{page}");
    }
}
