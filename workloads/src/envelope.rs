//! Envelopes: the declared question, as the user writes it (TOML) and as a run resolves it (envelope.json).
//!
//! There are three kinds, told apart by `workload.kind`: sessions (here), cells of engine work (`cells`) and what is only
//! counted (`counts`). Not here: ids of the workload (`session`), counts it must give (`oracle`), where a model comes from
//! (`models`).

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::arrivals::{Arrivals, Objective};
use crate::cells::CellWorkload;
use crate::counts::CountsEnvelope;
use crate::mock::Script;
use crate::oracle::Shape;
use crate::trace::sha256_hex;
use crate::{Error, arm};

pub mod about;
pub(crate) mod admission;
pub(crate) mod check;
mod embedded;
pub(crate) mod kv;
pub(crate) mod servers;
mod tree;
mod turns;

pub use admission::{Admission, AdmissionOrder};
use check::Refusal;
use embedded::embedded_text;
pub use embedded::{embedded, template};
pub use kv::{Eviction, KvDtype, Order, Quarantine};
pub use tree::Tree;

/// Schema tag of both forms.
pub const ENVELOPE_SCHEMA: &str = "fak.envelope/1";

/// What an envelope may ask: the `[workload]` table of its kind.
pub trait Kind: Clone + Serialize + DeserializeOwned {
    /// Arms of this kind.
    fn arm_names() -> Vec<&'static str>;
    /// Refuses what cannot be asked in this run.
    fn check(&self, run: &RunAsked, evidence: &Evidence) -> Result<(), Refusal>;
}

/// A session envelope as written.
pub type Envelope = EnvelopeOf<Workload>;
/// A session envelope as a run resolves it.
pub type ResolvedEnvelope = ResolvedOf<Workload>;
/// An envelope of engine work as written.
pub type CellEnvelope = EnvelopeOf<CellWorkload>;
/// An envelope of engine work as a run resolves it.
pub type ResolvedCells = ResolvedOf<CellWorkload>;

/// An envelope of whichever kind its text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// Agents that take turns.
    Session(Envelope),
    /// Cells of engine work.
    Engine(CellEnvelope),
    /// What is counted and not run.
    Counts(CountsEnvelope),
}

impl Declared {
    /// Reads and checks TOML; `file` is how messages call it.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let document = toml::from_str::<toml::Table>(text).unwrap_or_default();
        let kind = document.get("workload").and_then(|table| table.get("kind"));
        match kind.and_then(toml::Value::as_str) {
            Some(crate::cells::KIND) => CellEnvelope::parse(text, file).map(Self::Engine),
            Some(crate::counts::KIND) => CountsEnvelope::parse(text, file).map(Self::Counts),
            _ => Envelope::parse(text, file).map(Self::Session),
        }
    }

    /// The embedded envelope of this name.
    pub fn named(name: &str) -> Result<Self, Error> {
        embedded_text(name).and_then(|text| Self::parse(text, name))
    }

    /// The model it names; what is counted needs none.
    pub fn model(&self) -> Option<&str> {
        match self {
            Self::Session(envelope) => Some(&envelope.model),
            Self::Engine(envelope) => Some(&envelope.model),
            Self::Counts(_) => None,
        }
    }
}

/// An envelope as written, defaults not yet filled in from the machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvelopeOf<W> {
    /// [`ENVELOPE_SCHEMA`].
    pub schema: String,
    /// Lower-case letters, digits, dashes and underscores: it names directories.
    pub name: String,
    /// What a run of it answers, as one sentence.
    pub question: String,
    /// Name of a model, or path of a GGUF file.
    pub model: String,
    /// Numeric mode.
    #[serde(default = "defaults::mode")]
    pub mode: String,
    /// What is asked of every arm.
    pub workload: W,
    /// Who is asked, how often, with which settings.
    #[serde(default)]
    pub run: RunAsked,
    /// What the evidence holds.
    #[serde(default)]
    pub evidence: Evidence,
    /// The scripted arm's times.
    #[serde(default)]
    pub mock: Option<Script>,
}

