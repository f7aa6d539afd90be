//! A trace file as a chain of lines: read one at a time, each tied to the one before.
//!
//! Not here: what the lines say (`trace`).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::hash;
use crate::line::Line;
use crate::notebook::{Layer, Notebook};
use crate::schema;

/// Bytes one line may have: a text of four million ids still fits.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Hands every line to `visit` until it answers `false`; `true` when the whole file was read.
pub(crate) fn read(
    path: &Path,
    notes: &mut Notebook,
    mut visit: impl FnMut(Line, &mut Notebook) -> bool,
) -> bool {
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) => {
            notes.broken(Layer::Chain, format!("cannot be read: {error}"));
            return false;
        }
    };
    let (mut bytes, mut prev, mut last_t_ns) = (Vec::new(), "0".repeat(64), 0);
    for seq in 0.. {
        if !next(&mut file, &mut bytes, seq, notes) {
            break;
        }
        let line: Line = match serde_json::from_slice(&bytes) {
            Ok(line) => line,
            Err(error) => {
                let other = schema::refuse(&bytes, schema::TRACE).filter(|_| seq == 0);
                let message = other.unwrap_or_else(|| {
                    format!("is not a trace line as FORMAT.md describes it: {error}")
                });
                notes.broken(Layer::Format, message);
                return false;
            }
        };
        notes.same(Layer::Chain, "seq", &line.seq, &seq);
        notes.same(Layer::Chain, "prev", &line.prev, &prev);
        notes.check(Layer::Clock, line.t_ns >= last_t_ns, || {
            format!(
                "t_ns is {}, before the {last_t_ns} of the line above",
                line.t_ns
            )
        });
        prev = hash::of_bytes(&bytes);
        last_t_ns = line.t_ns;
        notes.recomputed("chain links", 1);
        if !visit(line, notes) {
            return false;
        }
    }
    let clean_end = bytes.is_empty();
    notes.turn_to(None);
    clean_end
}

/// Reads the next line into `bytes`, without its newline. `false` at the end, where `bytes` is empty, and on a line that
/// cannot be taken, which is noted.
fn next(file: &mut impl BufRead, bytes: &mut Vec<u8>, seq: u64, notes: &mut Notebook) -> bool {
    bytes.clear();
    let read = file.take(MAX_LINE_BYTES + 1).read_until(b'\n', bytes);
    if bytes.is_empty() && read.is_ok() {
        return false;
    }
    notes.turn_to(Some(seq + 1));
    match read {
        Err(error) => notes.broken(Layer::Chain, format!("cannot be read: {error}")),
        Ok(_) if bytes.ends_with(b"\n") => {
            bytes.pop();
            return true;
        }
        Ok(read) if read as u64 > MAX_LINE_BYTES => {
            notes.broken(
                Layer::Chain,
                format!("is longer than the limit of {MAX_LINE_BYTES} bytes"),
            );
        }
        Ok(_) => notes.broken(Layer::Chain, "is cut off: a trace ends with a newline"),
    }
    bytes.push(b'?'); // not a clean end, even where nothing was read
    false
}
