//! What a finished run shows: two tables with a legend, or one JSON document, and the exit code.
//!
//! Not here: any figure that is not in the run record.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use workloads::arm::is_server;
use workloads::record::{
    ArmRecord, CellRecord, EffectiveRecord, IdentityRecord, Instrument, ModelRecord, RatioRecord,
    RunRecord,
};

use crate::error::Error;
use crate::fairness::{Receipts, servers};
use crate::sealed::departure;
use crate::table::{Table, counted, duration, grouped, or_dash, size};
use crate::world::World;

mod servers;
mod spread;

pub(super) use spread::remarks;

/// A sealed run and what the auditor says of it.
pub(super) struct Outcome<'a> {
    pub(super) record: &'a RunRecord,
    pub(super) directory: &'a Path,
    pub(super) audit: &'a audit::Report,
    pub(super) receipts: &'a Receipts,
}

/// `run --json`: a stable part of the run record, and where it is.
#[derive(Serialize)]
struct Document<'a> {
    envelope: &'a str,
    dir: &'a Path,
    complete: bool,
    identity: &'a IdentityRecord,
    verdict: Option<&'a str>,
    audit_exit_code: u8,
    model: &'a ModelRecord,
    effective: &'a EffectiveRecord,
    arms: &'a BTreeMap<String, ArmRecord>,
    ratios: &'a [RatioRecord],
    #[serde(skip_serializing_if = "Option::is_none")]
    cells: Option<&'a [CellRecord]>,
    instrument: Option<&'a Instrument>,
}

impl Outcome<'_> {
    /// 4 broken evidence, 1 no identity, 5 a failed arm, else 0 whatever the timing.
    pub(super) fn exit_code(&self) -> u8 {
        match self.audit.exit_code() {
            0 if !self.record.identity.equal => 1,
            0 if !self.record.complete => 5,
            code => code,
        }
    }

    pub(super) fn write_json(&self, out: &mut dyn Write) -> Result<(), Error> {
        let RunRecord {
            envelope,
            complete,
            identity,
            verdict,
            model,
            ..
        } = self.record;
        let document = Document {
            envelope,
            dir: self.directory,
            complete: *complete,
            identity,
            verdict: verdict.as_deref(),
            audit_exit_code: self.audit.exit_code(),
            model,
            effective: &self.record.effective,
            arms: &self.record.arms,
            ratios: &self.record.ratios,
            cells: self.record.cells.as_deref(),
            instrument: self.record.instrument.as_ref(),
        };
        let text = serde_json::to_string_pretty(&document).map_err(std::io::Error::other)?;
        writeln!(out, "{text}")?;
        Ok(())
    }

    /// What ran, on which model and how.
    pub(super) fn write_heading(&self, out: &mut dyn Write) -> Result<(), Error> {
        let record = self.record;
        writeln!(
            out,
            "{}, model {} ({}), {}, {} kernels, {}\n",
            record.envelope,
            record.model.name,
            record.model.label,
            record.effective.mode,
            record.effective.kernels,
            counted(record.effective.threads, "thread")
        )?;
        Ok(())
    }

    pub(super) fn write_text(&self, world: &World, out: &mut dyn Write) -> Result<(), Error> {
        let record = self.record;
        self.write_heading(out)?;
        writeln!(out, "{}", arms_table(record).render())?;
        writeln!(
            out,
            "prefill computed: prompt tokens whose keys and values the engine had to compute, lower is \
             better;\nreused: share of prompt tokens found in a cache. {}\n",
            if plays_unequal_turns(record) {
                "Arms that play fewer turns need less of everything."
            } else {
                "Every arm decodes the same tokens."
            }
        )?;
        self.write_servers(out)?;
        if !record.ratios.is_empty() {
            writeln!(out, "{}", ratios_table(&record.ratios).render())?;
            servers::write_asymmetries(record, out)?;
            writeln!(
                out,
                "how many times less the first arm needs than the second, and the 95 % interval of the \
                 time;\na verdict needs 5 pairs and the whole interval beyond 5 %. Over naive is a floor: \
                 nobody ships it.\n{}",
                if plays_unequal_turns(record) {
                    "Between arms of unequal turns the tokens are those of the turns both play.\n"
                } else {
                    ""
                }
            )?;
        }
        if let Some(table) = spread::latencies_table(record) {
            let legend = spread::latencies_legend(record);
            writeln!(out, "{}\n{legend}\n", table.render())?;
        }
        if let Some(table) = spread::goodput_table(record) {
            writeln!(
                out,
                "{}\ngood: answered within the objective from when it was due; of all that were due, answered or not.\n",
                table.render()
            )?;
        }
        for (name, arm) in &record.arms {
            if let Some(note) = &arm.note {
                writeln!(out, "{name}: {note}")?;
            }
            if let Some(error) = &arm.error {
                writeln!(
                    out,
                    "{name} FAILED in {} of {}: {error}",
                    arm.reps - arm.completed,
                    arm.reps
                )?;
            }
        }
        for words in remarks(record) {
            writeln!(out, "{words}")?;
        }
        writeln!(out, "{}\n", self.identity())?;
        self.write_next(world, out)
    }

    pub(super) fn identity(&self) -> String {
        let identity = &self.record.identity;
        let completed = identity.arms.as_slice();
        match (&identity.first_divergence, completed) {
            (Some(at), _) => format!("same answers: NO. {}", departure(at)),
            (None, []) if self.record.complete => {
                "same answers: nothing to compare, only scripted ones were given".to_owned()
            }
            (None, []) => "same answers: unknown, no arm completed".to_owned(),
            (None, [arm]) if servers(self.record).next().is_some() => {
                format!("same answers: nothing to compare bit by bit, only {arm} is ours")
            }
            (None, [arm]) => format!("same answers: nothing to compare, only {arm} ran"),
            (None, _) => format!(
                "same answers: yes, {}, ids and logits bit-equal in {} and all repetitions{}",
                counted(identity.requests, "request"),
                counted(completed.len(), "arm"),
                if plays_unequal_turns(self.record) {
                    ", in the turns each plays"
                } else {
                    ""
                }
            ),
        }
    }

    pub(super) fn write_next(&self, world: &World, out: &mut dyn Write) -> Result<(), Error> {
        write_next(self.directory, self.audit, world, out)
    }
}

