//! How long a run will take, from an earlier sealed run of the same question on a machine of this
//! class.
//!
//! Not here: guessing. With no such run the answer is that nobody knows yet.

use std::fs;
use std::path::{Path, PathBuf};

use workloads::envelope::{Kind, ResolvedCells, ResolvedEnvelope, ResolvedOf};
use workloads::record::{ArmRecord, RunRecord};

use crate::seal::SUMS;
use crate::world::World;

/// A duration and the run it rests on.
pub struct Estimate {
    /// Sum over arms and repetitions.
    pub total_ns: u64,
    /// The earlier run.
    pub directory: PathBuf,
}

/// How long a session takes, by the newest earlier run that asked the same on this class of machine.
pub fn session(envelope: &ResolvedEnvelope, class: &str, world: &World) -> Option<Estimate> {
    estimate(envelope, class, world, |record, arm| {
        process_ns(record.arms.get(arm)?)
    })
}

/// How long cells take, by the same rule.
pub fn cells(envelope: &ResolvedCells, class: &str, world: &World) -> Option<Estimate> {
    estimate(envelope, class, world, |record, arm| {
        record.cells.as_ref()?.iter().try_fold(0, |sum: u64, cell| {
            let samples = &cell.arms.get(arm)?.samples;
            let times = samples.iter().map(|sample| sample.process_ns);
            let total_ns = times.fold(0, u64::saturating_add);
            Some(sum.saturating_add(total_ns.checked_div(samples.len() as u64)?))
        })
    })
}

/// `one_ns` gives the time one repetition of an arm took in an earlier run.
fn estimate<W: Kind + PartialEq>(
    envelope: &ResolvedOf<W>,
    class: &str,
    world: &World,
    one_ns: impl Fn(&RunRecord, &str) -> Option<u64>,
) -> Option<Estimate> {
    let results = world.results();
    let mut earlier: Vec<(u64, u64, PathBuf)> = Vec::new();
    for parent in [
        results.join("local").join(&envelope.name),
        results.join(&envelope.name),
    ] {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            if let Some(record) = usable(&entry.path(), envelope, class)
                && let Some(total_ns) = total_ns(envelope, &record, &one_ns)
                && let Some(sitting) = record.sittings.first()
            {
                earlier.push((sitting.started_unix_s, total_ns, entry.path()));
            }
        }
    }
    let (_, total_ns, directory) = earlier.into_iter().max()?;
    Some(Estimate {
        total_ns,
        directory,
    })
}

/// What the asked arms would take at the pace of an earlier run.
fn total_ns<W>(
    asked: &ResolvedOf<W>,
    record: &RunRecord,
    one_ns: impl Fn(&RunRecord, &str) -> Option<u64>,
) -> Option<u64> {
    let reps = &asked.run.arm_reps;
    reps.iter().try_fold(0, |sum: u64, (arm, &reps)| {
        Some(sum.saturating_add(one_ns(record, arm)?.saturating_mul(reps as u64)))
    })
}

/// The record of the run in `directory`, if it asked the same on this class of machine.
fn usable<W: Kind + PartialEq>(
    directory: &Path,
    asked: &ResolvedOf<W>,
    class: &str,
) -> Option<RunRecord> {
    if !directory.join(SUMS).is_file() {
        return None;
    }
    let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let record: RunRecord = serde_json::from_str(&read("run.json")?).ok()?;
    let earlier: ResolvedOf<W> = serde_json::from_str(&read("envelope.json")?).ok()?;
    let alike = earlier.workload == asked.workload
        && earlier.model == asked.model
        && earlier.mode == asked.mode
        && earlier.run.threads == asked.run.threads
        && earlier.run.kernels == asked.run.kernels
        && earlier.run.chunk_tokens == asked.run.chunk_tokens
        && earlier.run.kv_pages == asked.run.kv_pages
        && earlier.run.eviction == asked.run.eviction
        && earlier.run.admission == asked.run.admission
        && earlier.run.kv_dtype == asked.run.kv_dtype
        && earlier.run.arm_turns == asked.run.arm_turns
        && record.machine.class == class;
    alike.then_some(record)
}

/// Mean time of one process of the arm.
fn process_ns(arm: &ArmRecord) -> Option<u64> {
    let spent = |sample: &workloads::record::Sample| {
        sample
            .load_ns
            .saturating_add(sample.warmup_ns)
            .saturating_add(sample.wall_ns)
    };
    let total_ns = arm.samples.iter().map(spent).fold(0, u64::saturating_add);
    total_ns.checked_div(arm.samples.len() as u64)
}
