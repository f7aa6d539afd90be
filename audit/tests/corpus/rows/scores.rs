//! Lies about the scores of other engines' answers.
//!
//! Not here: the traces that are scored (`servers`, `answers`), or what run.json makes of scores (`served`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

use audit::Layer::{self, Chain, Clock, Count, Format, Identity, Settings};
use serde_json::json;

use super::servers::beside;
use super::{Catcher, Change, Forgery, Made, ZEROS, row, said, told};
use crate::fixture::{Fixture, served};
use crate::tell::trace;

pub(super) const SCORE: &str = "trace/llama-server.agent-0.score.jsonl";
pub(super) const SCORE_0: &str = "llama-server.agent-0.score";
const BEGIN: &str = "\"kind\":\"begin_score\"";
const LINE: &str = "\"kind\":\"score\"";
const END: &str = "\"kind\":\"end_score\"";

/// One value otherwise in a score of the warm arm.
const fn scored(
    name: &'static str,
    layer: Layer,
    line: &'static str,
    word: &'static str,
    place: (&'static str, usize),
    change: Change,
) -> Forgery {
    beside(said(name, layer, (SCORE, line), word, place, change))
}

const fn lied(
    name: &'static str,
    layer: Layer,
    line: &'static str,
    word: &'static str,
    tell: fn(&mut Fixture),
) -> Forgery {
    beside(told(name, layer, (SCORE, line), word, tell))
}

const fn of_end(name: &'static str, word: &'static str, change: Change) -> Forgery {
    scored(name, Count, END, word, ("end_score", 0), change)
}

pub(crate) static SCORES: &[Forgery] = &[
    lied(
        "a score without an end",
        Chain,
        "",
        "neither `end_score` nor `error`",
        |it| {
            trace(it, SCORE_0).pop();
        },
    ),
    lied(
        "a score that goes on after its end",
        Chain,
        "\"seq\":6,",
        "nothing may follow `end_score`",
        |it| {
            let end = trace(it, SCORE_0)[5].clone();
            trace(it, SCORE_0).push(end);
        },
    ),
    lied(
        "a score begun twice",
        Chain,
        "\"seq\":1,",
        "`begin_score` is the first line",
        |it| {
            let begin = trace(it, SCORE_0)[0].clone();
            trace(it, SCORE_0).insert(1, begin);
        },
    ),
    lied(
        "a text in a score",
        Chain,
        "\"kind\":\"text\"",
        "does not belong into a trace of scores",
        |it| {
            let text = json!({ "t_ns": 1, "kind": "text", "name": "prefix", "ids": [] });
            trace(it, SCORE_0).insert(1, text);
        },
    ),
    Forgery {
        honest: served::unscored,
        ..told(
            "a score that failed for no reason",
            Format,
            (
                "trace/llama-server.agent-1.score.jsonl",
                "\"kind\":\"error\"",
            ),
            "message is empty",
            |it| it.lines("llama-server.agent-1.score", "error")[0]["message"] = json!(""),
        )
    },
    scored(
        "a score of another trace",
        Format,
        BEGIN,
        "trace_sha256 is",
        ("begin_score", 0),
        ("/trace_sha256", ZEROS),
    ),
    scored(
        "a score by another model",
        Settings,
        BEGIN,
        "model_sha256 is",
        ("begin_score", 0),
        ("/model_sha256", ZEROS),
    ),
    scored(
        "a score with another tokenizer",
        Settings,
        BEGIN,
        "tokenizer_sha256 is",
        ("begin_score", 0),
        ("/tokenizer_sha256", ZEROS),
    ),
    scored(
        "a score in the other mode",
        Settings,
        BEGIN,
        "mode is \"fast\"",
        ("begin_score", 0),
        ("/mode", "\"fast\""),
    ),
    scored(
        "a score with a smaller cache type",
        Settings,
        BEGIN,
        "kv_dtype is \"f16\"",
        ("begin_score", 0),
        ("/kv_dtype", "\"f16\""),
    ),
    scored(
        "a score with more threads",
        Settings,
        BEGIN,
        "threads is 3",
        ("begin_score", 0),
        ("/threads", "3"),
    ),
    scored(
        "a score with other kernels than ours",
        Settings,
        BEGIN,
        "kernels is \"avx2\", expected \"scalar\"",
        ("begin_score", 0),
        ("/kernels", "\"avx2\""),
    ),
    scored(
        "a score that bars other ids than the server",
        Settings,
        BEGIN,
        "barred is [1]",
        ("begin_score", 0),
        ("/barred", "[1]"),
    ),
    scored(
        "an answer scored for another",
        Chain,
        LINE,
        "answers are scored in the order they came",
        ("score", 0),
        ("/request", "\"a1-t0\""),
    ),
    scored(
        "an id without a margin",
        Count,
        LINE,
        "entries of margins_micronats is 1",
        ("score", 0),
        ("/margins_micronats", "[0]"),
    ),
    lied(
        "an answer left unscored",
        Chain,
        END,
        "1 answers are not scored",
        |it| {
            trace(it, SCORE_0).remove(4);
        },
    ),
    of_end(
        "a score of fewer answers",
        "requests is 3",
        ("/requests", "3"),
    ),
    of_end("a score of more tokens", "tokens is 9", ("/tokens", "9")),
    of_end(
        "a score of more exact tokens",
        "exact_tokens is 8",
        ("/exact_tokens", "8"),
    ),
    of_end(
        "a score that hides its worst",
        "worst_micronats is 7",
        ("/worst_micronats", "7"),
    ),
    scored(
        "a score that took longer than there was time",
        Clock,
        END,
        "wall_ns is 999",
        ("end_score", 0),
        ("/wall_ns", "999"),
    ),
    beside(told(
        "a text with other margins in one repetition",
        Identity,
        ("trace/llama-server.agent-1.score.jsonl", ""),
        "differ from those of the same text",
        |it| {
            it.lines(SCORE_0, "score")[0]["margins_micronats"] = json!([7, 0]);
            it.lines(SCORE_0, "end_score")[0]["exact_tokens"] = json!(6);
            let score = &mut it.record["arms"][served::WARM]["score"];
            (score["exact_tokens"], score["exact_share"]) = (json!(34), json!(0.85));
            score["first_divergence"] = json!({
                "rep": 0, "agent": 0, "turn": 0, "position": 0, "micronats": 7,
            });
        },
    )),
    beside(told(
        "an answer of ours that scores badly everywhere",
        Identity,
        (SCORE, ""),
        "are not 0 for ids that an exact arm of ours chose too",
        |it| {
            let scores: Vec<String> = it
                .traces
                .keys()
                .filter(|name| name.contains("score"))
                .cloned()
                .collect();
            for name in scores {
                it.lines(&name, "score")[1]["margins_micronats"] = json!([7, 0]);
                let end = it.lines(&name, "end_score").remove(0);
                end["exact_tokens"] = json!(end["exact_tokens"].as_u64().unwrap() - 1);
                end["worst_micronats"] = json!(end["worst_micronats"].as_u64().unwrap().max(7));
            }
            let token = json!({ "rep": 0, "agent": 1, "turn": 0, "position": 0, "micronats": 7 });
            for (arm, exact, worst) in [(served::COPYING, 35, 7), (served::WARM, 30, 60_000)] {
                let score = &mut it.record["arms"][arm]["score"];
                (score["exact_tokens"], score["worst_micronats"]) = (json!(exact), json!(worst));
                score["exact_share"] = json!(f64::from(exact) / 40.0);
                score["first_divergence"] = token.clone();
            }
        },
    )),
    Forgery {
        honest: served::run,
        ..row(
            "a last answer and its margin invented alike",
            Catcher::Replay,
            ("", ""),
            "margins",
            Made::Told(invent),
        )
    },
];

/// Another margin, said wherever it follows.
fn invent(it: &mut Fixture) {
    for rep in [0, 1, 3, 4] {
        let name = served::stem(served::WARM, rep);
        it.lines(&name, "answer")[3]["ids"][1] = json!(997);
        let score = format!("{name}.score");
        it.lines(&score, "score")[3]["margins_micronats"] = json!([0, 8]);
        it.lines(&score, "end_score")[0]["worst_micronats"] = json!(8);
    }
    it.record["arms"][served::WARM]["score"]["first_divergence"]["micronats"] = json!(8);
}
