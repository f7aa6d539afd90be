//! Sums over one trace, and whether its steps can have given its tokens.
//!
//! Not here: what the trace itself says they are (the parent compares), or what was declared (`session`, `cell`).

use std::collections::BTreeMap;

use crate::notebook::{Layer, Notebook};

/// Sums over a trace, recounted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: u64,
    pub(crate) computed: u64,
    pub(crate) logical: u64,
    pub(super) matched: u64,
    pub(crate) decoded: u64,
    pub(super) carried: u64,
    pub(super) replayed: u64,
    /// Prefill steps in which requests took part, summed over requests.
    pub(super) chunks: u64,
    pub(super) prefill: Steps,
    pub(super) decode: Steps,
    pub(super) first_request_t_ns: Option<u64>,
    pub(super) last_finish_t_ns: Option<u64>,
}

impl Counters {
    /// Every position run stands in a step: those of prompts in prefill steps, and for each output token but a request's
    /// first one row of a decode step.
    pub(super) fn check_steps(&self, notes: &mut Notebook) {
        let prompts = self
            .computed
            .saturating_add(self.carried)
            .saturating_add(self.replayed);
        let outputs = self.decoded.saturating_sub(self.requests);
        let (prefill, decode) = (&self.prefill, &self.decode);
        for (what, stated, recounted) in [
            ("rows of all prefill steps", prefill.rows, prompts),
            (
                "requests of all prefill steps",
                prefill.requests,
                self.chunks,
            ),
            ("rows of all decode steps", decode.rows, outputs),
            ("requests of all decode steps", decode.requests, outputs),
        ] {
            notes.same(Layer::Count, what, &stated, &recounted);
            notes.recomputed("step sums", 1);
        }
        // A step of n requests gives n tokens when decoding, and at most n while some prompts are unfinished.
        let fits = prefill
            .tokens_by_width
            .values()
            .all(|(given, told)| told <= given)
            && decode
                .tokens_by_width
                .values()
                .all(|(given, told)| told == given);
        notes.check(Layer::Count, fits, || {
            "batch of some output tokens is that of no step which could have given them".to_owned()
        });
    }
}

/// Sums over the steps of one phase.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) rows: u64,
    pub(super) requests: u64,
    pub(super) wall_ns: u64,
    /// By number of requests in the step: how many tokens such steps can have given, and how many say they were.
    tokens_by_width: BTreeMap<u64, (u64, u64)>,
}

impl Steps {
    /// A step of so many requests ran. More than `most` can have been are a finding elsewhere and are not kept here: a
    /// trace may state any number.
    pub(super) fn gave(&mut self, requests: u64, most: u64) {
        if (1..=most).contains(&requests) {
            let given = &mut self.tokens_by_width.entry(requests).or_default().0;
            *given = given.saturating_add(requests);
        }
    }

    /// A token says that its step had so many.
    pub(super) fn told(&mut self, requests: u64, most: u64) {
        if (1..=most).contains(&requests) {
            self.tokens_by_width.entry(requests).or_default().1 += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_that_cannot_have_been_take_no_room() {
        let mut steps = Steps::default();
        for requests in 0..100_000 {
            steps.gave(requests, 3);
            steps.told(requests, 3);
        }
        let expected = BTreeMap::from([(1, (1, 1)), (2, (2, 1)), (3, (3, 1))]);
        assert_eq!(steps.tokens_by_width, expected);
    }
}
