//! Lies about requests that come by the clock: when they were due, which went first, how many were good.
//!
//! Not here: the honest runs (`fixture::scheduled`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

use audit::Layer::{self, Clock, Declared, Format, Prompt, Record, Seed};
use serde_json::{Value, json};

use super::servers::COPYING;
use super::{Change, FUSED, Forgery, TEXT, Where, declared, measured, of_cells, recorded, told};
use crate::fixture::{Fixture, scheduled};
use crate::tell::{more, place_of, rebuild_prompts, retell, trace};

/// A lie about a run with equal gaps and an objective.
const fn timed(forgery: Forgery) -> Forgery {
    Forgery {
        honest: scheduled::run,
        ..forgery
    }
}

/// A lie about a run beside which another engine answers by the clock.
const fn beside(forgery: Forgery) -> Forgery {
    Forgery {
        honest: scheduled::beside_servers,
        ..forgery
    }
}

/// A lie in the traces of such a run.
const fn lied(
    name: &'static str,
    layer: Layer,
    place: Where,
    word: &'static str,
    tell: fn(&mut Fixture),
) -> Forgery {
    timed(told(name, layer, place, word, tell))
}

/// A figure of such a run stated otherwise.
const fn stated(name: &'static str, line: &'static str, word: &'static str, to: Change) -> Forgery {
    timed(recorded(name, line, word, to))
}

