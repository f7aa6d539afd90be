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
use crate::sealed::{SIMULATED, SealedRun};
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
    /// Whether one of the times is so short that much of it may be the harness's own.
    pub at_instrument_limit: bool,
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
        let near = self.rows.iter().filter(|row| row.at_instrument_limit);
        let near: Vec<&str> = near.map(|row| row.arm.as_str()).collect();
        if !near.is_empty() {
            let _ = writeln!(
                text,
                "  at instrument limit, so that much of the time may be the harness's own: {}",
                near.join("; ")
            );
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
    if [first, second].iter().any(|run| run.comes_by_the_clock()) {
        return Times::withheld("requests come by the clock, so times are mostly the schedule's");
    }
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
    let (before, after) = (timed(first), timed(second));
    if !after.keys().any(|arm| before.contains_key(arm)) {
        return Times::withheld("the runs have no measured arm in common");
    }
    let rows: Vec<TimeRow> = after
        .iter()
        .map(|(arm, after)| row(arm, before.get(arm), after))
        .collect();
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

/// The times of one arm.
#[derive(Debug, Default, PartialEq, Eq)]
struct Timed {
    /// Nanoseconds by repetition; none of an arm that failed.
    by_rep: BTreeMap<usize, u64>,
    at_instrument_limit: bool,
}

/// Every arm whose time was measured, with its cell where there is one; scripted times are nobody's.
fn timed(record: &RunRecord) -> BTreeMap<String, Timed> {
    let measured = record
        .arms
        .iter()
        .filter(|(_, arm)| arm.provenance != SIMULATED);
    let sessions = measured.map(|(name, arm)| {
        let samples = arm.samples.iter().filter(|_| arm.error.is_none());
        let timed = Timed {
            by_rep: samples.map(|it| (it.rep, it.wall_ns)).collect(),
            at_instrument_limit: arm.at_instrument_limit == Some(true),
        };
        (name.clone(), timed)
    });
    let cells = record.cells.iter().flatten().flat_map(|cell| {
        cell.arms.iter().map(move |(name, arm)| {
            let samples = arm.samples.iter().filter(|_| arm.error.is_none());
            let timed = Timed {
                by_rep: samples.map(|it| (it.rep, it.timed_ns)).collect(),
                at_instrument_limit: arm.at_instrument_limit == Some(true),
            };
            (format!("{}, {name}", cell.name), timed)
        })
    });
    sessions.chain(cells).collect()
}

/// One arm of the second run beside its counterpart in the first, if it has one: without, nothing can be said of it.
fn row(arm: &str, first: Option<&Timed>, second: &Timed) -> TimeRow {
    let pairs = first.into_iter().flat_map(|first| {
        let second_ns = |rep: &usize| second.by_rep.get(rep).copied();
        let both = first.by_rep.iter();
        both.filter_map(move |(rep, &first_ns)| Some((first_ns, second_ns(rep)?)))
    });
    let ratios: Vec<f64> = pairs
        .filter(|&(_, second_ns)| second_ns > 0)
        .map(|(first_ns, second_ns)| first_ns as f64 / second_ns as f64)
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
        at_instrument_limit: second.at_instrument_limit
            || first.is_some_and(|first| first.at_instrument_limit),
    }
}

#[cfg(test)]
mod tests {
    use workloads::record::ArmRecord;

    use super::*;

    #[test]
    fn a_run_half_as_fast_is_slower_and_few_samples_say_nothing() {
        let (quick, slow) = ([100, 101, 99, 100, 102], [200, 202, 201, 199, 204]);
        let judged =
            |first: &[u64], second: &[u64]| row("fused", Some(&repeated(first)), &repeated(second));
        assert_eq!(judged(&quick, &slow).verdict, "SLOWER");
        assert_eq!(judged(&slow, &quick).verdict, "FASTER");
        assert_eq!(judged(&quick, &quick).verdict, "PARITY");
        assert_eq!(judged(&quick[..4], &slow).verdict, "INCONCLUSIVE");
        assert_eq!(judged(&quick, &slow).ratio, Some(0.5));
    }

    fn repeated(times_ns: &[u64]) -> Timed {
        Timed {
            by_rep: times_ns.iter().copied().enumerate().collect(),
            at_instrument_limit: false,
        }
    }

    #[test]
    fn repetitions_stand_beside_those_of_the_same_number() {
        let first = repeated(&[100, 200, 300, 400, 500, 600]);
        let mut second = repeated(&[100, 200, 300, 400, 500, 600]);
        second.by_rep.remove(&0);
        let judged = row("fused", Some(&first), &second);
        assert_eq!((judged.n, judged.ratio), (5, Some(1.0)));
        assert_eq!(judged.verdict, "PARITY");
        let nobody = row("fused", None, &second);
        assert_eq!((nobody.n, nobody.verdict.as_str()), (0, "INCONCLUSIVE"));
    }

    #[test]
    fn failed_and_scripted_arms_have_no_times_and_short_ones_are_marked() {
        let run = "../results/smoke/2026-11-29-x86_64-avx512-2c-3/run.json";
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(run);
        let text = std::fs::read_to_string(path).unwrap();
        let mut record: RunRecord = serde_json::from_str(&text).unwrap();
        let arm = |record: &mut RunRecord, name: &str, change: fn(&mut ArmRecord)| {
            change(record.arms.get_mut(name).unwrap());
        };
        arm(&mut record, "naive", |arm| {
            arm.error = Some("gone".to_owned());
        });
        arm(&mut record, "agent-kv", |arm| {
            arm.provenance = SIMULATED.to_owned();
        });
        arm(&mut record, "fused", |arm| {
            arm.at_instrument_limit = Some(true);
        });
        let timed = timed(&record);
        assert_eq!(timed["naive"], Timed::default());
        assert!(!timed.contains_key("agent-kv"));
        assert_eq!(timed["fused"].by_rep.len(), 5);
        let marked = row("fused", timed.get("instance-shared"), &timed["fused"]);
        assert!(marked.at_instrument_limit);
    }

    #[test]
    fn an_arm_without_a_counterpart_leaves_the_whole_undecided() {
        let mut times = Times::withheld("");
        times.withheld = None;
        times.rows.push(row("fused", None, &repeated(&[100; 5])));
        assert_eq!(times.exit_code(), 3);
        assert!(times.render().contains("INCONCLUSIVE"));
    }

    #[test]
    fn a_gate_fails_by_one_slower_arm_and_passes_by_verdicts_on_all() {
        let judged = |verdicts: &[&str]| {
            let rows = verdicts.iter().map(|verdict| TimeRow {
                verdict: (*verdict).to_owned(),
                ..row("fused", None, &Timed::default())
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
