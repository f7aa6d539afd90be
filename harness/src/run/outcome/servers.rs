//! What a finished run shows of other engines: their own table, how they were started and set, how near their answers are.
//!
//! Not here: the sentences (`fairness`), or any figure that is not in the run record or its traces.

use std::io::Write;

use workloads::record::{ArmRecord, RunRecord};

use super::Outcome;
use crate::error::Error;
use crate::fairness::{asymmetries, servers};
use crate::table::{Table, duration, grouped, or_dash, size};

impl Outcome<'_> {
    /// Table, legend, receipts; nothing where all arms are ours.
    pub(super) fn write_servers(&self, out: &mut dyn Write) -> Result<(), Error> {
        if servers(self.record).next().is_none() {
            return Ok(());
        }
        writeln!(
            out,
            "{}\nreported: what the engine says of itself, in prompt tokens; times are ours. RSS peak: memory of its \
             process.\nIts answers come whole, so there is no time to a first token.\n",
            table(self.record).render()
        )?;
        for line in self.receipts.lines(self.record) {
            writeln!(out, "{line}")?;
        }
        writeln!(out)?;
        Ok(())
    }
}

fn table(record: &RunRecord) -> Table {
    let mut table = Table::new(&[
        "other engine",
        "reported computed",
        "reported cached",
        "decoded",
        "wall median",
        "RSS peak",
    ]);
    for (name, arm) in servers(record) {
        table.row(cells(name, arm));
    }
    table
}

fn cells(name: &str, arm: &ArmRecord) -> [String; 6] {
    let share = arm
        .reuse_rate
        .map(|rate| format!(" ({:.1} %)", rate * 100.0));
    let cached = or_dash(arm.prefix_tokens_hit, grouped);
    [
        name.to_owned(),
        or_dash(arm.prefill_tokens_computed, grouped),
        format!("{cached}{}", share.unwrap_or_default()),
        or_dash(arm.decode_tokens, grouped),
        or_dash(arm.wall_ns, duration),
        or_dash(arm.rss_bytes_peak, size),
    ]
}

/// Under the ratios, in what each server was unlike ours.
pub(super) fn write_asymmetries(record: &RunRecord, out: &mut dyn Write) -> Result<(), Error> {
    for (name, arm) in servers(record) {
        let found = asymmetries(arm, &record.effective);
        let is_denominator = record.ratios.iter().any(|ratio| ratio.denominator == name);
        if is_denominator && !found.is_empty() {
            writeln!(out, "over {name}, unlike ours: {}", found.join("; "))?;
        }
    }
    Ok(())
}
