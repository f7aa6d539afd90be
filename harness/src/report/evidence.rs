//! Anchored runs: read through results/INDEX, checked against their hashes, and judged fit to speak or not.
//!
//! Not here: whether a run is *true*. `harness anchor` audited it once; the hashes say it is still that run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Value, json};
use workloads::counts::COUNTS_SCHEMA;
use workloads::envelope::{Declared, Overrides};
use workloads::record::{RUN_SCHEMA, RunRecord};
use workloads::trace::sha256_hex;

use super::error::ReportError;
use crate::calendar::dashed;

/// One anchored run.
#[derive(Debug)]
pub(crate) struct Anchored {
    /// Its directory, relative to results/.
    pub(crate) run: String,
    /// Of its SHA256SUMS, as results/INDEX anchors it.
    pub(super) sums_sha256: String,
    pub(crate) record: RunRecord,
    /// run.json as read, for bindings by path.
    pub(crate) measured: Value,
    /// envelope.json as read.
    pub(crate) declared: Value,
    /// Why no page speaks from it; `None` when pages do.
    pub(crate) silent: Option<String>,
    /// The run that speaks in its place, relative to results/.
    pub(super) replaced_by: Option<String>,
}

impl Anchored {
    /// When the run was last worked on.
    pub(crate) fn started_unix_s(&self) -> Option<u64> {
        self.record
            .sittings
            .iter()
            .map(|sitting| sitting.started_unix_s)
            .max()
    }

    /// The day of that, as pages show it.
    pub(crate) fn date(&self) -> Option<String> {
        self.started_unix_s().map(dashed)
    }

    /// Whether the embedded envelope of this name asks something else by now. The run still says what it was asked.
    pub(crate) fn is_outdated(&self) -> bool {
        let none = Overrides::default();
        let today = match Declared::named(&self.record.envelope) {
            Ok(Declared::Session(it)) => it.resolve(&none, 1).ok().map(|it| json!(it.workload)),
            Ok(Declared::Engine(it)) => it.resolve(&none, 1).ok().map(|it| json!(it.workload)),
            Ok(Declared::Counts(_)) | Err(_) => None,
        };
        today.is_some_and(|workload| workload != self.declared["workload"])
    }

    /// Its directory, relative to the repository root.
    pub(crate) fn directory(&self) -> String {
        format!("results/{}", self.run)
    }
}

/// The run an envelope's claims quote: the newest that speaks, whatever its machine.
pub(crate) fn speaker<'a>(runs: &'a [Anchored], envelope: &str) -> Option<&'a Anchored> {
    runs.iter()
        .filter(|run| run.silent.is_none() && run.record.envelope == envelope)
        .max_by_key(|run| run.started_unix_s())
}

/// Every run of results/INDEX, sorted by directory, each with its standing. No INDEX means no runs.
pub(crate) fn load(root: &Path) -> Result<Vec<Anchored>, ReportError> {
    let index = read_index(root)?;
    let mut seen = BTreeSet::new();
    let mut runs = Vec::new();
    for (number, line) in index.split_inclusive('\n').enumerate() {
        let fail = |message: &str| ReportError::Index {
            line: number + 1,
            message: message.into(),
        };
        let (sums_sha256, run) = line
            .strip_suffix('\n')
            .ok_or_else(|| fail("has no newline, so it may be cut short"))?
            .split_once("  ")
            .filter(|(hash, run)| is_sha256(hash) && is_run(run))
            .ok_or_else(|| fail("is not `<sha256>  <envelope>/<run>`"))?;
        if !seen.insert(run) {
            return Err(fail("names a run that an earlier line names"));
        }
        runs.extend(load_run(root, sums_sha256, run)?);
    }
    silence_older(&mut runs);
    runs.sort_by(|a, b| a.run.cmp(&b.run));
    Ok(runs)
}

fn read_index(root: &Path) -> Result<String, ReportError> {
    let path = root.join("results/INDEX");
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|source| ReportError::Read { path, source }),
    }
}

