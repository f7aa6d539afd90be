//! The negative control of a gate: one arm's first turn once more, in a process of its own, one logit off by a bit.
//!
//! Its trace is read and thrown away; it never lies in a run directory. Not here: what must be noticed (`gate`).

use baselines::{ArmJob, Servers};
use workloads::envelope::ResolvedEnvelope;
use workloads::trace::Line;

use super::{arm, own_process, process};
use crate::error::Error;
use crate::files::Scratch;
use crate::models;
use crate::world::World;

/// The lines of `arm`, asked the first turn of `envelope` and perturbed.
pub fn perturbed(
    envelope: &ResolvedEnvelope,
    arm: &str,
    model: &str,
    world: &World,
) -> Result<Vec<Line>, Error> {
    let mut envelope = envelope.clone();
    (envelope.workload.turns, envelope.workload.passes) = (1, 1);
    envelope.run.arm_turns.clear();
    let job = ArmJob {
        arm: arm.to_owned(),
        rep: 0,
        model_path: models::locate(model, world)?.path,
        envelope,
        perturbed: true,
        servers: Servers::default(),
    };
    let scratch = Scratch::take(&world.scratch, "control")?;
    let trace = scratch.path().join("trace.jsonl");
    let job = arm::travelling(&job)?;
    process::record(own_process(world), &job, &trace, None, &mut |_| {})
}
