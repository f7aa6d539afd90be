//! reports/claims.toml: what we say, bound to the results that say so.
//!
//! A claim cannot drift from its evidence: each number in it is a placeholder bound to a field of a speaking run, and a
//! test it names as witness must exist. Not here: running that witness (`witness`), or how a claim is laid out on the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Spanned;
use workloads::envelope::embedded;

use super::error::ReportError;
use super::evidence::{Anchored, speaker};
use super::figure::Binding;
use super::page;

const TAGS: [&str; 3] = ["SHIPPED", "SIMULATED", "STUB"];
const PROVENANCES: [&str; 5] = ["WITNESSED", "OBSERVED", "MODELED", "SIMULATED", "QUOTED"];

/// Characters of a sentence, its numbers filled in: a row of a ledger, not a paragraph.
const SENTENCE_MAX: usize = 160;

/// Stands for a number until a run gives it.
const UNKNOWN: &str = "`?`";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    claim: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Spanned<String>,
    tag: String,
    provenance: String,
    sentence: String,
    witness: String,
    fence: String,
    /// Source whose change makes the evidence too old to speak.
    #[serde(default)]
    sources: Vec<String>,
    #[serde(default)]
    bind: BTreeMap<String, String>,
}

/// A claim as pages show it.
#[derive(Debug, Serialize)]
pub(super) struct Claim {
    pub(super) id: String,
    pub(super) tag: String,
    pub(super) provenance: String,
    /// With its numbers filled in.
    pub(super) sentence: String,
    pub(super) witness: String,
    /// What the claim does not show.
    fence: String,
    /// Every number of the sentence; empty when the claim waits or has none.
    figures: Vec<Figure>,
    /// The envelopes without a speaking run that keep the claim from being witnessed.
    pub(super) waiting: BTreeSet<String>,
    /// What it speaks of, as paths from the root.
    pub(super) sources: Vec<String>,
    /// The runs its numbers are from.
    pub(super) runs: Vec<Witnessed>,
}

/// A run that numbers of a claim are from.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Witnessed {
    pub(super) envelope: String,
    pub(super) directory: String,
    pub(super) commit: String,
}

/// One number of a claim and where it stands.
#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    value: String,
    binding: String,
    directory: String,
    date: Option<String>,
}

/// Reads and binds every claim, in file order.
pub(super) fn load(root: &Path, runs: &[Anchored]) -> Result<Vec<Claim>, ReportError> {
    let text = page::read(root, "reports/claims.toml")?;
    let file: File = toml::from_str(&text).map_err(|error| ReportError::Claims {
        message: error.to_string(),
    })?;
    if file.claim.is_empty() {
        return Err(ReportError::Claims {
            message: "no claims; write a `[[claim]]`".into(),
        });
    }
    let mut ids = BTreeSet::new();
    let mut claims = Vec::new();
    for entry in file.claim {
        let line = 1 + text[..entry.id.span().start].matches('\n').count();
        let id = entry.id.get_ref().clone();
        let fail = |message| ReportError::Claim {
            line,
            id: id.clone(),
            message,
        };
        if !ids.insert(id.clone()) {
            return Err(fail("an earlier claim has this id".into()));
        }
        check(root, &entry).map_err(fail)?;
        claims.push(bind(entry, runs).map_err(fail)?);
    }
    Ok(claims)
}

/// Checks the words of a claim that do not depend on results.
fn check(root: &Path, entry: &Entry) -> Result<(), String> {
    for (field, value) in [
        ("id", entry.id.get_ref()),
        ("sentence", &entry.sentence),
        ("witness", &entry.witness),
        ("fence", &entry.fence),
    ] {
        if value.trim().is_empty() {
            return Err(format!("`{field}` is empty"));
        }
    }
    if entry.tag == "SHIPPED" && !entry.bind.is_empty() && entry.sources.is_empty() {
        return Err("its numbers are of some source; name it in `sources`".to_owned());
    }
    for source in &entry.sources {
        if !root.join(source).exists() {
            return Err(format!("source {source} is not there"));
        }
    }
    for (field, value, known) in [
        ("tag", &entry.tag, &TAGS[..]),
        ("provenance", &entry.provenance, &PROVENANCES[..]),
    ] {
        if !known.contains(&value.as_str()) {
            return Err(format!(
                "{field} `{value}` is not one of {}",
                known.join(", ")
            ));
        }
    }
    match entry.witness.split_once('#') {
        Some((file, test)) => {
            let source = fs::read_to_string(root.join(file))
                .map_err(|error| format!("witness file {file}: {error}"))?;
            if source.contains(&format!("fn {test}(")) {
                Ok(())
            } else {
                Err(format!("witness file {file} has no test `{test}`"))
            }
        }
        None if entry.witness.starts_with("cargo ") || entry.witness.starts_with("./") => Ok(()),
        None => Err(format!(
            "witness `{}` is neither `FILE#TEST` nor a command that starts with `cargo` or `./`",
            entry.witness
        )),
    }
}

