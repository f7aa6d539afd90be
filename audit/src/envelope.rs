//! envelope.json: its structs, and the checks that need nothing else.
//!
//! Not here: envelope.toml (`declared`) and the token counts that follow from the workload (`oracle`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::admission::{self, Admission};
use crate::format::{keyed, stated};
use crate::goodput::{self, Slo};
use crate::notebook::{Layer, Notebook, quote};
use crate::oracle::{self, is_served};
use crate::tree::{self, Tree};

/// Repetitions of one arm an auditor is ready to look for.
const MAX_REPS: u64 = 1_000;

/// The longest mean gap between requests that come by the clock.
const MAX_INTERVAL_US: u64 = 600_000_000;
/// Requests that come by the clock an auditor is ready to follow.
const MAX_DUE: u64 = 1 << 20;

/// Which pages go first when room is needed.
const EVICTIONS: [&str; 5] = ["lru", "lfu", "fifo", "priority", "cost"];
/// What keys and values are kept as.
const KV_DTYPES: [&str; 3] = ["f32", "f16", "q8_0"];

/// What an envelope of one kind asks.
pub(crate) trait Work: DeserializeOwned {
    /// Whether an arm of this kind has this name.
    fn knows_arm(arm: &str) -> bool;
    /// Checks the `workload` table, and what `run` says of it.
    fn check(&self, run: &Plan, evidence: &Evidence, notes: &mut Notebook);
}

/// The declared question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Envelope<W = Workload> {
    #[serde(rename = "schema")]
    _schema: String,
    pub(crate) name: String,
    #[serde(rename = "question")]
    _question: String,
    pub(crate) model: String,
    pub(crate) mode: String,
    pub(crate) workload: W,
    pub(crate) run: Plan,
    pub(crate) evidence: Evidence,
    /// Only where the arm `mock` runs.
    #[serde(default, deserialize_with = "stated")]
    mock: Option<Script>,
}

/// How long the steps of the scripted arm take.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    step_ns: u64,
    prefill_ns_per_token: u64,
    decode_ns_per_token: u64,
    jitter_thousandths: u64,
}

impl Script {
    /// The least time a step may take: the script's, less all that chance may take off.
    pub(crate) fn least_ns(&self, phase: &str, rows: u64) -> u64 {
        let row_ns = match phase {
            "prefill" => self.prefill_ns_per_token,
            _ => self.decode_ns_per_token,
        };
        let plain_ns = row_ns.saturating_mul(rows).saturating_add(self.step_ns);
        let left = 1000_u64.saturating_sub(self.jitter_thousandths);
        let least_ns = u128::from(plain_ns) * u128::from(left) / 1000;
        u64::try_from(least_ns).unwrap_or(u64::MAX)
    }
}

/// C agents, T turns, prefix P, D decoded and R result tokens per turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workload {
    kind: String,
    pub(crate) agents: u64,
    pub(crate) turns: u64,
    pub(crate) prefix: u64,
    pub(crate) decode: u64,
    pub(crate) result: u64,
    workers: u64,
    pub(crate) seed: u64,
    /// `turns` or `agents`: whose turn is next.
    #[serde(default = "turns")]
    pub(crate) order: String,
    #[serde(default, deserialize_with = "stated")]
    pub(crate) quarantine: Option<Quarantine>,
    /// What the text begins with, in place of the first id drawn.
    #[serde(default, deserialize_with = "stated")]
    pub(crate) bos_id: Option<u32>,
    /// What agents read at their first turn besides the text.
    #[serde(default, deserialize_with = "stated")]
    pub(crate) tree: Option<Tree>,
    /// How often the session is asked.
    #[serde(default = "once")]
    pub(crate) passes: u64,
    #[serde(default, deserialize_with = "stated")]
    pub(crate) arrivals: Option<Arrivals>,
    #[serde(default, deserialize_with = "stated")]
    pub(crate) slo: Option<Slo>,
}

/// Requests come by the clock, whatever became of those before.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arrivals {
    process: String,
    pub(crate) interval_us: u64,
}

impl Arrivals {
    /// Whether gaps are drawn from the seed; else all are the interval.
    pub(crate) fn are_drawn(&self) -> bool {
        self.process == "poisson"
    }
}

