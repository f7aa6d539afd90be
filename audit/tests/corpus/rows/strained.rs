//! Lies about caches under strain: what was taken out, what is still there, whose turn it was.
//!
//! Not here: the honest runs (`fixture::quarantined`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

use audit::Layer::{Chain, Count, Format, Memory, Prompt, Reuse, Settings};
use serde_json::{Value, json};

use super::{BEGIN, END, FUSED, Forgery, NAIVE, declared, in_cells, of_cells, said, told};
use crate::fixture::{Fixture, quarantined};
use crate::tell::{place_of, trace};

const KV: &str = "\"kind\":\"kv\"";
const QUARANTINE: &str = "\"kind\":\"quarantine\"";
const AGENT_KV: &str = "trace/agent-kv-0.jsonl";

/// A lie about a run from whose caches a result was taken, and which states what they keep.
const fn bad(forgery: Forgery) -> Forgery {
    Forgery {
        honest: quarantined::run,
        ..forgery
    }
}

/// A lie about a run of one agent after the other.
const fn one_by_one(forgery: Forgery) -> Forgery {
    Forgery {
        honest: quarantined::one_by_one,
        ..forgery
    }
}

pub(crate) static ASKED: &[Forgery] = &[
    declared(
        "an order nobody knows",
        "workload.order is",
        ("/workload/order", r#""random""#),
    ),
    declared(
        "a quarantine after which nothing comes",
        "workload.quarantine is",
        ("/workload/quarantine", r#"{"turn": 1, "agents": 1}"#),
    ),
    declared(
        "a policy nobody knows",
        "run.eviction is",
        ("/run/eviction", r#""random""#),
    ),
    declared(
        "a cache of a type nobody knows",
        "run.kv_dtype is",
        ("/run/kv_dtype", r#""q4_0""#),
    ),
    in_cells(declared(
        "a policy for cells",
        "are for sessions",
        ("/run/eviction", r#""lfu""#),
    )),
    told(
        "another policy than asked",
        Settings,
        (AGENT_KV, BEGIN),
        "settings.eviction is",
        |it| {
            for lines in it.traces.values_mut() {
                lines[0]["settings"]["eviction"] = json!("lfu");
            }
        },
    ),
    one_by_one(Forgery {
        file: AGENT_KV,
        line: "\"id\":\"a0-t1\"",
        catcher: super::Catcher::Layer(Prompt),
        ..declared(
            "agents one by one that were to take turns",
            "agent 1, turn 0 is next",
            ("/workload/order", r#""turns""#),
        )
    }),
    Forgery {
        honest: || Fixture::new(&["fused"], 1),
        file: FUSED,
        line: "\"id\":\"a1-t0\"",
        catcher: super::Catcher::Layer(Prompt),
        ..declared(
            "agents all at once that were to come one by one",
            "agent 0, turn 1 is next, and 1 requests",
            ("/workload/order", r#""agents""#),
        )
    },
    Forgery {
        honest: quarantined::losing,
        ..told(
            "text lost though there was room for all",
            Count,
            (AGENT_KV, END),
            "expected exactly",
            |_| (),
        )
    },
];

pub(crate) static QUARANTINES: &[Forgery] = &[
    bad(said(
        "a quarantine of nobody's text",
        Chain,
        (FUSED, QUARANTINE),
        "no request \"x\"",
        ("quarantine", 0),
        ("/request", r#""x""#),
    )),
    bad(said(
        "a quarantine of no span",
        Chain,
        (FUSED, QUARANTINE),
        "positions 9 to 9 are no span",
        ("quarantine", 0),
        ("/start", "9"),
    )),
    bad(said(
        "a quarantine of another agent's result",
        Chain,
        (FUSED, QUARANTINE),
        "no quarantine of agent 1, turn 1 was declared",
        ("quarantine", 0),
        ("/request", r#""a1-t1""#),
    )),
    bad(told(
        "a quarantine of less than the result",
        Prompt,
        (FUSED, QUARANTINE),
        "start (of the result) is 8",
        |it| {
            it.lines("fused-0", "quarantine")[0]["start"] = json!(8);
            barred(it)["barred_at"] = json!(8);
            let kv = it.lines("fused-0", "kv").remove(0);
            kv["tombstones"] = json!([{ "parent": null, "start": 8, "positions": 1 }]);
        },
    )),
    bad(told(
        "a quarantine that ends before the result does",
        Prompt,
        (FUSED, QUARANTINE),
        "end (of the result) is 8",
        |it| {
            it.lines("fused-0", "quarantine")[0]["end"] = json!(8);
            let kv = it.lines("fused-0", "kv").remove(0);
            kv["tombstones"] = json!([{ "parent": null, "start": 7, "positions": 1 }]);
        },
    )),
    bad(said(
        "a quarantine that met a request nobody made",
        Count,
        (FUSED, QUARANTINE),
        "running is 1",
        ("quarantine", 0),
        ("/running", "1"),
    )),
    bad(said(
        "pages out of a cache that keeps none",
        Count,
        (NAIVE, QUARANTINE),
        "pages is 1, the cache has at most 0",
        ("quarantine", 0),
        ("/pages", "1"),
    )),
    bad(told(
        "an agent that goes on before its result is taken out",
        Prompt,
        (AGENT_KV, "\"id\":\"a0-t2\""),
        "goes on before",
        |it| {
            let lines = trace(it, "agent-kv-0");
            let place = place_of(lines, "quarantine", "a0-t1");
            let mut late = lines.remove(place);
            let next = place_of(lines, "request", "a0-t2");
            late["t_ns"] = lines[next]["t_ns"].clone();
            lines.insert(next + 1, late);
        },
    )),
    bad(told(
        "a result that was never taken out",
        Count,
        (NAIVE, END),
        "the number of quarantines is 0",
        |it| {
            let place = place_of(trace(it, "naive-0"), "quarantine", "a0-t1");
            trace(it, "naive-0").remove(place);
        },
    )),
    bad(told(
        "a text that nothing seems to bar",
        Reuse,
        (FUSED, "\"request\":\"a0-t2\""),
        "barred_at is None, expected Some(7)",
        |it| {
            barred(it).as_object_mut().unwrap().remove("barred_at");
        },
    )),
    bad(told(
        "a text found again after it was taken out",
        Reuse,
        (FUSED, "\"matched\":10"),
        "matched is 10, beyond what was quarantined",
        |it| {
            let line = barred(it);
            (line["matched"], line["own"]) = (json!(10), json!(10));
        },
    )),
    of_cells(
        "a quarantine in a cell",
        Chain,
        ("trace/fleet.fak-0.jsonl", QUARANTINE),
        "of a cell",
        |it| {
            let lines = trace(it, "fleet.fak-0");
            let place = lines.iter().position(|line| line["kind"] == "finish");
            let place = place.unwrap();
            let line = json!({
                "t_ns": lines[place]["t_ns"], "kind": "quarantine", "request": lines[place]["request"],
                "start": 0, "end": 1, "pages": 0, "running": 0,
            });
            lines.insert(place + 1, line);
        },
    ),
];

pub(crate) static TREES: &[Forgery] = &[
    told(
        "a tree nobody asked for",
        Chain,
        (FUSED, KV),
        "asks for no line",
        |it| {
            let place = trace(it, "fused-0").len() - 1;
            let t_ns = trace(it, "fused-0")[place]["t_ns"].clone();
            let line = json!({ "t_ns": t_ns, "kind": "kv", "nodes": [], "tombstones": [] });
            trace(it, "fused-0").insert(place, line);
        },
    ),
    bad(told(
        "a tree left out",
        Chain,
        (FUSED, END),
        "no line of kind `kv`",
        |it| {
            let place = trace(it, "fused-0").len() - 2;
            trace(it, "fused-0").remove(place);
        },
    )),
    bad(told(
        "a tree told twice",
        Chain,
        (FUSED, KV),
        "may follow `kv`",
        |it| {
            let place = trace(it, "fused-0").len() - 2;
            let again = trace(it, "fused-0")[place].clone();
            trace(it, "fused-0").insert(place, again);
        },
    )),
    bad(said(
        "two pages of one number",
        Format,
        (FUSED, KV),
        "two pages have the number 3",
        ("kv", 0),
        ("/nodes/1/id", "3"),
    )),
    bad(said(
        "a page of more positions than pages have",
        Format,
        (FUSED, KV),
        "page 3 has 65 positions",
        ("kv", 0),
        ("/nodes/0/positions", "65"),
    )),
    bad(said(
        "a page that continues half a page",
        Format,
        (FUSED, KV),
        "no full page stated before it",
        ("kv", 0),
        ("/nodes/1/parent", "3"),
    )),
    bad(said(
        "a page nobody wrote",
        Format,
        (FUSED, KV),
        "which nobody is",
        ("kv", 0),
        ("/nodes/0/session", r#""x""#),
    )),
    bad(said(
        "a tombstone below no page",
        Format,
        (FUSED, KV),
        "a tombstone continues",
        ("kv", 0),
        ("/tombstones/0/parent", "4"),
    )),
    bad(said(
        "a text taken out that the tree does not refuse",
        Reuse,
        (FUSED, KV),
        "tombstones (start and positions)",
        ("kv", 0),
        ("/tombstones", "[]"),
    )),
    bad(told(
        "a tree of more pages than the cache may hold",
        Memory,
        (FUSED, KV),
        "the tree has 65 pages, the cache 64",
        |it| grow(it, 65, 1),
    )),
    bad(told(
        "a tree of more text than there was",
        Reuse,
        (FUSED, KV),
        "beyond the oracle",
        |it| grow(it, 40, 64),
    )),
    bad(told(
        "a tree that had no room",
        Memory,
        (FUSED, END),
        "too little for the 2 pages",
        |it| {
            it.lines("fused-0", "end")[0]["kv_bytes_peak"] = json!(512);
            it.set("/arms/fused/samples/0/kv_bytes_peak", json!(512));
        },
    )),
];

/// The `prefix` line of the first prompt that is barred.
fn barred(it: &mut Fixture) -> &mut Value {
    let place = place_of(trace(it, "fused-0"), "prefix", "a0-t2");
    &mut trace(it, "fused-0")[place]
}

/// So many pages of so many positions, and memory for them.
fn grow(it: &mut Fixture, pages: u64, positions: u64) {
    let node = |id| json!({ "id": id, "parent": null, "positions": positions, "session": null, "hits": 0 });
    it.lines("fused-0", "kv")[0]["nodes"] = (0..pages).map(node).collect();
    let bytes = json!(512 * pages);
    it.lines("fused-0", "end")[0]["kv_bytes_peak"] = bytes.clone();
    it.set("/arms/fused/samples/0/kv_bytes_peak", bytes.clone());
    it.set("/arms/fused/kv_bytes_peak", bytes);
}
