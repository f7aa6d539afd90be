//! Files that appear whole or not at all, and directories that are taken by exactly one run.
//!
//! Not here: traces, which are append-only on purpose (`run::process`), and what any file means.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use workloads::trace::hex;

use crate::error::Error;

/// Bytes read at once while hashing or copying.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes `bytes` to a temporary name beside `path`, syncs, and renames it into place.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let temporary = temporary_name(path);
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| path.parent().map_or(Ok(()), sync_directory));
    written.map_err(|source| Error::io("cannot write", path, source))
}

/// The name a file has until it is complete.
pub fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// Makes the entries of a directory durable.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Reads a text file.
pub fn read_text(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::io("cannot read", path, source))
}

/// Creates a directory and those above it.
pub fn create_directories(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| Error::io("cannot create", path, source))
}

/// SHA-256 of a file's bytes.
pub fn file_sha256(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::io("cannot read", path, source);
    let mut file = File::open(path).map_err(failed)?;
    copy_hashing(&mut file, &mut io::sink()).map_err(failed)
}

/// Copies everything and returns the SHA-256 of what went through.
pub fn copy_hashing(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(count) => {
                hasher.update(&buffer[..count]);
                to.write_all(&buffer[..count])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Creates `<parent>/<stem>-<n>` for the least n from 1 that nobody has; creating is what takes it.
pub fn take_numbered_directory(parent: &Path, stem: &str) -> Result<PathBuf, Error> {
    create_directories(parent)?;
    for number in 1_u32.. {
        let path = parent.join(format!("{stem}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(Error::io("cannot create", &path, source)),
        }
    }
    Err(Error::Usage(format!(
        "{} is full; give --out DIR",
        parent.display()
    )))
}

/// A directory for files nobody keeps, gone when its owner is.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// One below `parent` that nobody has: what a process of the same number once left is no obstacle.
    pub fn take(parent: &Path, purpose: &str) -> Result<Self, Error> {
        let stem = format!("fak-{purpose}-{}", std::process::id());
        take_numbered_directory(parent, &stem).map(Self)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // scratch files that stay do no harm
    }
}

/// Every file below `directory`, as `/`-separated relative paths in bytewise order.
pub fn files_below(directory: &Path) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut pending = vec![(directory.to_path_buf(), String::new())];
    while let Some((path, prefix)) = pending.pop() {
        let failed = |source| Error::io("cannot read", &path, source);
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().map_err(failed)?.is_dir() {
                pending.push((entry.path(), format!("{name}/")));
            } else {
                found.push(name);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_number_is_never_given_twice() {
        let root = tempfile::tempdir().unwrap();
        let first = take_numbered_directory(root.path(), "20260102").unwrap();
        let second = take_numbered_directory(root.path(), "20260102").unwrap();
        assert!(first.ends_with("20260102-1") && second.ends_with("20260102-2"));
    }

    #[test]
    fn what_another_process_left_is_no_obstacle_and_nothing_is_left() {
        let root = tempfile::tempdir().unwrap();
        let left = format!("fak-control-{}-1", std::process::id());
        fs::write(root.path().join(&left), "left").unwrap();
        let scratch = Scratch::take(root.path(), "control").unwrap();
        fs::write(scratch.path().join("trace.jsonl"), "").unwrap();
        drop(scratch);
        assert_eq!(files_below(root.path()).unwrap(), [left]);
    }

    #[test]
    fn an_atomic_write_replaces_and_leaves_no_temporary() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.json");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(files_below(root.path()).unwrap(), ["a.json"]);
    }

    #[test]
    fn hashing_agrees_with_hashing_in_one_piece() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("big");
        let bytes: Vec<u8> = (0..BUFFER_BYTES * 2 + 17)
            .map(|index| (index % 251) as u8)
            .collect();
        fs::write(&path, &bytes).unwrap();
        assert_eq!(
            file_sha256(&path).unwrap(),
            workloads::trace::sha256_hex(&bytes)
        );
    }
}
