//! What an audit writes down as it goes: findings, each with its place, and tallies of what was looked at.
//!
//! Not here: what is checked (every other module) or how it is shown (`report`).

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};

use serde::Serialize;

/// Findings kept word for word; further ones are counted. A broken trace repeats itself, and twenty say enough.
const FINDINGS_KEPT: usize = 20;
/// Characters of one message kept, and
const MESSAGE_CHARS: usize = 500;
/// of a value quoted in it, so that a hostile file cannot flood the terminal.
const QUOTE_CHARS: usize = 120;

/// Which check caught a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The directory, its files and `SHA256SUMS`.
    Seal,
    /// JSON, schema tags, known fields, ranges.
    Format,
    /// `seq`, `prev`, `t_ns` and which line may follow which.
    Chain,
    /// A prompt rebuilt from its parts, or a workload other than the declared one.
    Prompt,
    /// Token counts and sums over a trace.
    Count,
    /// Reuse beyond what existed.
    Reuse,
    /// A figure of run.json that the traces do not give.
    Record,
    /// Arms that answered differently.
    Identity,
    /// `results/INDEX` against the directories.
    Anchor,
}

/// One fault: where, and what was found instead of what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check that caught it.
    pub layer: Layer,
    /// File, relative to the run directory.
    pub file: String,
    /// Line, counted from 1, where the file has lines.
    pub line: Option<u64>,
    /// What is wrong, in words.
    pub message: String,
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layer = format!("{:?}", self.layer).to_lowercase();
        write!(f, "{layer}: {}", self.file)?;
        if let Some(line) = self.line {
            write!(f, " line {line}")?;
            if self.file.starts_with("trace/") {
                write!(f, " (seq {})", line.saturating_sub(1))?;
            }
        }
        write!(f, ": {}", self.message)
    }
}

/// The pages of one audit.
#[derive(Debug, Default)]
pub(crate) struct Notebook {
    pub(crate) findings: Vec<Finding>,
    pub(crate) findings_left_out: u64,
    pub(crate) recomputed: BTreeMap<&'static str, u64>,
    pub(crate) replayable: BTreeMap<&'static str, u64>,
    pub(crate) asserted: BTreeMap<&'static str, u64>,
    file: String,
    line: Option<u64>,
}

impl Notebook {
    /// Findings from here on belong to `file`.
    pub(crate) fn open(&mut self, file: &str) {
        file.clone_into(&mut self.file);
        self.line = None;
    }

    /// Findings from here on belong to this line, counted from 1; `None`: to the file as a whole.
    pub(crate) fn turn_to(&mut self, line: Option<u64>) {
        self.line = line;
    }

    /// Notes a fault.
    pub(crate) fn broken(&mut self, layer: Layer, message: impl Into<String>) {
        if self.findings.len() == FINDINGS_KEPT {
            self.findings_left_out += 1;
            return;
        }
        let (file, message) = (printable(&self.file), printable(&message.into()));
        self.findings.push(Finding {
            layer,
            file,
            line: self.line,
            message,
        });
    }

    /// Notes a fault unless `holds`; `message` is only built when it is needed.
    pub(crate) fn check(&mut self, layer: Layer, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.broken(layer, message());
        }
    }

    /// Notes a fault unless the two are equal.
    pub(crate) fn same<T>(&mut self, layer: Layer, what: &str, found: &T, expected: &T)
    where
        T: PartialEq + Debug + ?Sized,
    {
        self.check(layer, found == expected, || {
            format!("{what} is {}, expected {}", quote(found), quote(expected))
        });
    }

    /// Adds to a tally of recomputed figures.
    pub(crate) fn recomputed(&mut self, what: &'static str, figures: u64) {
        *self.recomputed.entry(what).or_default() += figures;
    }

    /// Whether nothing has been found so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Findings so far, kept or not.
    pub(crate) fn count(&self) -> u64 {
        self.findings.len() as u64 + self.findings_left_out
    }
}

/// A value as it may stand in a message: escaped, and cut where it grows long.
pub(crate) fn quote<T: Debug + ?Sized>(value: &T) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(QUOTE_CHARS) {
        Some((byte, _)) => format!("{}...", &text[..byte]),
        None => text,
    }
}

/// Text that cannot steer a terminal, whatever file it came from.
fn printable(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    text.chars().take(MESSAGE_CHARS).map(shown).collect()
}
