//! The stages of one request: stated, matched, prefilled, finished; what each says is recounted.
//!
//! Not here: lines that belong to no request (`trace`).

use std::collections::BTreeMap;

use super::prompts::Prompted;
use super::quarantine::barred_at;
use super::{Output, Reader};
use crate::hash;
use crate::latencies::Times;
use crate::line::{Finish, Prefill, Prefix, Request};
use crate::notebook::{Layer, Notebook, Stop};
use crate::oracle::Cache;

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Requested,
    Matched,
    Prefilled,
}

/// One request that has not finished.
pub(super) struct Asking {
    prompted: Prompted,
    t_ns: u64,
    pub(super) stage: Stage,
    matched: u64,
    /// When its `prefill` line was written.
    prefill_t_ns: u64,
    /// Most requests open at once while this one was.
    open_peak: u64,
    /// How many requests came before it.
    pub(super) place: u64,
    /// How many that came later were let in while it waited.
    pub(super) overtaken: u64,
}

impl Reader<'_> {
    pub(super) fn request(
        &mut self,
        request: Request,
        clock: (u64, u64),
        notes: &mut Notebook,
    ) -> Result<(), Stop> {
        let (_, t_ns) = clock; // of the line before, and its own
        let id = &request.id;
        let known = self.requests.contains_key(id) || self.prompts.has_finished(id);
        notes.insist(!known, || format!("a request {id:?} was stated before"))?;
        let prompted = self.prompts.ask(request, notes)?;
        let (base_len, base_of) = (prompted.base_len, prompted.base_of);
        (self.demands).request(&prompted.request, base_len, base_of, clock, notes);
        self.counted.requests += 1;
        self.counted.logical += prompted.ids.len() as u64;
        self.counted.first_request_t_ns.get_or_insert(t_ns);
        let open = self.requests.len() as u64 + 1;
        self.open_peak = self.open_peak.max(open);
        for other in self.requests.values_mut() {
            other.open_peak = other.open_peak.max(open);
        }
        let id = prompted.request.id.clone();
        let asking = Asking {
            prompted,
            t_ns,
            stage: Stage::Requested,
            matched: 0,
            prefill_t_ns: 0,
            open_peak: open,
            place: self.counted.requests,
            overtaken: 0,
        };
        self.requests.insert(id, asking);
        Ok(())
    }

    pub(super) fn prefix(&mut self, prefix: &Prefix, notes: &mut Notebook) -> Result<(), Stop> {
        let asking = at_stage(&mut self.requests, &prefix.request, Stage::Requested, notes)?;
        asking.stage = Stage::Matched;
        asking.matched = prefix.matched;
        let place = asking.place;
        let Prefix {
            matched,
            own,
            instance,
            fleet,
            store,
            ..
        } = *prefix;
        let parts = [own, instance, fleet, store]
            .into_iter()
            .fold(0_u64, u64::saturating_add);
        notes.same(
            Layer::Count,
            "matched (the sum of its parts)",
            &matched,
            &parts,
        );
        notes.same(Layer::Reuse, "fleet", &fleet, &0);
        notes.same(Layer::Reuse, "store", &store, &0);
        self.counted.matched = self.counted.matched.saturating_add(matched);
        notes.recomputed("request counters", 1);

        let (limit, own_limit) = self
            .reuse
            .limits(&asking.prompted.request.session, &asking.prompted.ids);
        notes.check(Layer::Reuse, matched <= limit, || {
            format!("matched is {matched}, beyond the oracle: {limit} matching positions existed")
        });
        notes.check(Layer::Reuse, own <= own_limit, || {
            format!(
                "own is {own}, beyond the oracle: the session had {own_limit} of these positions"
            )
        });
        let barred_at = barred_at(&self.barred, &asking.prompted.ids);
        notes.same(Layer::Reuse, "barred_at", &prefix.barred_at, &barred_at);
        let past = barred_at.is_some_and(|barred_at| matched > barred_at);
        notes.check(Layer::Reuse, !past, || {
            format!("matched is {matched}, beyond what was quarantined: {barred_at:?}")
        });
        notes.recomputed("reuse limits", 3);
        self.overtake(place, notes);
        Ok(())
    }

    pub(super) fn prefill(
        &mut self,
        prefill: &Prefill,
        t_ns: u64,
        notes: &mut Notebook,
    ) -> Result<(), Stop> {
        let carried = self.carried(&prefill.request);
        let asking = at_stage(&mut self.requests, &prefill.request, Stage::Matched, notes)?;
        asking.stage = Stage::Prefilled;
        asking.prefill_t_ns = t_ns;
        let held = self
            .reuse
            .computed(&asking.prompted.request.session, &asking.prompted.ids);
        let Prefill {
            computed,
            replayed,
            chunks,
            ..
        } = *prefill;
        let of_turn = self
            .computed
            .entry(asking.prompted.request.turn)
            .or_default();
        *of_turn = of_turn.saturating_add(computed);
        let (matched, prompt_len) = (asking.matched, asking.prompted.ids.len() as u64);
        let whole = matched
            .saturating_add(computed)
            .saturating_add(prefill.carried);
        notes.same(
            Layer::Count,
            "matched + computed + carried",
            &whole,
            &prompt_len,
        );
        notes.same(
            Layer::Count,
            "replayed",
            &replayed,
            &u64::from(matched == prompt_len),
        );
        notes.same(Layer::Count, "carried", &prefill.carried, &carried);
        let rows = prompt_len.saturating_sub(matched).max(1);
        let chunk = self
            .begin
            .as_ref()
            .map_or(1, |begin| begin.settings.chunk_tokens.max(1));
        let fewest = rows.div_ceil(chunk);
        notes.check(Layer::Count, (fewest..=rows).contains(&chunks), || {
            format!("chunks is {chunks}; {rows} positions take {fewest} to {rows}")
        });
        let sums = &mut self.counted;
        sums.computed = sums.computed.saturating_add(computed);
        sums.carried = sums.carried.saturating_add(prefill.carried);
        sums.replayed = sums.replayed.saturating_add(replayed);
        sums.chunks = sums.chunks.saturating_add(chunks);
        notes.recomputed("request counters", 3);
        self.count_held(None);
        self.prompts.hold(held, notes)
    }

    /// Positions whose token was sampled earlier but never fed: the base's last output token, unless it was matched.
    /// Without a cache a re-sent output is client-supplied text.
    fn carried(&self, id: &str) -> u64 {
        let Some(asking) = self.requests.get(id) else {
            return 0;
        };
        let Some(base) = asking
            .prompted
            .base
            .map(|place| self.prompts.transcripts.at(place))
        else {
            return 0;
        };
        let pending = base.cached() as u64;
        let fed = base.of.is_some() && self.cache != Cache::None;
        u64::from(fed && asking.prompted.request.keep > pending && asking.matched <= pending)
    }

    /// Positions the cache must hold for the requests that are decoding, with `finishing` its outputs too: what each wrote
    /// itself, and what it matched, which others may have matched or be writing where pages are shared.
    fn count_held(&mut self, finishing: Option<(&str, u64)>) {
        let (mut own, mut all, mut longest) = (0_u64, 0_u64, 0);
        let decoding = |it: &(&String, &Asking)| it.1.stage == Stage::Prefilled;
        for (id, asking) in self.requests.iter().filter(decoding) {
            let fed = finishing.filter(|it| it.0 == id).map_or(0, |it| it.1);
            let length = asking.prompted.ids.len() as u64 + fed;
            own = own.saturating_add(length.saturating_sub(asking.matched));
            all = all.saturating_add(length);
            longest = length.max(longest);
        }
        let held = if self.cache == Cache::Shared {
            own.max(longest)
        } else {
            all
        };
        self.held_positions = self.held_positions.max(held);
    }

    pub(super) fn finish(
        &mut self,
        finish: &Finish,
        t_ns: u64,
        notes: &mut Notebook,
    ) -> Result<(), Stop> {
        self.prompts.hold(finish.ids.len(), notes)?;
        self.demands.finish(finish, notes);
        let batched = self.batched();
        let length = finish.ids.len() as u64;
        at_stage(&mut self.requests, &finish.request, Stage::Prefilled, notes)?
            .check_output(finish, t_ns, batched, notes);
        self.count_held(Some((&finish.request, length.saturating_sub(1))));
        let Some(asking) = self.requests.remove(&finish.request) else {
            return Ok(()); // it was there two lines above
        };
        let output = Output {
            prompt_sha256: asking.prompted.request.prompt_sha256.clone(),
            ids: finish.ids.clone(),
            logits_sha256: finish.logits_sha256.clone(),
            times: Times::of(&finish.token_t_ns).within(asking.clock(), t_ns),
        };
        let (session, cached) = self.prompts.answered(asking.prompted, output);
        let held = self.reuse.computed(&session, &cached);
        self.prompts.hold(held, notes)?;
        for (place, width) in finish.batch.iter().enumerate() {
            let phase = if place == 0 {
                &mut self.counted.prefill
            } else {
                &mut self.counted.decode
            };
            phase.told(*width, self.open_peak);
        }
        self.counted.decoded += length;
        self.counted.last_finish_t_ns = Some(t_ns);
        *notes.replayable.entry("output ids").or_default() += length;
        *notes.replayable.entry("logit hashes").or_default() += 1;
        *notes.asserted.entry("clock times").or_default() += length;
        Ok(())
    }
}

