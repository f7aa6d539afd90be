//! What stands on pages beside single figures: capacity at unchanged speed, figures that were replaced, and the status block.
//!
//! Not here: verdicts in general (`scorecard`) or which run speaks (`evidence`).

use harness::report::scorecard::show::document_of;
use serde_json::Value;

use crate::fixture::{Repository, Run};

/// The pair of runs that tell what a type of keys and values gains.
fn types(half_bytes: u64, small_bytes: u64, small_decode_ns: u64) -> Value {
    let repository = Repository::published();
    for (name, dtype, bytes, decode_ns) in [
        ("kv-f16", "f16", half_bytes, 1_000_000),
        ("kv-q8_0", "q8_0", small_bytes, small_decode_ns),
    ] {
        let run = Run::new(name, "timed")
            .with("/effective/kv_dtype", dtype)
            .with("/arms/fused/kv_bytes_peak", bytes)
            .with("/arms/fused/decode_ns", decode_ns);
        repository.anchor(&run);
    }
    let document = document_of(&repository.path("")).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["id"] == "kv-quantization-fp8-int4");
    row.unwrap().clone()
}

#[test]
fn capacity_counts_bytes_and_counts_for_nothing_where_decoding_slows_down() {
    let behind = types(6400, 3400, 1_000_000);
    assert_eq!(behind["verdict"], "trails", "{behind:#}");
    let sentence = behind["sentence"].as_str().unwrap();
    assert!(sentence.contains("1.882"), "{sentence}");
    let doubled = types(6400, 3200, 1_000_000);
    assert_eq!(doubled["verdict"], "parity", "{doubled:#}");
    let slow = types(6400, 1600, 1_100_000);
    assert_eq!(slow["verdict"], "trails", "{slow:#}");
    assert_eq!(types(6400, 1600, 1_000_000)["verdict"], "lead");
}

#[test]
fn a_replaced_figure_says_what_it_was_what_it_is_and_what_changed() {
    let repository = Repository::published();
    let old = Run::new("session-small", "old").on_day(101);
    let new = Run::new("session-small", "new").on_day(102);
    repository.anchor(&old.with("/machine/cpu", "one cpu"));
    let new = new
        .with("/machine/cpu", "another cpu")
        .with("/build/trees/engine", "e2")
        .with("/ratios/2/wall", 4.5);
    repository.anchor(&new);
    repository.report();
    let page = repository.read("BENCHMARK-AUTHORITY.md");
    let (_, stones) = page.split_once("## Figures that were replaced").unwrap();
    let start = "| [session-small/old]";
    let row = stones.lines().find(|line| line.starts_with(start)).unwrap();
    for part in [
        "session-small/new",
        "another processor (one cpu, then another cpu)",
        "source changed in `engine`",
        "`fused` over `agent-kv`, wall",
        "2.03× FASTER",
        "4.50× FASTER",
    ] {
        assert!(row.contains(part), "no {part:?} in {row}");
    }
    let rows = stones.lines().filter(|line| line.starts_with(start));
    assert_eq!(rows.count(), 1, "one figure moved: {stones}");
}

#[test]
fn every_page_says_how_far_its_numbers_go() {
    let repository = Repository::published();
    repository.report();
    for page in ["README.md", "CLAIMS.md", "BENCHMARK-AUTHORITY.md"] {
        let text = repository.read(page);
        let (_, status) = text.split_once("## Measurement status").unwrap();
        assert!(status.contains("anchored runs speak, of 1970-"), "{status}");
        assert!(status.contains("are FASTER"), "{status}");
    }
}
