//! The digest that names a model, taken when it is first asked for.
//!
//! Hashing a file takes longer than anything else that opening it does, and few runs of a model need its digest. So the
//! files are remembered as they stood when the model was read, and hashed later only if they still stand so.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::weights::file::{ModelFile, Stamp};

/// The files a digest is taken of, or the digest itself.
pub(super) enum Subject {
    /// Already taken.
    Taken([u8; 32]),
    /// Of one file.
    File(PathBuf, Stamp),
    /// Of the sorted lines `name sha256` of a directory's files.
    Directory(PathBuf, Vec<(String, Stamp)>),
}

impl Subject {
    /// The file at `path`, as it stands now.
    pub(super) fn file(path: &Path) -> Result<Self> {
        let stamp = ModelFile::open(path)?.stamp();
        Ok(Self::File(path.to_owned(), stamp))
    }

    /// The files `names` of `directory`, as they stand now.
    pub(super) fn directory(directory: &Path, mut names: Vec<String>) -> Result<Self> {
        names.sort_unstable();
        let stamped = |name: String| {
            let stamp = ModelFile::open(&directory.join(&name))?.stamp();
            Ok((name, stamp))
        };
        let files = names.into_iter().map(stamped).collect::<Result<_>>()?;
        Ok(Self::Directory(directory.to_owned(), files))
    }

    fn sha256(&self) -> Result<[u8; 32]> {
        match self {
            Self::Taken(sha256) => Ok(*sha256),
            Self::File(path, stamp) => sha256_of(path, stamp),
            Self::Directory(directory, files) => {
                let mut lines = Sha256::new();
                for (name, stamp) in files {
                    let sha256 = hex(&sha256_of(&directory.join(name), stamp)?);
                    lines.update(format!("{name} {sha256}\n"));
                }
                Ok(lines.finalize().into())
            }
        }
    }
}

/// SHA-256 of a file that is still what it was.
fn sha256_of(path: &Path, stamp: &Stamp) -> Result<[u8; 32]> {
    let file = ModelFile::open(path)?;
    let sha256 = file.sha256()?;
    // Asked after reading: what changed while it was hashed is seen too.
    if file.stamp() != *stamp || ModelFile::open(path)?.stamp() != *stamp {
        return Err(Error::Malformed {
            path: path.to_owned(),
            offset: 0,
            what: "the file changed after the model was read from it: its digest would name other weights; run again"
                .to_owned(),
        });
    }
    Ok(sha256)
}

/// A digest, taken once.
pub(super) struct Digest {
    of: Subject,
    hex: OnceLock<String>,
}

impl Digest {
    pub(super) fn new(of: Subject) -> Self {
        let hex = OnceLock::new();
        Self { of, hex }
    }

    /// Lower-case hex.
    pub(super) fn hex(&self) -> Result<&str> {
        if let Some(hex) = self.hex.get() {
            return Ok(hex);
        }
        let taken = hex(&self.of.sha256()?);
        Ok(self.hex.get_or_init(|| taken))
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}
