//! The baseline of a gate: what an envelope must count and answer, on any machine. No times stand in it.
//!
//! One small file per envelope, `results/gate/ENVELOPE.json`, one request a line, so that a change of it reads well in
//! a review. Not here: comparing (`differ`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use workloads::arm::is_server;
use workloads::envelope::{self, Admission, Eviction, KvDtype, ResolvedEnvelope, Workload};
use workloads::statistics::round6;
use workloads::trace::Body;

use crate::error::Error;
use crate::files;
use crate::sealed::{SealedRun, Trace, departure};
use crate::world::World;

/// Schema tag of the file.
pub(super) const GATE_SCHEMA: &str = "fak.gate/1";

/// What must come out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Baseline {
    /// [`GATE_SCHEMA`].
    pub(super) schema: String,
    /// The envelope's name.
    pub(super) envelope: String,
    /// The file it was read from, relative to the directory above results/; an embedded one has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    /// What was asked, as far as it decides the answer.
    pub(super) question: Question,
    /// By arm.
    pub(super) arms: BTreeMap<String, Counted>,
    /// By request: all arms must give the same answer.
    pub(super) answers: BTreeMap<String, Answered>,
}

/// A baseline of any version, as far as it must be known before it can be read strictly.
#[derive(Deserialize)]
struct Tagged {
    schema: String,
}

/// What decides counters and answers. Threads, kernels and repetitions do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    /// Name of the model.
    pub(super) model: String,
    /// Its digest.
    pub(super) model_sha256: String,
    /// Numeric mode.
    pub(super) mode: String,
    /// What is asked of every arm.
    pub(super) workload: Workload,
    /// Turns of arms that play only the first few.
    pub(super) arm_turns: BTreeMap<String, usize>,
    /// Positions prefilled per step at most.
    pub(super) chunk_tokens: usize,
    /// Pages the KV pool may hold.
    pub(super) kv_pages: usize,
    /// Which of them go first when room is needed.
    #[serde(default, skip_serializing_if = "is_least_recently_used")]
    pub(super) eviction: Eviction,
    /// Which of the requests that wait for room goes first, where it is not the first come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) admission: Option<Admission>,
    /// What they hold, where the mode does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kv_dtype: Option<KvDtype>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
fn is_least_recently_used(eviction: &Eviction) -> bool {
    *eviction == Eviction::Lru
}

/// What one arm counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counted {
    /// Over the whole session, by the name the run record has for it.
    pub(super) counters: BTreeMap<String, u64>,
    /// Share of prompt tokens found in a cache, six decimals.
    pub(super) reuse_rate: f64,
    /// By request: prompt tokens matched, computed, carried, replayed.
    pub(super) requests: BTreeMap<String, [u64; 4]>,
}

/// The names of a request's four counts.
pub(super) const REQUEST_COUNTS: [&str; 4] = ["matched", "computed", "carried", "replayed"];

/// What one request answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answered {
    /// Output ids.
    pub(super) ids: Vec<u32>,
    /// SHA-256 of the logits the last id was chosen from.
    pub(super) logits_sha256: String,
}

/// One process of a run, in the same words.
pub(super) struct Seen {
    /// The arm.
    pub(super) arm: String,
    /// The repetition.
    pub(super) rep: usize,
    /// What it counted.
    pub(super) counted: Counted,
    /// What it answered, by request.
    pub(super) answers: BTreeMap<String, Answered>,
}

impl Seen {
    /// Every process of a run but those of scripted arms, whose answers are made up.
    pub(super) fn all(run: &SealedRun) -> Vec<Self> {
        let own = run
            .traces
            .iter()
            .filter(|trace| !run.is_simulated(&trace.arm));
        own.map(Self::of).collect()
    }

    /// Reads a trace.
    pub(super) fn of(trace: &Trace) -> Self {
        let mut seen = Self {
            arm: trace.arm.clone(),
            rep: trace.rep,
            counted: Counted::default(),
            answers: BTreeMap::new(),
        };
        for line in &trace.lines {
            seen.take(&line.body);
        }
        let counter = |name: &str| seen.counted.counters.get(name).copied().unwrap_or(0) as f64;
        let logical = counter("prefill_tokens_logical");
        if logical > 0.0 {
            seen.counted.reuse_rate = round6(counter("prefix_tokens_hit") / logical);
        }
        seen
    }

