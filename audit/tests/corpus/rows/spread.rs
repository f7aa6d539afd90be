//! Lies about what a machine, a quiet hour and the harness itself take.
//!
//! Not here: figures that follow from traces (`records`).

use super::{Forgery, in_cells, measured, recorded};

const CEILINGS_AT: &str = "/machine/ceilings";

/// A ceiling no machine could have.
const fn ceiling(name: &'static str, word: &'static str, value: &'static str) -> Forgery {
    recorded(name, "", word, (CEILINGS_AT, value))
}

pub(crate) static CEILINGS: &[Forgery] = &[
    ceiling(
        "memory read by all threads",
        "read_bytes_per_s has keys",
        r#"{"read_bytes_per_s": {"1": 5, "all": 5}, "f32_flop_per_s": {"1": 5}, "int8_op_per_s": {"1": 5}}"#,
    ),
    ceiling(
        "floats multiplied by no thread",
        "f32_flop_per_s has keys",
        r#"{"read_bytes_per_s": {"1": 5}, "f32_flop_per_s": {"0": 5, "1": 5}, "int8_op_per_s": {"1": 5}}"#,
    ),
    ceiling(
        "bytes multiplied by two threads alone",
        "int8_op_per_s has keys",
        r#"{"read_bytes_per_s": {"1": 5}, "f32_flop_per_s": {"1": 5}, "int8_op_per_s": {"2": 5}}"#,
    ),
    ceiling(
        "more threads for floats",
        "keys of machine.ceilings.f32_flop_per_s",
        r#"{"read_bytes_per_s": {"1": 5}, "f32_flop_per_s": {"1": 5, "2": 5}, "int8_op_per_s": {"1": 5}}"#,
    ),
    ceiling(
        "more threads for bytes",
        "keys of machine.ceilings.int8_op_per_s",
        r#"{"read_bytes_per_s": {"1": 5}, "f32_flop_per_s": {"1": 5}, "int8_op_per_s": {"1": 5, "2": 5}}"#,
    ),
    ceiling(
        "memory that cannot be read",
        "read_bytes_per_s has a rate of 0",
        r#"{"read_bytes_per_s": {"1": 0}, "f32_flop_per_s": {"1": 5}, "int8_op_per_s": {"1": 5}}"#,
    ),
    ceiling(
        "a machine without floats",
        "f32_flop_per_s has a rate of 0",
        r#"{"read_bytes_per_s": {"1": 5}, "f32_flop_per_s": {"1": 0}, "int8_op_per_s": {"1": 5}}"#,
    ),
    ceiling(
        "a machine without bytes",
        "int8_op_per_s has a rate of 0",
        r#"{"read_bytes_per_s": {"1": 5}, "f32_flop_per_s": {"1": 5}, "int8_op_per_s": {"1": 0}}"#,
    ),
];

pub(crate) static SPREAD: &[Forgery] = &[
    measured(recorded(
        "a median below the least",
        "",
        "do not ascend",
        ("/sittings/0/noise/median_ns", "1"),
    )),
    measured(recorded(
        "a quieter hour",
        "",
        "noise.spread is",
        ("/sittings/0/noise/spread", "0.1"),
    )),
    measured(recorded(
        "an instrument better than its parts",
        "",
        "instrument.floor_ns is 3",
        ("/instrument/floor_ns", "3"),
    )),
    measured(recorded(
        "an instrument that takes nothing",
        "",
        "every part is 0",
        (
            "/instrument",
            r#"{"clock_step_ns": 0, "step_lag_ns": 0, "line_write_ns": 0, "line_parse_ns": 0, "floor_ns": 0}"#,
        ),
    )),
    measured(recorded(
        "a mark taken off",
        "\"at_instrument_limit\": false",
        "arms.fused.at_instrument_limit",
        ("/arms/fused/at_instrument_limit", "false"),
    )),
    measured(recorded(
        "a p99 of twenty requests",
        "",
        "percentiles of fused, ttft_ns",
        (
            "/arms/fused/latencies/ttft_ns/percentiles/p99",
            r#"{"nearest": 1, "linear": 1.0}"#,
        ),
    )),
    measured(recorded(
        "a pair said to lie far out",
        "\"outliers\": [",
        "ratios[0].outliers",
        ("/ratios/0/outliers", "[0]"),
    )),
    recorded(
        "latencies without an instrument",
        "",
        "latencies is stated without",
        (
            "/arms/fused/latencies",
            r#"{"ttft_ns": {"count": 1, "percentiles": {}}, "tpot_ns": null, "e2e_ns": {"count": 1, "percentiles": {}}}"#,
        ),
    ),
    recorded(
        "outliers without an instrument",
        "",
        "outliers is stated without",
        ("/arms/fused/outliers", "[]"),
    ),
    recorded(
        "a mark without an instrument",
        "",
        "at_instrument_limit is stated without",
        ("/arms/fused/at_instrument_limit", "true"),
    ),
    recorded(
        "cells in a session",
        "",
        "cells and model.numbers belong",
        ("/cells", "[]"),
    ),
    in_cells(ceiling(
        "cells on a machine without floats",
        "f32_flop_per_s has a rate of 0",
        r#"{"read_bytes_per_s": {"1": 5}, "f32_flop_per_s": {"1": 0}, "int8_op_per_s": {"1": 5}}"#,
    )),
    in_cells(recorded(
        "cells by an instrument better than its parts",
        "",
        "instrument.floor_ns is 3",
        (
            "/instrument",
            r#"{"clock_step_ns": 1, "step_lag_ns": 1, "line_write_ns": 1, "line_parse_ns": 1, "floor_ns": 3}"#,
        ),
    )),
    in_cells(recorded(
        "outliers of a cell without an instrument",
        "",
        "outliers is stated without",
        ("/cells/0/arms/fak/outliers", "[]"),
    )),
    in_cells(recorded(
        "outliers among the pairs of a cell without an instrument",
        "",
        "outliers is stated without",
        ("/cells/0/ratios/0/outliers", "[]"),
    )),
];
