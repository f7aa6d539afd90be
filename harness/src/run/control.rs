//! The negative control of a gate: one arm's first turn once more, in a process of its own, one logit off by a bit.
//!
//! Its trace is read and thrown away; it never lies in a run directory. Not here: what must be noticed (`gate`).

use std::fs;
use std::path::{Path, PathBuf};

use baselines::ArmJob;
use workloads::envelope::ResolvedEnvelope;
use workloads::trace::Line;

use super::{arm, own_process, process};
use crate::error::Error;
use crate::world::World;
use crate::{files, models};

/// A directory that is gone when its owner is.
struct Scratch(PathBuf);

impl Scratch {
    /// One that nobody has: what a process of the same number once left is no obstacle.
    fn take(parent: &Path) -> Result<Self, Error> {
        let stem = format!("fak-control-{}", std::process::id());
        files::take_numbered_directory(parent, &stem).map(Self)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // scratch files that stay do no harm
    }
}

/// The lines of `arm`, asked the first turn of `envelope` and perturbed.
pub fn perturbed(
    envelope: &ResolvedEnvelope,
    arm: &str,
    model: &str,
    world: &World,
) -> Result<Vec<Line>, Error> {
    let mut envelope = envelope.clone();
    envelope.workload.turns = 1;
    envelope.run.arm_turns.clear();
    let job = ArmJob {
        arm: arm.to_owned(),
        rep: 0,
        model_path: models::locate(model, world)?.path,
        envelope,
        perturbed: true,
    };
    let scratch = Scratch::take(&world.scratch)?;
    let trace = scratch.0.join("trace.jsonl");
    let job = arm::travelling(&job)?;
    process::record(own_process(world), &job, &trace, None, &mut |_| {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_process_left_is_no_obstacle_and_nothing_is_left() {
        let root = tempfile::tempdir().unwrap();
        let left = format!("fak-control-{}-1", std::process::id());
        fs::write(root.path().join(&left), "left").unwrap();
        let scratch = Scratch::take(root.path()).unwrap();
        fs::write(scratch.0.join("trace.jsonl"), "").unwrap();
        drop(scratch);
        assert_eq!(files::files_below(root.path()).unwrap(), [left]);
    }
}
