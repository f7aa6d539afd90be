//! What is signed: an in-toto Statement whose subjects are the files of a run, with SLSA provenance taken from run.json.
//!
//! audit/FORMAT.md, "Attestation", has the table of its fields. Not here: the signature around it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use workloads::record::{BuildRecord, RunRecord};

use crate::error::Error;
use crate::seal::{self, SUMS};
use crate::{calendar, counted, files};

/// A statement, before it is signed.
pub(super) struct Statement {
    document: Value,
    /// How many files it names.
    pub(super) subjects: usize,
}

impl Statement {
    /// The same bytes for the same statement.
    pub(super) fn bytes(&self) -> Vec<u8> {
        sorted(&self.document).into_bytes()
    }
}

/// What the two kinds of records have in different places.
struct Facts {
    schema: String,
    envelope: String,
    envelope_sha256: String,
    arms: BTreeSet<String>,
    requested: Option<Value>,
    build: BuildRecord,
    /// Kernels and machine class, where anything ran.
    ran_on: Option<(String, String)>,
    started_unix_s: u64,
    /// Model, tokenizer.
    inputs: Vec<Value>,
    /// Other engines, each once.
    programs: Vec<Value>,
}

/// The statement about a sealed run.
pub(super) fn of(directory: &Path) -> Result<Statement, Error> {
    let facts = if counted::is_counted(directory) {
        of_counts(directory)?
    } else {
        let path = directory.join("run.json");
        let record: RunRecord = serde_json::from_str(&files::read_text(&path)?)
            .map_err(|error| Error::Broken(format!("{}: {error}", path.display())))?;
        of_run(&record)
    };
    let subjects = subjects(directory)?;
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    Ok(Statement {
        subjects: subjects.len(),
        document: json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": subjects,
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": predicate(&facts, &name),
        }),
    })
}

/// Every file of the run, and the one that seals them, in the order of their names.
fn subjects(directory: &Path) -> Result<Vec<Value>, Error> {
    let sums = files::read_text(&directory.join(SUMS))?;
    let of_sums = seal::digest(directory)?;
    let listed = sums
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(digest, path)| (path, digest));
    let all: BTreeMap<&str, &str> = listed.chain([(SUMS, of_sums.as_str())]).collect();
    let subject = |(path, digest)| json!({ "name": path, "digest": { "sha256": digest } });
    Ok(all.into_iter().map(subject).collect())
}

fn of_run(record: &RunRecord) -> Facts {
    let model = &record.model;
    let weights = json!({
        "name": "model", "digest": { "sha256": model.sha256 },
        "annotations": { "name": model.name, "label": model.label },
    });
    let tokenizer = model.tokenizer_sha256.as_ref();
    let tokenizer =
        tokenizer.map(|digest| json!({ "name": "tokenizer", "digest": { "sha256": digest } }));
    let servers = record.arms.values().filter_map(|arm| arm.server.as_ref());
    let programs: BTreeMap<(String, String), Value> = servers
        .filter_map(|server| {
            let it = &server.program;
            let digest = it.sha256.clone()?;
            let program = json!({
                "name": it.name, "digest": { "sha256": digest },
                "annotations": { "libraries_sha256": it.libraries_sha256, "version": it.version },
            });
            Some(((it.name.clone(), digest), program))
        })
        .collect();
    let in_cells = record.cells.iter().flatten();
    let in_cells = in_cells.flat_map(|cell| cell.arms.keys());
    let first = record.sittings.first();
    Facts {
        schema: record.schema.clone(),
        envelope: record.envelope.clone(),
        envelope_sha256: record.envelope_sha256.clone(),
        arms: record.arms.keys().chain(in_cells).cloned().collect(),
        requested: Some(json!(record.requested)),
        build: record.build.clone(),
        ran_on: Some((
            record.effective.kernels.clone(),
            record.machine.class.clone(),
        )),
        started_unix_s: first.map_or(0, |sitting| sitting.started_unix_s),
        inputs: [weights].into_iter().chain(tokenizer).collect(),
        programs: programs.into_values().collect(),
    }
}

/// Of a counted run, which had no model and no machine.
fn of_counts(directory: &Path) -> Result<Facts, Error> {
    let record = counted::read(directory)?;
    let arms = record.rows.iter().flat_map(|row| row.arms.keys());
    Ok(Facts {
        arms: arms.cloned().collect(),
        schema: record.schema,
        envelope: record.envelope,
        envelope_sha256: record.envelope_sha256,
        requested: None,
        build: record.build,
        ran_on: None,
        started_unix_s: record.counted_unix_s,
        inputs: Vec::new(),
        programs: Vec::new(),
    })
}

fn predicate(facts: &Facts, name: &str) -> Value {
    let mut parameters = json!({
        "envelope": { "name": facts.envelope, "digest": { "sha256": facts.envelope_sha256 } },
        "arms": facts.arms,
    });
    if let Some(requested) = &facts.requested {
        parameters["requested"] = requested.clone();
    }
    let mut version = json!({ "harness": facts.build.version, "rustc": facts.build.rustc });
    if let Some((kernels, class)) = &facts.ran_on {
        version["kernels"] = json!(kernels);
        version["machine"] = json!(class);
    }
    let inputs = facts.inputs.iter().cloned();
    let dependencies: Vec<Value> = inputs
        .chain(sources(&facts.build))
        .chain(facts.programs.iter().cloned())
        .collect();
    json!({
        "buildDefinition": {
            "buildType": format!("urn:fak:{}", facts.schema),
            "externalParameters": parameters,
            "resolvedDependencies": dependencies,
        },
        "runDetails": {
            "builder": { "id": "urn:fak:harness", "version": version },
            "metadata": { "invocationId": name, "startedOn": calendar::moment(facts.started_unix_s) },
        },
    })
}

/// The commit, and the tree of each crate, where they are known.
fn sources(build: &BuildRecord) -> Vec<Value> {
    let commit = build.commit.as_ref().map(|commit| {
        json!({ "name": "source", "digest": { "gitCommit": commit }, "annotations": { "dirty": build.dirty } })
    });
    let trees =
        build.trees.iter().flatten().map(
            |(name, id)| json!({ "name": format!("source/{name}"), "digest": { "gitTree": id } }),
        );
    commit.into_iter().chain(trees).collect()
}

/// A document with the keys of every object in bytewise order, however this program was built.
pub(super) fn sorted(document: &Value) -> String {
    serde_json::to_string(&Sorted::of(document)).unwrap_or_default() // a document of strings, lists and flags cannot fail
}

#[derive(Serialize)]
#[serde(untagged)]
enum Sorted<'a> {
    Object(BTreeMap<&'a str, Sorted<'a>>),
    List(Vec<Sorted<'a>>),
    Plain(&'a Value),
}

impl<'a> Sorted<'a> {
    fn of(value: &'a Value) -> Self {
        match value {
            Value::Object(fields) => {
                let fields = fields.iter();
                Self::Object(
                    fields
                        .map(|(key, it)| (key.as_str(), Self::of(it)))
                        .collect(),
                )
            }
            Value::Array(entries) => Self::List(entries.iter().map(Self::of).collect()),
            plain => Self::Plain(plain),
        }
    }
}
