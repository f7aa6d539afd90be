//! The stages of one request: stated, matched, prefilled, finished; what each says is recounted.
//!
//! Not here: lines that belong to no request (`trace`).

use std::collections::BTreeMap;

use super::Reader;
use crate::hash;
use crate::latencies::Times;
use crate::line::{Base, Finish, Prefill, Prefix, Request};
use crate::notebook::{Layer, Notebook};
use crate::oracle::{Cache, common_prefix};

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Requested,
    Matched,
    Prefilled,
    Finished,
}

/// One request, followed through its stages.
pub(super) struct Asking {
    pub(super) request: Request,
    t_ns: u64,
    pub(super) stage: Stage,
    /// The prompt, later followed by the output.
    pub(super) ids: Vec<u32>,
    pub(super) prompt_len: usize,
    /// How many of `ids` have KV in the cache.
    cached: usize,
    matched: u64,
    pub(super) computed: u64,
    /// Most requests open at once while this one was.
    open_peak: u64,
    pub(super) logits_sha256: String,
    pub(super) times: Times,
}

/// The ids a request continues, and the (agent, turn) they belong to if they are a request's.
type Continued<'a> = (&'a [u32], Option<(u64, u64)>);

/// How far a session has come.
pub(super) struct Progress {
    agent: u64,
    next_turn: u64,
    running: bool,
}

