//! How long a run will take, from an earlier sealed run of the same question on a machine of this
//! class.
//!
//! Not here: guessing. With no such run the answer is that nobody knows yet.

use std::fs;
use std::path::{Path, PathBuf};

use workloads::envelope::ResolvedEnvelope;
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

/// The newest earlier run that asked the same on this class of machine, scaled to what is asked now.
pub fn estimate(envelope: &ResolvedEnvelope, class: &str, world: &World) -> Option<Estimate> {
    let results = world.results();
    let mut earlier: Vec<(u64, u64, PathBuf)> = Vec::new();
    for parent in [
        results.join("local").join(&envelope.name),
        results.join(&envelope.name),
    ] {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            if let Some((started_unix_s, total_ns)) = usable(&entry.path(), envelope, class) {
                earlier.push((started_unix_s, total_ns, entry.path()));
            }
        }
    }
    let (_, total_ns, directory) = earlier.into_iter().max()?;
    Some(Estimate {
        total_ns,
        directory,
    })
}

/// When the run in `directory` started and what the asked arms would take at its pace.
fn usable(directory: &Path, asked: &ResolvedEnvelope, class: &str) -> Option<(u64, u64)> {
    if !directory.join(SUMS).is_file() {
        return None;
    }
    let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let record: RunRecord = serde_json::from_str(&read("run.json")?).ok()?;
    let earlier: ResolvedEnvelope = serde_json::from_str(&read("envelope.json")?).ok()?;
    let alike = earlier.workload == asked.workload
        && earlier.model == asked.model
        && earlier.mode == asked.mode
        && earlier.run.threads == asked.run.threads
        && earlier.run.kernels == asked.run.kernels
        && earlier.run.chunk_tokens == asked.run.chunk_tokens
        && record.machine.class == class;
    if !alike {
        return None;
    }
    let mut total_ns: u64 = 0;
    for (arm, &reps) in &asked.run.arm_reps {
        if earlier.requests_of(arm) != asked.requests_of(arm) {
            return None;
        }
        let one_ns = process_ns(record.arms.get(arm)?)?;
        total_ns = total_ns.saturating_add(one_ns.saturating_mul(reps as u64));
    }
    Some((record.sittings.first()?.started_unix_s, total_ns))
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
