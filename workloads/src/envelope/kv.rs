//! What an envelope says of the cache under strain: who is evicted, in which type keys and values are kept, in which order
//! agents come, and what is taken out midway.
//!
//! Not here: who does it (`engine`), or what it must cost (`oracle`).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::check::Refusal;
use super::{RunAsked, Workload};
use crate::arm::MOCK;

/// Whose turn is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Every agent's turn before anybody's next: round robin.
    #[default]
    Turns,
    /// One agent's whole session, then the next agent's.
    Agents,
}

/// What the result an agent was handed costs once it is found to be bad: cut out as soon as the turn that read it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quarantine {
    /// The turn before which the result was appended: at least 1, and at least one turn follows.
    pub turn: usize,
    /// The first so many agents have theirs quarantined.
    pub agents: usize,
}

/// Which cached pages go first when room is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// Those longest unused.
    #[default]
    Lru,
    /// Those least often found.
    Lfu,
    /// Those written first.
    Fifo,
    /// Those of the requests least cared for: agent 0's are kept longest.
    Priority,
    /// Those cheapest to compute again, for what they hold.
    Cost,
}

/// The element type of cached keys and values, where the mode does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvDtype {
    /// 4 bytes an element.
    F32,
    /// 2 bytes.
    F16,
    /// One byte, and a 2-byte scale for 32 of them.
    #[serde(rename = "q8_0")]
    Q8_0,
}

impl Eviction {
    /// The word of envelopes and traces.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Lfu => "lfu",
            Self::Fifo => "fifo",
            Self::Priority => "priority",
            Self::Cost => "cost",
        }
    }
}

impl KvDtype {
    /// The word of envelopes and traces.
    pub fn word(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
        }
    }
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { turn, agents } = self;
        write!(f, "{{ turn = {turn}, agents = {agents} }}")
    }
}

/// Whether a field has its default, and is left out of envelope.json as it was before there was such a field.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Refuses a quarantine of nothing, of agents there are not, or after which nothing comes.
pub(super) fn check_quarantine(workload: &Workload, run: &RunAsked) -> Result<(), Refusal> {
    let Some(asked) = workload.quarantine else {
        return Ok(());
    };
    let (agents, turns) = (workload.agents, workload.turns);
    let wanted = if asked.turn == 0 || asked.turn + 2 > turns {
        format!("a turn from 1 on with one after it: workload.turns is {turns}, the first is 0")
    } else if !(1..=agents).contains(&asked.agents) {
        format!("1 to {agents} agents, of which workload.agents has so many")
    } else if run.arms.iter().any(|arm| arm == MOCK.name) {
        format!("no arm {} in run.arms: it keeps nothing", MOCK.name)
    } else {
        return Ok(());
    };
    Err(Refusal::new("workload.quarantine", asked, wanted))
}

/// Refuses for cells what only sessions have.
pub(crate) fn refuse_for_cells(run: &RunAsked, kv_kept: bool) -> Result<(), Refusal> {
    let refuse = |field, value: &str| {
        let wanted = "nothing: only sessions are run under strain of the cache";
        Err(Refusal::new(field, value, wanted))
    };
    if run.eviction != Eviction::default() {
        return refuse("run.eviction", run.eviction.word());
    }
    match run.kv_dtype {
        Some(kv_dtype) => refuse("run.kv_dtype", kv_dtype.word()),
        None if kv_kept => refuse("evidence.kv", "true"),
        None => Ok(()),
    }
}
