//! Who says so: an attestation over a run, verified against a key that the auditor brought along.
//!
//! The format is FORMAT.md's "Attestation". Not here: whether the run itself holds (`run`).

mod envelope;
mod key;
mod statement;
mod unique;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::format;
use crate::hash;
use crate::notebook::{Checks, Layer, Notebook, quote};
use crate::report::Report;
use crate::run;
use crate::seal::{SUMS, Sums};
use envelope::Envelope;
use key::Key;
pub use key::KeyRefused;

/// What an attestation's file is called after its run.
const SUFFIX: &str = ".intoto.json";

/// What an auditor holds against a run.
pub(crate) struct Signed {
    key: Key,
    file: PathBuf,
}

/// An attestation that was looked at, as an audit tells of it.
#[derive(Clone, Debug, Serialize)]
pub struct Attestation {
    /// The file, as it was named.
    pub file: String,
    /// SHA-256 of the raw public key that the auditor gave.
    pub keyid: String,
    /// Whether that key signed it, and what it says is what the run says.
    pub holds: bool,
}

/// Audits one run directory and the attestation over it: `attestation`, or the file beside the run. Refuses a `key` file that
/// is no public ed25519 key, or that came with the evidence.
pub fn audit_attested(
    dir: &Path,
    key: &Path,
    attestation: Option<&Path>,
) -> Result<Report, KeyRefused> {
    audit_attested_with(dir, key, attestation, Checks::default())
}

/// The same with these checks only.
pub fn audit_attested_with(
    dir: &Path,
    key: &Path,
    attestation: Option<&Path>,
    checks: Checks,
) -> Result<Report, KeyRefused> {
    let file = attestation.map_or_else(|| beside(dir), Path::to_path_buf);
    let key = Key::read(key, dir, &file)?;
    Ok(run::audited(dir, checks, Some(&Signed { key, file })))
}

/// Where `harness attest` writes, unless told otherwise.
fn beside(dir: &Path) -> PathBuf {
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(SUFFIX);
    dir.with_file_name(name)
}

/// Looks at the attestation of a run whose seal lists `sums`, or does not hold.
pub(crate) fn check(
    dir: &Path,
    sums: Option<&Sums>,
    signed: &Signed,
    notes: &mut Notebook,
) -> Attestation {
    let before = notes.count();
    let name = signed.file.file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    notes.open(&name);
    let envelope = envelope::read(&signed.file, &name, notes);
    notes.open(&name);
    let statement = envelope.and_then(|envelope| {
        check_signature(&envelope, &signed.key, notes);
        statement::parse(&envelope, notes)
    });
    if let Some(statement) = statement {
        check_statement(dir, sums, &statement, notes);
    }
    let words = "whether clocks and the machine's facts are true: an attestation says who states them, not that they hold";
    notes.not_checked.push(words.to_owned());
    Attestation {
        file: signed.file.display().to_string(),
        keyid: signed.key.id.clone(),
        holds: sums.is_some() && notes.count() == before,
    }
}

/// One signature by the key is enough; whatever else stands beside it is said to be unchecked.
fn check_signature(envelope: &Envelope, key: &Key, notes: &mut Notebook) {
    let (ours, others): (Vec<_>, Vec<_>) = envelope
        .signatures
        .iter()
        .partition(|it| it.keyid.as_deref() == Some(key.id.as_str()));
    let named = |it: &&envelope::Signature| it.keyid.clone().unwrap_or_else(|| "none".to_owned());
    let named: Vec<String> = others.iter().map(named).collect();
    notes.check(Layer::Attestation, !ours.is_empty(), || {
        format!(
            "no signature is by the key that was given, keyid {}; those that are there state the keyid {}",
            key.id,
            quote(&named)
        )
    });
    let signed = envelope.signed_bytes();
    let holds = ours.iter().any(|it| key.signed(&signed, &it.signature));
    notes.check(Layer::Attestation, holds || ours.is_empty(), || {
        format!(
            "the signature does not verify by the key that was given, keyid {}: payload, payloadType or signature is not \
             what was signed",
            key.id
        )
    });
    if !ours.is_empty() && !named.is_empty() {
        let words = format!("signatures by other keys, which were not given: {named:?}");
        notes.not_checked.push(words);
    }
    if !envelope.ignored.is_empty() {
        let fields = envelope.ignored.join(", ");
        let words = format!(
            "what else the attestation carries, which nobody signed: {fields}; a key in it is ignored, only the one that \
             was given counts"
        );
        notes.not_checked.push(words);
    }
}

/// What it says against what the run says.
fn check_statement(dir: &Path, sums: Option<&Sums>, statement: &Value, notes: &mut Notebook) {
    statement::check_types(statement, notes);
    let (Some(sums), Ok(of_sums)) = (sums, hash::of_file(&dir.join(SUMS))) else {
        let words = "whether the attestation is of this run: the run's seal does not hold";
        notes.not_checked.push(words.to_owned());
        return;
    };
    let mut files = sums.clone();
    files.insert(SUMS.to_owned(), of_sums);
    statement::check_subjects(statement, &files, notes);
    let text = format::text(dir, "run.json", &mut Notebook::default());
    let Some(record) = text.and_then(|text| serde_json::from_str(&text).ok()) else {
        return; // that it cannot be read is a finding of the run
    };
    statement::check_predicate(statement, &record, notes);
    let name = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    let stated = &statement["predicate"]["runDetails"]["metadata"]["invocationId"];
    if let Some(stated) = stated.as_str().filter(|stated| *stated != name) {
        let words = format!(
            "what the directory was called: the attestation says {}, here it is {}",
            quote(stated),
            quote(&*name)
        );
        notes.not_checked.push(words);
    }
}
