//! Lies about the order of lines, about time and about memory.
//!
//! Not here: how a lie is told consistently (`tell`).

use audit::Layer::{Chain, Clock, Count, Format, Memory};
use serde_json::{Value, json};

use super::{END, FUSED, Forgery, of_cells, told};
use crate::fixture::Fixture;
use crate::tell::{more, place_of, trace};

pub(crate) static ORDER_OF_LINES: &[Forgery] = &[
    told(
        "a trace without its end",
        Chain,
        ("trace/naive-0.jsonl", ""),
        "truncated",
        |it| {
            trace(it, "naive-0").pop();
        },
    ),
    told(
        "a line after the end",
        Chain,
        ("trace/naive-0.jsonl", "\"seq\":27"),
        "nothing may follow",
        |it| {
            let again = trace(it, "naive-0").last().unwrap().clone();
            trace(it, "naive-0").push(again);
        },
    ),
    told(
        "a trace without its begin",
        Chain,
        ("trace/naive-0.jsonl", "\"kind\":\"text\""),
        "`begin`",
        |it| {
            trace(it, "naive-0").remove(0);
        },
    ),
    told(
        "a finish left out",
        Chain,
        ("trace/agent-kv-0.jsonl", "\"id\":\"a0-t1\""),
        "turn 1",
        |it| {
            let place = place_of(trace(it, "agent-kv-0"), "finish", "a0-t0");
            trace(it, "agent-kv-0").remove(place);
        },
    ),
    told(
        "a finish told twice",
        Chain,
        ("trace/agent-kv-0.jsonl", "\"seq\":8"),
        "no request",
        |it| {
            let place = place_of(trace(it, "agent-kv-0"), "finish", "a0-t0");
            let again = trace(it, "agent-kv-0")[place].clone();
            trace(it, "agent-kv-0").insert(place + 1, again);
        },
    ),
    told(
        "a whole request left out",
        Count,
        ("trace/agent-kv-0.jsonl", END),
        "the sum of requests (",
        without_a_request,
    ),
    told(
        "fewer tokens computed than an arm must",
        Count,
        ("trace/agent-kv-0.jsonl", END),
        "the sum of computed (",
        without_a_request,
    ),
    told(
        "shorter prompts than were declared",
        Count,
        ("trace/agent-kv-0.jsonl", END),
        "the sum of prompt_len (",
        without_a_request,
    ),
    told(
        "fewer answers than were declared",
        Count,
        ("trace/agent-kv-0.jsonl", END),
        "the sum of output ids (",
        without_a_request,
    ),
    told(
        "turns swapped",
        Chain,
        ("trace/agent-kv-0.jsonl", "\"id\":\"a0-t1\""),
        "agent 0, turn 0",
        |it| {
            let lines = trace(it, "agent-kv-0");
            let (early, late) = (
                place_of(lines, "request", "a0-t0"),
                place_of(lines, "request", "a0-t1"),
            );
            let (early_t_ns, late_t_ns) =
                (lines[early]["t_ns"].clone(), lines[late]["t_ns"].clone());
            lines.swap(early, late);
            (lines[early]["t_ns"], lines[late]["t_ns"]) = (early_t_ns, late_t_ns);
        },
    ),
    told(
        "a prefill before its prefix",
        Chain,
        (FUSED, "\"kind\":\"prefill\""),
        "needs it Matched",
        |it| {
            let lines = trace(it, "fused-0");
            let place = place_of(lines, "prefix", "a0-t0");
            lines.remove(place);
        },
    ),
    told(
        "an unknown kind of line",
        Format,
        ("trace/naive-0.jsonl", "boast"),
        "no line is of kind",
        |it| {
            trace(it, "naive-0")[3]["kind"] = json!("boast");
        },
    ),
];

pub(crate) static CLOCKS_AND_MEMORY: &[Forgery] = &[
    told(
        "a clock that runs back",
        Clock,
        ("trace/fused-3.jsonl", "\"t_ns\":1,"),
        "before the",
        |it| {
            trace(it, "fused-3")[4]["t_ns"] = json!(1);
        },
    ),
    told(
        "a first token before its prefill",
        Clock,
        (FUSED, "\"token_t_ns\":[0,"),
        "before the prefill",
        |it| {
            it.lines("fused-0", "finish")[0]["token_t_ns"][0] = json!(0);
        },
    ),
    told(
        "tokens later than the finish",
        Clock,
        (FUSED, "900000"),
        "token_t_ns",
        |it| {
            it.lines("fused-0", "finish")[0]["token_t_ns"][1] = json!(900_000);
        },
    ),
    told(
        "a step longer than its clock",
        Clock,
        (FUSED, "\"wall_ns\":1000"),
        "its clock leaves",
        |it| {
            let steps = it.lines("fused-0", "step");
            let sum = steps.len();
            for (place, step) in steps.into_iter().enumerate() {
                if place == sum - 1 {
                    step["wall_ns"] = json!(1000);
                }
            }
            more(&mut it.lines("fused-0", "end")[0]["decode_ns"], 999);
            more(
                &mut it.record["arms"]["fused"]["samples"][0]["decode_ns"],
                999,
            );
            it.set("/arms/fused/decode_ns", json!(1110));
        },
    ),
    told(
        "a warm-up before time began",
        Clock,
        (FUSED, "\"kind\":\"end\""),
        "the clock stands at",
        |it| {
            it.lines("fused-0", "end")[0]["load_ns"] = json!(900_000);
            it.set("/arms/fused/samples/0/load_ns", json!(900_000));
        },
    ),
    told(
        "a cache of part of a page",
        Memory,
        (FUSED, END),
        "no multiple of a page",
        |it| {
            it.lines("fused-0", "end")[0]["kv_bytes_peak"] = json!(4000);
            it.set("/arms/fused/samples/0/kv_bytes_peak", json!(4000));
        },
    ),
    told(
        "more memory than the machine has",
        Memory,
        (FUSED, END),
        "the machine of run.json",
        |it| {
            it.lines("fused-0", "end")[0]["rss_bytes_peak"] = json!(1_u64 << 40);
            it.set("/arms/fused/samples/0/rss_bytes_peak", json!(1_u64 << 40));
            it.set("/arms/fused/rss_bytes_peak", json!(1_u64 << 40));
        },
    ),
    of_cells(
        "a cache smaller than what it held",
        Memory,
        ("trace/fleet.fak-0.jsonl", END),
        "positions were held",
        |it| {
            it.set("/model/numbers/kv_heads", json!(1000));
        },
    ),
];

fn without_a_request(it: &mut Fixture) {
    let gone = |line: &Value| line["id"] == "a1-t1" || line["request"] == "a1-t1";
    trace(it, "agent-kv-0").retain(|line| !gone(line));
}