/// Fills a claim's numbers in from the newest speaking run of each envelope it names.
fn bind(entry: Entry, runs: &[Anchored]) -> Result<Claim, String> {
    let used = placeholders(&entry.sentence)?;
    if let Some(name) = entry.bind.keys().find(|name| !used.contains(name.as_str())) {
        return Err(format!(
            "bind `{name}` is not used by the sentence; write {{{name}}} or drop it"
        ));
    }
    if let Some(name) = used.iter().find(|name| !entry.bind.contains_key(**name)) {
        return Err(format!(
            "placeholder {{{name}}} is not bound; add `{name} = \"...\"` to bind"
        ));
    }
    let (figures, waiting) = figures(&entry.bind, runs)?;
    let mut sentence = entry.sentence.clone();
    for name in used {
        let value = figures.iter().find(|figure| figure.name == name);
        let value = value.map_or(UNKNOWN, |figure| &figure.value);
        sentence = sentence.replace(&format!("{{{name}}}"), value);
    }
    let length = sentence.chars().count();
    if length > SENTENCE_MAX {
        return Err(format!(
            "its sentence has {length} characters, and {SENTENCE_MAX} are allowed; `fence` has room for more"
        ));
    }
    let Entry {
        id,
        tag,
        provenance,
        witness,
        fence,
        sources,
        bind,
        ..
    } = entry;
    let envelopes = bind.values().filter_map(|text| Binding::parse(text).ok());
    let of = envelopes.filter_map(|it| speaker(runs, &it.envelope));
    let of: BTreeSet<Witnessed> = of.map(Witnessed::of).collect();
    let id = id.into_inner();
    Ok(Claim {
        runs: of.into_iter().collect(),
        sources,
        id,
        tag,
        provenance,
        sentence,
        witness,
        fence,
        figures,
        waiting,
    })
}

impl Witnessed {
    fn of(run: &Anchored) -> Self {
        Self {
            envelope: run.record.envelope.clone(),
            directory: run.directory(),
            commit: run.record.build.commit.clone().unwrap_or_default(),
        }
    }
}

/// The numbers of a claim, or, when an envelope has no speaking run, none and the envelopes it waits for.
fn figures(
    bind: &BTreeMap<String, String>,
    runs: &[Anchored],
) -> Result<(Vec<Figure>, BTreeSet<String>), String> {
    let mut figures = Vec::new();
    let mut waiting = BTreeSet::new();
    for (name, text) in bind {
        let binding = Binding::parse(text)?;
        let envelope = &binding.envelope;
        if let Some(run) = speaker(runs, envelope) {
            figures.push(Figure {
                name: name.clone(),
                value: binding.resolve(run)?,
                binding: text.clone(),
                directory: run.directory(),
                date: run.date(),
            });
        } else if embedded().iter().any(|(known, _)| known == envelope)
            || runs.iter().any(|run| run.record.envelope == *envelope)
        {
            waiting.insert(envelope.clone());
        } else {
            return Err(format!("there is no envelope `{envelope}`"));
        }
    }
    if !waiting.is_empty() {
        figures.clear();
    }
    Ok((figures, waiting))
}

/// The names in braces.
fn placeholders(sentence: &str) -> Result<BTreeSet<&str>, String> {
    let mut names = BTreeSet::new();
    let mut rest = sentence;
    while let Some((_, after)) = rest.split_once('{') {
        let (name, after) = after
            .split_once('}')
            .ok_or("the sentence has a `{` without a `}`")?;
        names.insert(name);
        rest = after;
    }
    Ok(names)
}
