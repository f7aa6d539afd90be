//! Versions of the formats: the one of each that this verifier reads, and what to do with a file of another.
//!
//! Not here: the formats themselves (FORMAT.md, `schemas/`) or reading one (`format`, `chain`).

use serde::Deserialize;

use crate::notebook::{Layer, Notebook, quote};

pub(crate) const ENVELOPE: &str = "fak.envelope/1";
pub(crate) const RUN: &str = "fak.run/1";
/// run.json of an envelope that was counted and not run.
pub(crate) const COUNTS: &str = "fak.counts/1";
pub(crate) const TRACE: &str = "fak.trace/1";
/// Of what an audit answers with `--json`.
pub(crate) const REPORT: &str = "fak.audit/1";

/// A document of any version, as far as it must be known before it can be read strictly.
#[derive(Deserialize)]
struct Tagged {
    schema: String,
}

/// What a document of this name in a run directory must be.
pub(crate) fn of(name: &str) -> &'static str {
    if name == "run.json" { RUN } else { ENVELOPE }
}

/// Why a document is not read that names another schema than `known`, whatever its fields are. `None` where it names
/// none: then a strict reading says what is wrong.
pub(crate) fn refuse(document: &[u8], known: &str) -> Option<String> {
    let tagged: Tagged = serde_json::from_slice(document).ok()?;
    refuse_tag(&tagged.schema, known)
}

/// Why a file of schema `found` is not read; `None` if it is of the known one.
fn refuse_tag(found: &str, known: &str) -> Option<String> {
    if found == known {
        return None;
    }
    let next = match version(found, known) {
        None => "another kind of file stands in its place",
        older if older < version(known, known) => {
            "an older program wrote it; audit it with that program, from the commit that run.json names under \
             build.commit, or run the envelope again"
        }
        _ => "a newer program wrote it; update this checkout and type `cargo build -p audit`",
    };
    Some(format!(
        "schema is {}, expected {}: {next}",
        quote(found),
        quote(known)
    ))
}

/// Notes a trace that begins with another schema.
pub(crate) fn check_trace(found: &str, notes: &mut Notebook) {
    if let Some(message) = refuse_tag(found, TRACE) {
        notes.broken(Layer::Format, message);
    }
}

/// The number at the end of a tag of the same kind as `known`.
fn version(tag: &str, known: &str) -> Option<u64> {
    let (kind, number) = tag.rsplit_once('/')?;
    let same = known.rsplit_once('/').is_some_and(|it| it.0 == kind);
    number.parse().ok().filter(|_| same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_older_newer_or_of_another_kind() {
        let said = |found| refuse_tag(found, "fak.run/2").unwrap_or_default();
        assert_eq!(said("fak.run/2"), "");
        assert!(said("fak.run/1").contains("an older program"));
        assert!(said("fak.run/10").contains("a newer program"));
        for other in ["fak.trace/1", "fak.run/x", "fak.run", ""] {
            assert!(said(other).contains("another kind"), "{other}");
        }
    }
}
