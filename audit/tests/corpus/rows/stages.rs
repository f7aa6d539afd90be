//! Lies about which line follows which, and about the shape of what was asked.
//!
//! Not here: sums over a trace (`sums`).

use audit::Layer::{Chain, Count, Format, Prompt, Reuse};
use serde_json::json;

use super::{END, FUSED, Forgery, NAIVE, STEP, TEXT, said, told};
use crate::tell::{place_of, trace};

/// Requests of `naive` as lines name them, and the place of the third among them.
const FIRST: &str = "\"id\":\"a0-t0\"";
const THIRD: &str = "\"id\":\"a0-t1\"";
const THIRD_REQUEST: (&str, usize) = ("request", 2);

pub(crate) static STAGES: &[Forgery] = &[
    told(
        "a text stated twice",
        Chain,
        (NAIVE, TEXT),
        "a text of this name",
        |it| {
            let again = trace(it, "naive-0")[1].clone();
            trace(it, "naive-0").insert(2, again);
        },
    ),
    told(
        "a line of another program",
        Chain,
        (NAIVE, "end_external"),
        "another program",
        |it| {
            let t_ns = trace(it, "naive-0")[1]["t_ns"].clone();
            let line = json!({ "t_ns": t_ns, "kind": "end_external", "measurements": 1 });
            trace(it, "naive-0").insert(2, line);
        },
    ),
    told(
        "an end before the last finish",
        Chain,
        (NAIVE, END),
        "have not finished",
        |it| {
            let place = place_of(trace(it, "naive-0"), "finish", "a1-t1");
            trace(it, "naive-0").remove(place);
        },
    ),
    told(
        "a failure without a word",
        Format,
        (NAIVE, "\"kind\":\"error\""),
        "message is empty",
        |it| {
            let t_ns = trace(it, "naive-0").pop().unwrap()["t_ns"].clone();
            let failure = json!({ "t_ns": t_ns, "kind": "error", "message": "" });
            trace(it, "naive-0").push(failure);
        },
    ),
    told(
        "a request stated twice",
        Chain,
        (NAIVE, FIRST),
        "a request \"a0-t0\" was stated before",
        |it| {
            let place = place_of(trace(it, "naive-0"), "request", "a0-t0");
            let again = trace(it, "naive-0")[place].clone();
            trace(it, "naive-0").insert(place + 1, again);
        },
    ),
    said(
        "an agent of two sessions",
        Chain,
        (NAIVE, THIRD),
        "has two sessions",
        THIRD_REQUEST,
        ("/session", r#""x""#),
    ),
    said(
        "a base nobody stated",
        Chain,
        (NAIVE, THIRD),
        "was not stated or has not finished",
        THIRD_REQUEST,
        ("/base", r#"{"request": "x"}"#),
    ),
    said(
        "more kept than there was",
        Chain,
        (NAIVE, THIRD),
        "keep is 99, the base has 7 ids",
        THIRD_REQUEST,
        ("/keep", "99"),
    ),
    said(
        "a phase of its own",
        Format,
        (FUSED, STEP),
        "no phase is called",
        ("step", 0),
        ("/phase", r#""rest""#),
    ),
    said(
        "a hash of no logits",
        Format,
        (FUSED, "\"kind\":\"finish\""),
        "logits_sha256 is not a SHA-256",
        ("finish", 0),
        ("/logits_sha256", r#""x""#),
    ),
    said(
        "a prefix found in a fleet nobody has",
        Reuse,
        (FUSED, "\"fleet\":6"),
        "fleet is 6",
        ("prefix", 2),
        ("/fleet", "6"),
    ),
    told(
        "own positions the session never had",
        Reuse,
        (FUSED, "\"own\":5"),
        "own is 5, beyond the oracle",
        |it| {
            let line = it.lines("fused-0", "prefix").remove(1);
            (line["own"], line["instance"]) = (json!(5), json!(0));
        },
    ),
    said(
        "a position run again for nothing",
        Count,
        (FUSED, "\"replayed\":1"),
        "replayed is 1",
        ("prefill", 0),
        ("/replayed", "1"),
    ),
    said(
        "a prompt in no chunks",
        Count,
        (FUSED, "\"chunks\":0"),
        "chunks is 0",
        ("prefill", 0),
        ("/chunks", "0"),
    ),
    said(
        "batches left out",
        Count,
        (FUSED, "\"batch\":[]"),
        "entries of batch",
        ("finish", 3),
        ("/batch", "[]"),
    ),
];

pub(crate) static SHAPES: &[Forgery] = &[
    told(
        "two texts for one",
        Prompt,
        (NAIVE, "\"name\":\"second\""),
        "texts stated is 2",
        |it| {
            let mut second = trace(it, "naive-0")[1].clone();
            second["name"] = json!("second");
            trace(it, "naive-0").insert(2, second);
        },
    ),
    said(
        "a prompt's length",
        Prompt,
        (NAIVE, THIRD),
        "prompt_len is 8, expected 9",
        THIRD_REQUEST,
        ("/prompt_len", "8"),
    ),
    said(
        "a prompt of another length than declared",
        Prompt,
        (NAIVE, THIRD),
        "prompt_len (of the declared shape) is 8, expected 9",
        THIRD_REQUEST,
        ("/prompt_len", "8"),
    ),
    said(
        "less kept than there was",
        Prompt,
        (NAIVE, THIRD),
        "keep is 6, expected 7",
        THIRD_REQUEST,
        ("/keep", "6"),
    ),
    said(
        "more appended than declared",
        Prompt,
        (NAIVE, THIRD),
        "length of append is 3",
        THIRD_REQUEST,
        ("/append", "[1, 2, 3]"),
    ),
    said(
        "an output that may end early",
        Prompt,
        (NAIVE, FIRST),
        "ignore_eos is false",
        ("request", 0),
        ("/ignore_eos", "false"),
    ),
    said(
        "a second worker",
        Prompt,
        (NAIVE, FIRST),
        "worker is 1",
        ("request", 0),
        ("/worker", "1"),
    ),
    told(
        "a second turn that starts again",
        Prompt,
        (NAIVE, THIRD),
        "base is neither the prefix",
        |it| {
            let request = it.lines("naive-0", "request").remove(2);
            (request["base"], request["keep"]) = (json!({ "text": "prefix" }), json!(5));
        },
    ),
    said(
        "an answer shorter than declared",
        Prompt,
        (FUSED, "\"ids\":[1]"),
        "length of ids is 1",
        ("finish", 3),
        ("/ids", "[1]"),
    ),
    told(
        "a scripted step shorter than its script",
        Count,
        ("trace/mock-0.jsonl", STEP),
        "was scripted to take",
        |it| {
            it.envelope["mock"] = json!({
                "step_ns": 1 << 30, "prefill_ns_per_token": 1, "decode_ns_per_token": 1,
                "jitter_thousandths": 0,
            });
            let run = &mut it.envelope["run"];
            run["arms"].as_array_mut().unwrap().push(json!("mock"));
            run["arm_reps"]["mock"] = json!(1);
            let mut played = it.traces["naive-0"].clone();
            played[0]["arm"] = json!("mock");
            it.traces.insert("mock-0".to_owned(), played);
            it.redeclare();
        },
    ),
];
