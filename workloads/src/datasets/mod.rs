//! Data sets of tasks, as others publish them, turned into sessions: how long a task's prompt is and how many turns it takes.
//!
//! Nothing is guessed: a label nobody declared, a field nobody knows, a task that stands there twice are refused with the row.
//! The token estimates are those of the published reports that use these sets, and are said to be estimates. Not here: what
//! the sessions cost (`crate::accounting`), or any of the data.

use std::collections::BTreeMap;

use serde::Serialize;
use thiserror::Error;

use crate::accounting::{Account, CacheModel, Request, Scope, Span, replay, streams};
use crate::oracle::{self, Shape};

pub mod swebench;
pub mod webbench;

/// More turns than any published run of an agent takes.
const TURNS_MAX: u64 = 1000;
/// A thousand workers on each task are a fleet of fleets.
const WORKERS_MAX: u64 = 1024;
/// What a turn adds: as in an envelope.
const ADDED_MAX: u64 = 1 << 16;
/// Some seconds of counting.
const SPANS_MAX: u64 = 100_000_000;
/// A million tokens: beyond every context.
const TOKENS_MAX: u64 = 1 << 20;

/// Why a data set cannot be taken.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DatasetError {
    /// A row that says what cannot be taken.
    #[error("{file}, row {row}: {problem}")]
    Row {
        /// What the file is called.
        file: String,
        /// From 1.
        row: usize,
        /// What is wrong, and what to type.
        problem: String,
    },
    /// The whole of it.
    #[error("{file}: {problem}")]
    File {
        /// What the file is called.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// What is asked of it.
    #[error("{field} = {value}; give {wanted}")]
    Asked {
        /// Which number.
        field: &'static str,
        /// What it is.
        value: u64,
        /// What it may be.
        wanted: String,
    },
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What the set calls it.
    pub name: String,
    /// Its label of difficulty; none where the turns were counted.
    pub label: Option<String>,
    /// Tokens its prompt begins with.
    pub prefix: u64,
    /// Turns it takes.
    pub turns: u64,
}

/// How many turns a label stands for.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    by_label: BTreeMap<String, u64>,
    /// Labels that were given for this set, which must be in it.
    given: Vec<String>,
    /// Where they were given, and where more can be.
    place: Place,
}

/// Where turns are given.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    CommandLine,
    Envelope,
}

impl Place {
    /// What to write for a label.
    fn remedy(self, label: &str) -> String {
        match self {
            Self::CommandLine => format!("give --turns {:?}", format!("{label}=N")),
            Self::Envelope => format!("write turns = {{ {label:?} = N }} into the dataset's table"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::CommandLine => "--turns",
            Self::Envelope => "the envelope",
        }
    }
}

/// A set of tasks, and what each turn of any of them adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSet {
    /// In the order of the file.
    pub tasks: Vec<Task>,
    /// Tokens that all prompts begin with.
    pub base: u64,
    /// Tokens an agent answers in a turn.
    pub decode: u64,
    /// Tokens it is handed between two turns.
    pub result: u64,
}

/// What a set costs when so many workers each do all of it, by who finds what was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Costs {
    /// Workers on every task.
    pub workers: u64,
    /// Every turn sends and computes the whole context.
    pub naive: Account,
    /// Every worker keeps its own.
    pub agent_kv: Account,
    /// Workers on a task share what is common to them. Nothing is shared between tasks.
    pub shared: Account,
    /// Tasks share the beginning of their prompts too, where that is asked.
    pub shared_base: Option<Account>,
}

/// The least, the middle and the greatest number of turns, and their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // said above
pub struct TurnCounts {
    pub min: u64,
    pub median: u64,
    pub max: u64,
    pub total: u64,
}

impl TaskSet {
    /// Tasks by label, in the order of the alphabet.
    pub fn labels(&self) -> BTreeMap<&str, usize> {
        let mut labels = BTreeMap::new();
        for task in &self.tasks {
            let label = task.label.as_deref().unwrap_or("counted from its actions");
            *labels.entry(label).or_default() += 1;
        }
        labels
    }

