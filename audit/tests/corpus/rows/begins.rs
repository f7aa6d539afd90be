//! Lies in the first line of a trace, one value each.
//!
//! Not here: settings that all repetitions of an arm share (`settings`).

use audit::Layer::{self, Format, Settings};

use super::{BEGIN, Change, FUSED, Forgery, ZEROS, said};

const fn begun(name: &'static str, layer: Layer, word: &'static str, change: Change) -> Forgery {
    said(name, layer, (FUSED, BEGIN), word, ("begin", 0), change)
}

pub(crate) static BEGINS: &[Forgery] = &[
    begun(
        "a trace of another schema",
        Format,
        "schema is",
        ("/schema", r#""fak.trace/2""#),
    ),
    begun(
        "a cell in a session",
        Format,
        "cell is",
        ("/cell", r#""fleet""#),
    ),
    begun(
        "a model without a digest",
        Format,
        "model_sha256 is \"x\", which",
        ("/model_sha256", r#""x""#),
    ),
    begun(
        "a tokenizer without a digest",
        Format,
        "tokenizer_sha256 is \"x\", which",
        ("/tokenizer_sha256", r#""x""#),
    ),
    begun(
        "another tokenizer in one trace",
        Settings,
        "tokenizer_sha256 is",
        ("/tokenizer_sha256", ZEROS),
    ),
    begun(
        "a batched arm played one by one",
        Settings,
        "settings.batched is",
        ("/settings/batched", "false"),
    ),
    begun(
        "pages of another size",
        Settings,
        "settings.page_positions is",
        ("/settings/page_positions", "32"),
    ),
    begun(
        "smaller chunks in one trace",
        Settings,
        "settings.chunk_tokens is 64",
        ("/settings/chunk_tokens", "64"),
    ),
];
