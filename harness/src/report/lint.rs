//! No number is typed by hand: a digit in a template or in claims.toml must come from a result or be part of a name.
//!
//! Allowed are placeholders, code in backticks or fences, and the names in reports/allow.txt. Not here: numbers spelled
//! as words, which no lint can tell from prose.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use super::error::ReportError;
use super::page::{self, Template};
use super::serving;

/// What is bound to the scorecard.
const EVIDENCE: &str = "reports/scorecard/evidence.toml";

/// A digit where none may stand.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// File, relative to the repository root.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// The word that holds the digit.
    pub token: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}:{}: `{}` is a number in prose",
            self.file, self.line, self.token
        )
    }
}

/// Lints every template, claims.toml, what is said of serving, and the notes of what is bound to the scorecard.
pub(super) fn lint<'a>(
    root: &Path,
    templates: impl Iterator<Item = &'a Template>,
) -> Result<(), ReportError> {
    let allow = page::read(root, "reports/allow.txt")?;
    let allowed: BTreeSet<&str> = allow
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|name| !name.is_empty())
        .collect();
    let mut violations = Vec::new();
    for template in templates {
        let mut prose = blank_template_tags(&template.text);
        if template.file.ends_with(".html.tera") {
            prose = blank_markup(&prose);
        }
        scan(&template.file, &prose, &allowed, &mut violations);
    }
    let claims = page::read(root, "reports/claims.toml")?;
    // A witness is a command, and a command is code.
    let words = |line: &str| {
        if line.starts_with("witness = ") {
            "\n".to_owned()
        } else {
            blank_between(line, '{', '}')
        }
    };
    let prose: String = claims.split_inclusive('\n').map(words).collect();
    scan("reports/claims.toml", &prose, &allowed, &mut violations);
    for (file, fields) in [(EVIDENCE, &["note"][..]), (serving::FILE, &serving::PROSE)] {
        let text = page::read(root, file)?;
        let is_prose = |line: &&str| {
            let field = line.split_once(" = ").map(|(field, _)| field);
            field.is_some_and(|field| fields.contains(&field))
        };
        let prose = text.lines().map(|line| Some(line).filter(is_prose));
        let prose: Vec<&str> = prose.map(Option::unwrap_or_default).collect();
        scan(file, &prose.join("\n"), &allowed, &mut violations);
    }
    if violations.is_empty() {
        Ok(())
    } else {
        Err(ReportError::Lint { violations })
    }
}

/// Collects the tokens of `prose` that hold a digit, are no code and are not `allowed`.
fn scan(file: &str, prose: &str, allowed: &BTreeSet<&str>, violations: &mut Vec<Violation>) {
    let mut fenced = false;
    for (number, line) in prose.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let line = blank_between(line, '`', '`');
            let tokens = line
                .split(|letter: char| !letter.is_alphanumeric() && !"-_.,+%×".contains(letter))
                .map(|token| token.trim_matches(['-', '.', ',', '+']))
                .filter(|token| token.contains(char::is_numeric) && !allowed.contains(token));
            violations.extend(tokens.map(|token| Violation {
                file: file.into(),
                line: number + 1,
                token: token.into(),
            }));
        }
    }
}

/// Replaces what stands between `open` and the next `close` by spaces; an unclosed `open` hides nothing.
fn blank_between(line: &str, open: char, close: char) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(open) {
        let Some((_, after)) = after.split_once(close) else {
            break;
        };
        text.push_str(before);
        text.push(' ');
        rest = after;
    }
    text + rest
}

/// Replaces template tags by their newlines. `{{ 7 }}` stays: a literal is not a placeholder.
fn blank_template_tags(text: &str) -> String {
    let mut prose = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        prose.push_str(&rest[..at]);
        rest = &rest[at..];
        let tag = [("{{", "}}"), ("{%", "%}"), ("{#", "#}")]
            .iter()
            .find_map(|(open, close)| rest.strip_prefix(open)?.split_once(close))
            .map(|(inside, _)| &rest[..inside.len() + 4]);
        let literal = |tag: &str| {
            let inside = tag.trim_start_matches(['{', '-', ' ', '\n']);
            tag.starts_with("{{") && !inside.starts_with(char::is_alphabetic)
        };
        let hidden = tag.filter(|tag| !literal(tag));
        match hidden {
            Some(tag) => prose.extend(tag.chars().filter(|&letter| letter == '\n')),
            None => prose.push('{'),
        }
        rest = &rest[hidden.map_or(1, str::len)..];
    }
    prose + rest
}

/// Replaces elements' tags and style sheets by their newlines: neither is read as prose.
fn blank_markup(text: &str) -> String {
    let newlines = |hidden: &str| "\n".repeat(hidden.matches('\n').count());
    let mut prose = String::new();
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        let end = if tag.starts_with("style>") {
            "</style>"
        } else {
            ">"
        };
        let Some((hidden, after)) = tag.split_once(end) else {
            prose.push_str(before);
            prose.push('<');
            rest = tag;
            continue;
        };
        prose.push_str(before);
        prose.push(' ');
        prose.push_str(&newlines(hidden));
        rest = after;
    }
    prose + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(template: &str) -> Vec<(usize, String)> {
        let allowed = BTreeSet::from(["Q8_0", "SHA-256"]);
        let mut violations = Vec::new();
        scan(
            "page",
            &blank_template_tags(template),
            &allowed,
            &mut violations,
        );
        violations
            .into_iter()
            .map(|violation| (violation.line, violation.token))
            .collect()
    }

    #[test]
    fn digits_in_prose_are_found_with_line_and_word() {
        for (template, line, token) in [
            ("It is 7.5 times faster.", 1, "7.5"),
            ("Words.\n\nSome ½ word", 3, "½"),
            ("{% if a %}\n{{ b }}\n{# c\n #}9", 4, "9"),
            ("```\ncode 1\n```\nafter 2", 4, "2"),
            ("an `unclosed tick 3", 1, "3"),
            ("a {{ tag left open 4", 1, "4"),
            ("a literal {{ 5 }} or", 1, "5"),
            ("a literal {{ \"x6\" }}", 1, "x6"),
            ("Q8_0 is a name, Q8_1 is not", 1, "Q8_1"),
        ] {
            assert_eq!(found(template), [(line, token.to_string())], "{template}");
        }
    }

    #[test]
    fn digits_of_elements_and_style_sheets_are_no_prose_and_those_between_are() {
        let page = "<h1 class=\"x2\">\n7 times</h1>\n<style>\np { margin: 3px }\n</style> faster <b\n>8</b> < 9";
        let mut violations = Vec::new();
        scan(
            "page",
            &blank_markup(page),
            &BTreeSet::new(),
            &mut violations,
        );
        let found: Vec<_> = violations
            .iter()
            .map(|it| (it.line, it.token.as_str()))
            .collect();
        assert_eq!(found, [(2, "7"), (6, "8"), (6, "9")]);
    }

    #[test]
    fn digits_in_placeholders_code_and_names_pass() {
        for template in [
            "{{ runs[0].wall_ns | seconds }}",
            "{{- runs[0] -}}",
            "{% if runs | length > 3 %}x{% endif %}",
            "{# 12 #}",
            "`harness run --reps 3`",
            "```sh\nrun 5\n```",
            "SHA-256, and (Q8_0).",
        ] {
            assert_eq!(found(template), [], "{template}");
        }
    }
}
