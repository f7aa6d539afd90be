//! Arms of engine work: our engine with and without shared-prefix attention, and llama.cpp's benchmark either way it can
//! attend.
//!
//! Not here: how one runs (`baselines`) or what its command line is (`external`).

use crate::Error;

/// The arm every ratio is of.
pub const OURS: &str = "fak";

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// Our engine.
    Ours {
        /// Whether pages several requests share are attended once for up to eight neighbouring rows of a step.
        shared_attention: bool,
    },
    /// llama.cpp's own benchmark.
    LlamaBench {
        /// Whether it is told to use its fused attention.
        flash_attention: bool,
    },
}

/// One row of the arm table.
#[derive(Debug, PartialEq, Eq)]
pub struct CellArm {
    /// The name envelopes, traces and records use.
    pub name: &'static str,
    /// Who does the work.
    pub runner: Runner,
}

/// Every arm, in the order of tables.
pub const ARMS: [CellArm; 4] = [
    CellArm {
        name: OURS,
        runner: Runner::Ours {
            shared_attention: true,
        },
    },
    CellArm {
        name: "fak-unshared",
        runner: Runner::Ours {
            shared_attention: false,
        },
    },
    CellArm {
        name: "llama-bench:fa0",
        runner: Runner::LlamaBench {
            flash_attention: false,
        },
    },
    CellArm {
        name: "llama-bench:fa1",
        runner: Runner::LlamaBench {
            flash_attention: true,
        },
    },
];

impl CellArm {
    /// Whether it is another program.
    pub fn is_external(&self) -> bool {
        matches!(self.runner, Runner::LlamaBench { .. })
    }

    /// Who vouches for its times.
    pub fn provenance(&self) -> &'static str {
        if self.is_external() {
            "OBSERVED"
        } else {
            "WITNESSED"
        }
    }
}

/// The arm of this name.
pub fn named(name: &str) -> Result<&'static CellArm, Error> {
    ARMS.iter()
        .find(|arm| arm.name == name)
        .ok_or_else(|| Error::UnknownArm {
            name: name.to_owned(),
            known: names().join(", "),
        })
}

/// Every name.
pub fn names() -> Vec<&'static str> {
    ARMS.iter().map(|arm| arm.name).collect()
}