/// A session workload: agents that share a prefix and take turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// `session`.
    pub kind: String,
    /// C: agents.
    pub agents: usize,
    /// T: turns of each agent.
    pub turns: usize,
    /// P: ids of the shared prefix.
    pub prefix: usize,
    /// D: ids decoded per turn.
    pub decode: usize,
    /// R: ids of a result, appended before every turn but the first.
    pub result: usize,
    /// W: processes that serve agents.
    #[serde(default = "defaults::workers")]
    pub workers: usize,
    /// Seed of every id.
    #[serde(default = "defaults::seed")]
    pub seed: u64,
    /// Whose turn is next.
    #[serde(default, skip_serializing_if = "kv::is_default")]
    pub order: Order,
    /// A result that is taken out midway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
    /// The model's own first id, with which the prefix begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bos_id: Option<u32>,
    /// What agents read at their first turn besides the prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Tree>,
    /// How often the whole session is asked, of the same cache.
    #[serde(default = "defaults::passes", skip_serializing_if = "turns::is_one")]
    pub passes: usize,
    /// When requests are due; none where each comes as soon as its agent was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// What an answer must keep to be good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Objective>,
}

/// The `[run]` table as written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunAsked {
    /// Arm names.
    pub arms: Vec<String>,
    /// Repetitions of every arm.
    pub reps: usize,
    /// Repetitions of single arms, where they differ.
    pub arm_reps: BTreeMap<String, usize>,
    /// Turns of single arms that play only the first few of the workload's.
    pub arm_turns: BTreeMap<String, usize>,
    /// Engine threads; the machine's cores when absent.
    pub threads: Option<usize>,
    /// Kernel set.
    pub kernels: String,
    /// Positions prefilled per step at most.
    pub chunk_tokens: usize,
    /// Pages the KV pool may hold.
    pub kv_pages: usize,
    /// Which of them go first when room is needed.
    pub eviction: Eviction,
    /// Which of the requests that wait for room goes first; whoever came first when absent.
    pub admission: Option<Admission>,
    /// What they hold keys and values as; the mode's own type when absent: f32 in `exact`, f16 in `fast`.
    pub kv_dtype: Option<KvDtype>,
    /// How far below the best an id of another engine's answer may be by our model, in thousandths of a nat.
    pub margin_millinats: Option<u64>,
    /// How long another engine may take for one request.
    pub request_limit_s: Option<u64>,
}

/// The `[evidence]` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Evidence {
    /// `ids`: prompts are kept as token ids.
    pub prompts: String,
    /// The trace ends with what the cache holds.
    #[serde(skip_serializing_if = "kv::is_default")]
    pub kv: bool,
}

/// An envelope with every default filled in: exactly envelope.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the fields of `Envelope`, resolved; audit/FORMAT.md documents every one
pub struct ResolvedOf<W> {
    pub schema: String,
    pub name: String,
    pub question: String,
    pub model: String,
    pub mode: String,
    pub workload: W,
    pub run: Run,
    pub evidence: Evidence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mock: Option<Script>,
}

/// The resolved `run` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // as above
pub struct Run {
    pub arms: Vec<String>,
    pub reps: usize,
    pub arm_reps: BTreeMap<String, usize>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arm_turns: BTreeMap<String, usize>,
    pub threads: usize,
    pub kernels: String,
    pub chunk_tokens: usize,
    pub kv_pages: usize,
    #[serde(default, skip_serializing_if = "kv::is_default")]
    pub eviction: Eviction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_dtype: Option<KvDtype>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin_millinats: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_limit_s: Option<u64>,
}

/// What the command line may say over the file; `None` and empty leave it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // named as the fields they replace
pub struct Overrides {
    pub arms: Vec<String>,
    pub reps: Option<usize>,
    pub model: Option<String>,
    pub threads: Option<usize>,
    pub kernels: Option<String>,
    pub mode: Option<String>,
}

pub(crate) mod defaults {
    pub(super) fn mode() -> String {
        "exact".to_owned()
    }
    pub(super) fn workers() -> usize {
        1
    }
    pub(super) fn passes() -> usize {
        1
    }
    pub(crate) fn seed() -> u64 {
        1
    }
}

impl Default for RunAsked {
    fn default() -> Self {
        Self {
            arms: arm::names().into_iter().map(str::to_owned).collect(),
            reps: 5, // the fewest pairs a verdict may rest on
            arm_reps: BTreeMap::new(),
            arm_turns: BTreeMap::new(),
            threads: None,
            kernels: "auto".to_owned(),
            chunk_tokens: 256,
            kv_pages: 4096,
            eviction: Eviction::default(),
            admission: None,
            kv_dtype: None,
            margin_millinats: None,
            request_limit_s: None,
        }
    }
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            prompts: "ids".to_owned(),
            kv: false,
        }
    }
}

