//! A sealed run, read back by those who compare, explain or repeat it: only once its audit found it whole.
//!
//! Not here: any doubt about the evidence (`audit`), or reading a run that is still being made (`run`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use workloads::arm::is_server;
use workloads::envelope::ResolvedEnvelope;
use workloads::record::{Divergence, RunRecord};
use workloads::trace::{Base, Body, Line};

use crate::counted;
use crate::error::Error;
use crate::files;
use crate::world::World;

/// The provenance of figures that nobody measured.
pub const SIMULATED: &str = "SIMULATED";

/// A run whose evidence holds.
pub struct SealedRun {
    /// Where it is.
    pub directory: PathBuf,
    /// envelope.json, of either kind.
    pub asked: Value,
    /// run.json.
    pub record: RunRecord,
    /// Every trace of our own arms, in the order of their names; what other programs said is not among them.
    pub traces: Vec<Trace>,
    /// Traces of sessions that other engines answered, in the order of their names.
    pub servers: Vec<Trace>,
    /// What the audit found.
    pub audit: audit::Report,
}

/// The trace of one process.
pub struct Trace {
    /// Its file, relative to the run.
    pub path: String,
    /// The cell it worked through, in runs of engine work.
    pub cell: Option<String>,
    /// Who was asked.
    pub arm: String,
    /// The how manieth time, from 0.
    pub rep: usize,
    /// What it said.
    pub lines: Vec<Line>,
}

impl Trace {
    /// How messages call its arm: with the cell, where there is one.
    pub fn whose(&self) -> String {
        match &self.cell {
            Some(cell) => format!("{cell}, {}", self.arm),
            None => self.arm.clone(),
        }
    }

    /// Rebuilds its prompts, line by line.
    pub fn prompts(&self) -> Prompts<'_> {
        let mut continued = HashMap::new();
        for base in self.lines.iter().filter_map(|line| base_of(&line.body)) {
            *continued.entry(base).or_insert(0) += 1;
        }
        Prompts {
            continued,
            texts: HashMap::new(),
        }
    }
}

/// Prompts of a trace, rebuilt from what each continues. A text is kept until the last request that continues it: all
/// transcripts of all turns would be quadratic in the turns.
pub struct Prompts<'a> {
    /// By name of a text or a request: how many requests still continue it.
    continued: HashMap<&'a str, usize>,
    texts: HashMap<&'a str, Vec<u32>>,
}

impl<'a> Prompts<'a> {
    /// Takes the next line of the trace; a request's prompt.
    pub fn next(&mut self, line: &'a Line) -> Option<Vec<u32>> {
        match &line.body {
            Body::Text { name, ids } => self.keep(name, ids),
            Body::Finish { request, ids, .. } => {
                if let Some(text) = self.texts.get_mut(request.as_str()) {
                    text.extend(ids);
                }
            }
            Body::Request {
                id, keep, append, ..
            } => {
                let base = base_of(&line.body);
                let text = base.and_then(|base| self.texts.get(base));
                let kept = text.map_or(&[][..], |ids| &ids[..ids.len().min(*keep)]);
                let prompt = [kept, append].concat();
                if let Some(base) = base {
                    self.leave(base);
                }
                self.keep(id, &prompt);
                return Some(prompt);
            }
            _ => {}
        }
        None
    }

    fn keep(&mut self, name: &'a str, ids: &[u32]) {
        if self.continued.contains_key(name) {
            self.texts.insert(name, ids.to_vec());
        }
    }

    fn leave(&mut self, base: &str) {
        if let Some(requests) = self.continued.get_mut(base) {
            *requests -= 1;
            if *requests == 0 {
                self.continued.remove(base);
                self.texts.remove(base);
            }
        }
    }
}

/// The name of what a request continues.
fn base_of(body: &Body) -> Option<&str> {
    match body {
        Body::Request {
            base: Some(Base::Text(name) | Base::Request(name)),
            ..
        } => Some(name),
        _ => None,
    }
}

impl SealedRun {
    /// Whether requests came at times of their own.
    pub fn comes_by_the_clock(&self) -> bool {
        !self.asked["workload"]["arrivals"].is_null()
    }

    /// Reads the run in `directory`, unless its evidence is broken.
    pub fn open(directory: &Path, world: &World) -> Result<Self, Error> {
        let path = world.working_directory.join(directory);
        if !path.is_dir() {
            return Err(Error::Usage(format!(
                "no directory {}; give a run directory, such as `{} run smoke` writes",
                directory.display(),
                world.command
            )));
        }
        let audit = audit::audit_run(&path);
        Self::audited(path, audit)
    }