/// The result read at turn k is taken out of the cache when that turn is over, of the first so many agents.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quarantine {
    pub(crate) turn: u64,
    pub(crate) agents: u64,
}

/// Which arms, how often, with what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) arms: Vec<String>,
    reps: u64,
    #[serde(deserialize_with = "keyed")]
    pub(crate) arm_reps: BTreeMap<String, u64>,
    #[serde(default, deserialize_with = "keyed")]
    pub(crate) arm_turns: BTreeMap<String, u64>,
    pub(crate) threads: u64,
    pub(crate) kernels: String,
    pub(crate) chunk_tokens: u64,
    pub(crate) kv_pages: u64,
    #[serde(default = "lru")]
    pub(crate) eviction: String,
    /// First come, first served where it is left out.
    #[serde(default, deserialize_with = "stated")]
    pub(crate) admission: Option<Admission>,
    /// The mode's own where it is left out.
    #[serde(default, deserialize_with = "stated")]
    pub(crate) kv_dtype: Option<String>,
    /// How far below the greatest an id of another engine may be by our model.
    #[serde(default = "margin_millinats")]
    pub(crate) margin_millinats: u64,
    /// How long another engine may take for a request.
    #[serde(default = "request_limit_s")]
    pub(crate) request_limit_s: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Evidence {
    prompts: String,
    /// Traces end with what the cache holds.
    #[serde(default)]
    pub(crate) kv: bool,
}

fn once() -> u64 {
    1
}

fn turns() -> String {
    "turns".to_owned()
}

/// The margin of envelopes that name none.
pub(crate) fn margin_millinats() -> u64 {
    100
}

/// The limit of envelopes that name none.
pub(crate) fn request_limit_s() -> u64 {
    600
}

/// The policy of envelopes and traces that name none.
pub(crate) fn lru() -> String {
    "lru".to_owned()
}

impl Plan {
    /// Every arm and repetition in the order their processes run: repetition by repetition, odd ones backwards, so that an
    /// arm is as often early as late.
    pub(crate) fn rounds(&self) -> Vec<(&str, u64)> {
        let longest = self.arm_reps.values().copied().max().unwrap_or(0);
        let mut order = Vec::new();
        for rep in 0..longest {
            let asked = |arm: &&str| self.arm_reps.get(*arm).is_some_and(|reps| rep < *reps);
            let arms = self.arms.iter().map(String::as_str).filter(asked);
            let mut round: Vec<_> = arms.map(|arm| (arm, rep)).collect();
            if rep % 2 == 1 {
                round.reverse();
            }
            order.extend(round);
        }
        order
    }

    /// Known arms, each named once, each with a number of repetitions.
    fn check_arms(&self, knows: fn(&str) -> bool, notes: &mut Notebook) {
        notes.check(Layer::Format, !self.arms.is_empty(), || {
            "run.arms is empty".to_owned()
        });
        for (place, arm) in self.arms.iter().enumerate() {
            let known = knows(arm);
            notes.check(Layer::Format, known, || {
                format!("run.arms: no arm is called {arm:?}")
            });
            let first = !self.arms[..place].contains(arm);
            notes.check(Layer::Format, first, || {
                format!("run.arms names {arm:?} twice")
            });
        }
        let mut arms: Vec<&String> = self.arms.iter().collect();
        arms.sort_unstable();
        notes.same(
            Layer::Format,
            "keys of run.arm_reps",
            &self.arm_reps.keys().collect(),
            &arms,
        );
        for (arm, reps) in &self.arm_reps {
            notes.check(Layer::Format, (1..=MAX_REPS).contains(reps), || {
                format!("run.arm_reps.{arm} is {reps}, expected 1 to {MAX_REPS}")
            });
        }
    }
}

impl Work for Workload {
    fn knows_arm(arm: &str) -> bool {
        oracle::LADDER.contains(&arm) || arm == oracle::MOCK || is_served(arm)
    }