/// Where the evidence is, and what to type next.
pub(super) fn write_next(
    directory: &Path,
    audit: &audit::Report,
    world: &World,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let place = world.shown(directory);
    if audit.exit_code() == 0 {
        writeln!(out, "evidence: {place} (sealed, audit passes)\n\nnext:")?;
        writeln!(
            out,
            "  {} audit {place}    what the auditor checked",
            world.command
        )?;
        writeln!(
            out,
            "  {} anchor {place}   publish it under results/",
            world.command
        )?;
    } else {
        write!(out, "evidence: {place}\n\n{}", audit.render())?;
    }
    Ok(())
}

/// Whether some completed arm made fewer requests than another.
fn plays_unequal_turns(record: &RunRecord) -> bool {
    let mut requests = record.arms.values().filter_map(|arm| arm.requests);
    let first = requests.next();
    requests.any(|other| Some(other) != first)
}

/// The arm whose memory the others' is told against.
const MEMORY_OVER: &str = "agent-kv";

fn arms_table(record: &RunRecord) -> Table {
    let warm = record.arms.get(MEMORY_OVER);
    let warm = warm.and_then(|arm| arm.kv_bytes_peak.zip(arm.requests));
    let mut header = vec![
        "arm",
        "prefill computed",
        "reused",
        "decoded",
        "wall median",
        "prefill time",
        "decode time",
        "KV peak",
    ];
    header.extend(warm.map(|_| "of agent-kv"));
    let mut table = Table::new(&header);
    // In ladder order rather than the map's: each arm adds one mechanism to the one before.
    let known = workloads::arm::every_name().into_iter();
    let known = known.filter(|name| !is_server(name));
    for (name, arm) in known.filter_map(|name| Some((name, record.arms.get(name)?))) {
        let mut cells = arm_cells(name, arm).to_vec();
        cells.extend(warm.map(|(warm, requests)| {
            let peak = arm.kv_bytes_peak.filter(|_| arm.requests == Some(requests));
            or_dash(peak, |peak| format!("{:.2}x", peak as f64 / warm as f64))
        }));
        table.row(cells);
    }
    table
}

fn arm_cells(name: &str, arm: &ArmRecord) -> [String; 8] {
    [
        name.to_owned(),
        or_dash(arm.prefill_tokens_computed, grouped),
        or_dash(arm.reuse_rate, |rate| format!("{:.1} %", rate * 100.0)),
        or_dash(arm.decode_tokens, grouped),
        or_dash(arm.wall_ns, duration),
        or_dash(arm.prefill_ns, duration),
        or_dash(arm.decode_ns, duration),
        or_dash(arm.kv_bytes_peak, size),
    ]
}

fn ratios_table(ratios: &[RatioRecord]) -> Table {
    let mut table = Table::new(&[
        "arm",
        "over",
        "prefill tokens",
        "wall",
        "95 % interval",
        "verdict",
    ])
    .left(2)
    .words_last();
    let times = |value: f64| format!("{value:.2}x");
    for ratio in ratios {
        let label = ratio
            .label
            .as_ref()
            .map_or(String::new(), |label| format!(" ({label})"));
        let interval = ratio.wall_low.zip(ratio.wall_high);
        table.row([
            ratio.arm.clone(),
            format!("{}{label}", ratio.denominator),
            or_dash(ratio.prefill_tokens, times),
            or_dash(ratio.wall, times),
            or_dash(interval, |(low, high)| format!("{low:.2} to {high:.2}")),
            ratio
                .verdict
                .clone()
                .or_else(|| ratio.withheld.clone())
                .unwrap_or_default(),
        ]);
    }
    table
}
