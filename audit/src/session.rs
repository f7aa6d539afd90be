//! What the session workload demands of a trace: the shape of every request, and the closed forms of the sums.
//!
//! Not here: checks that hold for any workload (`trace`), or the generator of ids (`seeded`).

use std::collections::BTreeMap;

use crate::envelope::{Script, Workload};
use crate::hash;
use crate::line::{Base, Finish, Request, Step};
use crate::notebook::{Layer, Notebook};
use crate::oracle::{self, Cache};
use crate::seeded::{Seeded, check_seeded};
use crate::trace::Counters;

/// Checks one trace against the declared session.
pub(crate) struct Session {
    work: Workload,
    seeded: Seeded,
    /// By turn: the first id of each result, and whose it was.
    first_ids: BTreeMap<u64, BTreeMap<u32, u64>>,
    texts: u64,
    /// How long steps take, where that was scripted.
    script: Option<Script>,
}

impl Session {
    /// `work` is what the trace's arm plays.
    pub(crate) fn new(work: Workload, script: Option<Script>) -> Self {
        Self {
            seeded: Seeded::new(work.seed),
            work,
            first_ids: BTreeMap::new(),
            texts: 0,
            script,
        }
    }

    pub(crate) fn text(&mut self, ids: &[u32], notes: &mut Notebook) {
        self.texts += 1;
        notes.same(Layer::Prompt, "texts stated", &self.texts, &1);
        notes.same(
            Layer::Prompt,
            "length of the prefix",
            &(ids.len() as u64),
            &self.work.prefix,
        );
        check_seeded(self.seeded.is_prefix(ids), ids.len(), notes);
    }

    /// `base_len` is the length of what the request continues, `base_of` its agent and turn if it is a request.
    pub(crate) fn request(
        &mut self,
        request: &Request,
        base_len: u64,
        base_of: Option<(u64, u64)>,
        notes: &mut Notebook,
    ) {
        let (work, Request { agent, turn, .. }) = (&self.work, request);
        notes.check(
            Layer::Prompt,
            *agent < work.agents && *turn < work.turns,
            || {
                format!(
                    "agent {agent}, turn {turn} lies outside the declared {} agents and {} turns",
                    work.agents, work.turns
                )
            },
        );
        let growth = work
            .decode
            .saturating_add(work.result)
            .saturating_mul(*turn);
        let declared = work.prefix.saturating_add(growth);
        notes.same(
            Layer::Prompt,
            "prompt_len (of the declared shape)",
            &request.prompt_len,
            &declared,
        );
        notes.same(Layer::Prompt, "keep", &request.keep, &base_len);
        notes.same(
            Layer::Prompt,
            "decode_max",
            &request.decode_max,
            &work.decode,
        );
        notes.same(Layer::Prompt, "ignore_eos", &request.ignore_eos, &true);
        notes.same(Layer::Prompt, "worker", &request.worker, &0);
        let continues = match turn.checked_sub(1) {
            None => matches!(request.base, Some(Base::Text(_))),
            Some(before) => base_of == Some((*agent, before)),
        };
        notes.check(Layer::Prompt, continues, || {
            "base is neither the prefix (first turn) nor the same agent's turn before".to_owned()
        });
        let append = if *turn == 0 { 0 } else { work.result };
        notes.same(
            Layer::Prompt,
            "length of append",
            &(request.append.len() as u64),
            &append,
        );
        let given = self.seeded.is_own(*agent, *turn, &request.append);
        check_seeded(given, request.append.len(), notes);
        if let Some(first) = request.append.first() {
            let other = self
                .first_ids
                .entry(*turn)
                .or_default()
                .insert(*first, *agent);
            notes.check(Layer::Prompt, other.is_none(), || {
                format!(
                    "append begins with id {first} as agent {}'s does: transcripts could coincide",
                    other.unwrap_or_default()
                )
            });
        }
    }

    /// A scripted step takes at least its time; what is beyond it is the recording.
    pub(crate) fn step(&self, step: &Step, notes: &mut Notebook) {
        if let Some(script) = &self.script {
            let least_ns = script.least_ns(&step.phase, step.rows);
            notes.check(Layer::Count, step.wall_ns >= least_ns, || {
                format!(
                    "wall_ns is {}, but the step was scripted to take {least_ns} or more",
                    step.wall_ns
                )
            });
            notes.recomputed("scripted steps", 1);
        }
    }

    pub(crate) fn finish(&self, finish: &Finish, notes: &mut Notebook) {
        notes.same(
            Layer::Prompt,
            "length of ids",
            &(finish.ids.len() as u64),
            &self.work.decode,
        );
        if self.script.is_some() {
            let (found, none) = (finish.logits_sha256.as_str(), hash::of_bytes(b""));
            let what = "logits_sha256 (a scripted arm has no logits)";
            notes.same(Layer::Count, what, found, none.as_str());
        }
    }

    /// Compares a whole trace's sums with the closed forms of its arm.
    pub(crate) fn end(&self, cache: Cache, counted: &Counters, notes: &mut Notebook) {
        let work = &self.work;
        let rows = [
            (
                "requests",
                counted.requests,
                work.agents.checked_mul(work.turns),
            ),
            ("computed", counted.computed, cache.prefill_tokens(work)),
            ("prompt_len", counted.logical, oracle::logical_tokens(work)),
            ("output ids", counted.decoded, oracle::decode_tokens(work)),
        ];
        for (what, counted, closed_form) in rows {
            let what = format!("the sum of {what} (against the closed form)");
            notes.same(Layer::Count, &what, &Some(counted), &closed_form);
            notes.recomputed("closed forms", 1);
        }
    }
}
