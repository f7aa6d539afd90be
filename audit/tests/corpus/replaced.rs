//! Forged runs that agree with themselves in all: only `results/INDEX`, written before the lie, gives them away.
//!
//! Not here: rewriting INDEX too; its history is the repository's.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::fixture::{Fixture, sha256};

/// One row.
pub(crate) struct Replaced {
    pub(crate) name: &'static str,
    /// Line of INDEX that the finding must name.
    pub(crate) line: Option<u64>,
    pub(crate) word: &'static str,
    /// The lie, told to a published results directory.
    pub(crate) tell: fn(&Path),
}

/// Two anchored runs, `tiny/one` and `tiny/two`.
pub(crate) fn publish(results: &Path) {
    let line = |(name, arm): (&str, &str)| {
        let dir = results.join(name);
        Fixture::new(&[arm], 1).write(&dir);
        let digest = sha256(fs::read(dir.join("SHA256SUMS")).unwrap());
        format!("{digest}  {name}\n")
    };
    let index = [("tiny/one", "fused"), ("tiny/two", "naive")].map(line);
    fs::write(results.join("INDEX"), index.concat()).unwrap();
}

fn change_index(results: &Path, change: fn(&str) -> String) {
    let index = fs::read_to_string(results.join("INDEX")).unwrap();
    fs::write(results.join("INDEX"), change(&index)).unwrap();
}

/// Every lie that only the anchor catches.
pub(crate) static ROWS: &[Replaced] = &[
    Replaced {
        name: "another machine than was measured",
        line: Some(1),
        word: "the SHA-256 of tiny/one/SHA256SUMS",
        tell: |results| {
            let mut other = Fixture::new(&["fused"], 1);
            other.set("/machine/cpu", json!("a faster one"));
            other.write(&results.join("tiny/one"));
        },
    },
    Replaced {
        name: "a run repeated until it was fast",
        line: Some(1),
        word: "the SHA-256 of tiny/one/SHA256SUMS",
        tell: |results| {
            let mut other = Fixture::new(&["fused"], 1);
            other.set("/arms/fused/samples/0/load_ns", json!(6));
            other.lines("fused-0", "end")[0]["load_ns"] = json!(6);
            other.write(&results.join("tiny/one"));
        },
    },
    Replaced {
        name: "an unwelcome run removed",
        line: Some(2),
        word: "tiny/two is missing",
        tell: |results| fs::remove_dir_all(results.join("tiny/two")).unwrap(),
    },
    Replaced {
        name: "a run anchored twice",
        line: Some(3),
        word: "tiny/two is anchored twice",
        tell: |results| {
            change_index(results, |index| {
                let second = index.lines().nth(1).unwrap();
                format!("{index}{second}\n")
            });
        },
    },
    Replaced {
        name: "a run from beside the results",
        line: Some(1),
        word: "two spaces and <envelope>/<run>",
        tell: |results| change_index(results, |index| index.replace("tiny/one", "../one")),
    },
    Replaced {
        name: "an index without its last newline",
        line: None,
        word: "does not end with a newline",
        tell: |results| change_index(results, |index| index.trim_end().to_owned()),
    },
    Replaced {
        name: "an index without end",
        line: None,
        word: "larger than the limit",
        tell: |results| change_index(results, |_| "x".repeat((16 << 20) + 1)),
    },
    Replaced {
        name: "no index",
        line: None,
        word: "cannot be read",
        tell: |results| fs::remove_file(results.join("INDEX")).unwrap(),
    },
    Replaced {
        name: "no results",
        line: None,
        word: "the results cannot be listed",
        tell: |results| fs::remove_dir_all(results).unwrap(),
    },
    Replaced {
        name: "two anchored runs exchanged",
        line: Some(2),
        word: "the SHA-256 of tiny/two/SHA256SUMS",
        tell: |results| {
            let at = |name: &str| results.join("tiny").join(name);
            for (from, to) in [("one", "t"), ("two", "one"), ("t", "two")] {
                fs::rename(at(from), at(to)).unwrap();
            }
        },
    },
    Replaced {
        name: "an index emptied",
        line: None,
        word: "names no run, but sealed ones stand beside it: tiny/one, tiny/two",
        tell: |results| fs::write(results.join("INDEX"), "").unwrap(),
    },
];
