//! What a finished run of cells shows: one table with a legend.
//!
//! Not here: any figure that is not in the run record.

use std::collections::BTreeSet;
use std::io::Write;

use workloads::cells::arm::OURS;
use workloads::record::{CellArmRecord, CellRatio, CellRecord};

use crate::error::Error;
use crate::run::outcome::{Outcome, remarks};
use crate::table::{Table, or_dash};
use crate::world::World;

impl Outcome<'_> {
    /// The table, notes and failures, identity, and what to do next.
    pub(super) fn write_cells(&self, world: &World, out: &mut dyn Write) -> Result<(), Error> {
        let record = self.record;
        let cells = record.cells.as_deref().unwrap_or_default();
        self.write_heading(out)?;
        writeln!(out, "{}", table(cells).render())?;
        writeln!(
            out,
            "tok/s: new positions or decoded tokens a second, all agents together, medians; ratio: how many \
             times\nfaster, with the 95 % interval; a verdict needs 5 pairs and the whole interval beyond 5 %. \
             Of limit: the\ntime that the machine's ceilings allow for the bytes and operations the work needs, \
             over the time {OURS} took.\n"
        )?;
        for words in notes(cells).into_iter().chain(remarks(record)) {
            writeln!(out, "{words}")?;
        }
        writeln!(out, "{}\n", self.identity())?;
        self.write_next(world, out)
    }
}

fn table(cells: &[CellRecord]) -> Table {
    let header = [
        "cell",
        "over",
        OURS,
        "theirs",
        "ratio",
        "95 % interval",
        "of limit",
        "verdict",
    ];
    let mut table = Table::new(&header).left(2).words_last();
    for cell in cells {
        let ours = cell.arms.get(OURS);
        if cell.ratios.is_empty() {
            table.row(row(cell, ours, None));
        }
        for ratio in &cell.ratios {
            table.row(row(cell, ours, Some(ratio)));
        }
    }
    table
}

fn row(cell: &CellRecord, ours: Option<&CellArmRecord>, ratio: Option<&CellRatio>) -> [String; 8] {
    let rate = |arm: Option<&CellArmRecord>| {
        or_dash(arm.and_then(|arm| arm.tokens_per_s), |rate| {
            format!("{rate:.1}")
        })
    };
    let theirs = ratio.and_then(|ratio| cell.arms.get(&ratio.denominator));
    let interval = ratio.and_then(|ratio| ratio.low.zip(ratio.high));
    let outcome = ratio.and_then(|ratio| ratio.verdict.clone().or_else(|| ratio.withheld.clone()));
    [
        cell.name.clone(),
        or_dash(ratio, |ratio| ratio.denominator.clone()),
        rate(ours),
        rate(theirs),
        or_dash(ratio.and_then(|ratio| ratio.speed), |times| {
            format!("{times:.2}x")
        }),
        or_dash(interval, |(low, high)| format!("{low:.2} to {high:.2}")),
        or_dash(ours.and_then(|arm| arm.share_of_limit), |share| {
            format!("{:.0} %", share * 100.0)
        }),
        outcome.unwrap_or_default(),
    ]
}

/// Notes, failures and reasons why a limit is not known, each once.
fn notes(cells: &[CellRecord]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut unlimited = BTreeSet::new();
    for cell in cells {
        for (name, arm) in &cell.arms {
            let note = arm
                .note
                .as_ref()
                .map(|note| format!("{}, {name}: {note}", cell.name));
            let error = arm.error.as_ref().map(|error| {
                let failed = arm.reps - arm.completed;
                format!(
                    "{}, {name} FAILED in {failed} of {}: {error}",
                    cell.name, arm.reps
                )
            });
            lines.extend(note.into_iter().chain(error));
            unlimited.extend(
                arm.needs
                    .withheld
                    .as_ref()
                    .map(|why| format!("of limit: {why}")),
            );
        }
    }
    lines.extend(unlimited);
    lines
}
