//! Envelopes that ask what cannot be asked, one value each.
//!
//! Not here: envelopes that were answered otherwise than asked (`files`).

use super::{Forgery, declared, in_cells};

pub(crate) static SESSIONS: &[Forgery] = &[
    Forgery {
        line: "fak.envelope/2", // read before anything else, so its line is known
        ..declared(
            "an envelope of another schema",
            "schema is",
            ("/schema", r#""fak.envelope/2""#),
        )
    },
    declared(
        "prompts kept as text",
        "evidence.prompts is",
        ("/evidence/prompts", r#""text""#),
    ),
    declared(
        "work that is no session",
        "workload.kind is",
        ("/workload/kind", r#""story""#),
    ),
    declared(
        "two workers",
        "workload.workers is 2",
        ("/workload/workers", "2"),
    ),
    declared(
        "no agents",
        "workload.agents is 0",
        ("/workload/agents", "0"),
    ),
    declared("no turns", "workload.turns is 0", ("/workload/turns", "0")),
    declared(
        "no prefix",
        "workload.prefix is 0",
        ("/workload/prefix", "0"),
    ),
    declared(
        "nothing to decode",
        "workload.decode is 0",
        ("/workload/decode", "0"),
    ),
    declared("no threads", "run.threads is 0", ("/run/threads", "0")),
    declared(
        "chunks of nothing",
        "run.chunk_tokens is 0",
        ("/run/chunk_tokens", "0"),
    ),
    declared(
        "a cache of no pages",
        "run.kv_pages is 0",
        ("/run/kv_pages", "0"),
    ),
    declared("no repetitions", "run.reps is 0", ("/run/reps", "0")),
    declared(
        "an arm nobody has",
        "no arm is called",
        ("/run/arms/0", r#""boast""#),
    ),
    declared(
        "an arm named twice",
        "names \"naive\" twice",
        (
            "/run/arms",
            r#"["naive", "naive", "agent-kv", "agent-kv-batched", "instance-shared", "fused"]"#,
        ),
    ),
    declared(
        "repetitions of an arm that is not asked",
        "keys of run.arm_reps",
        ("/run/arm_reps/mock", "5"),
    ),
    declared(
        "fewer turns that are not fewer",
        "run.arm_turns.naive is 2",
        ("/run/arm_turns", r#"{"naive": 2}"#),
    ),
    declared(
        "a script that nobody plays",
        "mock: the arm",
        (
            "/mock",
            r#"{"step_ns": 1, "prefill_ns_per_token": 1, "decode_ns_per_token": 1, "jitter_thousandths": 0}"#,
        ),
    ),
];

pub(crate) static CELLS: &[Forgery] = &[
    in_cells(declared(
        "cells that play fewer turns",
        "run.arm_turns: cells",
        ("/run/arm_turns", r#"{"fak": 1}"#),
    )),
    in_cells(declared(
        "no time for a measurement",
        "workload.limit_s is 0",
        ("/workload/limit_s", "0"),
    )),
    in_cells(declared(
        "no cells",
        "workload.cells has 0",
        ("/workload/cells", "[]"),
    )),
    in_cells(declared(
        "a cell without a name",
        "is used twice or is none",
        ("/workload/cells/0/name", r#""""#),
    )),
    in_cells(declared(
        "a cell of prompt and decoding at once",
        "cannot be asked",
        ("/workload/cells/0/prompt", "1"),
    )),
];