    fn take(&mut self, body: &Body) {
        match body {
            Body::Prefix {
                request, matched, ..
            } => self.counts_of(request)[0] = *matched as u64,
            Body::Prefill {
                request,
                computed,
                carried,
                replayed,
                ..
            } => {
                let counts = self.counts_of(request);
                [counts[1], counts[2], counts[3]] =
                    [computed, carried, replayed].map(|&count| count as u64);
            }
            Body::Finish {
                request,
                ids,
                logits_sha256,
                ..
            } => {
                let answer = Answered {
                    ids: ids.clone(),
                    logits_sha256: logits_sha256.clone(),
                };
                self.answers.insert(request.clone(), answer);
            }
            Body::End {
                requests,
                prefill_tokens_computed,
                prefill_tokens_logical,
                prefix_tokens_hit,
                decode_tokens,
                carried_tokens,
                replayed_tokens,
                ..
            } => {
                let counters = [
                    ("requests", *requests as u64),
                    ("prefill_tokens_computed", *prefill_tokens_computed),
                    ("prefill_tokens_logical", *prefill_tokens_logical),
                    ("prefix_tokens_hit", *prefix_tokens_hit),
                    ("decode_tokens", *decode_tokens),
                    ("carried_tokens", *carried_tokens),
                    ("replayed_tokens", *replayed_tokens),
                ];
                let named = counters.map(|(name, count)| (name.to_owned(), count));
                self.counted.counters = named.into();
            }
            _ => {}
        }
    }

    fn counts_of(&mut self, request: &str) -> &mut [u64; 4] {
        let requests = &mut self.counted.requests;
        requests.entry(request.to_owned()).or_default()
    }
}

impl Question {
    /// What `run` asked.
    pub(super) fn of(run: &SealedRun) -> Result<Self, Error> {
        let model = &run.record.model;
        Ok(Self::asked(session(run)?, &model.name, &model.sha256))
    }

    /// What `envelope` asks of a model.
    pub(super) fn asked(envelope: ResolvedEnvelope, model: &str, model_sha256: &str) -> Self {
        let mut run = envelope.run;
        run.arm_turns.retain(|arm, _| !is_server(arm)); // who is no part of a gate
        Self {
            model: model.to_owned(),
            model_sha256: model_sha256.to_owned(),
            mode: envelope.mode,
            workload: envelope.workload,
            arm_turns: run.arm_turns,
            chunk_tokens: run.chunk_tokens,
            kv_pages: run.kv_pages,
            eviction: run.eviction,
            admission: run.admission,
            kv_dtype: run.kv_dtype,
        }
    }
}

/// The envelope of a run of a session.
pub(super) fn session(run: &SealedRun) -> Result<ResolvedEnvelope, Error> {
    run.session().ok_or_else(|| {
        Error::Usage(format!(
            "{} is engine work, which has no gate: give an envelope of kind session",
            run.record.envelope
        ))
    })
}

impl Baseline {
    /// What `run` counted and answered, as the baseline of runs to come.
    pub(super) fn of(run: &SealedRun) -> Result<Self, Error> {
        let question = Question::of(run)?;
        run.refuse_failed()?;
        if let Some(at) = &run.record.identity.first_divergence {
            return Err(Error::Unequal(format!(
                "{} is no baseline: its arms answered differently, {}",
                run.directory.display(),
                departure(at)
            )));
        }
        let (mut arms, mut answers) = (BTreeMap::new(), BTreeMap::new());
        for seen in Seen::all(run).into_iter().filter(|seen| seen.rep == 0) {
            arms.insert(seen.arm, seen.counted);
            answers.extend(seen.answers);
        }
        Ok(Self {
            schema: GATE_SCHEMA.to_owned(),
            envelope: run.record.envelope.clone(),
            file: None,
            question,
            arms,
            answers,
        })
    }

    /// The same question, answered as one process did.
    pub(super) fn of_process(&self, seen: &Seen) -> Self {
        Self {
            arms: [(seen.arm.clone(), seen.counted.clone())].into(),
            answers: seen.answers.clone(),
            ..self.clone()
        }
    }

    /// Where the baseline of an envelope is kept.
    pub(super) fn path(envelope: &str, world: &World) -> PathBuf {
        directory(world).join(format!("{envelope}.json"))
    }

