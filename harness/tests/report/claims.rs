//! What claims.toml and templates may say: every number bound, every witness there.
//!
//! Not here: the claims of this repository; the pages carry those.

use crate::fixture::Repository;

fn claim(id: &str, sentence: &str, rest: &str) -> String {
    format!(
        "[[claim]]\nid = \"{id}\"\ntag = \"SHIPPED\"\nprovenance = \"WITNESSED\"\nsentence = \"{sentence}\"\n\
         witness = \"cargo run\"\nfence = \"anything else\"\nsources = [\"reports\"]\n{rest}\n"
    )
}

#[test]
fn a_digit_in_prose_is_refused_with_file_and_line() {
    let repository = Repository::published();
    let file = "reports/templates/README.md.tera";
    repository.edit(
        file,
        "Early. It",
        "About 7.5 times faster. `7`, SHA-256 and {{ runs[0].verdict }}. It",
    );
    let line = 1 + repository
        .read(file)
        .split("About 7.5")
        .next()
        .unwrap()
        .matches('\n')
        .count();
    let (message, code) = repository.refusal();
    assert_eq!(code, 1);
    assert!(
        message.starts_with(&format!("{file}:{line}: `7.5` is a number in prose\n")),
        "{message}"
    );
    assert_eq!(message.lines().count(), 2, "only that one: {message}");

    let repository = Repository::published();
    repository.claims(&[&claim(
        "one",
        "It is `4`, Q8_0 and\\n 5 times {x}",
        "bind = { x = \"smoke:verdict\" }",
    )]);
    let (message, _) = repository.refusal();
    assert!(
        message.starts_with("reports/claims.toml:5: `5` is a number in prose\n"),
        "{message}"
    );
}

/// Asserts that a claim after a good one is refused at its own line, in the expected words.
fn expect_refusal(bad: &str, expected: &str) {
    let repository = Repository::published();
    let good = claim("good", "words", "");
    repository.claims(&[&good, bad]);
    let (message, code) = repository.refusal();
    let line = good.matches('\n').count() + 2;
    assert!(
        message.starts_with(&format!("reports/claims.toml:{line}: claim `")),
        "{message}"
    );
    assert!(message.contains(expected), "{message}\nlacks: {expected}");
    assert_eq!(code, 1);
}

#[test]
fn a_claim_whose_numbers_are_not_bound_is_refused_with_line_and_id() {
    for (sentence, path, expected) in [
        (
            "words",
            "smoke:verdict",
            "claim `bad`: bind `x` is not used",
        ),
        (
            "{x} and {y}",
            "smoke:verdict",
            "placeholder {y} is not bound",
        ),
        ("{x} and {y", "smoke:verdict", "a `{` without a `}`"),
        (
            "{x}",
            "smoke:arms.fast.wall_ns|duration",
            "`arms.fast.wall_ns`",
        ),
        ("{x}", "smoke:ratio(naive/fused).wall|times", "is not there"),
        ("{x}", "smoke:ratio(fused/naive).wall", "needs a style"),
        ("{x}", "smoke:verdict|count", "is not a whole number"),
        (
            "{x}",
            "smoke:arms.naive.rss_bytes_peak|size",
            "null is not a whole number",
        ),
        ("{x}", "smoke:verdict|furlongs", "style `furlongs`"),
        ("{x}", "smok:verdict", "there is no envelope `smok`"),
        ("{x}", "verdict", "`verdict` is not `ENVELOPE:PATH`"),
    ] {
        let bind = format!("bind = {{ x = \"{path}\" }}");
        expect_refusal(&claim("bad", sentence, &bind), expected);
    }
}

#[test]
fn a_claim_with_a_wrong_word_is_refused_with_line_and_id() {
    let pages = "harness/tests/report/pages.rs#no_such";
    for (right, wrong, expected) in [
        (
            "id = \"bad\"",
            "id = \"good\"",
            "claim `good`: an earlier claim has this id",
        ),
        ("words", " ", "`sentence` is empty"),
        ("SHIPPED", "PROVEN", "tag `PROVEN` is not one of SHIPPED"),
        ("WITNESSED", "SEEN", "provenance `SEEN` is not one of"),
        ("cargo run", "trust us", "witness `trust us` is neither"),
        ("cargo run", pages, "pages.rs has no test `no_such`"),
        ("\"reports\"", "\"nowhere\"", "source nowhere is not there"),
        (
            "words",
            &"word ".repeat(40),
            "its sentence has 200 characters, and 160 are allowed",
        ),
        (
            "cargo run",
            "harness/none.rs#no_such",
            "witness file harness/none.rs",
        ),
    ] {
        expect_refusal(&claim("bad", "words", "").replace(right, wrong), expected);
    }
}

#[test]
fn numbers_of_a_shipped_claim_speak_of_some_source() {
    let bind = "bind = { x = \"smoke:verdict\" }";
    let bad = claim("bad", "{x}", bind).replace("sources = [\"reports\"]", "");
    expect_refusal(&bad, "name it in `sources`");
}

#[test]
fn claims_that_are_no_claims_are_refused() {
    let repository = Repository::published();
    for (text, expected) in [
        ("", "no claims"),
        ("# nothing\n", "no claims"),
        ("[[claim]]\nid = \"x\"\n", "missing field"),
        ("[[claim]\n", "reports/claims.toml"),
        (
            "[[claim]]\nid = \"x\"\nmood = \"good\"\n",
            "unknown field `mood`",
        ),
    ] {
        repository.claims(&[text]);
        let (message, code) = repository.refusal();
        assert!(message.contains(expected), "{message}");
        assert_eq!(code, 1);
    }
}
