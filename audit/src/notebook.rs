//! What an audit writes down as it goes: findings, each with its place, and tallies of what was looked at.
//!
//! Not here: what is checked (every other module) or how it is shown (`report`).

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};
use std::panic::Location;

use serde::Serialize;

use crate::locate;

/// Findings kept word for word; further ones are counted. A broken trace repeats itself, and twenty say enough.
const FINDINGS_KEPT: usize = 20;
/// Characters of one message kept, and
const MESSAGE_CHARS: usize = 500;
/// of a value quoted in it, so that a hostile file cannot flood the terminal.
const QUOTE_CHARS: usize = 120;

/// A family of checks; every fault is caught by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The directory, its files and `SHA256SUMS`.
    Seal,
    /// `envelope.json` against `envelope.toml`.
    Declared,
    /// JSON, schema tags, known fields, ranges.
    Format,
    /// `seq`, `prev` and which line may follow which.
    Chain,
    /// Times that run back, overlap, or come before their cause.
    Clock,
    /// Effective settings against the requested ones, and those of one arm against another's.
    Settings,
    /// A prompt rebuilt from its parts, or a workload other than the declared one.
    Prompt,
    /// Client-supplied ids that the declared seed does not give.
    Seed,
    /// Token counts and sums over a trace.
    Count,
    /// Reuse beyond what existed.
    Reuse,
    /// Memory that could not hold what was held, or that the machine does not have.
    Memory,
    /// A figure of run.json that the traces do not give.
    Record,
    /// Arms that answered differently.
    Identity,
    /// `results/INDEX` against the directories.
    Anchor,
    /// What was signed over a run, and by whom.
    Attestation,
}

impl Layer {
    /// Every family, from the outermost inwards.
    pub const ALL: [Self; 15] = [
        Self::Seal,
        Self::Declared,
        Self::Format,
        Self::Chain,
        Self::Clock,
        Self::Settings,
        Self::Prompt,
        Self::Seed,
        Self::Count,
        Self::Reuse,
        Self::Memory,
        Self::Record,
        Self::Identity,
        Self::Anchor,
        Self::Attestation,
    ];
}

/// Where in the source of this crate a check stands.
pub type Site = &'static Location<'static>;

/// Which checks an audit makes. All of them, unless a test of the auditor leaves some out to show that they are needed; no
/// command line can.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks {
    left_out: Option<Layer>,
    muted: Option<(Site, &'static str)>,
}

impl Checks {
    /// All but this family.
    pub fn without(layer: Layer) -> Self {
        Self {
            left_out: Some(layer),
            muted: None,
        }
    }

    /// All but the one at `site`; where one stands there for every row of a table, only that row's, which its messages name.
    /// An empty `row` stands for all of them.
    pub fn muting(site: Site, row: &'static str) -> Self {
        Self {
            left_out: None,
            muted: Some((site, row)),
        }
    }

    fn leave_out(&self, layer: Layer, site: Site, message: &str) -> bool {
        let muted = |(it, row): (Site, &str)| it == site && (row.is_empty() || names(message, row));
        self.left_out == Some(layer) || self.muted.is_some_and(muted)
    }
}

/// Whether `row` stands in `message` as a word of its own.
fn names(message: &str, row: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    message.match_indices(row).any(|(at, _)| {
        !message[..at].ends_with(in_word) && !message[at + row.len()..].starts_with(in_word)
    })
}

/// What a reader answers that cannot follow a trace any further. Why is a finding.
#[derive(Debug)]
pub(crate) struct Stop;

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
    /// The check that says so.
    #[serde(skip)]
    pub site: Site,
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
    /// What could not be checked in this run, in words.
    pub(crate) not_checked: Vec<String>,
    checks: Checks,
    /// The JSON document read last, by name: findings about its values name their lines.
    document: (String, String),
    file: String,
    line: Option<u64>,
}

impl Notebook {
    /// An empty one, for an audit of these checks.
    pub(crate) fn new(checks: Checks) -> Self {
        Self {
            checks,
            ..Self::default()
        }
    }

    /// Findings from here on belong to `file`.
    pub(crate) fn open(&mut self, file: &str) {
        file.clone_into(&mut self.file);
        self.line = None;
    }

    /// Findings from here on belong to this line, counted from 1; `None`: to the file as a whole.
    pub(crate) fn turn_to(&mut self, line: Option<u64>) {
        self.line = line;
    }

    /// Keeps the text of a document, so that findings about its values can name their lines.
    pub(crate) fn keep_document(&mut self, name: &str, text: String) {
        self.document = (name.to_owned(), text);
    }

    /// Notes a fault of the value at `path` in the open document, and names the line of it or of the nearest value around.
    #[track_caller]
    pub(crate) fn broken_at(&mut self, layer: Layer, path: &str, message: impl Into<String>) {
        if self.findings.len() == FINDINGS_KEPT {
            return self.broken(layer, message); // counted only, so nobody asks for its line
        }
        let mut around = path;
        while self.document.0 == self.file && !around.is_empty() && self.line.is_none() {
            self.line = locate::line(&self.document.1, around);
            around = &around[..around.rfind(['.', '[']).unwrap_or(0)];
        }
        self.broken(layer, message);
        self.line = None;
    }

    /// Notes a fault.
    #[track_caller]
    pub(crate) fn broken(&mut self, layer: Layer, message: impl Into<String>) {
        self.note(layer, &message.into());
    }

    /// Notes a fault after which the rest of a trace cannot be followed.
    #[track_caller]
    pub(crate) fn stop(&mut self, message: impl Into<String>) -> Stop {
        self.note(Layer::Chain, &message.into());
        Stop
    }

    /// Notes such a fault unless `holds`.
    #[track_caller]
    pub(crate) fn insist(
        &mut self,
        holds: bool,
        message: impl FnOnce() -> String,
    ) -> Result<(), Stop> {
        if holds || !self.note(Layer::Chain, &message()) {
            return Ok(());
        }
        Err(Stop)
    }

    /// Whether the fault counts: one whose check is left out does not.
    #[track_caller]
    fn note(&mut self, layer: Layer, message: &str) -> bool {
        let site = Location::caller();
        if self.checks.leave_out(layer, site, message) {
            return false;
        }
        if self.findings.len() == FINDINGS_KEPT {
            self.findings_left_out += 1;
            return true;
        }
        let (file, message) = (printable(&self.file), printable(message));
        self.findings.push(Finding {
            layer,
            file,
            line: self.line,
            message,
            site,
        });
        true
    }

    /// Notes a fault unless `holds`; `message` is only built when it is needed.
    #[track_caller]
    pub(crate) fn check(&mut self, layer: Layer, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.broken(layer, message());
        }
    }

    /// Notes a fault unless the two are equal.
    #[track_caller]
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
    brief(format!("{value:?}"))
}

/// JSON as it may stand in a message: cut where it grows long.
pub(crate) fn brief(text: String) -> String {
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