    /// How many turns tasks take; the middle one is the upper of two.
    pub fn turns(&self) -> TurnCounts {
        let mut turns: Vec<u64> = self.tasks.iter().map(|task| task.turns).collect();
        turns.sort_unstable();
        TurnCounts {
            min: turns.first().copied().unwrap_or(0),
            median: turns.get(turns.len() / 2).copied().unwrap_or(0),
            max: turns.last().copied().unwrap_or(0),
            total: turns.iter().sum(),
        }
    }

    /// The session of so many workers on a task.
    fn shape(&self, task: &Task, workers: u64) -> Shape {
        Shape {
            agents: workers,
            turns: task.turns,
            prefix: task.prefix,
            decode: self.decode,
            result: self.result,
            workers: 1,
            ..Shape::default()
        }
    }

    /// All requests of the set, whose prompts begin alike, for one cache.
    fn on_one_base(&self, workers: u64) -> impl Iterator<Item = Request> {
        let base = Span {
            id: u64::MAX,
            tokens: self.base,
        };
        let tasks = self.tasks.iter().enumerate();
        let requests = tasks.flat_map(move |(place, task)| {
            let shape = self.shape(task, workers);
            streams::session(&shape, place as u64)
        });
        requests.map(move |mut request| {
            if let Some(own) = request.prompt.first_mut() {
                own.tokens -= base.tokens;
            }
            request.prompt.insert(0, base);
            request.prompt.retain(|span| span.tokens > 0);
            request
        })
    }

    /// Refuses what would not be counted today.
    fn check_size(&self, workers: u64) -> Result<(), DatasetError> {
        let spans = |task: &Task| {
            workers
                .saturating_mul(task.turns)
                .saturating_mul(task.turns)
        };
        let value = self.tasks.iter().map(spans).fold(0, u64::saturating_add);
        if value <= SPANS_MAX {
            return Ok(());
        }
        let wanted = format!("fewer workers or turns: up to {SPANS_MAX} can be counted");
        let field = "workers x turns x turns, over all tasks,";
        Err(DatasetError::Asked {
            field,
            value,
            wanted,
        })
    }

    /// What the set costs with so many workers, counted request by request.
    pub fn costs(&self, workers: u64, share_base: bool) -> Result<Costs, DatasetError> {
        let limits = [
            ("workers", workers, 1, WORKERS_MAX),
            ("decode", self.decode, 0, ADDED_MAX),
            ("result", self.result, 1, ADDED_MAX),
        ];
        for (field, value, least, most) in limits {
            if !(least..=most).contains(&value) {
                let wanted = format!("{least} to {most}");
                return Err(DatasetError::Asked {
                    field,
                    value,
                    wanted,
                });
            }
        }
        self.check_size(workers)?;
        let under = |scope: Scope| {
            let model = CacheModel::unbounded(scope);
            let of_task = |(place, task): (usize, &Task)| {
                let shape = self.shape(task, workers);
                replay(&model, streams::session(&shape, place as u64))
            };
            let accounts = self.tasks.iter().enumerate().map(of_task);
            accounts.fold(Account::default(), Account::and)
        };
        Ok(Costs {
            workers,
            naive: under(Scope::None),
            agent_kv: under(Scope::Session),
            shared: under(Scope::Fleet),
            shared_base: share_base.then(|| {
                let model = CacheModel::unbounded(Scope::Fleet);
                replay(&model, self.on_one_base(workers))
            }),
        })
    }

    /// The same prompt tokens by closed form: naive, kept by each, shared.
    pub fn closed_forms(&self, workers: u64) -> Result<[u64; 3], crate::Error> {
        let arms = ["naive", "agent-kv", "instance-shared"];
        let mut sums = [0_u64; 3];
        for (sum, arm) in sums.iter_mut().zip(arms) {
            let arm = crate::arm::named(arm)?;
            for task in &self.tasks {
                let counts = oracle::counts(arm, &self.shape(task, workers))?;
                let of_task = counts.prefill_tokens_computed;
                *sum = sum
                    .checked_add(of_task)
                    .ok_or(crate::Error::TooManyTokens)?;
            }
        }
        Ok(sums)
    }
}

