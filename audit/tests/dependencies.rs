//! What a stranger must trust to check our numbers: this crate, and few others.
//!
//! Not here: which of our crates may depend on which (the tidy test).
#![allow(clippy::unwrap_used)] // tests

use std::collections::BTreeSet;
use std::process::Command;

/// Names of the crates this one is built of, down to so many levels.
fn crates(depth: &str) -> BTreeSet<String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}", "--depth", depth])
        .args(["--manifest-path", manifest])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| *name != "audit")
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_audit_stands_on_five_crates_and_at_most_34_in_all() {
    let direct: Vec<String> = crates("1").into_iter().collect();
    // The first two read what was signed; an attestation is base64, and signatures are nobody's to write again.
    let expected = ["base64ct", "ed25519-dalek", "serde", "serde_json", "sha2"];
    assert_eq!(direct, expected);
    let all = crates("99");
    assert!((5..=34).contains(&all.len()), "{}: {all:?}", all.len());
    for ours in ["engine", "workloads", "baselines", "harness"] {
        assert!(!all.contains(ours), "{ours}");
    }
}
