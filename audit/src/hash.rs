//! SHA-256 as the evidence writes it: lower-case hex, and token ids as little-endian bytes.
//!
//! Not here: which hash belongs to what; the callers know.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Hex digest of `bytes`.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Hex digest of the ids' little-endian bytes.
pub(crate) fn of_ids<'a>(ids: impl IntoIterator<Item = &'a u32>) -> String {
    let mut hasher = Sha256::new();
    for id in ids {
        hasher.update(id.to_le_bytes());
    }
    hex(&hasher.finalize())
}

/// Hex digest of a text between whose two parts ids stand in decimal, with commas: the whole is never held.
pub(crate) fn of_ids_within(before: &str, ids: &[u32], after: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(before);
    for (place, id) in ids.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        hasher.update(format!("{comma}{id}"));
    }
    hasher.update(after);
    hex(&hasher.finalize())
}

/// Hex digest of a file, read in pieces: a trace may be larger than memory.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0_u8; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex(&hasher.finalize())),
            read => hasher.update(&piece[..read]),
        }
    }
}

/// Whether `text` is a digest as FORMAT.md writes one.
pub(crate) fn is_digest(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
            text
        })
}
