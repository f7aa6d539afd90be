//! Runs that are cut short, oversized or no text where text must be.
//!
//! Not here: files that were changed or exchanged (`files`).

use std::fs;
use std::path::Path;

use audit::Layer::{Chain, Format, Seal};

use super::{END, FUSED, Forgery, SUMS, told, written};
use crate::fixture::seal;

/// More than the auditor reads of a small file, and of one line.
const MUCH: usize = (16 << 20) + 1;
const MORE: usize = (64 << 20) + 2;

pub(crate) static SEALS: &[Forgery] = &[
    written(
        "a run that is not there",
        Seal,
        (".", ""),
        "cannot be read",
        |dir| fs::remove_dir_all(dir).unwrap(),
    ),
    written("a run never sealed", Seal, (".", ""), "not sealed", |dir| {
        fs::remove_file(dir.join(SUMS)).unwrap();
    }),
    written(
        "a trace lost",
        Seal,
        ("trace/naive-4.jsonl", ""),
        "is listed in SHA256SUMS but missing",
        |dir| fs::remove_file(dir.join("trace/naive-4.jsonl")).unwrap(),
    ),
    #[cfg(unix)]
    written(
        "a file whose name is no text",
        Seal,
        (".", ""),
        "is not UTF-8",
        |dir| {
            use std::os::unix::ffi::OsStrExt;
            fs::write(dir.join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
        },
    ),
    #[cfg(unix)]
    written(
        "a link to the right contents",
        Seal,
        (".", ""),
        "a symbolic link",
        |dir| {
            fs::remove_file(dir.join(FUSED)).unwrap();
            std::os::unix::fs::symlink("fused-1.jsonl", dir.join(FUSED)).unwrap();
        },
    ),
    written(
        "a manifest without end",
        Seal,
        (SUMS, ""),
        "larger than the limit",
        |dir| fs::write(dir.join(SUMS), vec![b'a'; MUCH]).unwrap(),
    ),
    written(
        "a manifest that is no text",
        Seal,
        (SUMS, ""),
        "is not UTF-8",
        |dir| fs::write(dir.join(SUMS), b"\xff\n").unwrap(),
    ),
    written(
        "a manifest without its last newline",
        Seal,
        (SUMS, ""),
        "does not end with a newline",
        |dir| {
            let text = fs::read_to_string(dir.join(SUMS)).unwrap();
            fs::write(dir.join(SUMS), text.trim_end()).unwrap();
        },
    ),
    written(
        "an envelope nobody typed",
        Format,
        ("envelope.toml", ""),
        "cannot be read",
        |dir| {
            fs::remove_file(dir.join("envelope.toml")).unwrap();
            seal(dir);
        },
    ),
    told(
        "an envelope without end",
        Format,
        ("envelope.toml", ""),
        "larger than the limit",
        |it| it.written += &"#".repeat(MUCH),
    ),
    written(
        "an envelope that is no text",
        Format,
        ("envelope.toml", ""),
        "not UTF-8",
        |dir| sealed(dir, "envelope.toml", b"\xff"),
    ),
    written(
        "a line number skipped",
        Chain,
        (FUSED, END),
        "seq is",
        |dir| {
            let mut text = fs::read_to_string(dir.join(FUSED)).unwrap();
            let number = text.rfind("{\"seq\":").unwrap() + "{\"seq\":".len();
            text.insert(number, '1');
            sealed(dir, FUSED, text.as_bytes());
        },
    ),
    written(
        "a line without end",
        Chain,
        (FUSED, " "),
        "longer than the limit",
        |dir| sealed(dir, FUSED, &vec![b' '; MORE]),
    ),
    written(
        "a trace cut off",
        Chain,
        (FUSED, END),
        "is cut off",
        |dir| {
            let text = fs::read_to_string(dir.join(FUSED)).unwrap();
            sealed(dir, FUSED, text.trim_end().as_bytes());
        },
    ),
];

/// Writes a file of a run, and seals the run again.
fn sealed(dir: &Path, file: &str, contents: &[u8]) {
    fs::write(dir.join(file), contents).unwrap();
    seal(dir);
}
