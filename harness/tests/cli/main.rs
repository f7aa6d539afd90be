//! Whole-program tests: the `harness` binary in a directory of its own, as a stranger would run it.
//!
//! Not here: the pages (`tests/report`) and figures of single modules.
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod attached;
mod attest;
mod bad_inputs;
mod cells;
mod comparing;
mod counted;
mod describe;
mod evidence;
mod exports;
mod forge;
mod gate;
mod gate_own;
mod generate;
mod invariance;
mod judging;
mod listing;
mod models;
mod queries;
mod radix;
mod robust;
mod schemas;
mod servers;
mod spread;
mod strained;
mod usage;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A working directory and a cache that nobody else uses.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("work")).unwrap();
        Self { root }
    }

    fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn cache(&self) -> PathBuf {
        self.root.path().join("cache")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env("FAK_CACHE", self.cache());
        command
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        Finished {
            output: self.command(arguments).output().unwrap(),
        }
    }

    /// A small sealed run of `smoke`; returns its directory.
    fn sealed_run(&self) -> PathBuf {
        let finished = self.run(&["run", "smoke", "--reps", "1", "--json"]);
        PathBuf::from(finished.expect(0).json()["dir"].as_str().unwrap())
    }
}

/// A finished program.
struct Finished {
    output: Output,
}

impl Finished {
    #[track_caller]
    fn expect(self, code: i32) -> Self {
        let found = self.output.status.code();
        assert_eq!(found, Some(code), "\n{}\n{}", self.stdout(), self.stderr());
        self
    }

    /// Standard error contains each of `words`.
    #[track_caller]
    fn complains(self, words: &[&str]) -> Self {
        for word in words {
            assert!(
                self.stderr().contains(word),
                "no {word:?} in:\n{}",
                self.stderr()
            );
        }
        self
    }

    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_slice(&self.output.stdout).unwrap()
    }
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
