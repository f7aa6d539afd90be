//! Lies about other programs: what they were asked, and what they are said to have answered.
//!
//! Not here: our own arms (`cells`).

use audit::Layer::{self, Chain, Clock, Count, Format, Prompt, Record, Settings};
use serde_json::json;

use super::{Catcher, Change, Forgery, Made, Where, ZEROS, in_cells, of_cells, row, said};
use crate::tell::trace;

const PROMPT: &str = "trace/prompt.llama-bench.fa1-0.jsonl";
const FLEET: &str = "trace/fleet.llama-bench.fa1-0.jsonl";
const BEGIN: &str = "\"kind\":\"begin_external\"";
const ANSWER: &str = "\"kind\":\"external\"";
const END: &str = "\"kind\":\"end_external\"";
const RUN: &str = "run.json";

/// Another text in the output of a program.
const fn answered(
    name: &'static str,
    layer: Layer,
    file: &'static str,
    word: &'static str,
    texts: (&'static str, &'static str),
) -> Forgery {
    let place = (file, ANSWER);
    in_cells(row(
        name,
        Catcher::Layer(layer),
        place,
        word,
        Made::Answered(texts),
    ))
}

/// One value otherwise of how a program was asked.
const fn begun(name: &'static str, layer: Layer, word: &'static str, change: Change) -> Forgery {
    asked(name, layer, (PROMPT, BEGIN), word, change)
}

const fn asked(
    name: &'static str,
    layer: Layer,
    place: Where,
    word: &'static str,
    change: Change,
) -> Forgery {
    in_cells(said(
        name,
        layer,
        place,
        word,
        ("begin_external", 0),
        change,
    ))
}

pub(crate) static ANSWERS: &[Forgery] = &[
    answered(
        "an answer for a shorter prompt",
        Chain,
        PROMPT,
        "n_prompt is",
        ("\"n_prompt\": 4", "\"n_prompt\": 2"),
    ),
    answered(
        "an answer that decodes",
        Chain,
        PROMPT,
        "n_gen is",
        ("\"n_gen\": 0", "\"n_gen\": 1"),
    ),
    answered(
        "an answer at another depth",
        Chain,
        PROMPT,
        "n_depth is",
        ("\"n_depth\": 0", "\"n_depth\": 1"),
    ),
    answered(
        "a fleet's answer at another depth",
        Chain,
        FLEET,
        "pp is",
        ("\"pp\": 3", "\"pp\": 4"),
    ),
    answered(
        "a fleet's answer of more tokens",
        Chain,
        FLEET,
        "tg is",
        ("\"tg\": 2", "\"tg\": 3"),
    ),
    answered(
        "a fleet's answer of more agents",
        Chain,
        FLEET,
        "pl is",
        ("\"pl\": 2", "\"pl\": 3"),
    ),
    answered(
        "an answer that is no JSON",
        Chain,
        PROMPT,
        "no JSON",
        ("[{", "{{"),
    ),
    of_cells(
        "an answer of two measurements",
        Chain,
        (PROMPT, ANSWER),
        "no array of one",
        |it| {
            let external = it.lines("prompt.llama-bench.fa1-0", "external").remove(0);
            let output = external["output"].as_str().unwrap();
            let one = output.trim_matches(['[', ']']).to_owned();
            external["output"] = json!(format!("[{one},{one}]"));
        },
    ),
    answered(
        "an answer of no samples",
        Chain,
        PROMPT,
        "samples_ns has 0",
        ("[30000]", "[]"),
    ),
    answered(
        "an answer in no time",
        Chain,
        PROMPT,
        "no time above zero",
        ("[30000]", "[0]"),
    ),
    answered(
        "a program that ignored how to attend",
        Settings,
        PROMPT,
        "the program says flash_attn",
        ("\"n_gen\"", "\"flash_attn\": 0, \"n_gen\""),
    ),
    in_cells(said(
        "a program faster than its process",
        Clock,
        (PROMPT, ANSWER),
        "of the 29999 it ran",
        ("external", 0),
        ("/wall_ns", "29999"),
    )),
    in_cells(said(
        "two measurements for one",
        Count,
        (PROMPT, END),
        "measurements is 2",
        ("end_external", 0),
        ("/measurements", "2"),
    )),
    of_cells(
        "a slower answer of another program",
        Record,
        (RUN, "\"timed_ns\": 30000"),
        "samples[0].timed_ns is 30000",
        |it| {
            let external = it.lines("prompt.llama-bench.fa1-0", "external").remove(0);
            let output = external["output"].as_str().unwrap();
            external["output"] = json!(output.replace("30000", "60000"));
        },
    ),
    of_cells(
        "a slower answer for a fleet",
        Record,
        (RUN, "\"timed_ns\": 30000"),
        "cells[0].arms.llama-bench:fa1.samples[0].timed_ns is 30000",
        |it| {
            let external = it.lines("fleet.llama-bench.fa1-0", "external").remove(0);
            let output = external["output"].as_str().unwrap();
            external["output"] = json!(output.replace("0.000030", "0.000060"));
        },
    ),
    of_cells(
        "a failure of another program kept quiet",
        Record,
        (RUN, "\"complete\": true"),
        "complete is true",
        |it| {
            let lines = trace(it, "prompt.llama-bench.fa1-0");
            lines.truncate(1);
            lines.push(json!({ "t_ns": 3, "kind": "error", "message": "it broke" }));
        },
    ),
    of_cells(
        "a program that failed without a word",
        Format,
        (PROMPT, "\"kind\":\"error\""),
        "message is empty",
        |it| {
            let lines = trace(it, "prompt.llama-bench.fa1-0");
            lines.truncate(1);
            lines.push(json!({ "t_ns": 3, "kind": "error", "message": "" }));
        },
    ),
    of_cells(
        "nothing measured",
        Chain,
        (PROMPT, END),
        "the order is",
        |it| {
            trace(it, "prompt.llama-bench.fa1-0").remove(1);
        },
    ),
    of_cells(
        "a trace of ours as another program's",
        Chain,
        (PROMPT, "\"kind\":\"begin\""),
        "the order is",
        |it| {
            let own = it.traces["prompt.fak-0"].clone();
            it.traces.insert("prompt.llama-bench.fa1-0".to_owned(), own);
        },
    ),
    of_cells(
        "a program's trace that goes on after its end",
        Chain,
        (PROMPT, END),
        "nothing may follow",
        |it| {
            let again = trace(it, "prompt.llama-bench.fa1-0")[2].clone();
            trace(it, "prompt.llama-bench.fa1-0").push(again);
        },
    ),
    of_cells(
        "a program's trace without its end",
        Chain,
        (PROMPT, ""),
        "is truncated",
        |it| {
            trace(it, "prompt.llama-bench.fa1-0").pop();
        },
    ),
];

