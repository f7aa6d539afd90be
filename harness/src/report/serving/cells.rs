//! Cells of the table of alternatives: figures of a run record as a reader wants them, each with who counted it.
//!
//! Not here: which run and which arms (the parent). A figure that is not there says so.

use serde_json::{Value, json};
use workloads::record::{ArmRecord, RatioRecord};

use crate::report::evidence::Anchored;
use crate::table::{duration, grouped, size};

/// Times are ours, whoever is timed.
const WITNESSED: &str = "WITNESSED";
const NOT_REPORTED: &str = "not reported";

/// A row of cells, one for each arm.
type Cell = fn(&Anchored, &str, &ArmRecord) -> String;

const ROWS: [(&str, Cell); 9] = [
    ("prompt tokens computed", |_, _, arm| {
        labelled(arm.prefill_tokens_computed.map(grouped), &arm.provenance)
    }),
    ("share of positions found in a cache", |_, _, arm| {
        let share = arm.reuse_rate.map(|it| format!("{:.1} %", it * 100.0));
        labelled(share, &arm.provenance)
    }),
    ("wall, median", |_, _, arm| {
        let of = format!("{WITNESSED}, n = {}", arm.completed);
        labelled(arm.wall_ns.map(duration), &of)
    }),
    ("`fused` over it, wall", ratio),
    ("KV peak", |_, _, arm| {
        labelled(arm.kv_bytes_peak.map(size), &arm.provenance)
    }),
    ("memory peak of its process", |_, _, arm| {
        labelled(arm.rss_bytes_peak.map(size), WITNESSED)
    }),
    ("decoding", |_, _, arm| {
        let words = if arm.batched {
            "all agents in flight"
        } else {
            "one request at a time"
        };
        words.to_owned()
    }),
    ("set to", settings),
    ("answers", answers),
];

/// The rows of these arms, all of which the run has.
pub(super) fn rows(run: &Anchored, arms: &[&str]) -> Vec<Value> {
    let row = |(what, cell): (&str, Cell)| {
        let cells = arms.iter().filter_map(|name| {
            let arm = run.record.arms.get(*name)?;
            Some(match &arm.error {
                Some(_) => format!(
                    "failed in {} of {}",
                    arm.reps - arm.completed.min(arm.reps),
                    arm.reps
                ),
                None => cell(run, name, arm),
            })
        });
        json!({ "what": what, "cells": cells.collect::<Vec<_>>() })
    };
    ROWS.into_iter().map(row).collect()
}

/// A number of the envelope.
pub(super) fn count(value: &Value) -> String {
    value
        .as_u64()
        .map_or_else(|| NOT_REPORTED.to_owned(), grouped)
}

fn labelled(figure: Option<String>, who: &str) -> String {
    figure.map_or_else(
        || NOT_REPORTED.to_owned(),
        |figure| format!("{figure} ({who})"),
    )
}

/// What decides how much there is to read: unlike settings are part of any ratio.
fn settings(run: &Anchored, _: &str, arm: &ArmRecord) -> String {
    let Some(server) = &arm.server else {
        return format!("keys and values in {}", run.record.effective.kv_dtype);
    };
    let said = server.settings.as_ref();
    let dtype = said.and_then(|it| it.kv_dtype.as_deref());
    let attention = match said.and_then(|it| it.flash_attention) {
        Some(true) => "on",
        Some(false) => "off",
        None => NOT_REPORTED,
    };
    let dtype = dtype.unwrap_or(NOT_REPORTED);
    format!("keys and values in {dtype}, fused attention {attention} (OBSERVED)")
}

/// What the record says of `fused` over an arm.
fn ratio(run: &Anchored, name: &str, _: &ArmRecord) -> String {
    if name == "fused" {
        return "itself".to_owned();
    }
    let of = |it: &&RatioRecord| it.arm == "fused" && it.denominator == name;
    let Some(ratio) = run.record.ratios.iter().find(of) else {
        return "not compared".to_owned();
    };
    match (&ratio.withheld, ratio.wall) {
        (Some(why), _) => format!("withheld: {why}"),
        (None, None) => "no time".to_owned(),
        (None, Some(wall)) => {
            let interval = ratio.wall_low.zip(ratio.wall_high);
            let interval = interval.map_or_else(
                || "no interval".to_owned(),
                |(low, high)| format!("{low:.2}× to {high:.2}×"),
            );
            let verdict = ratio.verdict.as_deref().unwrap_or("no verdict");
            format!("{wall:.2}× ({interval}, n = {}), {verdict}", ratio.pairs)
        }
    }
}

/// Whether the answers are the same bits, or how far they are from what our model would say.
fn answers(run: &Anchored, name: &str, arm: &ArmRecord) -> String {
    let identity = &run.record.identity;
    if identity.arms.iter().any(|it| it == name) {
        if !identity.equal {
            return "not the same bits in all arms of ours".to_owned();
        }
        let turns = run.declared["run"]["arm_turns"].is_object();
        let turns = if turns {
            ", in the turns each plays"
        } else {
            ""
        };
        return format!(
            "the same bits in {} arms of ours{turns} ({WITNESSED})",
            identity.arms.len()
        );
    }
    let Some(score) = &arm.score else {
        return "not scored".to_owned();
    };
    let beyond = match &score.beyond_margin {
        Some(_) => ", some beyond the margin",
        None => ", all within the margin",
    };
    format!(
        "{:.1} % of {} tokens are the best by our model, the worst {:.2} nats below it{beyond} ({WITNESSED})",
        score.exact_share * 100.0,
        grouped(score.tokens),
        score.worst_micronats as f64 / 1e6
    )
}