impl Reader<'_> {
    pub(super) fn request(
        &mut self,
        request: Request,
        t_ns: u64,
        notes: &mut Notebook,
    ) -> Result<(), String> {
        if self.requests.contains_key(&request.id) {
            return Err(format!("a request {:?} was stated before", request.id));
        }
        self.follow_turns(&request)?;
        let (base, base_of) = self.base(&request)?;
        let keep = usize::try_from(request.keep)
            .ok()
            .filter(|keep| *keep <= base.len());
        let Some(keep) = keep else {
            return Err(format!(
                "keep is {}, the base has {} ids",
                request.keep,
                base.len()
            ));
        };
        let mut ids = base[..keep].to_vec();
        ids.extend_from_slice(&request.append);
        let base_len = base.len() as u64;
        self.hold(ids.len() + request.append.len())?;
        notes.same(
            Layer::Prompt,
            "prompt_len",
            &request.prompt_len,
            &(ids.len() as u64),
        );
        notes.same(
            Layer::Prompt,
            "prompt_sha256",
            &request.prompt_sha256,
            &hash::of_ids(&ids),
        );
        notes.recomputed("prompts", 1);
        self.demands.request(&request, base_len, base_of, notes);
        self.counted.requests += 1;
        self.counted.logical += ids.len() as u64;
        self.counted.first_request_t_ns.get_or_insert(t_ns);
        self.open += 1;
        self.open_peak = self.open_peak.max(self.open);
        for other in self
            .requests
            .values_mut()
            .filter(|other| other.stage != Stage::Finished)
        {
            other.open_peak = other.open_peak.max(self.open);
        }
        let id = request.id.clone();
        let asking = Asking {
            prompt_len: ids.len(),
            request,
            t_ns,
            stage: Stage::Requested,
            ids,
            cached: 0,
            matched: 0,
            computed: 0,
            open_peak: self.open,
            logits_sha256: String::new(),
            times: Times::default(),
        };
        self.requests.insert(id, asking);
        Ok(())
    }

    /// Holds every session to one agent and to turns in order, each after the finish of the one before.
    fn follow_turns(&mut self, request: &Request) -> Result<(), String> {
        let Request {
            session,
            agent,
            turn,
            ..
        } = request;
        let of_agent = self.agents.entry(*agent).or_insert_with(|| session.clone());
        if of_agent != session {
            return Err(format!(
                "agent {agent} has two sessions, {of_agent:?} and {session:?}"
            ));
        }
        let start = Progress {
            agent: *agent,
            next_turn: 0,
            running: false,
        };
        let progress = self.sessions.entry(session.clone()).or_insert(start);
        if (progress.agent, progress.next_turn) != (*agent, *turn) {
            let Progress {
                agent, next_turn, ..
            } = progress;
            return Err(format!(
                "session {session:?} continues with agent {agent}, turn {next_turn}"
            ));
        }
        if progress.running {
            return Err(format!(
                "turn {turn} of {session:?} precedes the finish of the turn before"
            ));
        }
        progress.running = true;
        progress.next_turn += 1;
        Ok(())
    }

    fn base(&self, request: &Request) -> Result<Continued<'_>, String> {
        match &request.base {
            None => Ok((&[], None)),
            Some(Base::Text(name)) => match self.texts.get(name) {
                Some(ids) => Ok((ids, None)),
                None => Err(format!("base: no text {name:?} was stated before")),
            },
            Some(Base::Request(id)) => match self.requests.get(id) {
                Some(base) if base.stage == Stage::Finished => {
                    Ok((&base.ids, Some((base.request.agent, base.request.turn))))
                }
                Some(_) => Err(format!("base: request {id:?} has not finished")),
                None => Err(format!("base: no request {id:?} was stated before")),
            },
        }
    }

    pub(super) fn prefix(&mut self, prefix: &Prefix, notes: &mut Notebook) -> Result<(), String> {
        let asking = at_stage(&mut self.requests, &prefix.request, Stage::Requested)?;
        asking.stage = Stage::Matched;
        asking.matched = prefix.matched;
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

        let asking = &self.requests[&prefix.request];
        let longest = |of_session: bool| {
            let others = self
                .requests
                .values()
                .filter(|other| !of_session || other.request.session == asking.request.session);
            others
                .map(|other| common_prefix(&asking.ids, &other.ids[..other.cached]))
                .max()
        };
        let own_limit = if self.cache == Cache::None {
            0
        } else {
            longest(true).unwrap_or(0)
        };
        let limit = if self.cache == Cache::Shared {
            longest(false).unwrap_or(0)
        } else {
            own_limit
        };
        notes.check(Layer::Reuse, matched <= limit, || {
            format!("matched is {matched}, beyond the oracle: {limit} matching positions existed")
        });
        notes.check(Layer::Reuse, own <= own_limit, || {
            format!(
                "own is {own}, beyond the oracle: the session had {own_limit} of these positions"
            )
        });
        notes.recomputed("reuse limits", 2);
        Ok(())
    }

    pub(super) fn prefill(
        &mut self,
        prefill: &Prefill,
        notes: &mut Notebook,
    ) -> Result<(), String> {
        let carried = self.carried(&prefill.request);
        let asking = at_stage(&mut self.requests, &prefill.request, Stage::Matched)?;
        asking.stage = Stage::Prefilled;
        asking.cached = asking.ids.len();
        let Prefill {
            computed,
            replayed,
            chunks,
            ..
        } = *prefill;
        asking.computed = computed;
        let (matched, prompt_len) = (asking.matched, asking.ids.len() as u64);
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
        Ok(())
    }

    /// Positions whose token was sampled earlier but never fed: the base's last output token, unless it was matched.
    /// Without a cache a re-sent output is client-supplied text.
    fn carried(&self, id: &str) -> u64 {
        let Some(asking) = self.requests.get(id) else {
            return 0;
        };
        let Some(Base::Request(base)) = &asking.request.base else {
            return 0;
        };
        let Some(base) = self.requests.get(base) else {
            return 0;
        };
        let pending = base.cached as u64;
        u64::from(
            self.cache != Cache::None && asking.request.keep > pending && asking.matched <= pending,
        )
    }

    pub(super) fn finish(
        &mut self,
        finish: Finish,
        t_ns: u64,
        notes: &mut Notebook,
    ) -> Result<(), String> {
        self.hold(finish.ids.len())?;
        self.demands.finish(&finish, notes);
        let batched = self.batched();
        let asking = at_stage(&mut self.requests, &finish.request, Stage::Prefilled)?;
        asking.stage = Stage::Finished;
        asking.check_output(&finish, t_ns, batched, notes);
        let length = finish.ids.len() as u64;
        asking.ids.extend_from_slice(&finish.ids);
        // The last output token was never fed, so it has no KV.
        asking.cached = asking.ids.len() - usize::from(length > 0);
        asking.logits_sha256 = finish.logits_sha256;
        asking.times = Times::of(&finish.token_t_ns);
        for (place, width) in finish.batch.iter().enumerate() {
            let phase = if place == 0 {
                &mut self.counted.prefill
            } else {
                &mut self.counted.decode
            };
            phase.tokens_by_width.entry(*width).or_default().1 += 1;
        }
        self.counted.decoded += length;
        self.counted.last_finish_t_ns = Some(t_ns);
        if let Some(progress) = self.sessions.get_mut(&asking.request.session) {
            progress.running = false;
        }
        self.open -= 1;
        *notes.replayable.entry("output ids").or_default() += length;
        *notes.replayable.entry("logit hashes").or_default() += 1;
        *notes.asserted.entry("clock times").or_default() += length;
        Ok(())
    }
}

impl Asking {
    /// An output as long as its reason says, every token with a time and a batch that can be.
    fn check_output(&self, finish: &Finish, t_ns: u64, batched: bool, notes: &mut Notebook) {
        let (length, most) = (finish.ids.len() as u64, self.request.decode_max);
        let full = finish.reason == "length" && length == most;
        let stopped = finish.reason == "eos" && length <= most && !self.request.ignore_eos;
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
        notes.check(Layer::Count, finish.token_t_ns.is_sorted() && in_time, || {
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
) -> Result<&'r mut Asking, String> {
    match requests.get_mut(id) {
        Some(asking) if asking.stage == stage => Ok(asking),
        Some(asking) => Err(format!(
            "request {id:?} is {:?}, this line needs it {stage:?}: the order is request, prefix, prefill, finish",
            asking.stage
        )),
        None => Err(format!("no request {id:?} was stated before")),
    }
}