/// Counted runs of results/INDEX, sorted: they have no arms and no page quotes them. Whether they are whole is for `load` to say.
pub(super) fn counted(root: &Path) -> Result<Vec<String>, ReportError> {
    let index = read_index(root)?;
    let mut found = Vec::new();
    for (_, run) in index.lines().filter_map(|line| line.split_once("  ")) {
        let path = root.join("results").join(run).join("run.json");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) => return Err(ReportError::Read { path, source }),
        };
        let record: Value = serde_json::from_str(&text).unwrap_or_default();
        if record["schema"] == COUNTS_SCHEMA {
            found.push(run.to_owned());
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_run(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    parts.len() == 2 && parts.iter().all(|part| is_name(part))
}

/// A path component that cannot lead out of the directory.
fn is_name(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.contains(['/', '\\', '\0'])
}

/// Reads one run and checks that its records are of one piece. A counted one is only held to its hashes: no page speaks from
/// it.
fn load_run(root: &Path, sums_sha256: &str, run: &str) -> Result<Option<Anchored>, ReportError> {
    let broken = |message: String| ReportError::Evidence {
        run: run.into(),
        message,
    };
    let directory = root.join("results").join(run);
    let records = anchored_records(&directory, sums_sha256).map_err(broken)?;
    let bytes = |name: &str| {
        records
            .get(name)
            .ok_or_else(|| broken(format!("SHA256SUMS does not list {name}")))
    };
    let json = |name: &str| -> Result<Value, ReportError> {
        serde_json::from_slice(bytes(name)?).map_err(|error| broken(format!("{name}: {error}")))
    };
    let (measured, declared) = (json("run.json")?, json("envelope.json")?);
    if measured["schema"] == COUNTS_SCHEMA {
        return Ok(None);
    }
    // The version first: another one may have other fields.
    if let Some(other) = measured["schema"].as_str().filter(|it| *it != RUN_SCHEMA) {
        return Err(broken(format!(
            "run.json has schema {other}, not {RUN_SCHEMA}; render the pages with the program of that version, or \
             run the envelope again"
        )));
    }
    let record: RunRecord = serde_json::from_value(measured.clone())
        .map_err(|error| broken(format!("run.json: {error}")))?;
    if sha256_hex(bytes("envelope.json")?) != record.envelope_sha256 {
        return Err(broken(
            "run.json was not made from this envelope.json".into(),
        ));
    }
    if !run.starts_with(&format!("{}/", record.envelope)) {
        return Err(broken(format!(
            "run.json is of envelope {}",
            record.envelope
        )));
    }
    let silent = unfit(&record).map(String::from);
    Ok(Some(Anchored {
        run: run.into(),
        sums_sha256: sums_sha256.into(),
        record,
        measured,
        declared,
        silent,
        replaced_by: None,
    }))
}

/// Checks every file of a run against SHA256SUMS, and that against the INDEX line. Returns the files that pages quote;
/// traces are only hashed.
fn anchored_records(
    directory: &Path,
    sums_sha256: &str,
) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let read = |name: &str| {
        fs::read(directory.join(name)).map_err(|error| format!("cannot read {name}: {error}"))
    };
    let sums = read("SHA256SUMS")?;
    if sha256_hex(&sums) != sums_sha256 {
        return Err("SHA256SUMS is not the one that results/INDEX anchors".into());
    }
    let sums = String::from_utf8(sums).map_err(|_| "SHA256SUMS is not UTF-8")?;
    let mut records = BTreeMap::new();
    for (number, line) in sums.lines().enumerate() {
        let (hash, name) = line
            .split_once("  ")
            .filter(|(_, name)| name.split('/').all(is_name))
            .ok_or_else(|| format!("SHA256SUMS:{}: not `<sha256>  <path>`", number + 1))?;
        let bytes = read(name)?;
        if sha256_hex(&bytes) != hash {
            return Err(format!("{name} is not the file that SHA256SUMS lists"));
        }
        if !name.contains('/') {
            records.insert(name.into(), bytes);
        }
    }
    Ok(records)
}

/// Why a run can never speak, whatever other runs there are.
fn unfit(record: &RunRecord) -> Option<&'static str> {
    let build = &record.build;
    if !record.complete {
        Some("incomplete: not every requested repetition ended well")
    } else if !record.identity.equal {
        Some("identity failed: the arms did not give the same answers")
    } else if build.debug_assertions {
        Some("built with debug assertions, which back no timing")
    } else if build.dirty == Some(true) {
        Some("built from a working tree with uncommitted changes")
    } else if build.dirty.is_none() || build.commit.is_none() {
        Some("built from unknown source: no commit was recorded")
    } else if record.sittings.is_empty() {
        Some("undated: no sitting was recorded")
    } else {
        None
    }
}

/// Of the fit runs of one envelope and machine class only the newest speaks; at equal times the later INDEX line.
fn silence_older(runs: &mut [Anchored]) {
    let mut newest = BTreeMap::<(String, String), usize>::new();
    for at in 0..runs.len() {
        if runs[at].silent.is_some() {
            continue;
        }
        let record = &runs[at].record;
        let key = (record.envelope.clone(), record.machine.class.clone());
        let Some(rival) = newest.insert(key.clone(), at) else {
            continue;
        };
        let older = if runs[rival].started_unix_s() > runs[at].started_unix_s() {
            newest.insert(key, rival);
            at
        } else {
            rival
        };
        let newer = runs[at + rival - older].run.clone();
        runs[older].silent = Some(format!("superseded by `{newer}`"));
        runs[older].replaced_by = Some(newer);
    }
}
