//! The key an auditor brings: a public ed25519 key, and none that came with the evidence it is to judge.
//!
//! Not here: where an honest key is had from. That is between the auditor and whoever signs.

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::DecodePublicKey;
use ed25519_dalek::{Signature, VerifyingKey};

use crate::hash;

/// Bytes of a key file; real ones have a hundred.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// Why a key was not used, in words; exit code 2.
#[derive(Debug)]
pub struct KeyRefused(String);

impl fmt::Display for KeyRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for KeyRefused {}

/// A key that the auditor trusts.
pub(crate) struct Key {
    key: VerifyingKey,
    /// SHA-256 of its 32 raw bytes, hex.
    pub(crate) id: String,
}

impl Key {
    /// Reads the key, unless it came with the evidence.
    pub(crate) fn read(path: &Path, dir: &Path, attestation: &Path) -> Result<Self, KeyRefused> {
        refuse_of_evidence(path, dir, attestation)?;
        let shown = path.display();
        let pem = text(path)?;
        let labels: Vec<&str> = pem.lines().filter_map(label).collect();
        if labels.iter().any(|label| label.ends_with("PRIVATE KEY")) {
            return Err(KeyRefused(format!(
                "{shown} is a private key, which only whoever signs may have; give the public one: openssl pkey -in {shown} \
                 -pubout -out PUBLIC.pem"
            )));
        }
        match labels[..] {
            ["PUBLIC KEY"] => {}
            [] => {
                let message =
                    format!("{shown} is no PEM file: it has no line `-----BEGIN PUBLIC KEY-----`");
                return Err(KeyRefused(message));
            }
            _ => {
                let found = labels.join(", ");
                return Err(KeyRefused(format!(
                    "{shown} holds {found:?}; give one PUBLIC KEY"
                )));
            }
        }
        let key = VerifyingKey::from_public_key_pem(&pem)
            .ok()
            .filter(|key| !key.is_weak());
        let key = key.ok_or_else(|| {
            KeyRefused(format!(
                "{shown} is no ed25519 public key in PEM; `openssl pkey -in KEY.pem -pubout` writes that of a private one"
            ))
        })?;
        let id = hash::of_bytes(key.as_bytes());
        Ok(Self { key, id })
    }

    /// Whether it signed these bytes.
    pub(crate) fn signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        let signature = Signature::from_slice(signature);
        signature.is_ok_and(|it| self.key.verify_strict(bytes, &it).is_ok())
    }
}

fn text(path: &Path) -> Result<String, KeyRefused> {
    let shown = path.display();
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_KEY_BYTES + 1).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(KeyRefused(format!("{shown} is no PEM file: it is no text")))
        }
        Err(error) => Err(KeyRefused(format!("{shown} cannot be read: {error}"))),
        Ok(0) => Err(KeyRefused(format!("{shown} is empty"))),
        Ok(length) if length as u64 > MAX_KEY_BYTES => Err(KeyRefused(format!(
            "{shown} is larger than the limit of {MAX_KEY_BYTES} bytes"
        ))),
        Ok(_) => Ok(text),
    }
}

/// What a line says begins there.
fn label(line: &str) -> Option<&str> {
    let line = line.trim().strip_prefix("-----BEGIN ")?;
    line.strip_suffix("-----")
}

/// A key that whoever made the evidence could have put there says nothing of who made it.
fn refuse_of_evidence(key: &Path, dir: &Path, attestation: &Path) -> Result<(), KeyRefused> {
    let keys = places(key);
    let refuse = |why: String| {
        let shown = key.display();
        Err(KeyRefused(format!(
            "{shown} {why}: a key that came with the evidence proves nothing; give one that you have from whoever signs, \
             kept elsewhere"
        )))
    };
    let inside = |folder: &Path| keys.iter().any(|key| key.starts_with(folder));
    let run = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
    if inside(&run) {
        return refuse(format!("lies in the run directory {}", run.display()));
    }
    for attestation in places(attestation) {
        let beside = attestation.parent();
        if keys.iter().any(|key| key.parent() == beside) {
            return refuse(format!(
                "lies beside the attestation {}",
                attestation.display()
            ));
        }
    }
    let evidence = places(attestation).into_iter().chain([run]);
    let roots = evidence.flat_map(|place| published(&place));
    for root in roots {
        if inside(&root) {
            return refuse(format!(
                "lies below {}, which the evidence is published with",
                root.display()
            ));
        }
    }
    Ok(())
}

/// Where a path leads, and where the name itself stands: a link is chosen by whoever made it.
fn places(path: &Path) -> Vec<PathBuf> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let named = fs::canonicalize(parent)
        .ok()
        .and_then(|parent| Some(parent.join(path.file_name()?)));
    named.into_iter().chain(fs::canonicalize(path)).collect()
}

/// Directories above a place that hold published results: `results/INDEX`, or `INDEX` itself.
fn published(place: &Path) -> Vec<PathBuf> {
    let holds = |folder: &&Path| {
        let index = |path: &str| folder.join(path).is_file();
        index("results/INDEX") || (index("INDEX") && folder.ends_with("results"))
    };
    let above = place.ancestors().filter(holds);
    above.map(Path::to_path_buf).collect()
}