    /// Reads a baseline.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let refused = |why: String| Error::Broken(format!("{}: {why}", path.display()));
        let unread = |error: serde_json::Error| refused(error.to_string());
        let text = files::read_text(path)?;
        let Tagged { schema } = serde_json::from_str(&text).map_err(unread)?;
        if schema != GATE_SCHEMA {
            let envelope = path.file_stem().unwrap_or_default().display();
            return Err(refused(format!(
                "its schema is {schema}, this program reads {GATE_SCHEMA}; use the program that wrote it, or \
                 type `harness gate {envelope} --accept` to write it anew"
            )));
        }
        let baseline: Self = serde_json::from_str(&text).map_err(unread)?;
        if baseline.arms.is_empty() || baseline.answers.is_empty() {
            return Err(refused(
                "it expects nothing, so nothing could fail".to_owned(),
            ));
        }
        Ok(baseline)
    }

    /// Writes the file.
    pub(super) fn write(&self, path: &Path) -> Result<(), Error> {
        let text = self
            .to_text()
            .map_err(|error| Error::Broken(error.to_string()))?;
        files::create_directories(path.parent().unwrap_or(path))?;
        files::write_atomically(path, text.as_bytes())
    }

    /// The file: JSON with one request on each line.
    fn to_text(&self) -> Result<String, serde_json::Error> {
        let mut text = String::new();
        let file = match &self.file {
            Some(file) => format!("  \"file\": {},\n", serde_json::to_string(file)?),
            None => String::new(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{{\n  \"schema\": {},\n  \"envelope\": {},\n{file}  \"question\": {},\n  \"arms\": {{",
            serde_json::to_string(&self.schema)?,
            serde_json::to_string(&self.envelope)?,
            serde_json::to_string(&self.question)?,
        );
        let arms = self.arms.iter().map(|(name, counted)| {
            Ok(format!(
                "    {name:?}: {{\n      \"counters\": {},\n      \"reuse_rate\": {},\n      \"requests\": {{\n{}\n      }}\n    }}",
                serde_json::to_string(&counted.counters)?,
                serde_json::to_string(&counted.reuse_rate)?,
                entries(&counted.requests, "        ")?,
            ))
        });
        let arms: Vec<String> = arms.collect::<Result<_, serde_json::Error>>()?;
        let _ = writeln!(text, "{}\n  }},\n  \"answers\": {{", arms.join(",\n"));
        let _ = writeln!(text, "{}\n  }}\n}}", entries(&self.answers, "    ")?);
        Ok(text)
    }
}

/// The entries of a map, one a line.
fn entries<T: Serialize>(
    map: &BTreeMap<String, T>,
    indent: &str,
) -> Result<String, serde_json::Error> {
    let lines: Vec<String> = map
        .iter()
        .map(|(name, value)| {
            Ok(format!(
                "{indent}{name:?}: {}",
                serde_json::to_string(value)?
            ))
        })
        .collect::<Result<_, serde_json::Error>>()?;
    Ok(lines.join(",\n"))
}

/// The directory of all baselines.
fn directory(world: &World) -> PathBuf {
    world.results().join("gate")
}

/// What finds each envelope that has a baseline: its file, else its name.
pub(super) fn envelopes(world: &World) -> Result<Vec<String>, Error> {
    let directory = directory(world);
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let names = files::files_below(&directory)?;
    let names = names.iter().filter_map(|name| name.strip_suffix(".json"));
    let found =
        names.map(|name| source(&Baseline::path(name, world)).unwrap_or_else(|| name.to_owned()));
    Ok(found.collect())
}

/// The file of the envelope, as its baseline has it; what is wrong with a baseline is said when all of it is read.
fn source(baseline: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Source {
        file: Option<String>,
    }
    let text = files::read_text(baseline).ok()?;
    serde_json::from_str::<Source>(&text).ok()?.file
}

/// What a baseline keeps of how its envelope was typed: the path of a file below the working directory or beside it.
pub(super) fn file_of(typed: &str, world: &World) -> Option<String> {
    let embedded = envelope::embedded().iter().any(|(name, _)| *name == typed);
    let path = Path::new(typed);
    let path = path.strip_prefix(&world.working_directory).unwrap_or(path);
    (!embedded && path.is_relative()).then(|| path.display().to_string())
}