pub(crate) static ASKED: &[Forgery] = &[
    timed(declared(
        "gaps of a kind nobody knows",
        "workload.arrivals.process is",
        ("/workload/arrivals/process", r#""bursts""#),
    )),
    timed(declared(
        "requests that are all due at once",
        "interval_us is 0",
        ("/workload/arrivals/interval_us", "0"),
    )),
    timed(declared(
        "gaps of more than ten minutes",
        "interval_us is 600000001",
        ("/workload/arrivals/interval_us", "600000001"),
    )),
    timed(declared(
        "agents one by one, and by the clock",
        "nothing comes by the clock",
        ("/workload/order", r#""agents""#),
    )),
    timed(declared(
        "more requests by the clock than anybody follows",
        "1048578 requests, beyond the limit",
        ("/workload/turns", "524289"),
    )),
    timed(declared(
        "an objective of nothing",
        "workload.slo says nothing",
        ("/workload/slo", "{}"),
    )),
    timed(declared(
        "a first token that comes with its request",
        "workload.slo.ttft_ms is 0",
        ("/workload/slo/ttft_ms", "0"),
    )),
    timed(declared(
        "tokens that take no time",
        "workload.slo.tpot_ms is 0",
        ("/workload/slo/tpot_ms", "0"),
    )),
    timed(declared(
        "an answer that may take more than two hours",
        "workload.slo.e2e_ms is 7200001",
        ("/workload/slo/e2e_ms", "7200001"),
    )),
    declared(
        "an objective for requests that are due at no time",
        "workload.arrivals are missing",
        ("/workload/slo", r#"{"e2e_ms": 2}"#),
    ),
    beside(declared(
        "a first token of answers that come whole",
        "answers of other engines come whole",
        ("/workload/slo", r#"{"ttft_ms": 1}"#),
    )),
    beside(declared(
        "a time per token of answers that come whole",
        "answers of other engines come whole",
        ("/workload/slo", r#"{"tpot_ms": 1}"#),
    )),
    lied(
        "gaps other than were typed",
        Declared,
        ("envelope.toml", ""),
        "workload.arrivals.interval_us is 2 here",
        |it| retype(it, "\"interval_us\" = 1", "\"interval_us\" = 2"),
    ),
    lied(
        "an objective other than was typed",
        Declared,
        ("envelope.toml", ""),
        "workload.slo.ttft_ms is 9 here",
        |it| retype(it, "\"ttft_ms\" = 1", "\"ttft_ms\" = 9"),
    ),
    lied(
        "a first id nobody typed",
        Declared,
        ("envelope.toml", ""),
        "workload.bos_id is nothing here",
        |it| retype(it, "bos_id = 2\n", ""),
    ),
    lied(
        "a text that begins with another id than was declared",
        Seed,
        (FUSED, TEXT),
        "the text's first id is Some(4)",
        |it| {
            retell(it, "", |line| {
                if line["kind"] == "text" {
                    line["ids"][0] = json!(4);
                }
            });
        },
    ),
    lied(
        "a text that begins with an id nobody declared",
        Seed,
        (FUSED, TEXT),
        "not those of the declared seed",
        |it| {
            let work = it.envelope["workload"].as_object_mut().unwrap();
            work.remove("bos_id");
            it.redeclare();
        },
    ),
    lied(
        "a text whose second id was drawn first",
        Seed,
        (FUSED, TEXT),
        "not those of the declared seed",
        |it| {
            for lines in it.traces.values_mut() {
                let text = lines.iter_mut().find(|it| it["kind"] == "text").unwrap();
                let ids = crate::fixture::simulate::prefix(4).into_iter();
                text["ids"] = [scheduled::BOS].into_iter().chain(ids).collect();
                rebuild_prompts(lines);
            }
        },
    ),
];

pub(crate) static SENT: &[Forgery] = &[
    lied(
        "a request said to have been due a nanosecond before",
        Clock,
        (FUSED, "\"id\":\"a0-t1\""),
        "the declared arrivals give",
        |it| more(due(it, "fused-0", "a0-t1"), -1),
    ),
    lied(
        "a request said to have been due when it was sent",
        Clock,
        ("trace/naive-0.jsonl", "\"id\":\"a1-t1\""),
        "the declared arrivals give",
        |it| {
            let lines = trace(it, "naive-0");
            let place = place_of(lines, "request", "a1-t1");
            lines[place]["due_ns"] = lines[place]["t_ns"].clone();
        },
    ),
    Forgery {
        honest: scheduled::poisson,
        ..told(
            "a drawn gap that is longer than logarithms differ",
            Clock,
            (FUSED, "\"id\":\"a0-t1\""),
            "the declared arrivals give",
            |it| more(due(it, "fused-0", "a0-t1"), -3),
        )
    },
    Forgery {
        honest: || scheduled::drawn(&scheduled::offsets("constant")),
        ..told(
            "equal gaps that were to be drawn",
            Clock,
            (FUSED, "\"id\":\"a1-t0\""),
            "the declared arrivals give",
            |_| (),
        )
    },
    beside(told(
        "a request to another engine that was due before",
        Clock,
        (COPYING, "\"id\":\"a0-t1\""),
        "the declared arrivals give",
        |it| more(due(it, "llama-server.shared-0", "a0-t1"), -1),
    )),
    lied(
        "a request that does not say when it was due",
        Format,
        (FUSED, "\"id\":\"a1-t0\""),
        "due_ns is None",
        |it| {
            let lines = trace(it, "fused-0");
            let place = place_of(lines, "request", "a1-t0");
            lines[place].as_object_mut().unwrap().remove("due_ns");
        },
    ),
    told(
        "a request that was due where nothing comes by the clock",
        Format,
        (FUSED, "\"id\":\"a0-t0\""),
        "due_ns is Some",
        |it| it.lines("fused-0", "request")[0]["due_ns"] = json!(1),
    ),
    of_cells(
        "a request of a cell that was due",
        Format,
        ("trace/fleet.fak-0.jsonl", "\"kind\":\"request\""),
        "requests of cells",
        |it| it.lines("fleet.fak-0", "request")[0]["due_ns"] = json!(1),
    ),
    lied(
        "a request sent before it was due",
        Clock,
        (FUSED, "\"id\":\"a1-t0\""),
        "before it is due",
        |it| {
            let lines = trace(it, "fused-0");
            let (asked, answered) = (
                place_of(lines, "request", "a1-t0"),
                place_of(lines, "finish", "a1-t0"),
            );
            more(&mut lines[asked]["t_ns"], -1);
            let times = lines[answered]["token_t_ns"].as_array_mut().unwrap();
            for time in times {
                more(time, 1);
            }
        },
    ),
    lied(
        "a schedule that began before anything could be asked",
        Clock,
        (FUSED, "\"id\":\"a0-t0\""),
        "before the line before it",
        |it| {
            for request in it.lines("fused-0", "request") {
                more(&mut request["due_ns"], -1);
            }
        },
    ),
    lied(
        "a request that overtook one which waited for nothing",
        Prompt,
        (FUSED, "\"id\":\"a1-t1\""),
        "goes before agent 0, turn 1",
        |it| {
            let lines = trace(it, "fused-0");
            let place = place_of(lines, "request", "a0-t1");
            lines[place]["t_ns"] = lines[place + 1]["t_ns"].clone();
            lines.swap(place, place + 1);
        },
    ),
    lied(
        "a first request that overtook another",
        Prompt,
        (FUSED, "\"id\":\"a1-t0\""),
        "goes before agent 0, turn 0",
        |it| {
            let lines = trace(it, "fused-0");
            let place = place_of(lines, "request", "a0-t0");
            lines[place]["t_ns"] = lines[place + 1]["t_ns"].clone();
            lines.swap(place, place + 1);
        },
    ),
    beside(told(
        "a request to another engine that overtook an agent which had been answered",
        Prompt,
        (COPYING, "\"id\":\"a1-t1\""),
        "goes before agent 0, turn 1",
        |it| {
            // Agent 1 asks again only after agent 0 was answered, who does not.
            let lines = trace(it, "llama-server.shared-0");
            let from = place_of(lines, "request", "a1-t1");
            let times = [0, 1].map(|after| lines[from + after]["t_ns"].clone());
            lines.swap(from, from + 1);
            [lines[from]["t_ns"], lines[from + 1]["t_ns"]] = times;
        },
    )),
];

pub(crate) static RECORDED: &[Forgery] = &[
    lied(
        "a time since due that is the time since sent",
        Record,
        ("run.json", "\"nearest\""),
        "arms.naive.latencies.scheduled_ttft_ns.percentiles.p50.nearest",
        |it| {
            let latencies = &mut it.record["arms"]["naive"]["latencies"];
            latencies["scheduled_ttft_ns"] = latencies["ttft_ns"].clone();
        },
    ),
    lied(
        "a whole answer's time since due that is the time since sent",
        Record,
        ("run.json", "\"nearest\""),
        "arms.naive.latencies.scheduled_e2e_ns.percentiles.p50.nearest",
        |it| {
            let latencies = &mut it.record["arms"]["naive"]["latencies"];
            latencies["scheduled_e2e_ns"] = latencies["e2e_ns"].clone();
        },
    ),
    lied(
        "times since due left out",
        Record,
        ("run.json", ""),
        "times in latencies of fused",
        |it| {
            let latencies = &mut it.record["arms"]["fused"]["latencies"];
            let latencies = latencies.as_object_mut().unwrap();
            latencies.remove("scheduled_ttft_ns");
            latencies.remove("scheduled_e2e_ns");
        },
    ),
    measured(told(
        "times since due where nothing was",
        Record,
        ("run.json", ""),
        "times in latencies of fused",
        |it| {
            let latencies = &mut it.record["arms"]["fused"]["latencies"];
            latencies["scheduled_ttft_ns"] = latencies["ttft_ns"].clone();
        },
    )),
    stated(
        "one good answer too many",
        "\"good\": 16",
        "arms.fused.goodput.good is 16, the traces give 15",
        ("/arms/fused/goodput/good", "16"),
    ),
    stated(
        "only the good answers were asked for",
        "\"offered\": 15",
        "arms.fused.goodput.offered is 15, the traces give 20",
        ("/arms/fused/goodput/offered", "15"),
    ),
    lied(
        "good answers by the time since sent",
        Record,
        ("run.json", "\"good_per_s\""),
        "arms.naive.goodput.good_per_s",
        |it| {
            let figures = &mut it.record["arms"]["naive"];
            let samples = figures["samples"].as_array().unwrap().iter();
            let walls = samples.map(|it| it["wall_ns"].as_u64().unwrap());
            let per_s = 15e9 / walls.sum::<u64>() as f64;
            figures["goodput"]["good_per_s"] = json!((per_s * 1e6).round() / 1e6);
        },
    ),
    Forgery {
        honest: scheduled::single,
        ..told(
            "an answer of one token that keeps to a time per token",
            Record,
            ("run.json", "\"good\": 10"),
            "arms.naive.goodput.good is 10, the traces give 0",
            |it| it.set("/arms/naive/goodput/good", json!(10)),
        )
    },
    beside(recorded(
        "another engine's answer that came too late and is good",
        "\"good\": 16",
        "goodput.good is 16, the traces give 15",
        ("/arms/llama-server:agent/goodput/good", "16"),
    )),
    lied(
        "good answers nobody counted",
        Record,
        ("run.json", "\"fused\": {"),
        "arms.fused.goodput is null",
        |it| {
            let figures = it.record["arms"]["fused"].as_object_mut().unwrap();
            figures.remove("goodput");
        },
    ),
    measured(recorded(
        "good answers without an objective",
        "",
        "goodput is stated, but no workload.slo",
        (
            "/arms/fused/goodput",
            r#"{"offered": 20, "good": 20, "good_per_s": null}"#,
        ),
    )),
    recorded(
        "good answers without an instrument",
        "",
        "goodput is stated without",
        (
            "/arms/fused/goodput",
            r#"{"offered": 20, "good": 20, "good_per_s": null}"#,
        ),
    ),
    stated(
        "a wall that is compared though it is the clock's",
        "\"wall\": 1.0",
        "ratios[0].wall is 1.0",
        ("/ratios/0/wall", "1.0"),
    ),
    stated(
        "prefills that are compared though they wait for the clock",
        "\"prefill\": 1.0",
        "ratios[0].prefill is 1.0",
        ("/ratios/0/prefill", "1.0"),
    ),
    stated(
        "a verdict on the clock",
        "\"verdict\": \"PARITY\"",
        "ratios[0].verdict",
        ("/ratios/0/verdict", r#""PARITY""#),
    ),
    stated(
        "a run's verdict on the clock",
        "\"verdict\": \"PARITY\"",
        "verdict is \"PARITY\"",
        ("/verdict", r#""PARITY""#),
    ),
    stated(
        "a wall withheld for another reason than the clock",
        "\"withheld\": \"too short\"",
        "ratios[1].withheld",
        ("/ratios/1/withheld", r#""too short""#),
    ),
    beside(told(
        "a wall withheld for the answers though the clock comes first",
        Record,
        ("run.json", "\"withheld\""),
        "the traces give \"requests come by the clock\"",
        |it| {
            it.envelope["run"]["margin_millinats"] = json!(55);
            it.redeclare();
            let words = "outside the margin: llama-server:agent-2, agent 1, turn 1, output token 1, 60000 micronats";
            it.set("/ratios/2/withheld", json!(words));
        },
    )),
];

/// Changes what was typed, and nothing else.
fn retype(it: &mut Fixture, from: &str, to: &str) {
    assert!(it.written.contains(from), "{}", it.written);
    it.written = it.written.replacen(from, to, 1);
}

/// When a request of a trace was due.
fn due<'a>(it: &'a mut Fixture, name: &str, request: &str) -> &'a mut Value {
    let lines = trace(it, name);
    let place = place_of(lines, "request", request);
    &mut lines[place]["due_ns"]
}
