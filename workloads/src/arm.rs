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

/// One row of the arm table.
#[derive(Debug, PartialEq, Eq)]
pub struct Arm {
    /// The name envelopes, traces and records use.
    pub name: &'static str,
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
        cache: Cache::None,
        spans_workers: false,
        batched: false,
        shared_attention: false,
        stands_for: "a floor nobody ships: the whole context again every turn",
        note: None,
    },
    Arm {
        name: "agent-kv",
        cache: Cache::Session,
        spans_workers: false,
        batched: false,
        shared_attention: false,
        stands_for: "one warm cache per agent, one agent at a time",
        note: None,
    },
    Arm {
        name: "agent-kv-batched",
        cache: Cache::Session,
        spans_workers: false,
        batched: true,
        shared_attention: false,
        stands_for: "the same, agents batched: isolates batching",
        note: None,
    },
    Arm {
        name: "instance-shared",
        cache: Cache::Shared,
        spans_workers: false,
        batched: true,
        shared_attention: false,
        stands_for: "what a tuned engine does in one instance: the arm to beat",
        note: None,
    },
    Arm {
        name: "fused",
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
    cache: Cache::None,
    spans_workers: false,
    batched: false,
    shared_attention: false,
    stands_for: "nobody: times scripted in the envelope, to measure the harness with",
    note: Some("scripted: it computes nothing, and its answers are compared with nobody's"),
};

impl Arm {
    /// Who vouches for its figures.
    pub fn provenance(&self) -> &'static str {
        if self.name == MOCK.name {
            "SIMULATED"
        } else {
            "WITNESSED"
        }
    }
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
    ARMS.iter().chain([&MOCK])
}

/// Every name an envelope may ask for: the ladder's, then the scripted arm's.
pub fn every_name() -> Vec<&'static str> {
    every().map(|arm| arm.name).collect()
}

/// The ladder's names, in its order.
pub fn names() -> Vec<&'static str> {
    ARMS.iter().map(|arm| arm.name).collect()
}
