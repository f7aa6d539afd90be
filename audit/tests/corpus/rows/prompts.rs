//! Lies about what was asked, what was counted, and what was found in the cache.
//!
//! Not here: how a lie is told consistently (`tell`).

use audit::Layer::{Count, Prompt, Reuse, Seed};
use serde_json::{Value, json};

use super::{FUSED, Forgery, told};
use crate::fixture::{Fixture, simulate};
use crate::tell::{everywhere, more, retell};
pub(crate) static PROMPTS: &[Forgery] = &[
    told(
        "a prompt's hash",
        Prompt,
        ("trace/naive-0.jsonl", "000000000000000000\",\"session\""),
        "prompt_sha256",
        |it| {
            it.lines("naive-0", "request")[2]["prompt_sha256"] = json!("0".repeat(64));
        },
    ),
    told(
        "a prompt shortened in one arm",
        Prompt,
        (FUSED, "\"kind\":\"text\""),
        "length of the prefix",
        |it| {
            retell(it, "fused", shorten);
        },
    ),
    told(
        "a prompt shortened in all arms",
        Prompt,
        ("trace/naive-0.jsonl", "\"kind\":\"text\""),
        "length of the prefix",
        |it| {
            retell(it, "", shorten);
        },
    ),
    told(
        "the same result for two agents",
        Prompt,
        ("trace/naive-0.jsonl", "\"id\":\"a1-t1\""),
        "could coincide",
        |it| {
            retell(it, "", |line| {
                if line["id"] == "a1-t1" {
                    line["append"] = json!(simulate::own(0, 1, 2));
                }
            });
        },
    ),
    told(
        "one arm is asked something else",
        Prompt,
        (FUSED, ""),
        "client-supplied",
        |it| {
            retell(it, "fused", other_result);
        },
    ),
    told(
        "all arms are asked something easier",
        Seed,
        ("trace/naive-0.jsonl", "\"id\":\"a1-t1\""),
        "declared seed",
        |it| {
            retell(it, "", other_result);
        },
    ),
    told(
        "a prefix with two ids swapped, everywhere",
        Seed,
        ("trace/naive-0.jsonl", "\"kind\":\"text\""),
        "declared seed",
        |it| {
            retell(it, "", |line| {
                if line["kind"] == "text" {
                    line["ids"].as_array_mut().unwrap().swap(1, 3);
                }
            });
        },
    ),
    told(
        "another seed than was used",
        Seed,
        ("trace/naive-0.jsonl", "\"kind\":\"text\""),
        "declared seed",
        |it| {
            it.envelope["workload"]["seed"] = json!(2);
            it.redeclare();
        },
    ),
    told(
        "fewer tokens asked for",
        Prompt,
        (FUSED, "\"decode_max\":1"),
        "decode_max",
        |it| {
            everywhere(it, "request", 0, |line| line["decode_max"] = json!(1));
        },
    ),
];

