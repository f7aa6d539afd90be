//! Lies about what went over the wire to other engines and back, and about sums over it.
//!
//! Not here: what came before (`servers`).

use audit::Layer::{Chain, Clock, Count, Format, Memory, Prompt, Reuse, Settings};
use serde_json::json;

use super::servers::{ASKED, WARM, WARM_0, lied, warm};
use super::{Change, Forgery, ZEROS};
use crate::fixture::{Fixture, served, sha256, simulate};
use crate::tell::{place_of, trace};

const ANSWER: &str = "\"kind\":\"answer\"";
const END: &str = "\"kind\":\"end_server\"";

/// Sends another body for the first answer of the warm arm, with its hash.
fn send(it: &mut Fixture, body: &str) {
    let words: Vec<String> = simulate::prompt(0, 0).iter().map(u64::to_string).collect();
    let prompt = format!("\"prompt\":[{}]", words.join(","));
    let whole = body.replacen("\"prompt\":[]", &prompt, 1);
    let sent = &mut it.lines(WARM_0, "answer").remove(0)["sent"];
    (sent["body"], sent["body_sha256"]) = (json!(body), json!(sha256(whole)));
}

pub(crate) static ANSWERED: &[Forgery] = &[
    lied(
        "a request put to a server twice",
        Chain,
        (WARM, ASKED),
        "a request \"a0-t0\" was stated before",
        |it| {
            let place = place_of(trace(it, WARM_0), "answer", "a0-t0");
            let mut again = trace(it, WARM_0)[place - 1].clone();
            again["t_ns"] = trace(it, WARM_0)[place]["t_ns"].clone();
            trace(it, WARM_0).insert(place + 1, again);
        },
    ),
    warm(
        "an answer to a request nobody made",
        Chain,
        ANSWER,
        "no request \"a9-t9\" is open",
        ("answer", 0),
        ("/request", "\"a9-t9\""),
    ),
    warm(
        "another prompt sent than was asked",
        Prompt,
        ANSWER,
        "sent.body_sha256 is",
        ("answer", 0),
        ("/sent/body_sha256", ZEROS),
    ),
    lied(
        "a prompt sent beside the one that was asked",
        Prompt,
        (WARM, ANSWER),
        "sent.body is no object with one",
        |it| send(it, r#"{"input":{"prompt":[]},"prompt":"another"}"#),
    ),
    lied(
        "a prompt sent where no server looks for it",
        Prompt,
        (WARM, ANSWER),
        "sent.body is no object with one",
        |it| send(it, r#"{"input":{"prompt":[]}}"#),
    ),
    warm(
        "a request sent to another host",
        Format,
        ANSWER,
        "sent.path is",
        ("answer", 0),
        ("/sent/path", "\"http://10.0.0.1/completion\""),
    ),
    lied(
        "fewer tokens asked of a server",
        Prompt,
        (WARM, ANSWER),
        "sent.body asks for n_predict",
        |it| send(it, r#"{"prompt":[],"n_predict":1}"#),
    ),
    lied(
        "a server free to stop",
        Prompt,
        (WARM, ANSWER),
        "sent.body asks for ignore_eos",
        |it| send(it, r#"{"prompt":[],"ignore_eos":false}"#),
    ),
    warm(
        "an answer that is an error",
        Format,
        ANSWER,
        "status is 503",
        ("answer", 0),
        ("/status", "503"),
    ),
    warm(
        "other counts than the server's words",
        Count,
        ANSWER,
        "predicted_n of usage is not the Some(2)",
        ("answer", 0),
        ("/usage", "\"{\\\"predicted_n\\\":1}\""),
    ),
    warm(
        "an answer that counts less than its prompt",
        Count,
        ANSWER,
        "cached + computed is 4",
        ("answer", 0),
        ("/computed", "4"),
    ),
    lied(
        "a server that found what nobody had computed",
        Reuse,
        (WARM, ANSWER),
        "cached is 5, beyond the oracle: 0",
        |it| {
            let answer = it.lines(WARM_0, "answer").remove(0);
            (answer["cached"], answer["computed"]) = (json!(5), json!(0));
            answer["usage"] = json!("");
            let end = it.lines(WARM_0, "end_server").remove(0);
            (end["cached_tokens"], end["computed_tokens"]) = (json!(17), json!(11));
            for figure in ["prefill_tokens_computed", "prefix_tokens_hit", "reuse_rate"] {
                it.record["arms"][served::WARM][figure] = json!(null);
            }
        },
    ),
    warm(
        "an answer with an id that ends a text",
        Settings,
        ANSWER,
        "Some(1001) was answered",
        ("ready", 0),
        ("/barred", "[2, 1001]"),
    ),
    lied(
        "a server that ignored what it was told to ignore",
        Prompt,
        (WARM, ANSWER),
        "length of ids is 1",
        |it| {
            let answer = it.lines(WARM_0, "answer").remove(3);
            (answer["ids"], answer["chunk_tokens"]) = (json!([1110]), json!([1]));
            answer["usage"] = json!("");
        },
    ),
    warm(
        "an answer that ended for another reason",
        Count,
        ANSWER,
        "reason is \"stop\"",
        ("answer", 0),
        ("/reason", "\"stop\""),
    ),
    warm(
        "pieces without times",
        Count,
        ANSWER,
        "entries of chunk_tokens is 1",
        ("answer", 0),
        ("/chunk_tokens", "[2]"),
    ),
    warm(
        "pieces with more tokens than the answer",
        Count,
        ANSWER,
        "chunk_tokens has 3 tokens of 2",
        ("answer", 0),
        ("/chunk_tokens", "[1, 2]"),
    ),
    warm(
        "a piece of nothing",
        Count,
        ANSWER,
        "or a piece without any",
        ("answer", 0),
        ("/chunk_tokens", "[2, 0]"),
    ),
    warm(
        "pieces that come backwards",
        Clock,
        ANSWER,
        "chunk_t_ns decreases",
        ("answer", 0),
        ("/chunk_t_ns", "[6, 5]"),
    ),
    warm(
        "a piece that comes after the answer",
        Clock,
        ANSWER,
        "passes the 20 ns between request and answer",
        ("answer", 0),
        ("/chunk_t_ns", "[5, 21]"),
    ),
    warm(
        "a connection that took longer than everything",
        Clock,
        ANSWER,
        "connect_ns is 99999",
        ("answer", 0),
        ("/connect_ns", "99999"),
    ),
    lied(
        "an agent of a serial arm that did not wait",
        Prompt,
        (WARM, ASKED),
        "comes out of turn",
        |it| {
            let lines = trace(it, WARM_0);
            let (answer, request) = (
                place_of(lines, "answer", "a0-t0"),
                place_of(lines, "request", "a1-t0"),
            );
            lines[request]["t_ns"] = lines[answer]["t_ns"].clone();
            lines.swap(answer, request);
        },
    ),
];

pub(crate) static ENDED: &[Forgery] = &[
    lied(
        "a server's end before its last answer",
        Chain,
        (WARM, END),
        "1 requests were not answered",
        |it| {
            let place = place_of(trace(it, WARM_0), "answer", "a1-t1");
            trace(it, WARM_0).remove(place);
        },
    ),
    lied(
        "a server that warmed up for longer than there was time",
        Clock,
        (WARM, END),
        "load, warm-up and wall say",
        |it| {
            it.lines(WARM_0, "end_server")[0]["warmup_ns"] = json!(9_999);
            it.set("/arms/llama-server:agent/samples/0/warmup_ns", json!(9_999));
        },
    ),
    ended(
        "a server's request not counted",
        "requests is Some(3)",
        ("/requests", "3"),
    ),
    ended(
        "a server's prompts counted short",
        "prompt_tokens is Some(27)",
        ("/prompt_tokens", "27"),
    ),
    ended(
        "a server that found more in sum",
        "cached_tokens is Some(13)",
        ("/cached_tokens", "13"),
    ),
    ended(
        "a server that computed less in sum",
        "computed_tokens is Some(15)",
        ("/computed_tokens", "15"),
    ),
    ended(
        "a server that answered more in sum",
        "decode_tokens is Some(9)",
        ("/decode_tokens", "9"),
    ),
    ended(
        "a server slower than it was",
        "wall_ns is Some(9000)",
        ("/wall_ns", "9000"),
    ),
    ended(
        "a server without memory",
        "rss_bytes_peak is 0",
        ("/rss_bytes_peak", "0"),
    ),
    warm(
        "a server larger than the machine",
        Memory,
        END,
        "rss_bytes_peak is Some(1099511627776)",
        ("end_server", 0),
        ("/rss_bytes_peak", "1099511627776"),
    ),
];

const fn ended(name: &'static str, word: &'static str, change: Change) -> Forgery {
    warm(name, Count, END, word, ("end_server", 0), change)
}
