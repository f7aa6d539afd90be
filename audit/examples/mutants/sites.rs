//! Where in the auditor's source its checks stand, read from the text as rustfmt leaves it.
//!
//! A check is a call of a function that is `#[track_caller]`: those of the notebook, and the few that pass its callers on.
//! Not here: what becomes of a run without one.

use std::fs;
use std::path::{Path, PathBuf};

use audit::Site;

/// One check left out.
pub(crate) struct Mutant {
    /// Of this crate.
    pub(crate) file: String,
    /// Line and column of the call, from 1.
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Where the call stands in a loop over a table, the row of it that is left out; else empty.
    pub(crate) row: &'static str,
    /// The call, to the end of the line that closes its first argument list.
    pub(crate) code: String,
}

impl Mutant {
    /// Whether a finding comes from this call.
    pub(crate) fn is_at(&self, site: Site) -> bool {
        let place = (site.line() as usize, site.column() as usize);
        place == (self.line, self.column) && site.file().ends_with(&self.file)
    }
}

type Source = (String, Vec<&'static str>);

/// Every check of the auditor.
pub(crate) fn mutants() -> Vec<Mutant> {
    let sources = sources();
    let calls = noting(&sources);
    let mut found = Vec::new();
    for (file, lines) in sources.iter().filter(|(file, _)| file != NOTEBOOK) {
        for (place, line) in lines.iter().enumerate() {
            if passes_on(lines, place) {
                continue;
            }
            for column in calls.iter().filter_map(|call| column(line, call)) {
                let rows = rows(lines, place);
                let all = if rows.is_empty() { vec![""] } else { rows };
                found.extend(all.into_iter().map(|row| Mutant {
                    file: file.clone(),
                    line: place + 1,
                    column: line[..column].chars().count() + 1,
                    row,
                    code: code(lines, place),
                }));
            }
        }
    }
    found
}

const NOTEBOOK: &str = "src/notebook.rs";

/// Every file of the crate without its unit tests.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut files, mut folders) = (Vec::new(), vec![root.join("src")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort_unstable();
    let read = |path: PathBuf| {
        let text: &'static str = fs::read_to_string(&path).unwrap().leak();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let name = path
            .strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        (name, code.lines().collect())
    };
    files.into_iter().map(read).collect()
}

/// What a call of a function that notes faults begins with.
fn noting(sources: &[Source]) -> Vec<String> {
    let mut calls = Vec::new();
    for (file, lines) in sources {
        for pair in lines
            .windows(2)
            .filter(|it| it[0].trim() == "#[track_caller]")
        {
            let (_, signature) = pair[1].split_once("fn ").unwrap();
            let name = signature.split(['(', '<']).next().unwrap();
            let of = if file == NOTEBOOK { "notes." } else { "" };
            calls.push(format!("{of}{name}("));
        }
    }
    calls
}

/// Whether a line stands in a function that notes faults for its callers: those are the checks.
fn passes_on(lines: &[&str], place: usize) -> bool {
    let ends = |line: &&str| line.trim_end() == "}" || line.trim_end() == "    }";
    let above = lines[..place].iter().rev().take_while(|line| !ends(line));
    above
        .map(|line| line.trim())
        .any(|line| line == "#[track_caller]")
}

/// Where in a line the called function's name begins, in bytes.
fn column(line: &str, call: &str) -> Option<usize> {
    let at = line.find(call)?;
    let before = &line[..at];
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_call = !before.ends_with(in_word) && !before.ends_with("fn ") && !before.contains("//");
    is_call.then_some(at + call.find('.').map_or(0, |dot| dot + 1))
}

/// The call at a line, as far as it must be known.
fn code(lines: &[&str], place: usize) -> String {
    let closes = |line: &&str| line.ends_with(");") || line.ends_with("),");
    let more = lines[place..].iter().position(closes).unwrap_or(0);
    lines[place..=place + more].join("\n")
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Names of the rows of the table that the innermost loop around a line runs over; of none, nothing.
fn rows(lines: &[&'static str], place: usize) -> Vec<&'static str> {
    let Some(head) = head(lines, place) else {
        return Vec::new();
    };
    let Some((_, table)) = lines[head].split_once(" in ") else {
        return Vec::new();
    };
    let opens: &[char] = if lines[head].contains("for (") {
        &['(']
    } else {
        &['[', ',']
    };
    if table.starts_with('[') {
        return literals(&lines[head..], "] {", opens);
    }
    let bound = format!("let {} = [", table.trim_end_matches(" {"));
    let above = lines[..head].iter().enumerate().rev();
    let above = above.take_while(|(_, line)| !line.contains("fn "));
    let tables = above.filter(|(_, line)| line.contains(&bound));
    tables
        .flat_map(|(at, _)| literals(&lines[at..], "];", opens))
        .collect()
}

/// The line on which the innermost `for` around a line begins.
fn head(lines: &[&str], place: usize) -> Option<usize> {
    let mut inside = depth(lines[place]);
    for at in (0..place).rev() {
        let line = lines[at].trim_start();
        if line.is_empty() || depth(lines[at]) >= inside {
            continue;
        }
        if line.starts_with("for ") {
            return Some(at);
        }
        if line.contains("fn ") {
            return None;
        }
        // A head of several lines ends as deep as it begins.
        inside = depth(lines[at]) + usize::from(line.starts_with("] {"));
    }
    None
}

/// Texts in quotes that follow one of `opens`, up to the line that ends with `end`.
fn literals(lines: &[&'static str], end: &str, opens: &[char]) -> Vec<&'static str> {
    let (mut found, mut before) = (Vec::new(), ' ');
    for line in lines {
        let mut rest = *line;
        while let Some(quote) = rest.find('"') {
            before = rest[..quote].trim_end().chars().last().unwrap_or(before);
            let text = rest[quote + 1..].split('"').next().unwrap();
            if opens.contains(&before) {
                found.push(text);
            }
            rest = &rest[quote + text.len() + 2..];
            before = '"';
        }
        before = rest.trim_end().chars().last().unwrap_or(before);
        if line.ends_with(end) {
            break;
        }
    }
    found
}
