//! Lies in the last line of a trace, and in the steps that its sums rest on, one value each.
//!
//! Not here: sums that agree with the lines before them (`prompts`).

use audit::Layer::{Count, Memory};

use super::{Change, END, FUSED, Forgery, said};

const fn ended(name: &'static str, word: &'static str, change: Change) -> Forgery {
    said(name, Count, (FUSED, END), word, ("end", 0), change)
}

/// A step that its trace's sums do not follow from; the third decodes.
const fn stepped(name: &'static str, word: &'static str, step: usize, change: Change) -> Forgery {
    said(name, Count, (FUSED, END), word, ("step", step), change)
}

pub(crate) static ENDS: &[Forgery] = &[
    ended("requests miscounted", "requests is 99", ("/requests", "99")),
    ended(
        "computed tokens miscounted",
        "prefill_tokens_computed is 99",
        ("/prefill_tokens_computed", "99"),
    ),
    ended(
        "logical tokens miscounted",
        "prefill_tokens_logical is 99",
        ("/prefill_tokens_logical", "99"),
    ),
    ended(
        "hits miscounted",
        "prefix_tokens_hit is 99",
        ("/prefix_tokens_hit", "99"),
    ),
    ended(
        "decoded tokens miscounted",
        "decode_tokens is 99",
        ("/decode_tokens", "99"),
    ),
    ended(
        "carried tokens miscounted",
        "carried_tokens is 99",
        ("/carried_tokens", "99"),
    ),
    ended(
        "replayed tokens miscounted",
        "replayed_tokens is 99",
        ("/replayed_tokens", "99"),
    ),
    ended(
        "a prefill time of its own",
        "prefill_ns is 99",
        ("/prefill_ns", "99"),
    ),
    ended(
        "a decode time of its own",
        "decode_ns is 99",
        ("/decode_ns", "99"),
    ),
    ended(
        "a cache of no bytes",
        "kv_bytes_peak is 0",
        ("/kv_bytes_peak", "0"),
    ),
    ended(
        "a process of no memory",
        "rss_bytes_peak is 0",
        ("/rss_bytes_peak", "0"),
    ),
    said(
        "a cache larger than the machine",
        Memory,
        (FUSED, END),
        "kv_bytes_peak is Some(1099511627776)",
        ("end", 0),
        ("/kv_bytes_peak", "1099511627776"),
    ),
];

pub(crate) static STEPS: &[Forgery] = &[
    stepped(
        "more positions run than prompts have",
        "rows of all prefill steps is",
        0,
        ("/rows", "6"),
    ),
    stepped(
        "a prefill step shared with nobody",
        "requests of all prefill steps is",
        0,
        ("/requests", "2"),
    ),
    stepped(
        "more positions decoded than answers have",
        "rows of all decode steps is",
        2,
        ("/rows", "3"),
    ),
    stepped(
        "a decode step that somebody missed",
        "requests of all decode steps is",
        2,
        ("/requests", "1"),
    ),
];
