//! Lies about engine work in our own traces, and in what run.json says of cells.
//!
//! Not here: other programs (`programs`).

use audit::Layer::{
    self, Chain, Clock, Count, Format, Identity, Memory, Prompt, Record, Seal, Seed, Settings,
};
use serde_json::{Value, json};

use super::{BEGIN, Change, END, Forgery, STEP, TEXT, ZEROS, in_cells, of_cells, recorded, said};
use crate::fixture::{Fixture, ids_sha256, simulate};
use crate::tell::{later, place_of, trace};

const FLEET: &str = "trace/fleet.fak-0.jsonl";
const UNSHARED: &str = "trace/fleet.fak-unshared-0.jsonl";
const PROMPT: &str = "trace/prompt.fak-0.jsonl";
const FIRST: &str = "\"id\":\"a0-t0\"";
const SECOND: &str = "\"id\":\"a1-t0\"";

/// What an agent of `fleet` asks, one value otherwise.
const fn asked(name: &'static str, word: &'static str, change: Change) -> Forgery {
    in_cells(said(
        name,
        Prompt,
        (FLEET, FIRST),
        word,
        ("request", 0),
        change,
    ))
}

/// The same of a first line.
const fn begun(
    name: &'static str,
    layer: Layer,
    file: &'static str,
    word: &'static str,
    change: Change,
) -> Forgery {
    in_cells(said(name, layer, (file, BEGIN), word, ("begin", 0), change))
}

