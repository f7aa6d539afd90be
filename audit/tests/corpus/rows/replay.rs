//! Lies that agree with themselves in all: only the engine, asked again, can tell.
//!
//! Not here: how a lie is told consistently (`tell`).

use serde_json::{Value, json};

use super::{Forgery, replayed};
use crate::fixture::{Fixture, LADDER, chained, ids_sha256, sha256};
use crate::tell::{place_of, rebuild_prompts};
pub(crate) static LEFT_TO_REPLAY: &[Forgery] = &[
    replayed(
        "the digest of another model, everywhere",
        "output ids",
        |it| {
            for lines in it.traces.values_mut() {
                lines[0]["model_sha256"] = json!(sha256("other"));
            }
            it.set("/model/sha256", json!(sha256("other")));
        },
    ),
    replayed(
        "a last answer invented in all arms alike",
        "output ids",
        |it| {
            change_answers(it, "a1-t1", |finish| finish["ids"][1] = json!(77));
        },
    ),
    replayed(
        "an early answer invented, and every later prompt with it",
        "output ids",
        |it| {
            change_answers(it, "a1-t0", |finish| finish["ids"][0] = json!(78));
        },
    ),
    replayed(
        "logit hashes invented in all arms alike",
        "logit hashes",
        |it| {
            change_answers(it, "a0-t1", |finish| {
                finish["logits_sha256"] = json!(sha256("lie"));
            });
        },
    ),
];

/// Changes one answer in every trace, and all that follows from it.
fn change_answers(it: &mut Fixture, request: &str, tell: fn(&mut Value)) {
    for lines in it.traces.values_mut() {
        let place = place_of(lines, "finish", request);
        tell(&mut lines[place]);
        rebuild_prompts(lines);
    }
    let mut finishes = it.lines("naive-0", "finish");
    finishes.sort_by_key(|line| line["request"].as_str().unwrap().to_owned());
    let ids: Vec<u64> = finishes
        .iter()
        .flat_map(|line| line["ids"].as_array().unwrap())
        .map(|id| id.as_u64().unwrap())
        .collect();
    let logits: String = finishes
        .iter()
        .map(|line| line["logits_sha256"].as_str().unwrap())
        .collect();
    for arm in LADDER {
        it.set(
            &format!("/arms/{arm}/output_sha256"),
            json!(ids_sha256(&ids)),
        );
        it.set(
            &format!("/arms/{arm}/logits_sha256"),
            json!(sha256(&logits)),
        );
    }
    assert!(chained(&it.traces["naive-0"]).contains(request));
}
