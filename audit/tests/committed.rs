//! The runs in `results/`: they pass, and no byte of one can be flipped, cut off or added unseen.
//!
//! Not here: lies that are sealed again (`corpus`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

use std::fs;
use std::path::{Path, PathBuf};

use audit::{audit_index, audit_run};

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../results")
}

/// A copy of an anchored run of this envelope.
fn copy(envelope: &str) -> tempfile::TempDir {
    let runs = fs::read_dir(results().join(envelope)).unwrap();
    let mut runs: Vec<PathBuf> = runs.map(|entry| entry.unwrap().path()).collect();
    runs.sort_unstable();
    let to = tempfile::tempdir().unwrap();
    fs::create_dir(to.path().join("trace")).unwrap();
    for file in files(&runs[0]) {
        fs::copy(runs[0].join(&file), to.path().join(&file)).unwrap();
    }
    to
}

/// Files of a run, relative to it.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for below in ["", "trace"] {
        for entry in fs::read_dir(dir.join(below)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                found.push(Path::new(below).join(entry.file_name()));
            }
        }
    }
    found.sort_unstable();
    found
}

/// Flips one bit of every `step`th byte of a file, each alone; how many flips were refused with 4.
fn flip(dir: &Path, file: &Path, step: usize) -> usize {
    let path = dir.join(file);
    let mut bytes = fs::read(&path).unwrap();
    let places = (0..bytes.len()).step_by(step).chain([bytes.len() - 1]);
    let flips: Vec<usize> = places.collect();
    for place in &flips {
        bytes[*place] ^= 1 << (place % 8);
        fs::write(&path, &bytes).unwrap();
        let code = audit_run(dir).exit_code();
        assert_eq!(code, 4, "{} byte {place}", file.display());
        bytes[*place] ^= 1 << (place % 8);
    }
    fs::write(&path, &bytes).unwrap();
    flips.len()
}

#[test]
fn every_anchored_run_passes() {
    let report = audit_index(&results());
    assert_eq!(report.exit_code(), 0, "{}", report.render());
    assert!(!report.runs.is_empty());
}

#[test]
fn a_flipped_byte_anywhere_in_a_committed_run_breaks_it() {
    // Samples, closer in what is no trace. Of a run small enough for it every byte of every file is flipped in `runs`.
    let samples = [
        ("engine-q4_0", 7, 401),
        ("smoke", 29, 6_007),
        ("session-50x5", 1_009, 100_003),
    ];
    for (envelope, step, of_traces) in samples {
        let dir = copy(envelope);
        assert_eq!(audit_run(dir.path()).exit_code(), 0);
        let mut flips = 0;
        for file in files(dir.path()) {
            let in_trace = file.starts_with("trace");
            let step = if in_trace { of_traces } else { step };
            flips += flip(dir.path(), &file, step);
        }
        assert!(flips > 60, "{envelope}: {flips}");
        assert_eq!(audit_run(dir.path()).exit_code(), 0);
    }
}

#[test]
fn a_file_cut_short_emptied_removed_or_added_breaks_a_committed_run() {
    let dir = copy("smoke");
    for file in files(dir.path()) {
        let path = dir.path().join(&file);
        let whole = fs::read(&path).unwrap();
        for length in [0, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(
                audit_run(dir.path()).exit_code(),
                4,
                "{} at {length}",
                file.display()
            );
        }
        fs::write(&path, [&*whole, b"\n"].concat()).unwrap();
        assert_eq!(
            audit_run(dir.path()).exit_code(),
            4,
            "{} lengthened",
            file.display()
        );
        fs::remove_file(&path).unwrap();
        assert_eq!(
            audit_run(dir.path()).exit_code(),
            4,
            "{} removed",
            file.display()
        );
        fs::write(&path, whole).unwrap();
    }
    for extra in ["notes.txt", "trace/fused-5.jsonl", "trace/.hidden"] {
        fs::write(dir.path().join(extra), "").unwrap();
        assert_eq!(audit_run(dir.path()).exit_code(), 4, "{extra}");
        fs::remove_file(dir.path().join(extra)).unwrap();
    }
    assert_eq!(audit_run(dir.path()).exit_code(), 0);
}