    fn check(&self, run: &Plan, evidence: &Evidence, notes: &mut Notebook) {
        notes.same(
            Layer::Format,
            "workload.kind",
            self.kind.as_str(),
            "session",
        );
        notes.same(Layer::Format, "workload.workers", &self.workers, &1);
        for (name, value) in [
            ("workload.agents", self.agents),
            ("workload.turns", self.turns),
            ("workload.prefix", self.prefix),
            ("workload.decode", self.decode),
            ("workload.passes", self.passes),
        ] {
            check_positive(name, value, notes);
        }
        notes.check(
            Layer::Format,
            oracle::logical_tokens(self).is_some(),
            || "workload asks for more tokens than 64 bits count".to_owned(),
        );
        tree::check(self, notes);
        self.check_turns(run, notes);
        self.check_passes(run, notes);
        let order = self.order.as_str();
        notes.check(Layer::Format, ["turns", "agents"].contains(&order), || {
            format!(
                "workload.order is {}, expected turns or agents",
                quote(order)
            )
        });
        notes.check(Layer::Format, self.can_quarantine(run), || {
            let asked = quote(&self.quarantine);
            format!("workload.quarantine is {asked}: a result is read at a turn from 1 on, a turn follows, and no agent is without a cache")
        });
        admission::check(self, run, notes);
        self.check_served(run, evidence, notes);
        self.check_arrivals(notes);
        goodput::check(self, run, notes);
    }
}

impl Workload {
    /// Limits somebody can mean, and of other engines nothing that only ours can do.
    fn check_served(&self, run: &Plan, evidence: &Evidence, notes: &mut Notebook) {
        for (name, value, most) in [
            ("run.margin_millinats", run.margin_millinats, 10_000),
            ("run.request_limit_s", run.request_limit_s, 7_200),
        ] {
            notes.check(Layer::Format, (1..=most).contains(&value), || {
                format!("{name} is {value}, expected 1 to {most}")
            });
        }
        let served = |arm: &String| is_served(arm);
        let any = run.arms.iter().any(served);
        let plain = self.quarantine.is_none() && !evidence.kv;
        notes.check(Layer::Format, plain || !any, || {
            "workload.quarantine and evidence.kv are not for arms that another engine answers"
                .to_owned()
        });
        let alone = any && run.arms.iter().all(served);
        notes.check(Layer::Format, !alone, || {
            "run.arms: other engines stand beside an arm of ours, and there is none".to_owned()
        });
    }

    /// A clock that requests can come by.
    fn check_arrivals(&self, notes: &mut Notebook) {
        let Some(arrivals) = &self.arrivals else {
            return;
        };
        let process = arrivals.process.as_str();
        let known = ["constant", "poisson"].contains(&process);
        notes.check(Layer::Format, known, || {
            let process = quote(process);
            format!("workload.arrivals.process is {process}, expected constant or poisson")
        });
        let interval_us = arrivals.interval_us;
        let fits = (1..=MAX_INTERVAL_US).contains(&interval_us);
        notes.check(Layer::Format, fits, || {
            format!(
                "workload.arrivals.interval_us is {interval_us}, expected 1 to {MAX_INTERVAL_US}"
            )
        });
        notes.check(Layer::Format, self.order != "agents", || {
            "workload.arrivals: where agents come one by one nothing comes by the clock".to_owned()
        });
        let requests = self.agents.saturating_mul(self.turns_asked());
        notes.check(Layer::Format, requests <= MAX_DUE, || {
            format!("workload.arrivals: {requests} requests, beyond the limit of {MAX_DUE}")
        });
    }

    /// Whether what is to be taken out can be.
    fn can_quarantine(&self, run: &Plan) -> bool {
        let scripted = run.arms.iter().any(|arm| arm == oracle::MOCK);
        self.quarantine.is_none_or(|asked| {
            let followed = asked.turn < self.turns.saturating_sub(1);
            asked.turn > 0
                && followed
                && (1..=self.agents).contains(&asked.agents)
                && self.result > 0
                && !scripted
        })
    }

    /// Requests of each agent.
    pub(crate) fn turns_asked(&self) -> u64 {
        self.turns.saturating_mul(self.passes)
    }