pub(crate) static OURS: &[Forgery] = &[
    begun(
        "the trace of another cell",
        Format,
        FLEET,
        "cell is",
        ("/cell", r#""prompt""#),
    ),
    begun(
        "one arm of a cell with fewer threads",
        Settings,
        UNSHARED,
        "settings is",
        ("/settings/threads", "1"),
    ),
    begun(
        "a cell with more threads than asked",
        Settings,
        FLEET,
        "settings.threads is 4",
        ("/settings/threads", "4"),
    ),
    begun(
        "a cell with more pages than asked",
        Settings,
        FLEET,
        "settings.kv_pages is 65",
        ("/settings/kv_pages", "65"),
    ),
    begun(
        "pages shared by the arm that shares none",
        Settings,
        UNSHARED,
        "settings.shared_attention is true",
        ("/settings/shared_attention", "true"),
    ),
    begun(
        "a cell with a cache kept in fewer bits",
        Settings,
        FLEET,
        "settings.kv_dtype is",
        ("/settings/kv_dtype", r#""f16""#),
    ),
    in_cells(said(
        "one repetition of a cell is asked something else",
        Prompt,
        ("trace/fleet.fak-3.jsonl", ""),
        "client-supplied ids of turn 0",
        ("request", 1),
        ("/append", "[999]"),
    )),
    in_cells(said(
        "a process larger than the machine, in a cell",
        Memory,
        (FLEET, END),
        "rss_bytes_peak is Some(1099511627776)",
        ("end", 0),
        ("/rss_bytes_peak", "1099511627776"),
    )),
    asked("less kept than is shared", "keep is 2", ("/keep", "2")),
    asked(
        "more of its own than declared",
        "length of append is 2",
        ("/append", "[1, 2]"),
    ),
    asked(
        "fewer tokens asked of a cell",
        "decode_max is 2",
        ("/decode_max", "2"),
    ),
    asked("a second worker in a cell", "worker is 1", ("/worker", "1")),
    asked(
        "a cell whose outputs may end early",
        "ignore_eos is false",
        ("/ignore_eos", "false"),
    ),
    of_cells(
        "an agent that shares nothing",
        Prompt,
        (FLEET, FIRST),
        "base is neither the shared text",
        |it| {
            let request = it.lines("fleet.fak-0", "request").remove(0);
            (request["base"], request["keep"]) = (Value::Null, json!(0));
        },
    ),
    in_cells(said(
        "an agent nobody declared",
        Prompt,
        (FLEET, SECOND),
        "outside the declared cell",
        ("request", 1),
        ("/agent", "5"),
    )),
    of_cells(
        "agents that begin alike",
        Prompt,
        (FLEET, SECOND),
        "begins with id",
        |it| {
            let append = simulate::own(0, 0, 1);
            let prompt = [simulate::prefix(3), append.clone()].concat();
            let request = it.lines("fleet.fak-0", "request").remove(1);
            request["append"] = json!(append);
            request["prompt_sha256"] = json!(ids_sha256(&prompt));
        },
    ),
    in_cells(said(
        "an id of its own that the seed does not give",
        Seed,
        (FLEET, SECOND),
        "declared seed",
        ("request", 1),
        ("/append", "[999]"),
    )),
    in_cells(said(
        "a shared text that the seed does not give",
        Seed,
        (FLEET, TEXT),
        "declared seed",
        ("text", 0),
        ("/ids", "[5, 6, 7]"),
    )),
    in_cells(said(
        "a shared text of another length",
        Prompt,
        (FLEET, TEXT),
        "ids of the shared text",
        ("text", 0),
        ("/ids", "[5, 6, 7, 8]"),
    )),
    of_cells(
        "a text where none is shared",
        Count,
        (PROMPT, END),
        "texts is 1",
        |it| {
            let text = it.traces["fleet.fak-0"][1].clone();
            trace(it, "prompt.fak-0").insert(1, text);
        },
    ),
    of_cells(
        "a timed turn before its depth is cached",
        Prompt,
        (FLEET, "\"id\":\"a0-t1\""),
        "the timed turn begins before",
        |it| {
            let cell = &mut it.envelope["workload"]["cells"][0];
            (cell["prompt"], cell["decode"]) = (json!(2), json!(0));
            it.redeclare();
            let lines = trace(it, "fleet.fak-0");
            let finish = place_of(lines, "finish", "a0-t0");
            let mut request = lines[place_of(lines, "request", "a0-t0")].clone();
            (request["id"], request["turn"]) = (json!("a0-t1"), json!(1));
            request["base"] = json!({ "request": "a0-t0" });
            request["t_ns"] = lines[finish]["t_ns"].clone();
            lines.insert(finish + 1, request);
        },
    ),
    of_cells(
        "an agent left out of a cell",
        Count,
        (FLEET, END),
        "requests is 1, expected 2",
        |it| {
            let gone = |line: &Value| line["id"] == "a1-t0" || line["request"] == "a1-t0";
            trace(it, "fleet.fak-0").retain(|line| !gone(line));
        },
    ),
    of_cells(
        "agents one after another",
        Count,
        (FLEET, STEP),
        "decodes 1 of 2 agents",
        |it| {
            let step = it.lines("fleet.fak-0", "step").remove(2);
            (step["rows"], step["requests"]) = (json!(1), json!(1));
        },
    ),
    in_cells(said(
        "more rows timed than were asked",
        Count,
        (FLEET, END),
        "rows of the timed steps is 5",
        ("step", 2),
        ("/rows", "3"),
    )),
    of_cells(
        "steps that took no time",
        Count,
        (FLEET, END),
        "took no time",
        |it| {
            for step in it.lines("fleet.fak-0", "step") {
                step["wall_ns"] = json!(0);
            }
        },
    ),
    in_cells(said(
        "an answer of a cell cut short",
        Prompt,
        (FLEET, "\"ids\":[1]"),
        "length of ids is 1",
        ("finish", 0),
        ("/ids", "[1]"),
    )),
    of_cells(
        "steps that count double",
        Clock,
        (FLEET, STEP),
        "its clock leaves",
        |it| {
            for step in it.lines("fleet.fak-0", "step") {
                step["wall_ns"] = json!(2 * step["wall_ns"].as_u64().unwrap());
            }
        },
    ),
    of_cells(
        "time left out between steps",
        Clock,
        (FLEET, END),
        "of the 1000010003 they stand in",
        |it| later(trace(it, "fleet.fak-0"), ("step", 3), 1_000_000_000),
    ),
    of_cells(
        "time left out before the only step",
        Clock,
        (PROMPT, END),
        "they stand in",
        |it| later(trace(it, "prompt.fak-0"), ("request", 1), 1_000_000_000),
    ),
    of_cells(
        "a trace of the other kind",
        Chain,
        (PROMPT, "\"kind\":\"external\""),
        "another program",
        |it| {
            let played = it.traces["prompt.llama-bench.fa1-0"].clone();
            trace(it, "prompt.fak-0").splice(1.., played[1..].to_vec());
        },
    ),
    of_cells(
        "a repetition of a cell left out",
        Seal,
        ("trace/prompt.fak-3.jsonl", ""),
        "is missing",
        |it| {
            it.traces.remove("prompt.fak-3");
        },
    ),
];

pub(crate) static RECORDS: &[Forgery] = &[
    in_cells(recorded(
        "a share of the limit",
        "\"share_of_limit\": 0.9",
        "arms.fak.share_of_limit",
        ("/cells/0/arms/fak/share_of_limit", "0.9"),
    )),
    in_cells(recorded(
        "less to move than the work needs",
        "\"bytes\": 131",
        "arms.fak.needs.bytes",
        ("/cells/1/arms/fak/needs/bytes", "131"),
    )),
    in_cells(recorded(
        "a limit of its own",
        "\"limit_ns\": 341",
        "arms.fak.needs.limit_ns",
        ("/cells/1/arms/fak/needs/limit_ns", "341"),
    )),
    in_cells(recorded(
        "a greater speed",
        "\"speed\": 3.5",
        "ratios[0].speed",
        ("/cells/0/ratios/0/speed", "3.5"),
    )),
    in_cells(recorded(
        "a speed at least as great",
        "\"low\": 3.5",
        "ratios[0].low",
        ("/cells/0/ratios/0/low", "3.5"),
    )),
    in_cells(recorded(
        "a smaller model",
        "\"matrix_operations\": 320",
        "needs.matrix_operations",
        ("/model/numbers/vocab", "4"),
    )),
    in_cells(recorded(
        "another program's answer as a witness",
        "\"provenance\": \"WITNESSED\"",
        "llama-bench:fa1.provenance",
        ("/cells/0/arms/llama-bench:fa1/provenance", r#""WITNESSED""#),
    )),
    in_cells(recorded(
        "cells without a sitting",
        "\"sittings\": []",
        "sittings is empty",
        ("/sittings", "[]"),
    )),
    of_cells(
        "cells in another order",
        Record,
        ("run.json", "\"order\""),
        "order is",
        |it| it.record["order"].as_array_mut().unwrap().swap(0, 1),
    ),
    of_cells(
        "a model of no layers",
        Format,
        ("run.json", ""),
        "beyond any model",
        |it| it.set("/model/numbers/layers", json!(0)),
    ),
    of_cells(
        "a model of no numbers",
        Record,
        ("run.json", ""),
        "model.numbers is missing",
        |it| {
            it.record["model"]
                .as_object_mut()
                .unwrap()
                .remove("numbers");
        },
    ),
    of_cells(
        "an arm left out of a cell",
        Record,
        ("run.json", ""),
        "arms of cell \"fleet\"",
        |it| {
            let arms = it.record["cells"][0]["arms"].as_object_mut().unwrap();
            arms.remove("llama-bench:fa1");
        },
    ),
    of_cells(
        "an arm of sessions among cells",
        Record,
        ("run.json", ""),
        "arms is not empty",
        |it| {
            let mut session = Fixture::ladder().record;
            it.record["arms"]["fused"] = session["arms"]["fused"].take();
        },
    ),
    of_cells(
        "cells without an arm of ours",
        Record,
        ("run.json", ""),
        "no arm of ours ran",
        |it| {
            let others = ["llama-bench:fa0", "llama-bench:fa1"];
            let run = &mut it.envelope["run"];
            run["arms"] = json!(others);
            run["arm_reps"] = json!({ "llama-bench:fa0": 5, "llama-bench:fa1": 5 });
            it.traces.retain(|name, _| name.contains("llama"));
            it.redeclare();
        },
    ),
    of_cells(
        "kernels that cells did not obey",
        Settings,
        ("run.json", ""),
        "requested kernels",
        |it| {
            it.envelope["run"]["kernels"] = json!("avx2");
            it.set("/requested/kernels", json!("avx2"));
            it.redeclare();
        },
    ),
    of_cells(
        "a step that counts less",
        Record,
        ("run.json", "\"timed_ns\": 10000"),
        "samples[0].timed_ns is 10000",
        |it| {
            it.lines("fleet.fak-0", "step")[3]["wall_ns"] = json!(1);
            it.lines("fleet.fak-0", "end")[0]["decode_ns"] = json!(5_001);
        },
    ),
    of_cells(
        "an answer of one repetition",
        Identity,
        ("run.json", "\"equal\": true"),
        "identity.equal",
        |it| it.lines("fleet.fak-unshared-4", "finish")[1]["ids"][2] = json!(99),
    ),
    begun(
        "the digest of another model in one cell",
        Settings,
        UNSHARED,
        "model_sha256 is",
        ("/model_sha256", ZEROS),
    ),
];
