//! `gate --timing`: the times of this run beside those of an earlier one on an equal machine.
//!
//! Not here: how two runs' times are judged (`compare::times`).

use workloads::record::RunRecord;

use crate::compare::times::{self, Times};
use crate::error::Error;
use crate::files;
use crate::sealed::SealedRun;
use crate::world::World;

/// The times of `run` against `against`, or against the newest anchored run of the same envelope on an equal machine.
pub(super) fn of(
    run: &SealedRun,
    against: Option<SealedRun>,
    world: &World,
) -> Result<Times, Error> {
    let earlier = match against {
        Some(earlier) => Some(earlier),
        None => newest_anchored(&run.record, world)?,
    };
    Ok(match earlier {
        Some(earlier) => times::compare(&earlier, run),
        None => Times::withheld(
            "no anchored run of this envelope was made on an equal machine; give one with --against DIR",
        ),
    })
}

fn newest_anchored(record: &RunRecord, world: &World) -> Result<Option<SealedRun>, Error> {
    let index = world.results().join("INDEX");
    if !index.is_file() {
        return Ok(None);
    }
    let text = files::read_text(&index)?;
    let runs = text.lines().rev().filter_map(|line| line.split_once("  "));
    for (_, name) in runs.filter(|(_, name)| name.split('/').next() == Some(&record.envelope)) {
        let earlier = SealedRun::open(&world.results().join(name), world)?;
        if times::unequal_machines(&earlier.record, record).is_empty() {
            return Ok(Some(earlier));
        }
    }
    Ok(None)
}
