//! Times of two runs on one machine, by the one statistical rule.
//!
//! The samples of two sittings are no pairs: nothing ran beside anything. Repetition k of one run is put beside
//! repetition k of the other, so that each has its place in the round and its warmth alike, and the rule is applied to
//! those ratios as it is to pairs; what differs between two sittings as a whole is not in the interval, and is said.
//! Not here: the rule (`workloads::statistics`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::json;
use workloads::record::RunRecord;
use workloads::statistics::{Interval, bootstrap, median, round6, verdict};

use super::{Key, keys};
use crate::machine::noise;
use crate::sealed::SealedRun;
use crate::table::{Table, or_dash};

const CAVEAT: &str = "\
  first over second: above 1 the second run is faster. The runs were two sittings, not pairs: repetition k stands
  beside repetition k, and what differed between the sittings as a whole is in no interval.";

/// The times of two runs, or why they are not compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Why nothing is compared.
    pub withheld: Option<String>,
    /// What differs, where that is the reason.
    pub unequal: Vec<Key>,
    /// Whether the reason is that they ran on different machines.
    across_machines: bool,
    /// Load of the machine before each sitting: what else ran then is in its times.
    pub load1_before: [Option<f64>; 2],
    /// What the noise guard read before a sitting, in words, where the machine was not quiet.
    pub warnings: Vec<String>,
    /// One row per arm.
    pub rows: Vec<TimeRow>,
}

/// One time of one arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeRow {
    /// The arm, with its cell where there is one.
    pub arm: String,
    /// Repetitions compared.
    pub n: usize,
    /// Median of the first run's time over the second's.
    pub ratio: Option<f64>,
    /// 95 % interval of it.
    pub low: Option<f64>,
    /// 95 % interval of it.
    pub high: Option<f64>,
    /// Of the second run.
    pub verdict: String,
}

impl Times {
    /// No comparison, and why.
    pub fn withheld(reason: &str) -> Self {
        Self {
            withheld: Some(reason.to_owned()),
            unequal: Vec::new(),
            across_machines: false,
            load1_before: [None; 2],
            warnings: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Whether each arm has a verdict.
    pub fn is_conclusive(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.verdict != "INCONCLUSIVE")
    }

    /// Whether nothing was compared because the machines differ.
    pub fn withheld_across_machines(&self) -> bool {
        self.across_machines
    }

    /// Of a gate: 1 if an arm got slower, 3 if that cannot be said of each, else 0.
    pub fn exit_code(&self) -> u8 {
        if self.rows.iter().any(|row| row.verdict == "SLOWER") {
            1
        } else if self.is_conclusive() {
            0
        } else {
            3
        }
    }

    /// As plain text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        if let Some(reason) = &self.withheld {
            let _ = writeln!(text, "Times withheld: {reason}");
            for Key { key, first, second } in &self.unequal {
                let _ = writeln!(text, "  {key}: {first} and {second}");
            }
            return text;
        }
        let mut table = Table::new(&["arm", "time ratio", "95 % interval", "n", "verdict"]);
        for row in &self.rows {
            table.row([
                row.arm.clone(),
                or_dash(row.ratio, |ratio| format!("{ratio:.3}x")),
                or_dash(row.low.zip(row.high), |(low, high)| {
                    format!("{low:.3} to {high:.3}")
                }),
                row.n.to_string(),
                row.verdict.clone(),
            ]);
        }
        let _ = writeln!(text, "{}{CAVEAT}", table.words_last().render());
        let [first, second] = self
            .load1_before
            .map(|load| or_dash(load, |load| format!("{load:.2}")));
        let _ = writeln!(
            text,
            "  load of the machine before each: {first} and {second}"
        );
        for warning in &self.warnings {
            let _ = writeln!(text, "  {warning}");
        }
        text
    }
}

/// The machines' differences; none means that times can be compared.
pub fn unequal_machines(first: &RunRecord, second: &RunRecord) -> Vec<Key> {
    let machine = |record: &RunRecord| {
        let it = &record.machine;
        json!({ "machine": { "class": it.class, "cpu": it.cpu, "isa": it.isa, "cores": it.cores,
                             "os": it.os } })
    };
    keys(&machine(first), &machine(second))
}

/// What makes the times of one machine unlike.
pub fn unequal_settings(first: &RunRecord, second: &RunRecord) -> Vec<Key> {
    let settings = |record: &RunRecord| {
        json!({ "effective": { "threads": record.effective.threads, "kernels": record.effective.kernels },
                "build": { "debug_assertions": record.build.debug_assertions } })
    };
    keys(&settings(first), &settings(second))
}

