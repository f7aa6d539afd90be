//! Lies in the traces of other engines: how they were started, and what came before the first request.
//!
//! Not here: requests and answers (`answers`), their scores (`scores`), what run.json says of them (`served`).

use audit::Layer::{self, Chain, Clock, Count, Format, Memory, Prompt, Reuse, Settings};
use serde_json::json;

use super::{Change, Forgery, TEXT, Where, ZEROS, said, told};
use crate::fixture::{Fixture, served, sha256};
use crate::tell::trace;

pub(super) const WARM: &str = "trace/llama-server.agent-0.jsonl";
pub(super) const COPYING: &str = "trace/llama-server.shared-0.jsonl";
const BEGIN: &str = "\"kind\":\"begin_server\"";
const READY: &str = "\"kind\":\"ready\"";
const PROBE: &str = "\"kind\":\"probe\"";
const PRIME: &str = "\"kind\":\"prime\"";
const PRIMED: &str = "\"kind\":\"primed\"";
const SLOT: &str = "\"kind\":\"slot\"";
pub(super) const ASKED: &str = "\"kind\":\"request\"";
/// Their names without directory and ending.
pub(super) const WARM_0: &str = "llama-server.agent-0";
const COPYING_0: &str = "llama-server.shared-0";

/// The same lie about a session that another engine answers too.
pub(super) const fn beside(forgery: Forgery) -> Forgery {
    Forgery {
        honest: served::run,
        ..forgery
    }
}

