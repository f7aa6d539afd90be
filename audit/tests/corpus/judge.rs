//! Making a forged run, and whether an audit gives it away as its row demands.
//!
//! Not here: the rows (`rows`, `replaced`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

use std::fs;
use std::path::Path;

use audit::{Finding, IndexReport, Layer, Report};
use serde_json::json;

use crate::replaced::Replaced;
use crate::rows::{Catcher, Forgery, Made};
use crate::tell::put;

/// Makes a forged run in `dir`.
pub(crate) fn make(forgery: &Forgery, dir: &Path) {
    let mut fixture = (forgery.honest)();
    let scored = fixture.scored();
    let trace = forgery.file.strip_prefix("trace/");
    let trace = trace.and_then(|file| file.strip_suffix(".jsonl"));
    match forgery.made {
        Made::Told(tell) => tell(&mut fixture),
        Made::Written(tell) => {
            fixture.write(dir);
            return tell(dir);
        }
        Made::Declared(change) => {
            put(&mut fixture.envelope, change);
            fixture.redeclare();
        }
        Made::Recorded(change) => put(&mut fixture.record, change),
        Made::Said((kind, place), change) => {
            put(fixture.lines(trace.unwrap(), kind).remove(place), change);
        }
        Made::Answered((from, to)) => {
            let output = &mut fixture.lines(trace.unwrap(), "external").remove(0)["output"];
            let text = output.as_str().unwrap();
            assert!(text.contains(from), "{text} has no {from:?}");
            *output = json!(text.replacen(from, to, 1));
        }
    }
    if fixture.scored() == scored {
        fixture.score_again(); // of what the trace says now
    }
    fixture.write(dir);
}

/// Whether the audit of a forged run ends with its code and names the lie and its line.
pub(crate) fn given_away(forgery: &Forgery, dir: &Path, report: &Report) -> bool {
    let Catcher::Layer(layer) = forgery.catcher else {
        return false;
    };
    let named = |it: &Finding| names(it, forgery, layer) && at_line(dir, forgery, it.line);
    report.exit_code() == forgery.code && report.findings.iter().any(named)
}

fn names(finding: &Finding, forgery: &Forgery, layer: Layer) -> bool {
    finding.layer == layer && finding.file == forgery.file && finding.message.contains(forgery.word)
}

/// Whether the line of a finding is one that has the text a row gives; a row without one is about a file as a whole.
fn at_line(dir: &Path, forgery: &Forgery, line: Option<u64>) -> bool {
    let Some(number) = line else {
        return forgery.line.is_empty();
    };
    let text = fs::read_to_string(dir.join(forgery.file)).unwrap();
    let line = text.lines().nth(number as usize - 1).unwrap();
    !forgery.line.is_empty() && line.contains(forgery.line)
}

/// The same of a lie about anchored runs.
pub(crate) fn index_given_away(row: &Replaced, report: &IndexReport) -> bool {
    let named = |it: &Finding| {
        it.layer == Layer::Anchor
            && it.file == "INDEX"
            && it.line == row.line
            && it.message.contains(row.word)
    };
    report.exit_code() == 4 && report.findings.iter().any(named)
}