impl Asking {
    pub(super) fn ids(&self) -> &[u32] {
        &self.prompted.ids
    }

    /// When it was due, if at any time, and when it was sent.
    fn clock(&self) -> (Option<u64>, u64) {
        (self.prompted.request.due_ns, self.t_ns)
    }

    /// Its agent and turn.
    pub(super) fn of(&self) -> (u64, u64) {
        (self.prompted.request.agent, self.prompted.request.turn)
    }

    /// An output as long as its reason says, every token with a time and a batch that can be.
    fn check_output(&self, finish: &Finish, t_ns: u64, batched: bool, notes: &mut Notebook) {
        let (length, most) = (finish.ids.len() as u64, self.prompted.request.decode_max);
        let full = finish.reason == "length" && length == most;
        let stopped = finish.reason == "eos" && length <= most && !self.prompted.request.ignore_eos;
        notes.check(Layer::Count, length > 0 && (full || stopped), || {
            format!(
                "{length} output ids of at most {most} do not fit reason {:?}",
                finish.reason
            )
        });
        notes.same(
            Layer::Count,
            "entries of token_t_ns",
            &finish.token_t_ns.len(),
            &finish.ids.len(),
        );
        notes.same(
            Layer::Count,
            "entries of batch",
            &finish.batch.len(),
            &finish.ids.len(),
        );
        let offset_limit = t_ns.saturating_sub(self.t_ns);
        let in_time = finish
            .token_t_ns
            .last()
            .is_none_or(|last| *last <= offset_limit);
        let first_t_ns = finish
            .token_t_ns
            .first()
            .map(|it| self.t_ns.saturating_add(*it));
        let caused = first_t_ns.is_none_or(|it| it >= self.prefill_t_ns);
        notes.check(Layer::Clock, caused, || {
            "the first token comes before the prefill it was drawn from".to_owned()
        });
        notes.check(Layer::Clock, finish.token_t_ns.is_sorted() && in_time, || {
            format!("token_t_ns decreases, or passes the {offset_limit} ns between request and finish")
        });
        let widest = if batched { self.open_peak } else { 1 };
        let fits = finish
            .batch
            .iter()
            .all(|batch| (1..=widest).contains(batch));
        notes.check(Layer::Count, fits, || {
            format!("batch leaves the range 1 to {widest}")
        });
        notes.check(
            Layer::Format,
            hash::is_digest(&finish.logits_sha256),
            || "logits_sha256 is not a SHA-256".to_owned(),
        );
    }
}

/// The request `id`, which must have come exactly this far.
fn at_stage<'r>(
    requests: &'r mut BTreeMap<String, Asking>,
    id: &str,
    stage: Stage,
    notes: &mut Notebook,
) -> Result<&'r mut Asking, Stop> {
    let Some(asking) = requests.get_mut(id) else {
        return Err(notes.stop(format!("no request {id:?} was stated before")));
    };
    let found = asking.stage;
    notes.insist(found == stage, || {
        format!("request {id:?} is {found:?}, this line needs it {stage:?}: the order is request, prefix, prefill, finish")
    })?;
    Ok(asking)
}
