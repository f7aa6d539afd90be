//! A model file read by position: no mapping, so a file that shrinks is an error and never a crash.
//!
//! Not here: what the bytes mean (`gguf`, `safetensors`).

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Bytes hashed at a time.
const HASH_WINDOW: u64 = 1 << 20;

/// An open file, and its length when it was opened.
pub struct ModelFile {
    path: PathBuf,
    file: File,
    len: u64,
    stamp: Stamp,
}

/// By what a file is known again: another or a rewritten one differs here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    len: u64,
    /// Device and inode.
    place: (u64, u64),
    modified: Option<SystemTime>,
}

impl ModelFile {
    /// Opens a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        let io = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        // Asked before opening: opening a pipe would wait for its writer.
        let metadata = std::fs::metadata(path).map_err(io)?;
        if !metadata.is_file() {
            return Err(malformed(path, 0, "this is not a regular file".to_owned()));
        }
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        let len = metadata.len();
        let stamp = Stamp {
            len,
            place: (metadata.dev(), metadata.ino()),
            modified: metadata.modified().ok(),
        };
        let path = path.to_owned();
        Ok(Self {
            path,
            file,
            len,
            stamp,
        })
    }

    /// By what it was known when it was opened.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length when it was opened, in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it had no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `len` bytes from byte `offset`; nothing is allocated for bytes the file never had.
    pub fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        if offset
            .checked_add(len as u64)
            .is_none_or(|end| end > self.len)
        {
            let what = format!("{len} bytes wanted; the file has {}", self.len);
            return Err(self.malformed(offset, what));
        }
        let mut bytes = vec![0; len];
        self.read_into(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes` from byte `offset` on.
    pub fn read_into(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(bytes, offset);
        read.map_err(|source| match source.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                let len = bytes.len();
                let what = format!("the file ended within {len} bytes: it shrank while read");
                self.malformed(offset, what)
            }
            _ => Error::Io {
                path: self.path.clone(),
                source,
            },
        })
    }

    /// The whole file as text, refused above `limit` bytes.
    pub fn text(&self, limit: u64) -> Result<String> {
        if self.len > limit {
            let what = format!("{} bytes; at most {limit} are believed", self.len);
            return Err(self.malformed(0, what));
        }
        String::from_utf8(self.read_at(0, self.len as usize)?).map_err(|error| {
            let offset = error.utf8_error().valid_up_to() as u64;
            self.malformed(offset, "this is not UTF-8".to_owned())
        })
    }

    /// The whole file as JSON of type `T`, refused above `limit` bytes.
    pub fn json<T: DeserializeOwned>(&self, limit: u64) -> Result<T> {
        serde_json::from_str(&self.text(limit)?).map_err(|source| Error::Json {
            path: self.path.clone(),
            source,
        })
    }

    /// SHA-256 of the whole file.
    pub fn sha256(&self) -> Result<[u8; 32]> {
        let mut hasher = Sha256::new();
        let mut offset = 0;
        while offset < self.len {
            let len = (self.len - offset).min(HASH_WINDOW);
            hasher.update(self.read_at(offset, len as usize)?);
            offset += len;
        }
        Ok(hasher.finalize().into())
    }

    /// An error at byte `offset` of this file.
    pub(super) fn malformed(&self, offset: u64, what: String) -> Error {
        malformed(&self.path, offset, what)
    }
}

fn malformed(path: &Path, offset: u64, what: String) -> Error {
    let path = path.to_owned();
    Error::Malformed { path, offset, what }
}
