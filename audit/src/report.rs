//! What an audit tells: findings, identity, and the closing list of what was recomputed, replayable, asserted, unchecked.
//!
//! Not here: any check.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::attest::Attestation;
use crate::notebook::{Finding, Notebook};
use crate::record::Identity;
use crate::run::Followed;
use crate::schema;

/// What no reader of a run directory can know.
const BEYOND: [&str; 3] = [
    "whether clocks and memory figures are true: the writer states them",
    UNREPLAYED,
    "whether machine and build are those named",
];
/// Of what was counted.
const BUILD: &str = "when it was counted, and whether the build is the one named";
const UNREPLAYED: &str =
    "whether the named model gives these ids and logits: that takes a replay with the engine";
const UNANCHORED: &str = "whether the run is anchored: results/INDEX was not read";
const CUT_SHORT: &str =
    "everything beyond the findings: the evidence could not be followed to its end";

/// The outcome of auditing one run directory.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    /// The directory, as it was named.
    pub dir: String,
    exit_code: u8,
    /// Whether nothing ran.
    #[serde(skip)]
    counted: bool,
    /// Faults, in the order they were met.
    pub findings: Vec<Finding>,
    /// Faults beyond the ones kept.
    pub findings_left_out: u64,
    /// Recomputed identity; `None` where the evidence could not be followed that far, or nothing ran.
    pub identity: Option<Identity>,
    /// How many figures of each kind were derived again and compared.
    pub recomputed: BTreeMap<&'static str, u64>,
    /// How many values of each kind the engine would give again.
    pub replayable: BTreeMap<&'static str, u64>,
    /// How many values of each kind rest on the writer's word.
    pub asserted: BTreeMap<&'static str, u64>,
    /// What was not checked, in words.
    pub not_checked: Vec<String>,
    /// Where the auditor gave a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attestation: Option<Attestation>,
}

impl Report {
    pub(crate) fn new(
        dir: &Path,
        followed: Option<Followed>,
        attestation: Option<Attestation>,
        notes: Notebook,
    ) -> Self {
        let exit_code = match &followed {
            Some(Followed::Ran(identity)) if notes.is_clean() => u8::from(!identity.equal),
            Some(Followed::Counted) if notes.is_clean() => 0,
            _ => 4,
        };
        let cut_short = followed.is_none().then_some(CUT_SHORT);
        let (identity, counted) = match followed {
            Some(Followed::Ran(identity)) => (Some(identity), false),
            Some(Followed::Counted) => (None, true),
            None => (None, false),
        };
        let beyond: &[&str] = if counted { &[BUILD] } else { &BEYOND };
        Self {
            schema: schema::REPORT,
            dir: dir.display().to_string(),
            exit_code,
            counted,
            findings: notes.findings,
            findings_left_out: notes.findings_left_out,
            identity,
            recomputed: notes.recomputed,
            replayable: notes.replayable,
            asserted: notes.asserted,
            not_checked: cut_short
                .into_iter()
                .chain(beyond.iter().copied())
                .map(str::to_owned)
                .chain(notes.not_checked)
                .chain([UNANCHORED.to_owned()])
                .collect(),
            attestation,
        }
    }

    /// Strikes anchoring from what was not checked; `index` has seen it.
    pub(crate) fn anchored(mut self) -> Self {
        self.not_checked.retain(|words| *words != UNANCHORED);
        self
    }

    /// Says of the answers which share was asked of the model again; what came of it is for whoever asked to tell.
    #[must_use]
    pub fn replayed(mut self, prompts: usize, of_run: usize) -> Self {
        let left = of_run.saturating_sub(prompts);
        let rest = (left > 0).then(|| {
            format!(
                "whether the named model gives the ids and logits of the other {left} of {of_run} distinct prompts"
            )
        });
        let stated = self.not_checked.into_iter();
        let others = stated.filter(|words| words != UNREPLAYED);
        self.not_checked = others.chain(rest).collect();
        self
    }

    /// 0: the evidence holds and all arms answered alike. 1: it holds and says they did not. 4: it is broken.
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// The report as plain text.
    pub fn render(&self) -> String {
        let mut text = format!("audit of {}\n", self.dir);
        let outcome = match self.exit_code {
            0 if self.counted => "PASS: the evidence holds; it was counted, and nothing ran",
            0 if self
                .identity
                .as_ref()
                .is_some_and(|identity| identity.arms.is_empty()) =>
            {
                "PASS: the evidence holds, and says that no arm of an engine completed"
            }
            0 => "PASS: the evidence holds and all arms answered alike",
            1 => "IDENTITY FAILED: the evidence holds, and says that the arms answered differently",
            _ => "BROKEN: the evidence does not hold",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{outcome}");
        for finding in &self.findings {
            let _ = writeln!(text, "  {finding}");
        }
        if self.findings_left_out > 0 {
            let _ = writeln!(text, "  and {} more findings", self.findings_left_out);
        }
        if let Some(identity) = &self.identity {
            let _ = writeln!(text, "identity     {}", describe(identity));
        }
        for (title, tally) in [
            ("recomputed", &self.recomputed),
            ("replayable", &self.replayable),
            ("asserted", &self.asserted),
        ] {
            let total: u64 = tally.values().sum();
            let kinds: Vec<String> = tally
                .iter()
                .map(|(kind, count)| format!("{count} {kind}"))
                .collect();
            let colon = if kinds.is_empty() { "" } else { ": " };
            let _ = writeln!(text, "{title:<12} {total}{colon}{}", kinds.join(", "));
        }
        if let Some(attestation) = &self.attestation {
            let _ = writeln!(text, "attestation  {}", attested(attestation));
        }
        let _ = writeln!(text, "not checked");
        for words in &self.not_checked {
            let _ = writeln!(text, "  {words}");
        }
        text
    }
}

/// What an attestation proves.
fn attested(it: &Attestation) -> String {
    let (file, keyid) = (&it.file, &it.keyid);
    if it.holds {
        format!(
            "{file}: whoever holds the key that was given (keyid {keyid}) says that exactly these files are the run, of this \
             envelope, model and source. It proves who says so"
        )
    } else {
        format!(
            "{file} does not hold by the key that was given (keyid {keyid}), so it proves nothing"
        )
    }
}

fn describe(identity: &Identity) -> String {
    let arms = identity.arms.join(", ");
    match &identity.first_divergence {
        _ if identity.arms.is_empty() => {
            "no arm of an engine completed, so nothing was compared".to_owned()
        }
        None => format!("{} requests answered alike by {arms}", identity.requests),
        Some(at) => {
            let what = match at.position {
                Some(position) => format!("output token {position}"),
                None => "the logits only".to_owned(),
            };
            format!(
                "{}-{} differs at agent {}, turn {}: {what}",
                at.arm, at.rep, at.agent, at.turn
            )
        }
    }
}