impl<W: Kind> EnvelopeOf<W> {
    /// Reads and checks TOML; `file` is how messages call it.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let read: Result<Self, _> = toml::from_str(text);
        if read.is_err() {
            check::schema(text).map_err(|refusal| refusal.in_file(text, file))?;
        }
        let envelope = read.map_err(|source| Error::Toml {
            file: file.to_owned(),
            source: Box::new(source),
        })?;
        check::envelope(&envelope).map_err(|refusal| refusal.in_file(text, file))?;
        Ok(envelope)
    }

    /// The embedded envelope of this name.
    pub fn named(name: &str) -> Result<Self, Error> {
        embedded_text(name).and_then(|text| Self::parse(text, name))
    }

    /// Fills in every default, the command line over the file.
    pub fn resolve(
        &self,
        overrides: &Overrides,
        default_threads: usize,
    ) -> Result<ResolvedOf<W>, Error> {
        let mut asked = self.clone();
        overrides.apply(&mut asked);
        check::envelope(&asked).map_err(Refusal::on_command_line)?;
        let run = asked.run;
        let reps_of = |name: &String| {
            (
                name.clone(),
                run.arm_reps.get(name).copied().unwrap_or(run.reps),
            )
        };
        Ok(ResolvedOf {
            schema: asked.schema,
            name: asked.name,
            question: asked.question,
            model: asked.model,
            mode: asked.mode,
            workload: asked.workload,
            run: Run {
                arm_reps: run.arms.iter().map(reps_of).collect(),
                arm_turns: run.arm_turns,
                arms: run.arms,
                reps: run.reps,
                threads: run.threads.unwrap_or(default_threads),
                kernels: run.kernels,
                chunk_tokens: run.chunk_tokens,
                kv_pages: run.kv_pages,
                eviction: run.eviction,
                admission: run.admission,
                kv_dtype: run.kv_dtype,
                margin_millinats: run.margin_millinats,
                request_limit_s: run.request_limit_s,
            },
            evidence: asked.evidence,
            mock: asked.mock,
        })
    }
}

impl Overrides {
    fn apply<W>(&self, envelope: &mut EnvelopeOf<W>) {
        if !self.arms.is_empty() {
            envelope.run.arms.clone_from(&self.arms);
            envelope
                .run
                .arm_reps
                .retain(|arm, _| self.arms.contains(arm));
            envelope
                .run
                .arm_turns
                .retain(|arm, _| self.arms.contains(arm));
            let scripted = self.arms.iter().any(|arm| arm == arm::MOCK.name);
            envelope.mock = envelope.mock.filter(|_| scripted);
        }
        if let Some(reps) = self.reps {
            envelope.run.reps = reps;
            envelope.run.arm_reps.clear(); // asked for on the command line: it holds for every arm
        }
        if let Some(model) = &self.model {
            envelope.model.clone_from(model);
        }
        if self.threads.is_some() {
            envelope.run.threads = self.threads;
        }
        if let Some(kernels) = &self.kernels {
            envelope.run.kernels.clone_from(kernels);
        }
        if let Some(mode) = &self.mode {
            envelope.mode.clone_from(mode);
        }
    }
}

impl<W: Kind> ResolvedOf<W> {
    /// The bytes of envelope.json.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// SHA-256 of the bytes of envelope.json.
    pub fn sha256(&self) -> Result<String, serde_json::Error> {
        self.to_json().map(|text| sha256_hex(text.as_bytes()))
    }
}

impl Workload {
    /// Requests of each agent: its turns, as often as they are asked.
    pub fn turns_asked(&self) -> usize {
        self.turns * self.passes
    }

    /// Which turn of the session a request is, by its number among those of its agent.
    pub fn turn_of(&self, request: usize) -> usize {
        request % self.turns
    }

    /// The numbers the oracle needs.
    pub fn shape(&self) -> Shape {
        Shape {
            agents: self.agents as u64,
            turns: self.turns as u64,
            prefix: self.prefix as u64,
            decode: self.decode as u64,
            result: self.result as u64,
            workers: self.workers as u64,
            order: self.order,
            quarantine: self.quarantine,
            tree: self.tree,
            passes: self.passes as u64,
        }
    }
}

impl Kind for Workload {
    fn arm_names() -> Vec<&'static str> {
        arm::every_name()
    }

    fn check(&self, run: &RunAsked, evidence: &Evidence) -> Result<(), Refusal> {
        check::session(self, run)?;
        admission::check(self, run)?;
        servers::check(self, run, evidence)
    }
}