/// What reading shares: what the file is called, tasks so far.
struct Rows<'a> {
    file: &'a str,
    tasks: Vec<Task>,
    seen: BTreeMap<String, usize>,
}

impl<'a> Rows<'a> {
    fn new(file: &'a str) -> Self {
        Self {
            file,
            tasks: Vec::new(),
            seen: BTreeMap::new(),
        }
    }

    fn refuse(&self, row: usize, problem: impl Into<String>) -> DatasetError {
        DatasetError::Row {
            file: self.file.to_owned(),
            row,
            problem: problem.into(),
        }
    }

    /// The turns a label stands for.
    fn turns_of(&self, row: usize, label: &str, turns: &Turns) -> Result<u64, DatasetError> {
        if label.is_empty() {
            return Err(self.refuse(row, "the label of difficulty is empty"));
        }
        turns.by_label.get(label).copied().ok_or_else(|| {
            let known: Vec<String> = turns.by_label.keys().map(|it| format!("{it:?}")).collect();
            let known = known.join(", ");
            let problem = format!(
                "nobody said how many turns the label {label:?} stands for, only {known}; {}",
                turns.place.remedy(label)
            );
            self.refuse(row, problem)
        })
    }

    fn add(&mut self, row: usize, task: Task) -> Result<(), DatasetError> {
        let Task {
            name,
            turns,
            prefix,
            ..
        } = &task;
        if let Some(before) = self.seen.insert(name.clone(), row) {
            let problem = format!("the task {name:?} stands in row {before} already");
            return Err(self.refuse(row, problem));
        }
        if !(1..=TURNS_MAX).contains(turns) {
            let problem = format!("{turns} turns; a task takes 1 to {TURNS_MAX}");
            return Err(self.refuse(row, problem));
        }
        if !(1..=TOKENS_MAX).contains(prefix) {
            let problem = format!("a prompt of {prefix} tokens; 1 to {TOKENS_MAX} can be");
            return Err(self.refuse(row, problem));
        }
        self.tasks.push(task);
        Ok(())
    }

    /// The set, if there is a task in it and each label that was given is one of its labels.
    fn done(self, lengths: [u64; 3], turns: &Turns) -> Result<TaskSet, DatasetError> {
        if self.tasks.is_empty() {
            return Err(DatasetError::File {
                file: self.file.to_owned(),
                problem: "there is no task in it".to_owned(),
            });
        }
        let mut given = turns.given.iter();
        let used = |label: &str| (self.tasks.iter()).any(|it| it.label.as_deref() == Some(label));
        if let Some(label) = given.find(|label| !used(label)) {
            return Err(DatasetError::File {
                file: self.file.to_owned(),
                problem: format!(
                    "{} gives turns for {label:?}, and no task has that label",
                    turns.place.name()
                ),
            });
        }
        let [base, decode, result] = lengths;
        Ok(TaskSet {
            tasks: self.tasks,
            base,
            decode,
            result,
        })
    }
}

impl Turns {
    /// Given in an envelope, so that messages say where more can be.
    #[must_use]
    pub fn of_envelope(self) -> Self {
        Self {
            place: Place::Envelope,
            ..self
        }
    }

    /// Whoever gave labels for several sets together holds them against those sets.
    #[must_use]
    pub fn for_several_sets(self) -> Self {
        Self {
            given: Vec::new(),
            ..self
        }
    }
}

/// Labels and turns out of what is declared, those given over the others.
pub fn declared(defaults: &[(&str, u64)], given: &[(String, u64)]) -> Turns {
    let defaults = defaults
        .iter()
        .map(|(label, turns)| ((*label).to_owned(), *turns));
    Turns {
        by_label: defaults.chain(given.iter().cloned()).collect(),
        given: given.iter().map(|(label, _)| label.clone()).collect(),
        place: Place::default(),
    }
}
