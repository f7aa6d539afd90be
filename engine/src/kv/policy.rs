//! Which cached page goes first when room is needed.
//!
//! A policy gives each page that could go a rank; the tree keeps them in order and drops the least. Ranks are worked out
//! when a page is used or becomes free to go, so an eviction costs the logarithm of their number. Not here: which pages
//! may go at all (`radix`).

use std::fmt;
use std::str::FromStr;

/// What a policy may go by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// When it was cached, in uses of the tree.
    pub created: u64,
    /// When it was last found or cached again.
    pub last_used: u64,
    /// How often it was found.
    pub hits: u64,
    /// The greatest priority of the requests that used it.
    pub priority: i32,
    /// Position of its first token.
    pub first_position: usize,
    /// Tokens it holds.
    pub positions: usize,
    /// What [`EvictionPolicy::age`] was when it was last used.
    pub age: u64,
}

/// A page's place in the order of eviction; the least goes first.
pub type Rank = (u64, u64);

/// Decides the order of eviction.
pub trait EvictionPolicy: Send {
    /// The rank of a page as it stands.
    fn rank(&self, facts: &Facts) -> Rank;

    /// A page of this rank was dropped.
    fn evicted(&mut self, rank: Rank) {
        let _ = rank;
    }

    /// A clock that only evictions advance.
    fn age(&self) -> u64 {
        0
    }
}

/// The policies there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The longest unused goes first.
    #[default]
    Lru,
    /// The least often found goes first, among equals the longest unused.
    Lfu,
    /// The oldest goes first.
    Fifo,
    /// The least priority goes first, among equals the longest unused.
    Priority,
    /// The cheapest to compute again goes first; what stays unused grows cheaper with every eviction (GreedyDual, Young
    /// 1994).
    Cost,
}

impl Eviction {
    const ALL: [Self; 5] = [Self::Lru, Self::Lfu, Self::Fifo, Self::Priority, Self::Cost];

    /// The policy, for a model whose positions cost `recompute`.
    pub fn policy(self, recompute: Recompute) -> Box<dyn EvictionPolicy> {
        match self {
            Self::Lru => Box::new(Lru),
            Self::Lfu => Box::new(Lfu),
            Self::Fifo => Box::new(Fifo),
            Self::Priority => Box::new(Priority),
            Self::Cost => Box::new(Cost { recompute, age: 0 }),
        }
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lru => "lru",
            Self::Lfu => "lfu",
            Self::Fifo => "fifo",
            Self::Priority => "priority",
            Self::Cost => "cost",
        })
    }
}

impl FromStr for Eviction {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| {
            format!("eviction policy `{text}` is unknown; use lru, lfu, fifo, priority or cost")
        })
    }
}

/// Multiply-adds that the KV of a position takes: some for the weights, and some for each position before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recompute {
    /// Of a position, for the weights.
    pub position: u64,
    /// Of a position, for each one it attends to.
    pub attended: u64,
}

impl Recompute {
    /// Multiply-adds of `positions` from `first` on.
    pub fn of(self, first: usize, positions: usize) -> u64 {
        let (first, positions) = (first as u64, positions as u64);
        let attended = first
            .saturating_mul(positions)
            .saturating_add(positions.saturating_mul(positions + 1) / 2);
        self.position
            .saturating_mul(positions)
            .saturating_add(self.attended.saturating_mul(attended))
    }
}

struct Lru;

impl EvictionPolicy for Lru {
    fn rank(&self, facts: &Facts) -> Rank {
        (facts.last_used, 0)
    }
}

struct Lfu;

impl EvictionPolicy for Lfu {
    fn rank(&self, facts: &Facts) -> Rank {
        (facts.hits, facts.last_used)
    }
}

struct Fifo;

impl EvictionPolicy for Fifo {
    fn rank(&self, facts: &Facts) -> Rank {
        (facts.created, 0)
    }
}

struct Priority;

impl EvictionPolicy for Priority {
    fn rank(&self, facts: &Facts) -> Rank {
        let above_the_least = i64::from(facts.priority) - i64::from(i32::MIN);
        (above_the_least.unsigned_abs(), facts.last_used)
    }
}

/// Every page has the same bytes, so the cost per byte is the cost.
struct Cost {
    recompute: Recompute,
    age: u64,
}

impl EvictionPolicy for Cost {
    fn rank(&self, facts: &Facts) -> Rank {
        let cost = self.recompute.of(facts.first_position, facts.positions);
        (facts.age.saturating_add(cost), facts.last_used)
    }

    fn evicted(&mut self, rank: Rank) {
        self.age = self.age.max(rank.0);
    }

    fn age(&self) -> u64 {
        self.age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECOMPUTE: Recompute = Recompute {
        position: 100,
        attended: 1,
    };

    /// Index of the page that each policy drops first.
    fn first(eviction: Eviction, pages: &[Facts]) -> usize {
        let policy = eviction.policy(RECOMPUTE);
        let ranks = pages.iter().map(|facts| policy.rank(facts));
        let (index, _) = ranks.enumerate().min_by_key(|(_, rank)| *rank).unwrap();
        index
    }

    #[test]
    fn each_policy_drops_what_its_name_says() {
        let page = |created, last_used, hits, priority, first_position| Facts {
            created,
            last_used,
            hits,
            priority,
            first_position,
            positions: 64,
            age: 0,
        };
        let pages = [
            page(5, 6, 9, 2, 6400),
            page(4, 20, 1, 3, 640),
            page(3, 21, 2, 4, 1280),
            page(7, 22, 3, -1, 1920),
            page(8, 23, 4, 5, 0),
        ];
        let expected = [
            (Eviction::Lru, 0),
            (Eviction::Lfu, 1),
            (Eviction::Fifo, 2),
            (Eviction::Priority, 3),
            (Eviction::Cost, 4),
        ];
        for (eviction, index) in expected {
            assert_eq!(first(eviction, &pages), index, "{eviction}");
            assert_eq!(eviction.to_string().parse(), Ok(eviction));
        }
        let error = "mru".parse::<Eviction>().unwrap_err();
        assert!(error.contains("use lru, lfu"), "{error}");
    }

    #[test]
    fn a_dear_page_that_nobody_uses_goes_in_the_end() {
        let mut policy = Eviction::Cost.policy(RECOMPUTE);
        let facts = |first_position, age| Facts {
            first_position,
            age,
            positions: 64,
            ..Facts::default()
        };
        let dear = policy.rank(&facts(100_000, 0));
        let mut dropped = 0;
        loop {
            let cheap = policy.rank(&facts(0, policy.age()));
            if dear < cheap {
                break;
            }
            policy.evicted(cheap);
            dropped += 1;
        }
        let ratio = RECOMPUTE.of(100_000, 64) / RECOMPUTE.of(0, 64);
        assert_eq!(dropped, ratio);
    }
}
