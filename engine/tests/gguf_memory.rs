//! What opening a GGUF file costs in memory; alone in its process, because the peak is the process's.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use std::io::{BufWriter, Write};
use std::path::Path;

use engine::weights::gguf::Gguf;

/// Elements of the byte array: all that are believed.
const BYTES: u64 = 1 << 22;
/// One-byte strings, each nine bytes of file.
const TEXTS: u64 = 1 << 19;
/// Allowed besides twice the file.
const SPARE: u64 = 16 << 20;

/// Nine megabytes of metadata in two arrays of the smallest elements, written without ever holding them.
fn write_arrays(path: &Path) {
    let mut file = BufWriter::new(std::fs::File::create(path).unwrap());
    let mut put = |bytes: &[u8]| file.write_all(bytes).unwrap();
    put(b"GGUF\x03\0\0\0");
    put(&0_u64.to_le_bytes());
    put(&2_u64.to_le_bytes());
    for (key, element, len) in [(b"b", 0_u32, BYTES), (b"t", 8, TEXTS)] {
        put(&1_u64.to_le_bytes());
        put(key);
        put(&9_u32.to_le_bytes());
        put(&element.to_le_bytes());
        put(&len.to_le_bytes());
        for _ in 0..len {
            if element == 8 {
                put(&1_u64.to_le_bytes());
            }
            put(b"x");
        }
    }
    file.flush().unwrap();
}

#[test]
fn opening_never_takes_more_than_twice_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    write_arrays(&path);
    let file = std::fs::metadata(&path).unwrap().len();
    let Some(before) = common::peak_bytes() else {
        common::skip("this system does not tell a process's peak memory");
        return;
    };
    let gguf = Gguf::open(&path).unwrap();
    let grown = common::peak_bytes().unwrap() - before;
    assert!(
        grown <= 2 * file + SPARE,
        "{grown} bytes for a file of {file}"
    );
    assert_eq!(gguf.array("b").unwrap().len() as u64, BYTES);
    let bytes = gguf.scalars("b", "bytes", |value| {
        value.as_usize().and_then(|byte| u8::try_from(byte).ok())
    });
    assert!(bytes.unwrap().iter().all(|byte| *byte == b'x'));
    let texts = gguf.texts("t").unwrap();
    assert_eq!(texts.len() as u64, TEXTS);
    assert!(texts.iter().all(|text| text == "x"));
    eprintln!("{grown} bytes more for a file of {file}");
}