pub(crate) static COUNTS: &[Forgery] = &[
    told(
        "cached above the oracle",
        Reuse,
        (FUSED, "\"matched\":7"),
        "beyond the oracle",
        overmatch,
    ),
    told(
        "a hit counted before its insert",
        Reuse,
        (FUSED, "\"kind\":\"prefix\""),
        "0 matching positions existed",
        early_hit,
    ),
    told(
        "a hit where nothing is cached",
        Reuse,
        ("trace/naive-0.jsonl", "\"matched\":6"),
        "0 matching positions existed",
        |it| {
            let line = it.lines("naive-0", "prefix").remove(2);
            (line["matched"], line["own"]) = (json!(6), json!(6));
        },
    ),
    told(
        "a hit in a store nobody has",
        Reuse,
        (FUSED, "\"store\":6"),
        "store is 6",
        |it| {
            everywhere(it, "prefix", 2, |line| {
                (line["own"], line["store"]) = (json!(0), json!(6));
            });
        },
    ),
    told(
        "a hit larger than its parts",
        Count,
        (FUSED, "\"matched\":6,\"own\":5"),
        "the sum of its parts",
        |it| {
            it.lines("fused-0", "prefix")[2]["own"] = json!(5);
        },
    ),
    told(
        "a carried token miscounted",
        Count,
        (FUSED, "\"computed\":3"),
        "carried is 0",
        |it| {
            everywhere(it, "prefill", 2, |line| {
                (line["carried"], line["computed"]) = (json!(0), json!(3));
            });
            everywhere(it, "prefill", 3, |line| {
                (line["carried"], line["computed"]) = (json!(2), json!(1));
            });
        },
    ),
    told(
        "counters beyond 64 bits",
        Count,
        (FUSED, "18446744073709551615"),
        "matched + computed + carried",
        |it| {
            it.lines("fused-0", "prefill")[0]["computed"] = json!(u64::MAX);
        },
    ),
    told(
        "a batch wider than what was open",
        Count,
        (FUSED, "\"batch\":[1,3]"),
        "batch leaves the range",
        |it| {
            it.lines("fused-0", "finish")[0]["batch"] = json!([1, 3]);
        },
    ),
    told(
        "a batch no step had",
        Count,
        (FUSED, "\"kind\":\"end\""),
        "that of no step",
        |it| {
            it.lines("fused-0", "finish")[0]["batch"] = json!([1, 1]);
        },
    ),
    told(
        "a step of more requests than were open",
        Count,
        (FUSED, "\"requests\":3"),
        "could take part",
        |it| {
            it.lines("fused-0", "step")[2]["requests"] = json!(3);
        },
    ),
    told(
        "an output shorter than its reason",
        Count,
        (FUSED, "\"batch\":[1],"),
        "do not fit reason",
        |it| {
            let finish = it.lines("fused-0", "finish").remove(3);
            for field in ["ids", "token_t_ns", "batch"] {
                finish[field].as_array_mut().unwrap().pop();
            }
        },
    ),
    told(
        "token times left out",
        Count,
        (FUSED, "\"token_t_ns\":[]"),
        "entries of token_t_ns",
        |it| {
            it.lines("fused-0", "finish")[3]["token_t_ns"] = json!([]);
        },
    ),
    told(
        "no output at all",
        Count,
        (FUSED, "\"ids\":[],"),
        "0 output ids",
        |it| {
            let finish = it.lines("fused-0", "finish").remove(3);
            for field in ["ids", "token_t_ns", "batch"] {
                finish[field] = json!([]);
            }
        },
    ),
    told(
        "a wall time of its own",
        Count,
        (FUSED, "\"kind\":\"end\""),
        "wall_ns is 1",
        |it| {
            it.lines("fused-0", "end")[0]["wall_ns"] = json!(1);
            it.set("/arms/fused/samples/0/wall_ns", json!(1));
        },
    ),
    told(
        "one repetition of another count",
        Count,
        ("run.json", ""),
        "counters of fused-3",
        |it| {
            it.lines("fused-3", "end")[0]["prefill_tokens_computed"] = json!(8);
        },
    ),
];

/// One id less in the text everyone starts with.
fn shorten(line: &mut Value) {
    if line["kind"] == "text" {
        line["ids"].as_array_mut().unwrap().pop();
    }
    if line["kind"] == "request" {
        more(&mut line["keep"], -1);
    }
}

fn other_result(line: &mut Value) {
    if line["id"] == "a1-t1" {
        line["append"][1] = json!(401);
    }
}

/// `fused` matches one position more than existed, and all its sums agree.
fn overmatch(it: &mut Fixture) {
    everywhere(it, "prefix", 2, |line| {
        more(&mut line["matched"], 1);
        more(&mut line["own"], 1);
    });
    everywhere(it, "prefill", 2, |line| line["carried"] = json!(0));
    everywhere(it, "end", 0, |line| {
        more(&mut line["prefix_tokens_hit"], 1);
        line["carried_tokens"] = json!(1);
    });
    let arm = &mut it.record["arms"]["fused"];
    more(&mut arm["prefix_tokens_hit"], 1);
    arm["carried_tokens"] = json!(1);
    arm["reuse_rate"] = json!(0.642_857);
}

/// The first agent claims the prefix was there before anybody had computed it.
fn early_hit(it: &mut Fixture) {
    let line = it.lines("fused-0", "prefix").remove(0);
    (line["matched"], line["instance"]) = (json!(5), json!(5));
}
