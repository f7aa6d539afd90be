//! One goal handed to many agents: four quantities that reports like to mix, each on its own.
//!
//! The critical path is arithmetic and knows no engine (MODELED). Calls saved by sharing answers among agents are counted on
//! made-up calls (SIMULATED), with two controls that must give nothing: one agent, and agents that have nothing in common.
//! Prefix tokens not computed again follow from the oracle (MODELED). What an engine takes is no part of this: that is
//! measured, by an envelope. Cost model and profiles are those of the reference system's published runs (QUOTED).

use std::collections::BTreeSet;

use serde::Serialize;

use crate::splitmix::SplitMix64;

/// Tokens of each result that the one who handed out the goal reads.
const RESULT_TOKENS: u64 = 200;
/// Tokens it reads in a turn.
const FOLD_TOKENS: u64 = 4000;
/// Calls it makes before it hands out anything.
const PLAN_CALLS: u64 = 4;
/// Answers a goal's agents have in common.
const GOAL_POOL: u32 = 8;
/// Thousandths of a probability: draws are out of this.
const THOUSAND: u32 = 1000;
/// Keys that keep draws of trials apart from those of ids.
const CALLS: u64 = 4;

/// N agents, T turns of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fanout {
    /// N.
    pub agents: u64,
    /// T.
    pub turns: u64,
    /// P: tokens all agents begin with.
    pub prefix: u64,
}

/// Turns of a fan-out: how many there are, and how many of them must wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Path {
    /// Turns in which the results are read: N results of 200 tokens, 4000 a turn.
    pub fold_turns: u64,
    /// 1 + N·T + those.
    pub total_turns: u64,
    /// 1 + T + those, if all agents work at once.
    pub critical_turns: u64,
}

/// How often calls fall into each class, in thousandths; what is left is asked by nobody else and never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// What it is called.
    pub name: &'static str,
    /// Out of the pool that all agents of a goal have in common.
    pub shared: u32,
    /// What the same agent asked before.
    pub private: u32,
    /// The same as that, said otherwise.
    pub alias: u32,
    /// Answered without a call: computable.
    pub pure: u32,
    /// Answered without a call: never changes.
    pub fixed: u32,
    /// Changes what others would be answered: nothing common is known any more.
    pub write: u32,
}

/// The profiles of the published runs; the last is a control.
pub const PROFILES: [Profile; 3] = [
    Profile {
        name: "research-goal",
        shared: 550,
        private: 150,
        alias: 60,
        pure: 60,
        fixed: 40,
        write: 0,
    },
    Profile {
        name: "write-goal",
        shared: 400,
        private: 100,
        alias: 50,
        pure: 50,
        fixed: 50,
        write: 250,
    },
    Profile {
        name: "no-share",
        shared: 0,
        private: 200,
        alias: 60,
        pure: 60,
        fixed: 40,
        write: 0,
    },
];

/// Calls that need not be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Saved {
    /// Calls in all.
    pub calls: u64,
    /// Not made where all agents know each other's answers.
    pub shared: u64,
    /// Not made where each knows its own.
    pub isolated: u64,
}

impl Saved {
    /// What sharing adds.
    pub fn uplift(&self) -> u64 {
        self.shared - self.isolated
    }
}

impl Fanout {
    /// The turns; `None` beyond 64 bits.
    pub fn path(&self) -> Option<Path> {
        let fold_turns = self
            .agents
            .checked_mul(RESULT_TOKENS)?
            .div_ceil(FOLD_TOKENS);
        let worked = self.agents.checked_mul(self.turns)?;
        Some(Path {
            fold_turns,
            total_turns: worked.checked_add(1)?.checked_add(fold_turns)?,
            critical_turns: self.turns.checked_add(1)?.checked_add(fold_turns)?,
        })
    }

    /// Prefix tokens that are not computed again where all agents find the first one's: (N - 1)·P; `None` beyond 64 bits.
    pub fn prefix_tokens_saved(&self) -> Option<u64> {
        self.agents.saturating_sub(1).checked_mul(self.prefix)
    }

    /// Calls saved in one trial of made-up calls. Agents take turns; each call is drawn for its agent and its turn alone, so
    /// that both ways of knowing see the same calls.
    pub fn saved(&self, profile: &Profile, seed: u64, trial: u64) -> Saved {
        // Of the pool, known to all and to each; of their own, known to each.
        let (mut common, mut each, mut own) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut saved = Saved::default();
        // Whoever plans is the first agent, so that one agent alone shares with nobody.
        let planned = (0..PLAN_CALLS).map(|call| (0, u64::MAX - call));
        let worked = (0..self.turns).flat_map(|turn| (0..self.agents).map(move |it| (it, turn)));
        for (agent, turn) in planned.chain(worked) {
            saved.calls += 1;
            let mut draws = SplitMix64::keyed(&[seed, CALLS, trial, agent, turn]);
            match profile.draw(&mut draws) {
                // Known to both without asking.
                Class::Computed => {
                    saved.shared += 1;
                    saved.isolated += 1;
                }
                Class::Own => {
                    // The agent's one thing of its own, asked again.
                    let known = u64::from(!own.insert(agent));
                    saved.shared += known;
                    saved.isolated += known;
                }
                Class::Shared(which) => {
                    saved.isolated += u64::from(!each.insert((agent, which)));
                    saved.shared += u64::from(!common.insert(which));
                }
                Class::Write => {
                    common.clear();
                    each.clear();
                }
                Class::Unique => {}
            }
        }
        saved
    }
}

/// What a call is.
enum Class {
    Shared(u32),
    Own,
    Computed,
    Write,
    Unique,
}

impl Profile {
    /// The profile of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    fn draw(&self, draws: &mut SplitMix64) -> Class {
        let mut left = draws.below(THOUSAND);
        let mut falls = |share: u32| {
            let inside = left < share;
            left = left.wrapping_sub(if inside { 0 } else { share });
            inside
        };
        if falls(self.shared) {
            Class::Shared(draws.below(GOAL_POOL))
        } else if falls(self.private + self.alias) {
            Class::Own
        } else if falls(self.pure + self.fixed) {
            Class::Computed
        } else if falls(self.write) {
            Class::Write
        } else {
            Class::Unique
        }
    }
}