    /// What is asked again is the same session, of a cache of ours that keeps what it has.
    fn check_passes(&self, run: &Plan, notes: &mut Notebook) {
        let plain = self.quarantine.is_none() && self.arrivals.is_none() && self.order == "turns";
        let ours = run.arm_turns.is_empty() && !run.arms.iter().any(|arm| is_served(arm));
        let passes = self.passes;
        notes.check(Layer::Format, passes == 1 || (plain && ours), || {
            format!("workload.passes is {passes} beside a quarantine, arrivals, an order of agents, arm_turns or other engines")
        });
    }

    /// `arm_turns` is left out or names arms of the run that play fewer turns than the workload has.
    fn check_turns(&self, run: &Plan, notes: &mut Notebook) {
        for (arm, turns) in &run.arm_turns {
            let fewer = (1..self.turns).contains(turns);
            notes.check(Layer::Format, fewer && run.arms.contains(arm), || {
                format!(
                    "run.arm_turns.{arm} is {turns}, expected an arm of the run and fewer than {} turns",
                    self.turns
                )
            });
        }
    }
}

/// Notes a number that must be at least 1 and is not.
#[track_caller]
pub(crate) fn check_positive(name: &str, value: u64, notes: &mut Notebook) {
    notes.check(Layer::Format, value > 0, || {
        format!("{name} is 0, expected at least 1")
    });
}

impl<W: Work> Envelope<W> {
    /// Checks the envelope alone; `false` where nothing further can be derived from it.
    pub(crate) fn check(&self, notes: &mut Notebook) -> bool {
        let (before, run) = (notes.count(), &self.run);
        self.workload.check(run, &self.evidence, notes);
        notes.same(
            Layer::Format,
            "evidence.prompts",
            self.evidence.prompts.as_str(),
            "ids",
        );
        for (name, value) in [
            ("run.threads", run.threads),
            ("run.chunk_tokens", run.chunk_tokens),
            ("run.kv_pages", run.kv_pages),
            ("run.reps", run.reps),
        ] {
            check_positive(name, value, notes);
        }
        for (name, value, known) in [
            ("run.eviction", Some(&run.eviction), &EVICTIONS[..]),
            ("run.kv_dtype", run.kv_dtype.as_ref(), &KV_DTYPES[..]),
        ] {
            let is_known = value.is_none_or(|value| known.contains(&value.as_str()));
            notes.check(Layer::Format, is_known, || {
                let (value, known) = (quote(&value), known.join(", "));
                format!("{name} is {value}, expected one of {known}")
            });
        }
        run.check_arms(W::knows_arm, notes);
        let asked = run.arms.iter().any(|arm| arm == oracle::MOCK);
        notes.check(Layer::Format, asked == self.mock.is_some(), || {
            "mock: the arm of this name and its script go together".to_owned()
        });
        notes.count() == before
    }

    /// Every (arm, repetition) that must have a trace, arms in declared order.
    pub(crate) fn required(&self) -> impl Iterator<Item = (&str, u64)> {
        let reps = |arm: &String| self.run.arm_reps.get(arm).copied().unwrap_or(0);
        self.run
            .arms
            .iter()
            .flat_map(move |arm| (0..reps(arm)).map(|rep| (arm.as_str(), rep)))
    }
}

impl Envelope {
    /// The workload as `arm` plays it: its first turns only, where the envelope gives it fewer.
    pub(crate) fn workload_of(&self, arm: &str) -> Workload {
        let mut workload = self.workload.clone();
        if let Some(turns) = self.run.arm_turns.get(arm) {
            workload.turns = *turns;
        }
        workload
    }

    /// What is scripted for `arm`.
    pub(crate) fn script_of(&self, arm: &str) -> Option<Script> {
        self.mock.clone().filter(|_| arm == oracle::MOCK)
    }

    /// Requests whose answers are compared: of the arm of an engine of ours that makes most.
    pub(crate) fn requests(&self) -> u64 {
        let real = (self.run.arms.iter()).filter(|arm| *arm != oracle::MOCK && !is_served(arm));
        let turns = real.map(|arm| self.workload_of(arm).turns_asked());
        let most = turns.max().unwrap_or(0);
        self.workload.agents.saturating_mul(most)
    }
}