/// One value otherwise in a trace of the warm arm.
pub(super) const fn warm(
    name: &'static str,
    layer: Layer,
    line: &'static str,
    word: &'static str,
    place: (&'static str, usize),
    change: Change,
) -> Forgery {
    beside(said(name, layer, (WARM, line), word, place, change))
}

/// The same of the arm that copies the prefix.
const fn copying(
    name: &'static str,
    layer: Layer,
    line: &'static str,
    word: &'static str,
    place: (&'static str, usize),
    change: Change,
) -> Forgery {
    beside(said(name, layer, (COPYING, line), word, place, change))
}

pub(super) const fn lied(
    name: &'static str,
    layer: Layer,
    place: Where,
    word: &'static str,
    tell: fn(&mut Fixture),
) -> Forgery {
    beside(told(name, layer, place, word, tell))
}

pub(crate) static BEGUN: &[Forgery] = &[
    warm(
        "another model file handed to another engine",
        Settings,
        BEGIN,
        "model_sha256 is",
        ("begin_server", 0),
        ("/model_sha256", ZEROS),
    ),
    warm(
        "a path among a server's arguments",
        Format,
        BEGIN,
        "a file has a path",
        ("begin_server", 0),
        ("/program/arguments/1", "\"/models/model.gguf\""),
    ),
    warm(
        "a server without a model",
        Format,
        BEGIN,
        "no model after -m",
        ("begin_server", 0),
        ("/program/arguments/0", "\"-q\""),
    ),
    warm(
        "a port told to everyone",
        Format,
        BEGIN,
        "the port is Some(\"8180\")",
        ("begin_server", 0),
        ("/program/arguments/3", "\"8180\""),
    ),
    warm(
        "a server started with more threads",
        Settings,
        BEGIN,
        "program.arguments: -t is",
        ("begin_server", 0),
        ("/program/arguments/5", "\"4\""),
    ),
    warm(
        "a server started with fewer slots than agents",
        Settings,
        BEGIN,
        "program.arguments: -np is",
        ("begin_server", 0),
        ("/program/arguments/7", "\"1\""),
    ),
    warm(
        "a server started with the attention of another arm",
        Settings,
        BEGIN,
        "program.arguments: -fa is",
        ("begin_server", 0),
        ("/program/arguments/9", "\"on\""),
    ),
    lied(
        "a build of a server that nobody here started",
        Settings,
        (WARM, BEGIN),
        "started without arguments nothing else can be known",
        |it| {
            for name in [WARM_0, "llama-server.agent-1"] {
                it.lines(name, "begin_server")[0]["program"]["arguments"] = json!([]);
            }
        },
    ),
    lied(
        "a server started otherwise in one repetition",
        Settings,
        ("trace/llama-server.agent-1.jsonl", BEGIN),
        "program.arguments is",
        |it| {
            let begin = it.lines("llama-server.agent-1", "begin_server").remove(0);
            begin["program"]["arguments"][1] = json!("other.gguf");
        },
    ),
    lied(
        "another build of the server in one repetition",
        Settings,
        ("trace/llama-server.agent-1.jsonl", BEGIN),
        "program.sha256 is",
        |it| {
            let begin = it.lines("llama-server.agent-1", "begin_server").remove(0);
            begin["program"]["sha256"] = json!(sha256("another build"));
        },
    ),
    lied(
        "another setting of the server in one repetition",
        Settings,
        ("trace/llama-server.agent-1.jsonl", BEGIN),
        "settings are not those of another repetition",
        |it| {
            let ready = it.lines("llama-server.agent-1", "ready").remove(0);
            ready["settings"]["kv_unified"] = json!(true);
        },
    ),
    lied(
        "a server's trace without an end",
        Chain,
        (WARM, ""),
        "neither `end_server` nor `error`",
        |it| {
            trace(it, WARM_0).pop();
        },
    ),
    lied(
        "a server's trace that goes on after its end",
        Chain,
        (WARM, PROBE),
        "nothing may follow `end_server`",
        |it| {
            let mut probe = it.lines(WARM_0, "probe")[0].clone();
            probe["t_ns"] = json!(99_999);
            trace(it, WARM_0).push(probe);
        },
    ),
    lied(
        "a server begun twice",
        Chain,
        (WARM, "\"seq\":1,"),
        "`begin_server` is the first line",
        |it| {
            let begin = trace(it, WARM_0)[0].clone();
            trace(it, WARM_0).insert(1, begin);
        },
    ),
    lied(
        "a step of ours in a server's trace",
        Chain,
        (WARM, "\"kind\":\"step\""),
        "does not belong into the trace of another engine",
        |it| {
            let step = json!({
                "t_ns": 20, "kind": "step", "phase": "prefill", "rows": 1, "requests": 1, "wall_ns": 1,
            });
            trace(it, WARM_0).insert(2, step);
        },
    ),
    Forgery {
        honest: served::failed,
        ..lied(
            "a server that failed for no reason",
            Format,
            (WARM, "\"kind\":\"error\""),
            "message is empty",
            |it| {
                it.lines(WARM_0, "error")[0]["message"] = json!("");
                it.set("/arms/llama-server:agent/error", json!(""));
            },
        )
    },
];

pub(crate) static PREPARED: &[Forgery] = &[
    lied(
        "a server ready twice",
        Chain,
        (WARM, "\"seq\":2,"),
        "becomes ready once",
        |it| {
            let ready = trace(it, WARM_0)[1].clone();
            trace(it, WARM_0).insert(2, ready);
        },
    ),
    warm(
        "a server that took longer to load than there was time",
        Clock,
        READY,
        "load_ns is 99",
        ("ready", 0),
        ("/load_ns", "99"),
    ),
    warm(
        "a server with another number of threads",
        Settings,
        READY,
        "settings.threads is 3",
        ("ready", 0),
        ("/settings/threads", "3"),
    ),
    warm(
        "a server with a slot too few",
        Settings,
        READY,
        "settings.slots is 1",
        ("ready", 0),
        ("/settings/slots", "1"),
    ),
    warm(
        "a server with the attention of another arm",
        Settings,
        READY,
        "settings.flash_attention is true",
        ("ready", 0),
        ("/settings/flash_attention", "true"),
    ),
    warm(
        "a server with a smaller cache type",
        Settings,
        READY,
        "settings.kv_dtype is \"q8_0\"",
        ("ready", 0),
        ("/settings/kv_dtype", "\"q8_0\""),
    ),
    warm(
        "ids barred in no order",
        Format,
        READY,
        "barred: ids do not ascend",
        ("ready", 0),
        ("/barred", "[2, 1]"),
    ),
    lied(
        "a whole vocabulary barred",
        Format,
        (WARM, READY),
        "or there are more than 64",
        |it| {
            let all: Vec<u64> = (0..65).collect();
            it.lines(WARM_0, "ready")[0]["barred"] = json!(all);
            it.lines("llama-server.agent-0.score", "begin_score")[0]["barred"] = json!(all);
        },
    ),
    lied(
        "one arm barred from its better choice",
        Settings,
        (COPYING, BEGIN),
        "barred (of all servers) is [1]",
        |it| {
            it.lines(COPYING_0, "ready")[0]["barred"] = json!([1]);
            it.lines("llama-server.shared-0.score", "begin_score")[0]["barred"] = json!([1]);
        },
    ),
    warm(
        "slots too short for a transcript",
        Memory,
        ASKED,
        "take 10 positions, a slot has Some(9)",
        ("ready", 0),
        ("/settings/slot_positions", "9"),
    ),
    warm(
        "probes in another order",
        Chain,
        PROBE,
        "the order is ready, probe repeat",
        ("probe", 0),
        ("/name", "\"salted\""),
    ),
    lied(
        "a probe left out",
        Chain,
        (WARM, TEXT),
        "the order is ready, probe repeat",
        |it| {
            let probe = place_of_kind(it, WARM_0, "probe");
            trace(it, WARM_0).remove(probe + 1);
        },
    ),
    lied(
        "a cache that does not find what it was just given",
        Reuse,
        (WARM, PROBE),
        "the probe repeat found Some(2) of 7",
        |it| {
            let mut probes = it.lines(WARM_0, "probe");
            (probes[0]["cached"], probes[0]["computed"]) = (json!(2), json!(5));
        },
    ),
    lied(
        "a cache that finds what it was never given",
        Reuse,
        (WARM, PROBE),
        "the probe salted found Some(3) of 7",
        |it| {
            let mut probes = it.lines(WARM_0, "probe");
            (probes[1]["cached"], probes[1]["computed"]) = (json!(3), json!(4));
        },
    ),
    warm(
        "a probe that adds up to more than its prompt",
        Count,
        PROBE,
        "cached + computed is 8",
        ("probe", 0),
        ("/computed", "2"),
    ),
    lied(
        "a text computed for others in a warm arm",
        Chain,
        (WARM, PRIME),
        "only an arm named `shared`",
        |it| {
            let mut prime = it.lines(COPYING_0, "prime")[0].clone();
            prime["t_ns"] = json!(23);
            let text = place_of_kind(it, WARM_0, "text");
            trace(it, WARM_0).insert(text + 1, prime);
        },
    ),
    copying(
        "a text computed for others that was never stated",
        Chain,
        PRIME,
        "no text \"other\" was stated",
        ("prime", 0),
        ("/text", "\"other\""),
    ),
    copying(
        "another text computed for others than was stated",
        Prompt,
        PRIME,
        "sent.body_sha256 is",
        ("prime", 0),
        ("/sent/body_sha256", ZEROS),
    ),
    copying(
        "another text computed than was begun",
        Chain,
        PRIMED,
        "no text of this name is being computed",
        ("primed", 0),
        ("/text", "\"other\""),
    ),
    copying(
        "a text that the server did not take",
        Format,
        PRIMED,
        "status is 400",
        ("primed", 0),
        ("/status", "400"),
    ),
    copying(
        "other counts than the server's words, of a text computed for others",
        Count,
        PRIMED,
        "prompt_n of usage is not the Some(5)",
        ("primed", 0),
        ("/usage", "\"{\\\"prompt_n\\\":4}\""),
    ),
    copying(
        "a text computed for others twice over",
        Count,
        PRIMED,
        "cached + computed is 10",
        ("primed", 0),
        ("/cached", "5"),
    ),
    lied(
        "a text found before it was computed",
        Reuse,
        (COPYING, PRIMED),
        "cached is 1, beyond the oracle: 0",
        |it| {
            let mut primed = it.lines(COPYING_0, "primed");
            (primed[0]["cached"], primed[0]["computed"]) = (json!(1), json!(4));
        },
    ),
    lied(
        "a copy of what is not there yet",
        Chain,
        (COPYING, SLOT),
        "nothing was computed that could be copied",
        |it| {
            let primed = place_of_kind(it, COPYING_0, "primed");
            let lines = trace(it, COPYING_0);
            lines[primed + 1]["t_ns"] = lines[primed]["t_ns"].clone();
            lines.swap(primed, primed + 1);
        },
    ),
    copying(
        "a copy restored that was never saved",
        Chain,
        SLOT,
        "the next copy is to save",
        ("slot", 0),
        ("/action", "\"restore\""),
    ),
    copying(
        "a copy into the slot it came from",
        Format,
        SLOT,
        "slot 0 has the text already",
        ("slot", 1),
        ("/slot", "0"),
    ),
    copying(
        "a copy into a slot that nobody has",
        Format,
        SLOT,
        "or is none of the 2",
        ("slot", 1),
        ("/slot", "2"),
    ),
    copying(
        "a copy of less than the text",
        Count,
        SLOT,
        "tokens is 4",
        ("slot", 1),
        ("/tokens", "4"),
    ),
    copying(
        "a copy that took longer than there was time",
        Clock,
        SLOT,
        "the copy says 9999 ns",
        ("slot", 1),
        ("/wall_ns", "9999"),
    ),
    lied(
        "a slot without its copy",
        Chain,
        (COPYING, ASKED),
        "when every slot has its copy",
        |it| {
            let save = place_of_kind(it, COPYING_0, "slot");
            trace(it, COPYING_0).remove(save + 1);
        },
    ),
];

/// Where the first line of a kind stands.
fn place_of_kind(it: &mut Fixture, name: &str, kind: &str) -> usize {
    let is_it = |line: &serde_json::Value| line["kind"] == kind;
    trace(it, name).iter().position(is_it).unwrap()
}
