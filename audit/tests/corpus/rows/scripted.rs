//! Lies about the scripted arm, and about what lies far out beside it.
//!
//! Not here: how a lie is told consistently (`tell`).

use audit::Layer::{self, Count, Declared, Identity, Record};
use serde_json::json;

use super::{Forgery, Where, told};
use crate::fixture::{Fixture, scripted, sha256};
use crate::tell::more;

const TRACE: &str = "trace/mock-0.jsonl";

/// A lie about a run of `naive` and `mock`.
const fn of_script(
    name: &'static str,
    layer: Layer,
    place: Where,
    word: &'static str,
    tell: fn(&mut Fixture),
) -> Forgery {
    Forgery {
        honest: scripted::beside_naive,
        ..told(name, layer, place, word, tell)
    }
}

pub(crate) static SCRIPTED: &[Forgery] = &[
    of_script(
        "a scripted step that took less",
        Count,
        (TRACE, "\"wall_ns\":0"),
        "scripted to take 1",
        |it| {
            let mut steps = it.lines("mock-0", "step"); // of prompts the first and the third
            more(&mut steps[0]["wall_ns"], 1);
            more(&mut steps[2]["wall_ns"], -1);
        },
    ),
    of_script(
        "a scripted arm with a cache",
        Count,
        (TRACE, "\"kind\":\"end\""),
        "kv_bytes_peak is 512: a scripted arm holds nothing",
        |it| {
            it.lines("mock-0", "end")[0]["kv_bytes_peak"] = json!(512);
            it.set("/arms/mock/kv_bytes_peak", json!(512));
            it.set("/arms/mock/samples/0/kv_bytes_peak", json!(512));
        },
    ),
    of_script(
        "a scripted arm with logits",
        Count,
        (TRACE, "\"request\":\"a0-t0\""),
        "a scripted arm has no logits",
        |it| {
            let digests: Vec<String> = (0..4).map(|place| sha256(place.to_string())).collect();
            for (finish, digest) in it.lines("mock-0", "finish").into_iter().zip(&digests) {
                finish["logits_sha256"] = json!(digest);
            }
            let in_order = [0, 2, 1, 3].map(|place| digests[place].as_str()); // by agent, then turn
            it.set("/arms/mock/logits_sha256", json!(sha256(in_order.concat())));
        },
    ),
    of_script(
        "a scripted arm said to be witnessed",
        Record,
        ("run.json", "\"provenance\": \"WITNESSED\""),
        "arms.mock.provenance",
        |it| it.set("/arms/mock/provenance", json!("WITNESSED")),
    ),
    of_script(
        "a scripted arm compared with a real one",
        Identity,
        ("run.json", "\"arms\": ["),
        "the number of identity.arms is 2",
        |it| it.set("/identity/arms", json!(["naive", "mock"])),
    ),
    of_script(
        "another script than was typed",
        Declared,
        ("envelope.toml", "step_ns = 2"),
        "mock.step_ns is 2",
        |it| it.written = it.written.replace("step_ns = 1", "step_ns = 2"),
    ),
    of_script(
        "an outlier removed",
        Record,
        ("run.json", "\"outliers\": []"),
        "the number of arms.naive.outliers is 0",
        |it| it.set("/arms/naive/outliers", json!([])),
    ),
];
