//! Orders of admission that an envelope may ask for, and those it may not.
#![allow(clippy::unwrap_used)]

use workloads::cells;
use workloads::envelope::{
    Admission, AdmissionOrder, CellEnvelope, Envelope, Overrides, ResolvedEnvelope, embedded,
};

const CACHE_AWARE: &str = "admission = { order = \"cache-aware\", overtaken_max = 8 }";

/// An embedded envelope with one text replaced.
fn with(name: &str, (from, to): (&str, &str)) -> String {
    let text = embedded().iter().find(|it| it.0 == name).unwrap().1;
    assert!(text.contains(from), "{name} has no `{from}`");
    text.replacen(from, to, 1)
}

/// `smoke` with a line more in its `[run]` table.
fn asking(line: &str) -> String {
    with("smoke", ("[run]\n", &format!("[run]\n{line}\n")))
}

#[test]
fn an_order_is_resolved_as_it_was_typed_and_first_come_first_served_leaves_no_field() {
    let resolve = |text: &str| {
        let envelope = Envelope::parse(text, "x.toml").unwrap();
        envelope.resolve(&Overrides::default(), 1).unwrap()
    };
    let json = resolve(&asking(CACHE_AWARE)).to_json().unwrap();
    let read: ResolvedEnvelope = serde_json::from_str(&json).unwrap();
    let order = AdmissionOrder::CacheAware;
    let overtaken_max = 8;
    assert_eq!(
        read.run.admission,
        Some(Admission {
            order,
            overtaken_max
        })
    );
    assert!(
        json.contains("\"order\": \"cache-aware\",\n      \"overtaken_max\": 8"),
        "{json}"
    );
    let plain = resolve(&asking("")).to_json().unwrap();
    assert!(!plain.contains("admission"), "{plain}");
}

#[test]
fn orders_that_mean_nothing_are_refused_with_the_line_and_a_remedy() {
    let beside = |arm: &str| {
        let text = asking(CACHE_AWARE);
        let arms = "\"instance-shared\", \"fused\"]";
        assert!(text.contains(arms));
        text.replacen(arms, &format!("\"fused\", \"{arm}\"]"), 1)
    };
    for (text, words) in [
        (
            asking("admission = { order = \"youngest\", overtaken_max = 8 }"),
            "youngest",
        ),
        (
            asking("admission = { order = \"cache-aware\" }"),
            "overtaken_max",
        ),
        (
            asking("admission = { order = \"cache-aware\", overtaken_max = 1048577 }"),
            "overtaken_max from 0 to 1048576",
        ),
        (
            asking(CACHE_AWARE).replacen("[workload]\n", "[workload]\norder = \"agents\"\n", 1),
            "one request is there at a time",
        ),
        (
            beside("llama-server:shared"),
            "no llama-server:shared in run.arms: whom another engine lets in first is its own affair",
        ),
        (beside("mock"), "no arm mock in run.arms"),
    ] {
        let said = Envelope::parse(&text, "x.toml").unwrap_err().to_string();
        assert!(said.contains(words) && said.contains("line"), "{said}");
    }
    let cells = with(
        "engine-fleet",
        ("[run]\n", &format!("[run]\n{CACHE_AWARE}\n")),
    );
    assert!(cells.contains(cells::KIND));
    let said = CellEnvelope::parse(&cells, "x.toml")
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("in a cell all agents are let in together"),
        "{said}"
    );
}

#[test]
fn an_arm_of_another_engine_named_on_the_command_line_is_refused_too() {
    let envelope = Envelope::parse(&asking(CACHE_AWARE), "x.toml").unwrap();
    let overrides = Overrides {
        arms: vec!["fused".to_owned(), "llama-server:agent".to_owned()],
        ..Overrides::default()
    };
    let said = envelope.resolve(&overrides, 1).unwrap_err().to_string();
    assert!(
        said.contains("command line") && said.contains("its own affair"),
        "{said}"
    );
}
