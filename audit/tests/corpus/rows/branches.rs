//! Lies about agents at the ends of a tree, and about a session that is asked twice.
//!
//! Not here: the honest run (`fixture::quarantined`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

use audit::Layer::{Identity, Prompt, Seed};
use serde_json::json;

use super::{FUSED, Forgery, NAIVE, declared, told};
use crate::fixture::{Fixture, quarantined, sha256, simulate};
use crate::tell::{rebuild_prompts, retell};

/// A lie about a run of two agents with a text of their own each, asked twice.
const fn branched(forgery: Forgery) -> Forgery {
    Forgery {
        honest: quarantined::branches,
        ..forgery
    }
}

pub(crate) static ASKED: &[Forgery] = &[
    branched(declared(
        "a tree of more ends than there are agents",
        "its ends are the agents",
        ("/workload/tree/branches", "3"),
    )),
    branched(declared(
        "a tree of nodes without texts",
        "its nodes have texts",
        ("/workload/tree/tokens", "0"),
    )),
    branched(declared(
        "a session that is asked no time",
        "workload.passes is 0",
        ("/workload/passes", "0"),
    )),
    Forgery {
        honest: quarantined::run,
        ..declared(
            "a session asked again though a result was taken out",
            "beside a quarantine",
            ("/workload/passes", "2"),
        )
    },
];

pub(crate) static SAID: &[Forgery] = &[
    branched(told(
        "a text of the tree that the seed does not give",
        Seed,
        (NAIVE, "\"id\":\"a1-t0\""),
        "not those of the declared seed",
        |it| {
            retell(it, "", |line| {
                if line["id"] == "a1-t0" || line["id"] == "a1-t2" {
                    line["append"][1] = json!(60_000);
                }
            });
        },
    )),
    branched(told(
        "agents that changed places in the tree",
        Seed,
        (NAIVE, "\"id\":\"a0-t0\""),
        "not those of the declared seed",
        |it| {
            retell(it, "", |line| {
                for (agent, other) in [("a0", 1), ("a1", 0)] {
                    if line["id"] == format!("{agent}-t0") || line["id"] == format!("{agent}-t2") {
                        line["append"] = json!(simulate::node(other));
                    }
                }
            });
        },
    )),
    branched(told(
        "a session asked again that goes on where it ended",
        Prompt,
        (FUSED, "\"id\":\"a0-t2\""),
        "base is neither the prefix",
        |it| {
            for (_, lines) in it.traces.iter_mut().filter(|it| it.0.starts_with("fused")) {
                let again = lines.iter_mut().find(|line| line["id"] == "a0-t2").unwrap();
                again["base"] = json!({ "request": "a0-t1" });
                rebuild_prompts(lines);
            }
        },
    )),
    branched(told(
        "another answer when asked again, in every arm",
        Identity,
        ("run.json", "\"equal\": true"),
        "identity.equal",
        answered_otherwise,
    )),
];

/// The first agent's first turn has other logits the second time.
fn answered_otherwise(it: &mut Fixture) {
    let other = sha256("other logits");
    for lines in it.traces.values_mut() {
        let finishes = lines.iter_mut().filter(|line| line["kind"] == "finish");
        for line in finishes.filter(|line| line["request"] == "a0-t2") {
            line["logits_sha256"] = json!(other);
        }
    }
    let hash = |agent, turn| match (agent, turn) {
        (0, 2) => other.clone(),
        _ => simulate::logits_sha256(agent, turn % 2),
    };
    let places = (0..2).flat_map(|agent| (0..4).map(move |turn| (agent, turn)));
    let all: String = places.map(|(agent, turn)| hash(agent, turn)).collect();
    for arm in ["naive", "agent-kv", "fused"] {
        it.set(&format!("/arms/{arm}/logits_sha256"), json!(sha256(&all)));
    }
}