    /// Reads a run that has just been audited.
    pub fn audited(directory: PathBuf, audit: audit::Report) -> Result<Self, Error> {
        if audit.exit_code() == 4 {
            return Err(Error::Broken(audit.render()));
        }
        if counted::is_counted(&directory) {
            return Err(counted::refusal(&directory));
        }
        let record: RunRecord = read_json(&directory.join("run.json"))?;
        let asked: Value = read_json(&directory.join("envelope.json"))?;
        let (mut traces, mut servers) = (Vec::new(), Vec::new());
        for name in files::files_below(&directory)? {
            if !name.starts_with("trace/") {
                continue;
            }
            match read_trace(&directory, name)? {
                Some(trace) if is_server(&trace.arm) => servers.push(trace),
                Some(trace) => traces.push(trace),
                None => {}
            }
        }
        Ok(Self {
            directory,
            asked,
            record,
            traces,
            servers,
            audit,
        })
    }

    /// Whether an arm made its answers up: nothing of them can be compared.
    pub fn is_simulated(&self, arm: &str) -> bool {
        let record = self.record.arms.get(arm);
        record.is_some_and(|record| record.provenance == SIMULATED)
    }

    /// Refuses a run in which an arm failed: what is missing would pass for what is equal.
    pub fn refuse_failed(&self) -> Result<(), Error> {
        let failures = failures(&self.record);
        if failures.is_empty() {
            return Ok(());
        }
        Err(Error::Unreachable(format!(
            "{}: not every arm completed, so nothing is compared\n  {}\nrun the envelope again, with --arm for the \
             arms that can run",
            self.directory.display(),
            failures.join("\n  ")
        )))
    }

    /// Its envelope, where that is a session.
    pub fn session(&self) -> Option<ResolvedEnvelope> {
        ResolvedEnvelope::deserialize(&self.asked).ok()
    }
}

/// Every arm that failed, in its cell where there is one, and what it failed with.
pub fn failures(record: &RunRecord) -> Vec<String> {
    let failure = |name: String, error: &Option<String>, (completed, reps): (usize, usize)| {
        let error = error.as_ref()?;
        let failed = reps - completed.min(reps);
        Some(format!("{name} failed in {failed} of {reps}: {error}"))
    };
    let of_session = record
        .arms
        .iter()
        .filter_map(|(name, arm)| failure(name.clone(), &arm.error, (arm.completed, arm.reps)));
    let cells = record.cells.iter().flatten();
    let of_cells = cells
        .flat_map(|cell| cell.arms.iter().map(move |(name, arm)| (cell, name, arm)))
        .filter_map(|(cell, name, arm)| {
            let name = format!("{}, {name}", cell.name);
            failure(name, &arm.error, (arm.completed, arm.reps))
        });
    of_session.chain(of_cells).collect()
}

/// Where an answer departs from the others, in words.
pub fn departure(at: &Divergence) -> String {
    let cell = at.cell.as_ref().map(|cell| format!("{cell}, "));
    let place = at.position.map(|place| format!("token {place}"));
    format!(
        "{}{} repetition {} departs at agent {} turn {}, {}",
        cell.unwrap_or_default(),
        at.arm,
        at.rep,
        at.agent,
        at.turn,
        place.unwrap_or_else(|| "in the logits".to_owned())
    )
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    serde_json::from_str(&files::read_text(path)?)
        .map_err(|error| Error::Broken(format!("{}: {error}", path.display())))
}

/// A trace of a session's arm or of our engine's work; `None` if another program's, or a score.
pub(crate) fn read_trace(directory: &Path, path: String) -> Result<Option<Trace>, Error> {
    let text = files::read_text(&directory.join(&path))?;
    let lines: Vec<Line> = (1..)
        .zip(text.lines())
        .map(|(number, line)| {
            serde_json::from_str(line)
                .map_err(|error| Error::Broken(format!("{path}:{number}: {error}")))
        })
        .collect::<Result<_, _>>()?;
    let (cell, arm, rep) = match lines.first().map(|line| &line.body) {
        Some(Body::Begin { cell, arm, rep, .. }) => (cell.clone(), arm.clone(), *rep),
        Some(Body::BeginServer(begin)) => (None, begin.arm.clone(), begin.rep),
        _ => return Ok(None),
    };
    Ok(Some(Trace {
        path,
        cell,
        arm,
        rep,
        lines,
    }))
}

#[cfg(test)]
mod tests {
    use workloads::trace::ids_sha256;

    use super::*;

    #[test]
    fn prompts_are_those_the_run_hashed_and_few_texts_are_kept_at_once() {
        let run = "../results/smoke/2026-11-29-x86_64-avx512-2c-3";
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(run);
        let trace = read_trace(&directory, "trace/fused-0.jsonl".to_owned());
        let trace = trace.unwrap().unwrap();
        let (mut prompts, mut rebuilt) = (trace.prompts(), 0);
        for line in &trace.lines {
            let prompt = prompts.next(line);
            if let Body::Request { prompt_sha256, .. } = &line.body {
                assert_eq!(ids_sha256(&prompt.unwrap()), *prompt_sha256);
                rebuilt += 1;
            }
            assert!(
                prompts.texts.len() <= 4,
                "one for each agent, and the prefix"
            );
        }
        assert_eq!(rebuilt, 12);
        assert!(prompts.texts.is_empty());
    }
}
