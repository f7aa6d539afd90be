//! The generator of client-supplied ids, written from FORMAT.md, and whether stated ids are its.
//!
//! The generator draws from the ordinary ids of a vocabulary, a range no file states. It need not be known: each id a
//! draw gives bounds it, and a trace passes where some range gives all of its ids. Not here: where in a trace ids stand
//! (`session`, `cell`).

use crate::notebook::{Layer, Notebook};
use crate::statistics::splitmix64;
use crate::tree::Tree;

/// Ordinary ids begin below this: what is special in a vocabulary precedes them.
const MAX_START: u32 = 1 << 16;
/// Keys that keep the kinds of draw apart.
const PREFIX: u64 = 0;
const FIRST: u64 = 1;
const REST: u64 = 2;
const NODE_FIRST: u64 = 4;
const NODE_REST: u64 = 5;
/// And the gaps between requests that come by the clock.
pub(crate) const GAPS: u64 = 3;

/// Notes ids that are not the seed's.
#[track_caller]
pub(crate) fn check_seeded(given: bool, ids: usize, notes: &mut Notebook) {
    notes.check(Layer::Seed, given, || {
        "the ids are not those of the declared seed, whatever the vocabulary".to_owned()
    });
    notes.recomputed("seeded ids", ids as u64);
}

/// Where the stream of these keys stands before its first number.
pub(crate) fn stream(seed: u64, keys: &[u64]) -> u64 {
    let mut state = 0;
    for key in [seed].iter().chain(keys) {
        state = splitmix64(&mut state) ^ key;
    }
    state
}

/// What is left of the possible ranges after the ids seen so far.
pub(crate) struct Seeded {
    seed: u64,
    /// `None` before the first id.
    ranges: Option<Vec<Ranges>>,
}

/// Ranges of ids with one start: those of `low` to `high` ids.
#[derive(Clone, Copy)]
struct Ranges {
    start: u32,
    low: u128,
    high: u128,
}

/// One number of the generator, and the id that was made of it.
struct Draw {
    number: u64,
    id: u32,
    /// How far the id is moved on from where the number says, around the end of the range.
    ahead: u64,
}

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ranges: None }
    }

    /// Whether `ids` can be the text everyone starts with, but for the first so many, which are drawn and not used.
    pub(crate) fn is_prefix(&mut self, ids: &[u32], unused: usize) -> bool {
        let draws = self.draws(&[PREFIX], ids);
        self.narrow(draws.get(unused..).unwrap_or_default())
    }

    /// Whether `ids` can be what `agent` appends at `turn`, beside what was seen before.
    pub(crate) fn is_own(&mut self, agent: u64, turn: u64, ids: &[u32]) -> bool {
        let Some((first, rest)) = ids.split_first() else {
            return true;
        };
        let mut draws = self.draws(&[FIRST, turn], &[*first]);
        draws[0].ahead = agent;
        draws.extend(self.draws(&[REST, agent, turn], rest));
        self.narrow(&draws)
    }

    /// Whether `ids` can be the texts on `agent`'s way through a tree, beside what was seen before.
    pub(crate) fn is_way(&mut self, tree: &Tree, agent: u64, ids: &[u32]) -> bool {
        let of_node = usize::try_from(tree.tokens).unwrap_or(usize::MAX).max(1);
        let texts = ids.chunks(of_node).zip(tree.way(agent));
        let mut draws = Vec::new();
        for (text, (level, node)) in texts {
            let Some((first, rest)) = text.split_first() else {
                continue;
            };
            let mut apart = self.draws(&[NODE_FIRST, level], &[*first]);
            apart[0].ahead = node;
            draws.extend(apart);
            draws.extend(self.draws(&[NODE_REST, level, node], rest));
        }
        self.narrow(&draws)
    }

    fn draws(&self, keys: &[u64], ids: &[u32]) -> Vec<Draw> {
        let mut state = stream(self.seed, keys);
        let mut draw = |id: &u32| Draw {
            number: splitmix64(&mut state),
            id: *id,
            ahead: 0,
        };
        ids.iter().map(&mut draw).collect()
    }

    /// Keeps the ranges that give all of these; where there are none, what was known before stays.
    fn narrow(&mut self, draws: &[Draw]) -> bool {
        let mut ranges = self.ranges.clone().unwrap_or_else(|| {
            let all = |start| Ranges {
                start,
                low: 1,
                high: 1 << 32,
            };
            (0..MAX_START).map(all).collect()
        });
        // Cheap, and leaves few ranges to divide for.
        let least = draws.iter().map(|draw| draw.id).min().unwrap_or(u32::MAX);
        ranges.retain(|range| range.start <= least);
        for draw in draws {
            ranges.retain_mut(|range| range.narrow(draw));
        }
        let some = !ranges.is_empty();
        if some {
            self.ranges = Some(ranges);
        }
        some
    }
}

