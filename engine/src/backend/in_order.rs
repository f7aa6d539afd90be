//! Partial results merged in ascending order, whoever computes them and whenever they are done.
//!
//! Nobody waits for a turn: what is early lies there until whoever is merging comes to it. Not here: what a merge is.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Buffers kept between uses.
#[derive(Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<f32>>>);

impl Buffers {
    /// One of `len` elements, which may hold anything.
    pub(super) fn take(&self, len: usize) -> Vec<f32> {
        let mut buffer = lock(&self.0).pop().unwrap_or_default();
        buffer.resize(len, 0.0);
        buffer
    }

    fn give_back(&self, buffer: Vec<f32>) {
        lock(&self.0).push(buffer);
    }
}

/// Sums, and the parts that go into them one by one.
pub(super) struct InOrder(Mutex<State>);

struct State {
    /// Which part is merged next.
    next: usize,
    /// Parts that are there and not merged yet.
    early: BTreeMap<usize, Vec<f32>>,
    /// None while somebody is merging.
    sums: Option<Vec<f32>>,
}

impl InOrder {
    /// Begins with `sums`, to which part 0 is merged first.
    pub(super) fn new(sums: Vec<f32>) -> Self {
        let early = BTreeMap::new();
        let sums = Some(sums);
        Self(Mutex::new(State {
            next: 0,
            early,
            sums,
        }))
    }

    /// Takes a part, and merges it and those behind it as far as they are there, unless somebody is merging already, who
    /// will find it.
    pub(super) fn hand_in(
        &self,
        part: usize,
        partials: Vec<f32>,
        buffers: &Buffers,
        merge: impl Fn(&mut [f32], &[f32]),
    ) {
        let mut state = lock(&self.0);
        state.early.insert(part, partials);
        let Some(mut sums) = state.sums.take() else {
            return;
        };
        loop {
            let next = state.next;
            let Some(partials) = state.early.remove(&next) else {
                break;
            };
            drop(state);
            merge(&mut sums, &partials);
            buffers.give_back(partials);
            state = lock(&self.0);
            state.next += 1;
        }
        state.sums = Some(sums);
    }

    /// The sums of the parts, when all have been handed in.
    pub(super) fn into_sums(self) -> Vec<f32> {
        let state = self.0.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        debug_assert!(state.early.is_empty(), "a part was never handed in");
        state.sums.unwrap_or_default()
    }
}

/// A job that panics fails its region; no state here is left half changed by it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_merged_in_order_whoever_hands_them_in(parts in Just((0..40).collect::<Vec<usize>>()).prop_shuffle()) {
            let (merged, buffers) = (InOrder::new(vec![1.0]), Buffers::default());
            // Neither commutes with the other, so that any other order gives another sum.
            let merge = |sums: &mut [f32], part: &[f32]| sums[0] = (sums[0] * 3.0 + part[0]) % 8191.0;
            let (merged_by, taken_from) = (&merged, &buffers);
            std::thread::scope(|scope| {
                for some in parts.chunks(14) {
                    scope.spawn(move || {
                        for &part in some {
                            let mut partials = taken_from.take(1);
                            partials[0] = part as f32;
                            merged_by.hand_in(part, partials, taken_from, merge);
                        }
                    });
                }
            });
            let mut expected = [1.0];
            for part in 0..40 {
                merge(&mut expected, &[part as f32]);
            }
            prop_assert_eq!(merged.into_sums(), expected);
            // What is kept is what was in use at once.
            prop_assert!(lock(&buffers.0).len() <= parts.len());
        }
    }
}
