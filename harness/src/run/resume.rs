//! `run --resume`: a run that was interrupted goes on at its next whole round, in another sitting.
//!
//! What a record says of its sittings must be known before there is a record, so an unsealed directory keeps it in a file
//! of its own, which goes before the run is sealed. Not here: playing (`stage`), or cells, which are not resumed.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use workloads::arm::stem;
use workloads::envelope::{ResolvedEnvelope, Workload};
use workloads::record::{BuildRecord, Instrument, MachineRecord, Sitting};
use workloads::trace::{Body, Line};

use super::plan::{self, Plan};
use super::record::Facts;
use super::{Traced, find_model};
use crate::compare::keys;
use crate::error::Error;
use crate::models::Located;
use crate::seal::SUMS;
use crate::world::World;
use crate::{build_facts, files, machine};

/// The file that an unsealed directory has and a sealed one never.
const FILE: &str = "unsealed.json";

/// What all sittings of a run must have in common.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    model_sha256: Option<String>,
    build: BuildRecord,
    machine: MachineRecord,
}

/// What an unsealed directory keeps.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    common: Common,
    sittings: Vec<Sitting>,
    instrument: Instrument,
}

/// An unsealed directory that goes on.
pub(super) struct Resumed {
    pub(super) directory: PathBuf,
    kept: Kept,
    lock: File,
}

/// The right to write in a run directory, for as long as this lives.
pub(super) struct Held {
    _lock: File,
}

impl Resumed {
    /// Opens an unsealed run, unless it was begun otherwise than `plan` and this machine would go on.
    pub(super) fn open(
        given: &Path,
        plan: &Plan<Workload>,
        pull: bool,
        world: &World,
    ) -> Result<Self, Error> {
        let refused = |why: String| Error::Usage(format!("--resume {}: {why}", given.display()));
        let directory = world.working_directory.join(given);
        if directory.join(SUMS).exists() {
            return Err(refused(
                "it is sealed, so nothing is left to run".to_owned(),
            ));
        }
        if !directory.join(FILE).is_file() {
            return Err(refused(format!(
                "no run was begun there; one that was interrupted has {FILE}"
            )));
        }
        let lock = lock(&directory)?;
        let kept: Kept = read(&directory.join(FILE))?;
        let begun: serde_json::Value = read(&directory.join("envelope.json"))?;
        let model = find_model(&plan.envelope.model, pull, world)?;
        let mut envelope = plan.envelope.clone();
        envelope.model.clone_from(&model.name);
        let now = Common {
            model_sha256: model_sha256(&model)?,
            build: build_facts::facts(world),
            machine: machine::facts(world.cores),
        };
        let mut unlike = keys(
            &json!({ "envelope": begun, "begun": kept.common }),
            &json!({ "envelope": envelope, "begun": now }),
        );
        let text = files::read_text(&directory.join("envelope.toml"))?;
        if unlike.is_empty() && text != plan.text {
            unlike.push(crate::compare::Key {
                key: "envelope.toml".to_owned(),
                first: "as it was".to_owned(),
                second: "another text".to_owned(),
            });
        }
        if unlike.is_empty() {
            return Ok(Self {
                directory,
                kept,
                lock,
            });
        }
        let lines = unlike
            .iter()
            .map(|it| format!("\n  {}: begun with {}, now {}", it.key, it.first, it.second));
        Err(refused(format!(
            "parts of two runs are no run; what differs:{}\ntype it as it was begun, or begin anew",
            lines.collect::<String>()
        )))
    }
}

/// Keeps what a later sitting must know of this one, and the directory to this process. Earlier sittings, and the
/// instrument as the first of them measured it, become those of `facts`.
pub(super) fn hold(
    directory: &Path,
    facts: &mut Facts,
    resumed: Option<Resumed>,
) -> Result<Held, Error> {
    let lock = match resumed {
        Some(Resumed { kept, lock, .. }) => {
            facts.earlier = kept.sittings;
            facts.instrument = kept.instrument;
            lock
        }
        None => lock(directory)?,
    };
    let sittings = facts.earlier.iter().chain([&facts.sitting]);
    let kept = Kept {
        common: Common {
            model_sha256: model_sha256(&facts.model)?,
            build: facts.build.clone(),
            machine: facts.machine.clone(),
        },
        sittings: sittings.cloned().collect(),
        instrument: facts.instrument,
    };
    let text = serde_json::to_string_pretty(&kept)
        .map_err(|error| Error::Broken(format!("{FILE}: {error}")))?;
    files::write_atomically(&directory.join(FILE), text.as_bytes())?;
    Ok(Held { _lock: lock })
}

/// Forgets what only an unsealed directory has.
pub(super) fn forget(directory: &Path) -> Result<(), Error> {
    let path = directory.join(FILE);
    fs::remove_file(&path).map_err(|source| Error::io("cannot remove", &path, source))
}

/// The traces of all whole rounds in `directory`. What was begun after them is removed: a pair is played in one go.
pub(super) fn whole_rounds<'a>(
    envelope: &'a ResolvedEnvelope,
    directory: &Path,
) -> Result<Vec<Traced<'a>>, Error> {
    let traces = directory.join("trace");
    let order = plan::order(envelope);
    let mut whole = Vec::new();
    for &(arm, rep) in &order {
        let path = traces.join(file_name(arm, rep));
        let Some(lines) = ended(&path) else { break };
        whole.push(Traced {
            arm,
            rep,
            lines,
            score: None,
        });
    }
    if let Some(&(_, unfinished)) = order.get(whole.len()) {
        whole.retain(|trace| trace.rep < unfinished);
    }
    let kept: Vec<String> = whole.iter().map(|it| file_name(it.arm, it.rep)).collect();
    for name in files::files_below(&traces)? {
        if !kept.contains(&name) {
            let path = traces.join(name);
            fs::remove_file(&path).map_err(|source| Error::io("cannot remove", &path, source))?;
        }
    }
    Ok(whole)
}

fn file_name(arm: &str, rep: usize) -> String {
    format!("{}.jsonl", stem(arm, rep))
}

/// The lines of a trace that came to its end.
fn ended(path: &Path) -> Option<Vec<Line>> {
    let text = fs::read_to_string(path).ok()?;
    let lines: Result<Vec<Line>, _> = text.lines().map(serde_json::from_str).collect();
    let lines = lines.ok()?;
    match lines.last()?.body {
        Body::End { .. } | Body::EndServer(_) | Body::Error { .. } => Some(lines),
        _ => None,
    }
}

fn model_sha256(model: &Located) -> Result<Option<String>, Error> {
    match (&model.sha256, &model.path) {
        (Some(sha256), _) => Ok(Some(sha256.clone())),
        (None, Some(path)) if path.is_file() => files::file_sha256(path).map(Some),
        _ => Ok(None), // a seed has no file; that a directory is the same is seen by every trace
    }
}

/// Only one process may write in a run directory. Its envelope is there from the beginning and never written again.
fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join("envelope.json");
    let file = File::open(&path).map_err(|source| Error::io("cannot read", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Usage(format!(
            "{} is being run by another process; wait for it",
            directory.display()
        ))),
        Err(TryLockError::Error(source)) => Err(Error::io("cannot lock", &path, source)),
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, Error> {
    serde_json::from_str(&files::read_text(path)?)
        .map_err(|error| Error::Broken(format!("{}: {error}", path.display())))
}
