//! Lies about what other engines' answers are worth: their scores, what run.json makes of them, what was asked of them.
//!
//! Not here: the traces that are scored (`servers`).

use std::fs;

use audit::Layer::{self, Chain, Clock, Count, Declared, Format, Identity, Record, Seal, Settings};
use serde_json::{Value, json};

use super::servers::beside;
use super::{
    Catcher, Change, Forgery, Made, ZEROS, declared, in_cells, recorded, row, said, told, written,
};
use crate::fixture::{Fixture, seal, served};
use crate::tell::trace;

const SCORE: &str = "trace/llama-server.agent-0.score.jsonl";
const SCORE_0: &str = "llama-server.agent-0.score";
const RUN: &str = "run.json";
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

/// One value of run.json stated otherwise.
const fn figure(
    name: &'static str,
    line: &'static str,
    word: &'static str,
    change: Change,
) -> Forgery {
    beside(recorded(name, line, word, change))
}

/// The same where an answer lies outside the margin.
const fn outside(
    name: &'static str,
    line: &'static str,
    word: &'static str,
    change: Change,
) -> Forgery {
    Forgery {
        honest: served::outside,
        ..recorded(name, line, word, change)
    }
}

pub(crate) static ASKED: &[Forgery] = &[
    declared(
        "a margin of nothing",
        "run.margin_millinats is 0",
        ("/run/margin_millinats", "0"),
    ),
    declared(
        "a limit of half a day",
        "run.request_limit_s is 43200",
        ("/run/request_limit_s", "43200"),
    ),
    in_cells(declared(
        "a margin for cells",
        "are for sessions",
        ("/run/margin_millinats", "99"),
    )),
    beside(declared(
        "a cache to be shown that is not ours",
        "are not for arms that another engine answers",
        ("/evidence/kv", "true"),
    )),
    beside(told(
        "other engines alone",
        Format,
        ("envelope.json", ""),
        "other engines stand beside an arm of ours",
        |it| {
            it.envelope["run"]["arms"] = json!([served::COPYING, served::WARM]);
            let reps = it.envelope["run"]["arm_reps"].as_object_mut().unwrap();
            reps.retain(|arm, _| arm.starts_with("llama-server"));
            it.redeclare();
        },
    )),
    Forgery {
        honest: served::outside,
        ..told(
            "another margin than was typed",
            Declared,
            ("envelope.toml", "margin_millinats = 5"),
            "run.margin_millinats is 5",
            |it| {
                it.written = it
                    .written
                    .replace("margin_millinats = 55", "margin_millinats = 5")
            },
        )
    },
    Forgery {
        honest: served::outside,
        ..told(
            "a limit that was not typed",
            Declared,
            ("envelope.toml", ""),
            "run.request_limit_s is 600 here or by default",
            |it| it.written = it.written.replace("request_limit_s = 9\n", ""),
        )
    },
    beside(written(
        "an unwelcome score removed",
        Seal,
        (SCORE, ""),
        "is missing: its trace ended",
        |dir| {
            fs::remove_file(dir.join(SCORE)).unwrap();
            seal(dir);
        },
    )),
    Forgery {
        honest: served::failed,
        ..told(
            "a score of what failed",
            Seal,
            (SCORE, ""),
            "did not end in `end_server`",
            |it| {
                let mut lines = it.traces["llama-server.agent-1.score"].clone();
                lines[0]["rep"] = json!(0);
                it.traces.insert(SCORE_0.to_owned(), lines);
            },
        )
    },
];

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
        "a score with kernels the machine has not",
        Settings,
        BEGIN,
        "but the machine of run.json has",
        ("begin_score", 0),
        ("/kernels", "\"avx2\""),
    ),
    lied(
        "a score with kernels nobody asked for",
        Settings,
        BEGIN,
        "kernels is \"avx2\", expected \"scalar\"",
        |it| {
            it.envelope["run"]["kernels"] = json!("scalar");
            it.redeclare();
            it.set("/requested/kernels", json!("scalar"));
            it.set("/machine/isa", json!(["avx2", "fma"]));
            it.lines(SCORE_0, "begin_score")[0]["kernels"] = json!("avx2");
        },
    ),
    scored(
        "ids barred in no order",
        Format,
        BEGIN,
        "barred: ids do not ascend",
        ("begin_score", 0),
        ("/barred", "[2, 1]"),
    ),
    scored(
        "ids barred twice",
        Format,
        BEGIN,
        "barred: ids do not ascend",
        ("begin_score", 0),
        ("/barred", "[1, 1]"),
    ),
    scored(
        "an id barred that was answered",
        Settings,
        LINE,
        "Some(1001) was answered",
        ("begin_score", 0),
        ("/barred", "[1, 1001]"),
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

pub(crate) static RECORDED: &[Forgery] = &[
    figure(
        "another engine said to be witnessed",
        "\"provenance\": \"WITNESSED\"",
        "arms.llama-server:agent.provenance",
        ("/arms/llama-server:agent/provenance", "\"WITNESSED\""),
    ),
    figure(
        "a time of another engine's that nobody took",
        "\"prefill_ns\": 1",
        "arms.llama-server:agent.samples[0].prefill_ns",
        ("/arms/llama-server:agent/samples/0/prefill_ns", "1"),
    ),
    figure(
        "one answer stated where repetitions differ",
        "\"output_sha256\": \"00000",
        "arms.llama-server:agent.output_sha256",
        ("/arms/llama-server:agent/output_sha256", ZEROS),
    ),
    figure(
        "tokens of one piece timed one by one",
        "\"count\": 20",
        "arms.llama-server:agent.latencies.tpot_ns.count",
        ("/arms/llama-server:agent/latencies/tpot_ns/count", "20"),
    ),
    figure(
        "another build in the record than was started",
        "\"version\": \"version: 2\"",
        "arms.llama-server:agent.server.program.version",
        (
            "/arms/llama-server:agent/server/program/version",
            "\"version: 2\"",
        ),
    ),
    figure(
        "another setting in the record than was read back",
        "\"kv_unified\": true",
        "arms.llama-server:agent.server.settings.kv_unified",
        (
            "/arms/llama-server:agent/server/settings/kv_unified",
            "true",
        ),
    ),
    beside(told(
        "a server behind an arm of ours",
        Record,
        (RUN, ""),
        "no other engine answers this arm",
        |it| {
            let server = it.record["arms"][served::WARM]["server"].clone();
            it.record["arms"]["fused"]["server"] = server;
        },
    )),
    Forgery {
        honest: served::unscored,
        ..told(
            "a score of answers that were not scored",
            Record,
            (RUN, ""),
            "the traces have no score of it",
            |it| {
                let score = it.record["arms"][served::COPYING]["score"].clone();
                it.record["arms"][served::WARM]["score"] = score;
            },
        )
    },
    figure(
        "more exact tokens than there were",
        "\"exact_tokens\": 36",
        "arms.llama-server:agent.score.exact_tokens",
        ("/arms/llama-server:agent/score/exact_tokens", "36"),
    ),
    figure(
        "a greater share of exact tokens",
        "\"exact_share\": 0.9",
        "arms.llama-server:agent.score.exact_share",
        ("/arms/llama-server:agent/score/exact_share", "0.9"),
    ),
    figure(
        "a divergence hidden",
        "\"first_divergence\": null",
        "arms.llama-server:agent.score.first_divergence",
        ("/arms/llama-server:agent/score/first_divergence", "null"),
    ),
    outside(
        "a token beyond the margin hidden",
        "\"beyond_margin\": null",
        "arms.llama-server:agent.score.beyond_margin",
        ("/arms/llama-server:agent/score/beyond_margin", "null"),
    ),
    outside(
        "a ratio to answers beyond the margin",
        "\"wall\": 2.0",
        "ratios[2].wall",
        ("/ratios/2/wall", "2.0"),
    ),
    outside(
        "a ratio withheld for another reason",
        "\"withheld\": \"it was late\"",
        "ratios[2].withheld",
        ("/ratios/2/withheld", "\"it was late\""),
    ),
    Forgery {
        honest: served::unscored,
        ..recorded(
            "a ratio to answers nobody scored",
            "\"verdict\": \"FASTER\"",
            "ratios[2].verdict",
            ("/ratios/2/verdict", "\"FASTER\""),
        )
    },
    figure(
        "another engine compared with a rung it is not",
        "\"arm\": \"agent-kv\"",
        "ratios[1].arm",
        ("/ratios/1/arm", "\"agent-kv\""),
    ),
    Forgery {
        honest: served::silent,
        ..recorded(
            "a silent server given a count",
            "\"prefix_tokens_hit\": 12",
            "arms.llama-server:agent.prefix_tokens_hit",
            ("/arms/llama-server:agent/prefix_tokens_hit", "12"),
        )
    },
    beside(told(
        "another engine compared bit by bit",
        Identity,
        (RUN, "\"arms\": ["),
        "the number of identity.arms is 3",
        |it| {
            let arms: Value = json!(["agent-kv", "fused", served::COPYING]);
            it.set("/identity/arms", arms);
        },
    )),
];
