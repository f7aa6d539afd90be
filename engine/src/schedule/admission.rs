//! Who of those that wait is let in next: whoever came first, or whoever would find most in the cache, with a bound on how
//! often anybody is overtaken.
//!
//! A driver submits a turn once the one before it is answered, so of each conversation one request waits, and only what may
//! be asked is chosen from. Not here: whether a request can run now (`engine`), or what it finds (`cache`).

use std::cmp::Reverse;

/// In which order waiting requests are tried. It decides what is found and who waits, never an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// In the order they came. Whoever does not fit is passed by those who do, however often.
    #[default]
    FirstCome,
    /// Whoever would find most in the cache, the first come of equals. One that later-comers were admitted before so often
    /// goes before all others, and while it cannot run nobody who came later is admitted.
    ///
    /// Each attempt to admit looks up every waiting request once (and hashes its prompt, once anything is barred), so a step
    /// that admits `k` of `n` takes `(k + 1)n` lookups and sorts of `n`; first come, first served takes two for each of the `n`.
    /// A look leaves no trace: only what is admitted makes pages look used. Rotated pages are found, but not counted on.
    CacheAware {
        /// How often later-comers may be admitted before a request, at most; 0 is strictly first come, first served.
        overtaken_max: usize,
    },
}

/// A request that waits.
struct Waiting<R> {
    request: R,
    /// How many that came later were admitted while it waited.
    overtaken: usize,
    /// It could not run when it was last tried, and nothing that is admitted since changes that.
    refused: bool,
}

/// Those that wait, in the order they came.
pub struct Line<R> {
    waiting: Vec<Waiting<R>>,
}

impl<R> Default for Line<R> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
        }
    }
}

impl<R> Line<R> {
    /// One more, at its end.
    pub fn push(&mut self, request: R) {
        self.waiting.push(Waiting {
            request,
            overtaken: 0,
            refused: false,
        });
    }

