//! `explain`: a run in plain words, from its directory alone: where tokens and time went, why requests missed, which
//! was slowest and why, what sharing saved. For someone who has never seen this project.
//!
//! Not here: any figure that is not in the run record or its traces.

mod misses;
mod passes;
mod slowest;
mod words;

use std::io::Write;

use serde::Serialize;
use serde_json::json;
use workloads::record::{ArmRecord, RatioRecord};

use crate::cli::ExplainArguments;
use crate::counted;
use crate::error::Error;
use crate::fairness::Receipts;
use crate::sealed::SealedRun;
use crate::world::World;
use misses::Group;
use passes::Pass;
use slowest::Slow;

/// What is told of one arm.
#[derive(Serialize)]
struct Told<'a> {
    arm: &'a str,
    #[serde(skip)]
    record: &'a ArmRecord,
    /// Of the first repetition; all count alike.
    misses: Vec<Group>,
    slowest: Option<Slow>,
    /// Each time the session was asked, where it was asked several times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    passes: Vec<Pass>,
}

/// Explains a run; 0, or 4 if its evidence is broken.
pub fn explain(
    arguments: &ExplainArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    if counted::is_counted(&world.working_directory.join(&arguments.directory)) {
        return counted::explain(&arguments.directory, arguments.json, world, out);
    }
    let run = SealedRun::open(&arguments.directory, world)?;
    let told = told(&run);
    if arguments.json {
        let record = &run.record;
        let document = json!({
            "envelope": record.envelope, "dir": arguments.directory, "model": record.model,
            "effective": record.effective, "identity": record.identity, "arms": record.arms,
            "ratios": record.ratios, "cells": record.cells, "explained": told,
        });
        writeln!(out, "{document:#}")?;
        return Ok(0);
    }
    match run.session() {
        Some(envelope) => {
            let traces = run
                .servers
                .iter()
                .map(|it| (it.arm.as_str(), &it.lines[..]));
            let receipts = Receipts::new(envelope.run.margin_millinats(), traces);
            words::session(&run, &envelope, &told, &receipts, out)?;
        }
        None => words::cells(&run, out)?,
    }
    Ok(0)
}

/// Every arm in ladder order, then any other.
fn told(run: &SealedRun) -> Vec<Told<'_>> {
    let ladder = workloads::arm::names();
    let place = |arm: &String| ladder.iter().position(|name| name == arm);
    let mut arms: Vec<(&String, &ArmRecord)> = run.record.arms.iter().collect();
    arms.sort_by_key(|(name, _)| place(name).unwrap_or(ladder.len()));
    let envelope = run.session();
    let told = arms.into_iter().map(|(name, record)| {
        let own = || run.traces.iter().filter(move |trace| trace.arm == *name);
        Told {
            arm: name,
            record,
            misses: own().next().map(misses::of).unwrap_or_default(),
            slowest: slowest::of(own()),
            passes: envelope
                .as_ref()
                .map_or_else(Vec::new, |it| passes::of(it, own())),
        }
    });
    told.collect()
}

/// The sentence of a ratio of times.
fn judged(ratio: &RatioRecord) -> String {
    let interval = ratio.wall_low.zip(ratio.wall_high);
    match (ratio.wall, interval, &ratio.withheld) {
        (_, _, Some(reason)) => format!("its time is not compared ({reason})"),
        (Some(wall), Some((low, high)), _) => format!(
            "in time that is {wall:.2}x (95 % interval {low:.2} to {high:.2}): {}",
            ratio.verdict.as_deref().unwrap_or("INCONCLUSIVE")
        ),
        (Some(wall), None, _) => {
            format!("in time that is {wall:.2}x, too few repetitions to judge")
        }
        (None, _, _) => "its time was not measured".to_owned(),
    }
}
