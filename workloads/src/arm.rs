//! The arms: which cache each has, whether it batches, and what it stands for, in ladder order.
//!
//! Not here: how an arm runs (`baselines`) or what it must compute (`oracle`).

use crate::Error;

/// What an arm may find in its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Nothing: the whole context again every turn.
    None,
    /// What the same session computed.
    Session,
    /// Anything the same worker computed.
    Shared,
}

impl Cache {
    /// The word of traces and records.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Session => "session",
            Self::Shared => "shared",
        }
    }
}

/// What answers an arm's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// Our engine.
    Engine,
    /// A script of times.
    Script,
    /// llama.cpp's server.
    LlamaServer(LlamaServer),
}

/// How llama.cpp's server is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlamaServer {
    /// Whether the prefix is computed in one slot and copied to the others through a file: its one way to share what is
    /// in use.
    pub copies_prefix: bool,
    /// Whether it is told to use its fused attention.
    pub flash_attention: bool,
}

/// One row of the arm table.
#[derive(Debug, PartialEq, Eq)]
pub struct Arm {
    /// The name envelopes, traces and records use.
    pub name: &'static str,
    /// What answers.
    pub runner: Runner,
    /// What it may find in its cache.
    pub cache: Cache,
    /// Whether one cache serves every worker.
    pub spans_workers: bool,
    /// Whether requests of different agents share engine steps.
    pub batched: bool,
    /// Whether agents that hold a page together attend it together.
    pub shared_attention: bool,
    /// Whom it represents in a comparison.
    pub stands_for: &'static str,
    /// What a reader of its figures must know.
    pub note: Option<&'static str>,
}

/// The ladder: each arm differs from the one before by one mechanism.
pub const ARMS: [Arm; 5] = [
    Arm {
        name: "naive",
        runner: Runner::Engine,
        cache: Cache::None,
        spans_workers: false,
        batched: false,
        shared_attention: false,
        stands_for: "a floor nobody ships: the whole context again every turn",
        note: None,
    },
    Arm {
        name: "agent-kv",
        runner: Runner::Engine,
        cache: Cache::Session,
        spans_workers: false,
        batched: false,
        shared_attention: false,
        stands_for: "one warm cache per agent, one agent at a time",
        note: None,
    },
    Arm {
        name: "agent-kv-batched",
        runner: Runner::Engine,
        cache: Cache::Session,
        spans_workers: false,
        batched: true,
        shared_attention: false,
        stands_for: "the same, agents batched: isolates batching",
        note: None,
    },
    Arm {
        name: "instance-shared",
        runner: Runner::Engine,
        cache: Cache::Shared,
        spans_workers: false,
        batched: true,
        shared_attention: false,
        stands_for: "what a tuned engine does in one instance: the arm to beat",
        note: None,
    },
    Arm {
        name: "fused",
        runner: Runner::Engine,
        cache: Cache::Shared,
        spans_workers: true,
        batched: true,
        shared_attention: true,
        stands_for: "this engine: one cache for all workers and sessions, shared-prefix attention",
        note: Some("instance-shared with shared-prefix attention until several workers are in"),
    },
];

/// The scripted arm: no rung of the ladder, for what it answers is made up.
pub const MOCK: Arm = Arm {
    name: "mock",
    runner: Runner::Script,
    cache: Cache::None,
    spans_workers: false,
    batched: false,
    shared_attention: false,
    stands_for: "nobody: times scripted in the envelope, to measure the harness with",
    note: Some("scripted: it computes nothing, and its answers are compared with nobody's"),
};

/// Other engines. The name alone means without fused attention, which is the faster way for fleets on the CPUs it was tried on
/// (`session-50x5-f16`, `engine-fleet`); a single agent's prompt and a long context decoded alone are faster with it.
pub const SERVERS: [Arm; 6] = [
    agents("llama-server:agent", false, false),
    agents("llama-server:agent-fa1", false, true),
    agents("llama-server:agent-batched", true, false),
    agents("llama-server:agent-batched-fa1", true, true),
    copies("llama-server:shared", false),
    copies("llama-server:shared-fa1", true),
];

/// A slot per agent, warm.
const fn agents(name: &'static str, batched: bool, flash_attention: bool) -> Arm {
    Arm {
        name,
        runner: Runner::LlamaServer(LlamaServer {
            copies_prefix: false,
            flash_attention,
        }),
        cache: Cache::Session,
        spans_workers: false,
        batched,
        shared_attention: false,
        stands_for: if batched {
            "llama.cpp's server, a warm slot per agent, all in flight"
        } else {
            "llama.cpp's server, a warm slot per agent, one agent at a time"
        },
        note: None,
    }
}

/// The prefix computed once and copied to every agent's slot, all in flight.
const fn copies(name: &'static str, flash_attention: bool) -> Arm {
    Arm {
        name,
        runner: Runner::LlamaServer(LlamaServer {
            copies_prefix: true,
            flash_attention,
        }),
        cache: Cache::Shared,
        spans_workers: false,
        batched: true,
        shared_attention: false,
        stands_for: "llama.cpp's server, the prefix copied to every slot (its best way to share), all in flight",
        note: Some(
            "shares the prefix by copies made before the first turn; slots hold it each on its own",
        ),
    }
}

impl Arm {
    /// Who vouches for its figures.
    pub fn provenance(&self) -> &'static str {
        match self.runner {
            Runner::Engine => "WITNESSED",
            Runner::Script => "SIMULATED",
            Runner::LlamaServer(_) => "OBSERVED",
        }
    }

    /// Whether another engine answers.
    pub fn is_server(&self) -> bool {
        matches!(self.runner, Runner::LlamaServer(_))
    }

    /// The arm of ours that has its cache and batches as it does.
    pub fn of_ours_alike(&self) -> Option<&'static Arm> {
        let alike = |ours: &&Arm| (ours.cache, ours.batched) == (self.cache, self.batched);
        ARMS.iter().find(alike)
    }
}

/// Whether this names an arm that another engine answers.
pub fn is_server(name: &str) -> bool {
    SERVERS.iter().any(|arm| arm.name == name)
}

/// How files and the order of a run call a repetition of an arm.
pub fn stem(name: &str, rep: usize) -> String {
    format!("{}-{rep}", name.replace(':', "."))
}

/// The arm of this name.
pub fn named(name: &str) -> Result<&'static Arm, Error> {
    every()
        .find(|arm| arm.name == name)
        .ok_or_else(|| Error::UnknownArm {
            name: name.to_owned(),
            known: every_name().join(", "),
        })
}

fn every() -> impl Iterator<Item = &'static Arm> {
    ARMS.iter().chain([&MOCK]).chain(&SERVERS)
}

/// Every name an envelope may ask for: the ladder's, the scripted arm's, then those of other engines.
pub fn every_name() -> Vec<&'static str> {
    every().map(|arm| arm.name).collect()
}

/// The ladder's names, in its order.
pub fn names() -> Vec<&'static str> {
    ARMS.iter().map(|arm| arm.name).collect()
}