pub(crate) static QUESTIONS: &[Forgery] = &[
    begun(
        "a program's trace of another schema",
        Format,
        "schema is",
        ("/schema", r#""fak.trace/2""#),
    ),
    begun(
        "a program's trace of another envelope",
        Format,
        "envelope is",
        ("/envelope", r#""other""#),
    ),
    begun(
        "a program's trace of an envelope of other bytes",
        Format,
        "envelope_sha256 is",
        ("/envelope_sha256", ZEROS),
    ),
    begun(
        "a program's trace of another arm",
        Format,
        "arm is",
        ("/arm", r#""llama-bench:fa0""#),
    ),
    begun(
        "a program's trace of another cell",
        Format,
        "cell is",
        ("/cell", r#""fleet""#),
    ),
    begun(
        "a program's trace of another repetition",
        Format,
        "rep is 1",
        ("/rep", "1"),
    ),
    begun(
        "a model without a digest beside another program",
        Format,
        "model_sha256 is \"x\", which",
        ("/model_sha256", r#""x""#),
    ),
    begun(
        "a program of an odd digest",
        Format,
        "program.sha256 is \"x\", which",
        ("/program/sha256", r#""x""#),
    ),
    begun(
        "libraries of an odd digest",
        Format,
        "program.libraries_sha256 is \"x\", which",
        ("/program/libraries_sha256", r#""x""#),
    ),
    asked(
        "a program nobody hashed",
        Format,
        (PROMPT, ANSWER),
        "without a digest",
        ("/program/sha256", "null"),
    ),
    begun(
        "another build of a program",
        Settings,
        "program.sha256 is",
        ("/program/sha256", ZEROS),
    ),
    begun(
        "other libraries of a program",
        Settings,
        "program.libraries_sha256 is",
        ("/program/libraries_sha256", ZEROS),
    ),
    begun(
        "another version of a program",
        Settings,
        "program.version is",
        ("/program/version", r#""b1""#),
    ),
    begun(
        "another model for another program",
        Settings,
        "model_sha256 is",
        ("/model_sha256", ZEROS),
    ),
    begun(
        "another model file",
        Settings,
        "the model file",
        ("/program/arguments/1", r#""b.gguf""#),
    ),
    begun(
        "a model file with a path",
        Format,
        "without a path",
        ("/program/arguments/1", r#""models/model.gguf""#),
    ),
    asked(
        "a program that cannot be asked for a fleet",
        Prompt,
        (FLEET, BEGIN),
        "program.name is",
        ("/program/name", r#""llama-bench""#),
    ),
];
