//! Runs that tables are made of: those of results/INDEX, held to their digests, or one directory, audited.
//!
//! Not here: what stands in the rows (`rows`).

use std::path::{Path, PathBuf};

use serde_json::Value;
use workloads::record::RunRecord;

use crate::calendar::dashed;
use crate::error::Error;
use crate::report::evidence::{self, Anchored};
use crate::sealed::SealedRun;
use crate::world::World;
use crate::{files, seal};

/// One run.
#[derive(Debug)]
pub struct Source {
    /// Its directory below results/, or as given.
    pub run: String,
    /// Where it is.
    pub directory: PathBuf,
    /// sha256 of its SHA256SUMS.
    pub sums_sha256: String,
    /// Whether results/INDEX has it.
    pub anchored: bool,
    /// Why pages do not quote it.
    pub silent: Option<String>,
    /// run.json.
    pub record: RunRecord,
    /// envelope.json.
    pub asked: Value,
}

impl Source {
    /// Every run of results/INDEX that has arms, by directory. Counted ones have neither samples nor requests.
    pub fn anchored(world: &World) -> Result<Vec<Self>, Error> {
        let runs = evidence::load(&world.working_directory)?;
        if runs.is_empty() {
            return Err(Error::Usage(
                "no anchored run here: there is no results/INDEX, or nothing is in it; go to the root of the \
                 repository, or `harness anchor DIR` a run"
                    .to_owned(),
            ));
        }
        let of = |run: Anchored| {
            let directory = world.results().join(&run.run);
            Ok(Self {
                sums_sha256: seal::digest(&directory)?,
                run: run.run,
                directory,
                anchored: true,
                silent: run.silent,
                record: run.record,
                asked: run.declared,
            })
        };
        runs.into_iter().map(of).collect()
    }

    /// One run that has just been audited.
    pub fn of(run: &SealedRun, world: &World) -> Result<Self, Error> {
        let sums_sha256 = seal::digest(&run.directory)?;
        let name = indexed(&run.directory, &sums_sha256, world)?;
        let silent = match &name {
            None => Some("not anchored: results/INDEX does not have it".to_owned()),
            Some(name) => {
                let runs = evidence::load(&world.working_directory)?;
                let found = runs.into_iter().find(|it| it.run == *name);
                found.and_then(|it| it.silent)
            }
        };
        Ok(Self {
            anchored: name.is_some(),
            run: name.unwrap_or_else(|| last_names(&run.directory)),
            directory: run.directory.clone(),
            sums_sha256,
            silent,
            record: run.record.clone(),
            asked: run.asked.clone(),
        })
    }

    /// Leaves only what is of these arms, a ratio by its numerator.
    pub fn keep_arms(&mut self, keep: impl Fn(&str) -> bool) {
        self.record.arms.retain(|arm, _| keep(arm));
        self.record.ratios.retain(|ratio| keep(&ratio.arm));
        for cell in self.record.cells.iter_mut().flatten() {
            cell.arms.retain(|arm, _| keep(arm));
            cell.ratios.retain(|ratio| keep(&ratio.arm));
        }
    }

    /// Turns that an agent of an arm plays, in all passes; an arm may play fewer than the others.
    pub fn turns(&self, arm: &str) -> Option<u64> {
        let (workload, run) = (&self.asked["workload"], &self.asked["run"]);
        let stated = run["arm_turns"][arm].as_u64();
        let turns = stated.or_else(|| workload["turns"].as_u64())?;
        turns.checked_mul(workload["passes"].as_u64().unwrap_or(1))
    }

    /// Whether its record has that arm, in any cell.
    pub fn has_arm(&self, arm: &str) -> bool {
        let mut cells = self.record.cells.iter().flatten();
        self.record.arms.contains_key(arm) || cells.any(|cell| cell.arms.contains_key(arm))
    }

    /// When it was last worked on.
    pub fn started_unix_s(&self) -> Option<u64> {
        let sittings = self.record.sittings.iter();
        sittings.map(|it| it.started_unix_s).max()
    }

    /// The day of that.
    pub fn date(&self) -> Option<String> {
        self.started_unix_s().map(dashed)
    }
}

/// The name under which results/INDEX has a run. One that stands where INDEX names another digest is broken.
fn indexed(directory: &Path, sums_sha256: &str, world: &World) -> Result<Option<String>, Error> {
    let index = world.results().join("INDEX");
    if !index.is_file() {
        return Ok(None);
    }
    let text = files::read_text(&index)?;
    let same = |name: &str| {
        let whole = world.results().join(name).canonicalize();
        whole.is_ok_and(|whole| directory.canonicalize().is_ok_and(|it| it == whole))
    };
    for (digest, name) in text.lines().filter_map(|line| line.split_once("  ")) {
        if digest == sums_sha256 {
            return Ok(Some(name.to_owned()));
        }
        if same(name) {
            return Err(Error::Broken(format!(
                "results/INDEX, {name}: the sha256 of its SHA256SUMS is {sums_sha256}, anchored was {digest}; restore \
                 the run from git"
            )));
        }
    }
    Ok(None)
}

/// The last two names of a path: enough to know a run by, and no path of this machine.
fn last_names(directory: &Path) -> String {
    let names: Vec<_> = directory
        .components()
        .map(|it| it.as_os_str().to_string_lossy().into_owned())
        .collect();
    names[names.len().saturating_sub(2)..].join("/")
}
