//! The seal: `SHA256SUMS` is canonical, and the directory holds exactly the files it lists, with those contents.
//!
//! Only files found by walking the directory are ever read, so no listed path can lead outside it. Not here: which files
//! a run must have (`run`) or what they say.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::hash;
use crate::notebook::{Layer, Notebook};

/// The file that seals a run.
pub(crate) const SUMS: &str = "SHA256SUMS";
/// The one directory a run has.
const TRACE_DIRECTORY: &str = "trace";
/// Bytes of SHA256SUMS; room for a hundred thousand files.
const MAX_SUMS_BYTES: u64 = 16 << 20;

/// Digest of each file by path.
pub(crate) type Sums = BTreeMap<String, String>;

/// Reads and checks the seal; `None` when it does not hold, since nobody then vouches for the contents.
pub(crate) fn check(dir: &Path, notes: &mut Notebook) -> Option<Sums> {
    let before = notes.count();
    notes.open(".");
    let mut found = Vec::new();
    if let Err(error) = walk(dir, "", &mut found, notes) {
        notes.broken(
            Layer::Seal,
            format!("the directory cannot be read: {error}"),
        );
        return None;
    }
    if !found.iter().any(|path| path == SUMS) {
        let message = format!(
            "{SUMS} is missing: the run is not sealed; run it again; a new directory is taken"
        );
        notes.broken(Layer::Seal, message);
        return None;
    }
    notes.open(SUMS);
    let text = read_sums(dir, notes)?;
    let sums = parse(&text, notes);
    for path in found.iter().filter(|path| *path != SUMS) {
        notes.open(path);
        let Some(listed) = sums.get(path) else {
            notes.broken(Layer::Seal, format!("is not listed in {SUMS}"));
            continue;
        };
        match hash::of_file(&dir.join(path)) {
            Ok(digest) => notes.same(Layer::Seal, "the file's SHA-256", &digest, listed),
            Err(error) => notes.broken(Layer::Seal, format!("cannot be read: {error}")),
        }
        notes.recomputed("file digests", 1);
    }
    for path in sums.keys().filter(|path| !found.contains(path)) {
        notes.open(path);
        notes.broken(Layer::Seal, format!("is listed in {SUMS} but missing"));
    }
    (notes.count() == before).then_some(sums)
}

/// Collects the paths of regular files below `dir`; anything else a run cannot hold is a finding.
fn walk(dir: &Path, above: &str, found: &mut Vec<String>, notes: &mut Notebook) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            notes.broken(
                Layer::Seal,
                format!("the file name {} is not UTF-8", name.display()),
            );
            continue;
        };
        let path = format!("{above}{name}");
        let kind = entry.file_type()?; // of the entry itself: links are not followed
        if kind.is_file() {
            found.push(path);
        } else if kind.is_dir() && path == TRACE_DIRECTORY {
            walk(&entry.path(), "trace/", found, notes)?;
        } else {
            let what = if kind.is_symlink() {
                "a symbolic link"
            } else {
                "not a regular file"
            };
            notes.broken(
                Layer::Seal,
                format!("{path:?} is {what}; a run holds regular files only"),
            );
        }
    }
    Ok(())
}

fn read_sums(dir: &Path, notes: &mut Notebook) -> Option<String> {
    let mut bytes = Vec::new();
    let read = File::open(dir.join(SUMS))
        .and_then(|file| file.take(MAX_SUMS_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        notes.broken(Layer::Seal, format!("cannot be read: {error}"));
        return None;
    }
    if bytes.len() as u64 > MAX_SUMS_BYTES {
        notes.broken(
            Layer::Seal,
            format!("is larger than the limit of {MAX_SUMS_BYTES} bytes"),
        );
        return None;
    }
    let text = String::from_utf8(bytes);
    if text.is_err() {
        notes.broken(Layer::Seal, "is not UTF-8");
    }
    text.ok()
}

/// Parses the canonical form; every departure from it is a finding.
fn parse(text: &str, notes: &mut Notebook) -> Sums {
    let mut sums = Sums::new();
    notes.check(Layer::Seal, text.ends_with('\n'), || {
        "does not end with a newline".to_owned()
    });
    let mut last = "";
    for (number, line) in (1..).zip(text.split_terminator('\n')) {
        notes.turn_to(Some(number));
        let parts = line
            .split_once("  ")
            .filter(|(digest, _)| hash::is_digest(digest));
        let Some((digest, path)) = parts else {
            notes.broken(Layer::Seal, "expected 64 hex digits, two spaces and a path");
            continue;
        };
        let plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        notes.check(Layer::Seal, plain && path != SUMS, || {
            format!("{path:?} may not be listed")
        });
        notes.check(Layer::Seal, last < path, || {
            format!("{path:?} is unsorted or repeated: it follows {last:?}")
        });
        last = path;
        sums.insert(path.to_owned(), digest.to_owned());
    }
    notes.turn_to(None);
    sums
}
