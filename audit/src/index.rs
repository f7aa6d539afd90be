//! `results/INDEX`: every anchored run is there, unchanged, and passes; what is sealed but not anchored is named.
//!
//! Not here: what makes a run pass (`run`), or whether INDEX itself was rewritten; its history is in the repository's.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;

use crate::hash;
use crate::notebook::{Checks, Finding, Layer, Notebook};
use crate::report::Report;
use crate::run::audit_run_with;
use crate::schema;
use crate::seal::SUMS;

/// Bytes of INDEX; room for a hundred thousand runs.
const MAX_INDEX_BYTES: u64 = 16 << 20;

/// The outcome of auditing everything INDEX names.
#[derive(Clone, Debug, Serialize)]
pub struct IndexReport {
    schema: &'static str,
    /// The results directory, as it was named.
    pub results: String,
    exit_code: u8,
    /// Faults of INDEX, and runs that are missing or differ from it.
    pub findings: Vec<Finding>,
    /// Faults beyond the ones kept.
    pub findings_left_out: u64,
    /// One report for each anchored run that is there.
    pub runs: Vec<Report>,
    /// Sealed runs that INDEX does not name; no fault.
    pub unanchored: Vec<String>,
}

/// Audits every run named in `results`/INDEX.
pub fn audit_index(results: &Path) -> IndexReport {
    audit_index_with(results, Checks::default())
}

/// The same with these checks only.
pub fn audit_index_with(results: &Path, checks: Checks) -> IndexReport {
    let mut notes = Notebook::new(checks);
    notes.open("INDEX");
    let mut runs = Vec::new();
    let mut named = BTreeSet::new();
    for (number, line) in (1..).zip(read(results, &mut notes).split_terminator('\n')) {
        notes.turn_to(Some(number));
        let Some((digest, path)) = parse(line) else {
            let expected = "expected 64 hex digits, two spaces and <envelope>/<run>";
            notes.broken(Layer::Anchor, expected);
            continue;
        };
        if !named.insert(path.to_owned()) {
            notes.broken(Layer::Anchor, format!("{path} is anchored twice"));
            continue;
        }
        let dir = results.join(path);
        match hash::of_file(&dir.join(SUMS)) {
            Ok(found) => {
                notes.same(
                    Layer::Anchor,
                    &format!("the SHA-256 of {path}/{SUMS}"),
                    &*found,
                    digest,
                );
                runs.push(audit_run_with(&dir, checks).anchored());
            }
            Err(error) => notes.broken(Layer::Anchor, format!("{path} is missing: {error}")),
        }
    }
    notes.turn_to(None);
    let unanchored = unanchored(results, &named).unwrap_or_else(|error| {
        notes.broken(
            Layer::Anchor,
            format!("the results cannot be listed: {error}"),
        );
        Vec::new()
    });
    if named.is_empty() && notes.is_clean() && !unanchored.is_empty() {
        let runs = unanchored.join(", ");
        let message = format!("names no run, but sealed ones stand beside it: {runs}");
        notes.broken(Layer::Anchor, message);
    }
    let worst = runs.iter().map(Report::exit_code).max().unwrap_or(0);
    IndexReport {
        schema: schema::REPORT,
        results: results.display().to_string(),
        exit_code: if notes.is_clean() { worst } else { 4 },
        findings: notes.findings,
        findings_left_out: notes.findings_left_out,
        runs,
        unanchored,
    }
}

fn read(results: &Path, notes: &mut Notebook) -> String {
    let mut text = String::new();
    let read = File::open(results.join("INDEX"))
        .and_then(|file| file.take(MAX_INDEX_BYTES + 1).read_to_string(&mut text));
    match read {
        Err(error) => {
            let hint = "`harness anchor DIR` writes its first line";
            notes.broken(Layer::Anchor, format!("cannot be read: {error}; {hint}"));
        }
        Ok(length) if length as u64 > MAX_INDEX_BYTES => {
            let message = format!("is larger than the limit of {MAX_INDEX_BYTES} bytes");
            notes.broken(Layer::Anchor, message);
            text.clear();
        }
        Ok(_) => notes.check(
            Layer::Anchor,
            text.is_empty() || text.ends_with('\n'),
            || "does not end with a newline".to_owned(),
        ),
    }
    text
}

/// Digest and path of a line; the path has exactly two plain components.
fn parse(line: &str) -> Option<(&str, &str)> {
    let (digest, path) = line.split_once("  ")?;
    let (envelope, run) = path.split_once('/')?;
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['/', '\\']);
    (hash::is_digest(digest) && plain(envelope) && plain(run)).then_some((digest, path))
}

fn unanchored(results: &Path, named: &BTreeSet<String>) -> io::Result<Vec<String>> {
    let mut found = BTreeSet::new();
    for envelope in directories(results)? {
        for run in directories(&results.join(&envelope))? {
            let path = format!("{envelope}/{run}");
            if results.join(&path).join(SUMS).is_file() && !named.contains(&path) {
                found.insert(path);
            }
        }
    }
    Ok(found.into_iter().collect())
}

fn directories(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

impl IndexReport {
    /// The worst of all: 0 pass, 1 identity failed, 4 broken, missing or differing.
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// The report as plain text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for run in &self.runs {
            text.push_str(&run.render());
            text.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{} anchored runs under {}",
            self.runs.len(),
            self.results
        );
        for finding in &self.findings {
            let _ = writeln!(text, "  {finding}");
        }
        if self.findings_left_out > 0 {
            let _ = writeln!(text, "  and {} more findings", self.findings_left_out);
        }
        for path in &self.unanchored {
            let _ = writeln!(text, "  unanchored: {path}");
        }
        text
    }
}