impl Ranges {
    /// Keeps the lengths `n` of range that give this draw: `id` = start + (floor(number · n / 2^64) + ahead) mod n.
    fn narrow(&mut self, draw: &Draw) -> bool {
        let Some(place) = draw.id.checked_sub(self.start) else {
            return false;
        };
        let (place, ahead) = (u128::from(place), u128::from(draw.ahead));
        let (low, high) = if let Some(drawn) = place.checked_sub(ahead) {
            lengths(draw.number, drawn)
        } else {
            // Around the end: the number gives n less this many.
            lengths_from_end(draw.number, ahead - place)
        };
        self.low = self.low.max(low).max(place.max(ahead) + 1);
        self.high = self.high.min(high);
        self.low <= self.high
    }
}

/// Lengths n with floor(number · n / 2^64) = `drawn`, from the least to the greatest.
fn lengths(number: u64, drawn: u128) -> (u128, u128) {
    let number = u128::from(number);
    if number == 0 {
        return if drawn == 0 { (1, u128::MAX) } else { (1, 0) };
    }
    let least = (drawn << 64).div_ceil(number);
    let beyond = ((drawn + 1) << 64).div_ceil(number);
    (least, beyond - 1)
}

/// Lengths n with floor(number · n / 2^64) = n - `missing`; `missing` is at least 1.
fn lengths_from_end(number: u64, missing: u128) -> (u128, u128) {
    let rest = (1_u128 << 64) - u128::from(number);
    let before = ((missing - 1) << 64) / rest;
    (before + 1, (missing << 64) / rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generator, forwards: what FORMAT.md says, for a range that is known.
    fn ids(seed: u64, keys: &[u64], (start, length): (u32, u64), count: usize) -> Vec<u32> {
        let mut state = 0;
        for key in [seed].iter().chain(keys) {
            state = splitmix64(&mut state) ^ key;
        }
        let mut draw = || (u128::from(splitmix64(&mut state)) * u128::from(length)) >> 64;
        (0..count).map(|_| start + draw() as u32).collect()
    }

    fn first(seed: u64, turn: u64, agent: u64, (start, length): (u32, u64)) -> u32 {
        let drawn = u64::from(ids(seed, &[FIRST, turn], (0, length), 1)[0]);
        start + ((drawn + agent) % length) as u32
    }

    fn own(seed: u64, agent: u64, turn: u64, range: (u32, u64)) -> Vec<u32> {
        let rest = ids(seed, &[REST, agent, turn], range, 11);
        [vec![first(seed, turn, agent, range)], rest].concat()
    }

    #[test]
    fn what_the_generator_gives_is_recognised_whatever_the_range() {
        for (seed, range) in [
            (1, (0, 258)),
            (7, (17, 49_135)),
            (9, (3, 5)),
            (2, (0, 70_000)),
        ] {
            let mut seeded = Seeded::new(seed);
            assert!(seeded.is_prefix(&ids(seed, &[PREFIX], range, 100), 0));
            for (agent, turn) in (0..5).flat_map(|agent| (0..40).map(move |turn| (agent, turn))) {
                let ids = own(seed, agent, turn, range);
                assert!(
                    seeded.is_own(agent, turn, &ids),
                    "{seed} {range:?} {agent} {turn}"
                );
            }
        }
    }

    #[test]
    fn any_id_moved_by_one_is_found_once_the_range_is_known() {
        let (seed, range) = (1, (17, 49_135));
        let mut seeded = Seeded::new(seed);
        assert!(seeded.is_prefix(&ids(seed, &[PREFIX], range, 2_048), 0));
        let honest = own(seed, 2, 3, range);
        for place in 0..honest.len() {
            for lie in [honest[place] + 1, honest[place] - 1] {
                let mut ids = honest.clone();
                ids[place] = lie;
                assert!(!seeded.is_own(2, 3, &ids), "{place}");
            }
        }
        assert!(!seeded.is_own(1, 3, &honest) && !seeded.is_own(2, 4, &honest));
        assert!(seeded.is_own(2, 3, &honest));
    }

    #[test]
    fn another_seed_is_found_without_any_range() {
        assert!(!Seeded::new(2).is_prefix(&ids(1, &[PREFIX], (0, 258), 100), 0));
    }

    #[test]
    fn an_id_put_in_place_of_the_first_leaves_the_others_where_they_were() {
        let mut text = ids(1, &[PREFIX], (17, 49_135), 100);
        text[0] = 1;
        assert!(!Seeded::new(1).is_prefix(&text, 0));
        assert!(Seeded::new(1).is_prefix(&text, 1));
        text.remove(1);
        assert!(!Seeded::new(1).is_prefix(&text, 1));
        assert!(Seeded::new(1).is_prefix(&[], 1));
    }
}