/// Compares the times of two runs of one question.
pub fn compare(first: &SealedRun, second: &SealedRun) -> Times {
    let (first, second) = (&first.record, &second.record);
    let machines = unequal_machines(first, second);
    let across_machines = !machines.is_empty();
    let unequal = if across_machines {
        machines
    } else {
        unequal_settings(first, second)
    };
    if !unequal.is_empty() {
        let reason = if across_machines {
            "the runs were made on different machines, whose times say nothing of each other"
        } else {
            "the runs had different settings"
        };
        return Times {
            unequal,
            across_machines,
            ..Times::withheld(reason)
        };
    }
    if !first.identity.equal || !second.identity.equal {
        return Times::withheld(
            "the arms of a run answered differently, so its times are of different work",
        );
    }
    let (before, after) = (samples(first), samples(second));
    let rows: Vec<TimeRow> = before
        .iter()
        .filter_map(|(arm, before)| Some(row(arm, before, after.get(arm)?)))
        .collect();
    if rows.is_empty() {
        return Times::withheld("the runs have no arm in common");
    }
    let each = [("first", first), ("second", second)];
    Times {
        withheld: None,
        unequal: Vec::new(),
        across_machines: false,
        load1_before: [first, second].map(|record| record.sittings.first()?.load1_before),
        warnings: each.into_iter().flat_map(not_quiet).collect(),
        rows,
    }
}

/// A warning for every sitting that began on a noisy machine; runs from before the guard have no reading.
fn not_quiet((which, record): (&str, &RunRecord)) -> Vec<String> {
    let cores = record.machine.cores;
    let readings = record.sittings.iter().filter_map(|it| it.noise.as_ref());
    let noisy = readings.filter(|noise| !noise::is_quiet(noise, cores));
    noisy
        .map(|noise| {
            let words = noise::words(noise, cores);
            format!("warning: the machine was not quiet before the {which} run: {words}; measure again when it is")
        })
        .collect()
}

/// Nanoseconds of every repetition, by arm; arms that failed have none.
fn samples(record: &RunRecord) -> BTreeMap<String, Vec<u64>> {
    let sessions = record.arms.iter().map(|(name, arm)| {
        let walls = arm.samples.iter().map(|sample| sample.wall_ns);
        (name.clone(), walls.collect())
    });
    let cells = record.cells.iter().flatten().flat_map(|cell| {
        cell.arms.iter().map(move |(name, arm)| {
            let timed = arm.samples.iter().map(|sample| sample.timed_ns);
            (format!("{}, {name}", cell.name), timed.collect())
        })
    });
    sessions
        .chain(cells)
        .filter(|(_, samples): &(_, Vec<u64>)| !samples.is_empty())
        .collect()
}

fn row(arm: &str, first: &[u64], second: &[u64]) -> TimeRow {
    let ratios: Vec<f64> = first
        .iter()
        .zip(second)
        .filter(|(_, second)| **second > 0)
        .map(|(first, second)| *first as f64 / *second as f64)
        .collect();
    // Judged as written, so that a printed interval and its verdict never contradict each other.
    let interval = bootstrap(&ratios).map(|interval| Interval {
        low: round6(interval.low),
        high: round6(interval.high),
    });
    TimeRow {
        arm: arm.to_owned(),
        n: ratios.len(),
        ratio: median(&ratios).map(round6),
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        verdict: verdict(ratios.len(), interval).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_half_as_fast_is_slower_and_few_samples_say_nothing() {
        let (quick, slow) = ([100, 101, 99, 100, 102], [200, 202, 201, 199, 204]);
        assert_eq!(row("fused", &quick, &slow).verdict, "SLOWER");
        assert_eq!(row("fused", &slow, &quick).verdict, "FASTER");
        assert_eq!(row("fused", &quick, &quick).verdict, "PARITY");
        assert_eq!(row("fused", &quick[..4], &slow).verdict, "INCONCLUSIVE");
        assert_eq!(row("fused", &quick, &slow).ratio, Some(0.5));
    }

    #[test]
    fn a_gate_fails_by_one_slower_arm_and_passes_by_verdicts_on_all() {
        let judged = |verdicts: &[&str]| {
            let rows = verdicts.iter().map(|verdict| TimeRow {
                verdict: (*verdict).to_owned(),
                ..row("fused", &[1], &[1])
            });
            Times {
                withheld: None,
                unequal: Vec::new(),
                across_machines: false,
                load1_before: [None; 2],
                warnings: Vec::new(),
                rows: rows.collect(),
            }
        };
        assert_eq!(judged(&["PARITY", "FASTER"]).exit_code(), 0);
        assert_eq!(judged(&["PARITY", "INCONCLUSIVE"]).exit_code(), 3);
        assert_eq!(judged(&["INCONCLUSIVE", "SLOWER"]).exit_code(), 1);
        assert_eq!(Times::withheld("no run").exit_code(), 3);
    }
}
