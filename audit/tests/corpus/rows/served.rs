//! Lies about what was asked of other engines, and what run.json says of them.
//!
//! Not here: their traces (`servers`, `answers`) and scores (`scores`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

use std::fs;

use audit::Layer::{Declared, Format, Identity, Record, Seal};
use serde_json::{Value, json};

use super::scores::{SCORE, SCORE_0};
use super::servers::beside;
use super::{Change, Forgery, ZEROS, declared, in_cells, recorded, told, written};
use crate::fixture::{seal, served, shorter};

const RUN: &str = "run.json";

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
                    .replace("margin_millinats = 55", "margin_millinats = 5");
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
    Forgery {
        honest: shorter::first_turn_only,
        ..recorded(
            "prompts of turns that one of two did not play",
            "\"prefill_tokens\": 1.6",
            "ratios[3].prefill_tokens",
            ("/ratios/3/prefill_tokens", "1.6"),
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