    /// Those that wait, in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.waiting.iter().map(|it| &it.request)
    }

    /// Lets those go that are not wanted any more; whether there were any.
    pub fn retain(&mut self, wanted: impl Fn(&R) -> bool) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|it| wanted(&it.request));
        self.waiting.len() < before
    }

    /// Something changed: whoever was refused may be tried again.
    pub fn try_again(&mut self) {
        for waiting in &mut self.waiting {
            waiting.refused = false;
        }
    }

    /// Places in line, in the order in which they are to be tried until one is admitted; `finds` says how much of a request
    /// is cached.
    ///
    /// Whoever overtakes a request came later than all before it as well, so that nobody was overtaken more often than the
    /// first in line: the bound is kept by looking at that one alone.
    pub fn order(&self, by: Admission, finds: impl Fn(&R) -> usize) -> Vec<usize> {
        let left = || (0..self.waiting.len()).filter(|&place| !self.waiting[place].refused);
        let Admission::CacheAware { overtaken_max } = by else {
            return left().collect();
        };
        let first = self.waiting.first();
        if first.is_some_and(|it| it.overtaken >= overtaken_max) {
            return left().take_while(|&place| place == 0).collect();
        }
        let mut order: Vec<usize> = left().collect();
        order.sort_by_cached_key(|&place| (Reverse(finds(&self.waiting[place].request)), place));
        order
    }

    /// The request at a place in line.
    pub fn at(&self, place: usize) -> &R {
        &self.waiting[place].request
    }

    /// It cannot run now.
    pub fn refuse(&mut self, place: usize) {
        self.waiting[place].refused = true;
    }

    /// It goes, before all that came earlier.
    pub fn admit(&mut self, place: usize) -> R {
        for passed in &mut self.waiting[..place] {
            passed.overtaken += 1;
        }
        self.waiting.remove(place).request
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What happens around a line: someone comes, or as many are let in as can run.
    #[derive(Clone, Debug)]
    enum Act {
        Come,
        LetIn { seed: u64, room: usize },
        Leave(u64),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            3 => Just(Act::Come),
            2 => (any::<u64>(), 0..4_usize).prop_map(|(seed, room)| Act::LetIn { seed, room }),
            1 => (0..40_u64).prop_map(Act::Leave),
        ]
    }

    /// Some number of each request, another at each attempt.
    fn drawn(seed: u64, request: u64, below: u64) -> u64 {
        let mixed = (seed ^ request.wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed >> 33) % below
    }

    /// Whether a request can run at all at this attempt.
    fn can_run(seed: u64, request: u64) -> bool {
        drawn(seed, request, 3) > 0
    }

    /// What it finds, with few values, so that many are equal. Whoever was let in before changes it.
    fn finds(seed: u64, admitted: usize, request: u64) -> usize {
        drawn(seed.rotate_left(17) ^ admitted as u64, request, 4) as usize
    }

    /// The definition, word for word: who came, in order, and for each who was admitted before it though it came later.
    #[derive(Default)]
    struct Twin {
        waiting: Vec<u64>,
        passed_by: std::collections::BTreeMap<u64, Vec<u64>>,
    }

    impl Twin {
        fn overtaken(&self, request: u64) -> usize {
            self.passed_by.get(&request).map_or(0, Vec::len)
        }

        /// The one to admit next of those that can run.
        fn next(
            &self,
            by: Admission,
            can_run: impl Fn(u64) -> bool,
            finds: impl Fn(u64) -> usize,
        ) -> Option<u64> {
            let able = self.waiting.iter().copied().filter(|it| can_run(*it));
            let Admission::CacheAware { overtaken_max } = by else {
                return able.min();
            };
            let patient = |it: &u64| self.overtaken(*it) >= overtaken_max;
            let first_patient = self.waiting.iter().copied().filter(patient).min();
            let allowed: Vec<u64> = able
                .filter(|it| first_patient.is_none_or(|first| *it <= first))
                .collect();
            if let Some(first) = first_patient.filter(|first| allowed.contains(first)) {
                return Some(first);
            }
            let most = allowed.iter().map(|it| finds(*it)).max()?;
            allowed.into_iter().filter(|it| finds(*it) == most).min()
        }

        fn admit(&mut self, request: u64) {
            self.waiting.retain(|it| *it != request);
            for earlier in self.waiting.iter().filter(|it| **it < request) {
                self.passed_by.entry(*earlier).or_default().push(request);
            }
        }
    }

    /// Lets in up to `room`, as the engine does; who, in order.
    fn let_in(line: &mut Line<u64>, by: Admission, seed: u64, room: usize) -> Vec<u64> {
        let mut admitted = Vec::new();
        line.try_again();
        'next: while admitted.len() < room {
            let found = |request: &u64| finds(seed, admitted.len(), *request);
            for place in line.order(by, found) {
                if can_run(seed, *line.at(place)) {
                    admitted.push(line.admit(place));
                    continue 'next;
                }
                line.refuse(place);
            }
            break;
        }
        admitted
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_line_admits_whom_the_definition_names_and_nobody_is_overtaken_beyond_the_bound(
            acts in prop::collection::vec(act(), 1..60),
            by in prop_oneof![
                Just(Admission::FirstCome),
                (0..5_usize).prop_map(|overtaken_max| Admission::CacheAware { overtaken_max }),
            ],
        ) {
            let (mut line, mut twin, mut next) = (Line::default(), Twin::default(), 0);
            for act in acts {
                match act {
                    Act::Come => {
                        line.push(next);
                        twin.waiting.push(next);
                        next += 1;
                    }
                    Act::Leave(request) => {
                        let was_there = twin.waiting.contains(&request);
                        twin.waiting.retain(|it| *it != request);
                        prop_assert_eq!(line.retain(|it| *it != request), was_there);
                    }
                    Act::LetIn { seed, room } => {
                        let admitted = let_in(&mut line, by, seed, room);
                        for count in 0..room {
                            let able = |it| can_run(seed, it);
                            let named = twin.next(by, able, |it| finds(seed, count, it));
                            prop_assert_eq!(named, admitted.get(count).copied());
                            let Some(named) = named else { break };
                            twin.admit(named);
                        }
                    }
                }
                prop_assert!(line.iter().eq(&twin.waiting));
                let overtaken: Vec<usize> = twin.waiting.iter().map(|it| twin.overtaken(*it)).collect();
                prop_assert!(overtaken.is_sorted_by(|a, b| a >= b), "the first in line is overtaken most");
            }
            if let Admission::CacheAware { overtaken_max } = by {
                prop_assert!(twin.passed_by.values().all(|by| by.len() <= overtaken_max));
            }
        }
    }

    #[test]
    fn who_finds_most_goes_first_until_somebody_was_overtaken_as_often_as_may_be() {
        let by = Admission::CacheAware { overtaken_max: 2 };
        let mut line = Line::default();
        for request in [10, 11, 12, 11, 13] {
            line.push(request);
        }
        let finds = |request: &usize| *request % 10;
        assert_eq!(line.order(by, finds), [4, 2, 1, 3, 0]);
        assert_eq!(line.admit(4), 13);
        assert_eq!(
            line.order(by, finds),
            [2, 1, 3, 0],
            "the first of equals first"
        );
        assert_eq!(line.admit(2), 12);
        assert_eq!(line.order(by, finds), [0], "overtaken twice");
        line.refuse(0);
        assert!(line.order(by, finds).is_empty(), "all others came later");
        assert_eq!(line.order(Admission::FirstCome, finds), [1, 2]);
        line.try_again();
        assert_eq!(line.admit(0), 10);
        assert_eq!(line.order(by, finds), [0], "11 was overtaken twice too");
    }
}
