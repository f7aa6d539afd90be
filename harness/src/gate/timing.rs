//! `gate --timing`: the times of this run beside those of an earlier one on an equal machine.
//!
//! Not here: how two runs' times are judged (`compare::times`).

use super::baseline::Question;
use crate::compare::times::{self, Times};
use crate::error::Error;
use crate::sealed::SealedRun;
use crate::world::World;
use crate::{files, seal};

/// The times of `run` against `against`, or against the newest anchored run that asked the same on an equal machine.
pub(super) fn of(
    run: &SealedRun,
    against: Option<SealedRun>,
    world: &World,
) -> Result<Times, Error> {
    let earlier = match against {
        Some(earlier) => Some(earlier),
        None => newest_anchored(run, world)?,
    };
    Ok(match earlier {
        Some(earlier) => times::compare(&earlier, run),
        None => Times::withheld(
            "no anchored run of this envelope asked the same on an equal machine; give one with --against DIR",
        ),
    })
}

fn newest_anchored(run: &SealedRun, world: &World) -> Result<Option<SealedRun>, Error> {
    let index = world.results().join("INDEX");
    if !index.is_file() {
        return Ok(None);
    }
    let (text, question) = (files::read_text(&index)?, Question::of(run)?);
    let envelope = Some(run.record.envelope.as_str());
    let runs = text.lines().rev().filter_map(|line| line.split_once("  "));
    for (digest, name) in runs.filter(|(_, name)| name.split('/').next() == envelope) {
        let earlier = anchored(digest, name, world)?;
        if times::unequal_machines(&earlier.record, &run.record).is_empty()
            && Question::of(&earlier).is_ok_and(|it| it == question)
        {
            return Ok(Some(earlier));
        }
    }
    Ok(None)
}

/// The run that INDEX names, which must be the one that was anchored.
fn anchored(digest: &str, name: &str, world: &World) -> Result<SealedRun, Error> {
    let directory = world.results().join(name);
    let broken = |why: String| Error::Broken(format!("results/INDEX, {name}: {why}"));
    let found = seal::digest(&directory).map_err(|error| broken(error.to_string()))?;
    if found != digest {
        return Err(broken(format!(
            "the sha256 of its SHA256SUMS is {found}, anchored was {digest}; restore the run from git"
        )));
    }
    SealedRun::open(&directory, world)
}
