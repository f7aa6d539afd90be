//! What is said of each embedded envelope: one group, every text, and no number that the envelope does not have.
//!
//! Not here: what `harness report` makes of the losing ones, or whether a sentence is true; people read those.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use workloads::envelope::about::About;
use workloads::envelope::embedded;

const SMALL: &str = "\
[[group]]
id = \"one\"
title = \"One\"
sentence = \"First.\"
losing = [\"b\"]

[[group]]
id = \"two\"
title = \"Two\"
sentence = \"Second.\"

[envelope.a]
group = \"one\"
origin = \"here\"
asks = \"what\"
does_not_show = \"that\"

[envelope.b]
group = \"one\"
origin = \"there\"
asks = \"what\"
does_not_show = \"that\"
";

#[test]
fn every_embedded_envelope_stands_in_one_group_and_says_where_it_comes_from_and_what_it_does_not_show()
 {
    let about = About::embedded().unwrap();
    for (name, _) in embedded() {
        let (group, paragraph) = about.of(name).unwrap();
        assert_eq!(group.id, paragraph.group);
        for text in [&paragraph.origin, &paragraph.asks, &paragraph.does_not_show] {
            assert!(text.len() > 30 && text.ends_with('.'), "{name}: {text:?}");
        }
    }
    for group in about.groups() {
        let members = embedded()
            .iter()
            .filter(|(name, _)| about.of(name).unwrap().0 == group);
        assert!(
            members.count() > group.losing.len(),
            "{} has only what it loses",
            group.id
        );
        assert!(
            embedded().iter().all(|(name, _)| *name != group.id),
            "{} is both",
            group.id
        );
    }
    assert!(about.of("mine").is_none());
    let losing = &about.group("sharing").unwrap().losing;
    for name in ["single-turn", "zero-shared", "tiny-context", "one-agent"] {
        assert!(losing.iter().any(|it| it == name), "{name}");
    }
}

/// Every number written in digits.
fn numbers(text: &str) -> BTreeSet<&str> {
    let digits = text.split(|letter: char| !letter.is_ascii_digit());
    digits.filter(|digits| !digits.is_empty()).collect()
}

#[test]
fn no_paragraph_has_a_number_that_its_envelope_has_not() {
    let about = About::embedded().unwrap();
    let mut found = 0;
    for (name, text) in embedded() {
        let known = numbers(text);
        let (_, it) = about.of(name).unwrap();
        for number in [&it.origin, &it.asks, &it.does_not_show]
            .into_iter()
            .flat_map(|it| numbers(it))
        {
            found += 1;
            assert!(
                known.contains(number),
                "{name}: {number} stands nowhere in it"
            );
        }
    }
    assert!(found > 5, "only {found} numbers were found");
    for group in about.groups() {
        // They stand on pages, where every number comes from a result.
        assert!(
            numbers(&group.title).is_empty() && numbers(&group.sentence).is_empty(),
            "{}",
            group.id
        );
    }
}

#[test]
fn the_fewest_words_that_are_enough_are_read() {
    let about = About::parse(SMALL, &["a", "b"]).unwrap();
    let (group, paragraph) = about.of("b").unwrap();
    assert_eq!(
        (group.title.as_str(), paragraph.origin.as_str()),
        ("One", "there")
    );
    assert_eq!(group.losing, ["b"]);
    assert!(about.group("two").unwrap().losing.is_empty());
}

#[test]
fn what_is_missing_unknown_or_said_twice_is_refused_in_words_that_say_where() {
    for (from, to, expected) in [
        ("origin = \"here\"\n", "", "missing field `origin`"),
        (
            "origin = \"here\"\n",
            "origin = \" \"\n",
            "line 14: envelope.a.origin = nothing; give a sentence",
        ),
        (
            "origin = \"here\"\n",
            "origin = \"here\"\nmood = \"good\"\n",
            "unknown field `mood`",
        ),
        (
            "title = \"One\"\n",
            "title = \"One\"\nmood = \"good\"\n",
            "unknown field `mood`",
        ),
        (
            "title = \"One\"\n",
            "title = \"\"\n",
            "group.one.title = nothing; give a sentence",
        ),
        (
            "[envelope.a]",
            "mood = 1\n[envelope.a]",
            "unknown field `mood`",
        ),
        (
            "group = \"one\"\n",
            "group = \"three\"\n",
            "line 13: envelope.a.group = three; give one or two",
        ),
        (
            "id = \"two\"",
            "id = \"one\"",
            "group.id = one; give every group once",
        ),
        (
            "[\"b\"]",
            "[\"b\", \"b\"]",
            "group.one.losing = b; give envelopes of the group, each once",
        ),
        (
            "[\"b\"]",
            "[\"c\"]",
            "group.one.losing = c; give envelopes of the group, each once",
        ),
        (
            "\"Second.\"\n",
            "\"Second.\"\nlosing = [\"b\"]\n",
            "group.two.losing = b; give envelopes of the group",
        ),
        ("[envelope.b]", "[envelope.c]", "group.one.losing = b"),
        ("[\"b\"]", "[]", ""),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let said = About::parse(&SMALL.replacen(from, to, 1), &["a", "b"]);
        if expected.is_empty() {
            assert!(said.is_ok(), "a group may have nothing to lose");
            continue;
        }
        let said = said.unwrap_err().to_string();
        assert!(said.starts_with("workloads/envelopes/ABOUT.toml"), "{said}");
        assert!(said.contains(expected), "{said}\nlacks: {expected}");
    }
}

#[test]
fn entries_and_embedded_envelopes_are_the_same_ones() {
    let said = |names: &[&str]| About::parse(SMALL, names).unwrap_err().to_string();
    assert!(
        said(&["a"]).contains("envelope.b = an entry; give entries of embedded envelopes only")
    );
    assert!(said(&["a", "b", "c"]).contains("envelope.c = nothing; give group, origin, asks"));
}
