//! The engine: submit requests, step until nothing is left, receive events.
//!
//! Not here: clocks and files. The caller's [`Sink`] stamps and writes.

mod govern;
mod inspect;
mod logits;
mod transfer;

pub use govern::{EvictMode, Evicted, Hold, OnQuarantine, Quarantined};
pub use inspect::{KvNode, KvSnapshot, KvTombstone};
pub use transfer::{Imported, SessionText};

use crate::backend::Cpu;
use crate::error::{Error, Result};
use crate::event::{Event, FinishReason, Phase, Sink};
use crate::kernels::{KernelChoice, Kernels};
use crate::kv::radix::common_prefix;
use crate::kv::{Eviction, EvictionPolicy, PageId, PagePool};
use crate::model::Model;
use crate::sample::{choose, logprobs};
use crate::schedule::{Active, Admission, Batch, Cache, CachePolicy, Found, Line, Request, plan};
use crate::tensor::{KvType, Mode, PAGE_POSITIONS};

/// Worker threads believed; more is a typing error.
const THREADS_MAX: usize = 1024;

/// How an engine runs. Everything here but the mode and the KV type leaves the answers the same.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Numeric mode; it changes the answers.
    pub mode: Mode,
    /// Element type of cached keys and values, the mode's own if none is given; it changes the answers.
    pub kv_type: Option<KvType>,
    /// Instruction set.
    pub kernels: KernelChoice,
    /// Worker threads, at least 1.
    pub threads: usize,
    /// Prompt positions per step at most, at least 1.
    pub chunk_tokens: usize,
    /// KV pages at most.
    pub kv_pages: usize,
    /// Who may reuse what.
    pub cache: CachePolicy,
    /// Several requests per step, or one after another.
    pub batched: bool,
    /// Requests that hold a page together attend it together.
    pub shared_attention: bool,
    /// Which cached page goes first when room is needed.
    pub eviction: Eviction,
    /// Which of those that wait goes first.
    pub admission: Admission,
    /// Bytes that KV pages and what is kept about them may take; `kv_pages` alone decides if none.
    pub kv_bytes: Option<u64>,
}

impl Default for EngineOptions {
    /// One thread, one cache for everyone, everyone in every step.
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            kernels: KernelChoice::Auto,
            threads: 1,
            chunk_tokens: 256,
            kv_pages: 4096,
            cache: CachePolicy::Shared,
            batched: true,
            shared_attention: true,
            eviction: Eviction::default(),
            admission: Admission::default(),
            kv_bytes: None,
            kv_type: None,
        }
    }
}

impl EngineOptions {
    /// Element type of cached keys and values.
    pub fn kv_type(&self) -> KvType {
        self.kv_type.unwrap_or(self.mode.kv_type())
    }
}

/// What an engine has done so far. KV rows are counted where the page pool writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Client-supplied positions whose KV was written.
    pub prefill_tokens_computed: u64,
    /// Tokens sampled.
    pub decode_tokens: u64,
    /// Positions of tokens sampled in an earlier request, written with a later prompt.
    pub carried_tokens: u64,
    /// Positions run again only for logits.
    pub replayed_tokens: u64,
}

/// A model, its cache, and the requests in flight.
pub struct Engine {
    model: Model,
    /// Ids that end an answer.
    eos: Vec<u32>,
    cpu: Cpu,
    pool: PagePool,
    cache: Cache,
    options: EngineOptions,
    pending: Line<Request>,
    active: Vec<Active>,
    decode_tokens: u64,
    replayed_tokens: u64,
    /// The request and the logit that ended the engine.
    not_finite: Option<(u64, usize)>,
}

impl Engine {
    /// An engine with an empty cache.
    pub fn new(model: Model, options: &EngineOptions) -> Result<Self> {
        let policy = options.eviction.policy(model.recompute());
        Self::with_policy(model, options, policy)
    }

    /// As `new`, with a policy of the caller's in place of `options.eviction`.
    pub fn with_policy(
        model: Model,
        options: &EngineOptions,
        policy: Box<dyn EvictionPolicy>,
    ) -> Result<Self> {
        let in_range = |option, value, max, range| {
            if (1..=max).contains(&value) {
                Ok(())
            } else {
                Err(Error::BadOption {
                    option,
                    value,
                    range,
                })
            }
        };
        in_range("threads", options.threads, THREADS_MAX, "1 to 1024")?;
        in_range(
            "chunk_tokens",
            options.chunk_tokens,
            usize::MAX,
            "1 or more",
        )?;
        in_range("kv_pages", options.kv_pages, usize::MAX, "1 or more")?;
        Ok(Self {
            cpu: Cpu::new(
                Kernels::choose(options.kernels)?,
                options.threads,
                options.mode,
            )?
            .sharing_pages(options.shared_attention),
            pool: pool(&model, options)?,
            cache: Cache::new(options.cache, policy)
                .quiet(options.admission != Admission::FirstCome),
            options: *options,
            pending: Line::default(),
            active: Vec::new(),
            decode_tokens: 0,
            replayed_tokens: 0,
            not_finite: None,
            eos: model.eos_ids(),
            model,
        })
    }

    /// Queues a request.
    pub fn submit(&mut self, request: Request) -> Result<()> {
        self.check_request(&request)?;
        self.pending.push(request);
        Ok(())
    }

    /// Whether it would be queued.
    pub fn check_request(&self, request: &Request) -> Result<()> {
        request.check(self.model.config())?;
        let in_flight = || {
            self.pending
                .iter()
                .chain(self.active.iter().map(|active| &active.request))
        };
        if in_flight().any(|other| other.id == request.id) {
            return Err(Error::DuplicateRequest(request.id));
        }
        if in_flight().any(|other| other.session == request.session) {
            return Err(Error::SessionBusy(request.session));
        }
        let needed = request.positions().div_ceil(PAGE_POSITIONS);
        let capacity = self.pool.capacity();
        if needed > capacity {
            return Err(Error::PagesExhausted {
                needed,
                available: capacity,
                capacity,
            });
        }
        Ok(())
    }

    /// Runs one step; false when nothing is in flight. After an error the engine is done for: each later step gives it
    /// again. Only where holds left no room for the request that is first in line, the engine goes on once one has ended
    /// or the request was cancelled.
    pub fn step(&mut self, sink: &mut dyn Sink) -> Result<bool> {
        if let Some((request, index)) = self.not_finite {
            return Err(Error::NonFinite { request, index });
        }
        self.admit(sink)?;
        let Some(batch) = plan(&mut self.active, &mut self.pool, self.options.chunk_tokens)? else {
            return Ok(false);
        };
        let logits = self.run(&batch);
        self.settle(&batch, &logits, sink)?;
        let (rows, requests) = (batch.rows.len(), batch.members.len());
        sink.event(Event::Step {
            phase: batch.phase,
            rows,
            requests,
        });
        Ok(true)
    }

    /// Moves pending requests into the running set, as far as policy, pages and single flight allow.
    fn admit(&mut self, sink: &mut dyn Sink) -> Result<()> {
        self.pending.try_again();
        while let Some((request, found)) = self.next_admitted()? {
            let found_in_all = found.own + found.instance;
            let store = request.restored.min(found_in_all);
            let own = found.own.min(found_in_all - store);
            sink.event(Event::Prefix {
                request: request.id,
                own,
                instance: found_in_all - store - own,
                store,
                barred_at: found.barred_at,
                approximate: found.origin.is_some(),
            });
            let pages = request.positions().div_ceil(PAGE_POSITIONS);
            self.active.push(Active {
                request,
                output: Vec::new(),
                written_before: self.pool.written(found.table.pages()),
                reserved: pages - found.table.pages().len(),
                table: found.table,
                carried_at: found.carried_at,
                replayed: 0,
                chunks: 0,
                origin: found.origin,
            });
        }
        Ok(())
    }

    /// Takes the next request that can run out of the line, with what it found. Whoever cannot is not asked again in this step.
    fn next_admitted(&mut self) -> Result<Option<(Request, Found)>> {
        if !self.options.batched && !self.active.is_empty() {
            return Ok(None);
        }
        let finds = |request: &Request| self.cache.matchable(request.wanted());
        for place in self.pending.order(self.options.admission, finds) {
            if let Some(found) = self.found(place)? {
                return Ok(Some((self.pending.admit(place), found)));
            }
            self.pending.refuse(place);
        }
        Ok(None)
    }

    /// What the request at this place in line finds, if it can run now. After an error it stays in line: a hold that ends
    /// may make room.
    fn found(&mut self, place: usize) -> Result<Option<Found>> {
        let request = self.pending.at(place);
        if self.waits_for_another(request) {
            return Ok(None);
        }
        let alone = self.active.is_empty();
        let (wanted, room) = (request.wanted(), (self.spoken_for(), alone));
        match self
            .cache
            .find(&mut self.pool, wanted, request.positions(), room)
        {
            Err(Error::PagesExhausted { .. }) if !alone => Ok(None),
            found => found.map(Some),
        }
    }

    /// Single flight: whether a running prompt is computing a prefix this one would otherwise compute again.
    fn waits_for_another(&self, request: &Request) -> bool {
        if self.cache.policy() != CachePolicy::Shared {
            return false;
        }
        let findable = self.cache.findable(request.wanted());
        let coming = |active: &&Active| active.is_prefilling() && !active.is_approximate();
        let coming = self.active.iter().filter(coming).map(|active| {
            let shared = active.request.scope.shared_positions(&request.scope);
            common_prefix(&active.request.prompt, findable).min(shared)
        });
        let matchable = || self.cache.matchable(request.wanted());
        coming
            .max()
            .is_some_and(|coming| coming > 0 && coming > matchable())
    }

    /// Pages that running requests may still allocate.
    fn spoken_for(&self) -> usize {
        self.active.iter().map(|active| active.reserved).sum()
    }

    fn run(&mut self, batch: &Batch) -> Vec<f32> {
        let sequences: Vec<&[PageId]> = batch
            .members
            .iter()
            .map(|index| self.active[*index].table.pages())
            .collect();
        self.model
            .forward(&self.cpu, &mut self.pool, &sequences, &batch.rows)
    }

    /// Samples where logits were wanted, tells the sink, and retires what is done.
    fn settle(&mut self, batch: &Batch, logits: &[f32], sink: &mut dyn Sink) -> Result<()> {
        let wanting = batch.rows.iter().filter(|row| row.logits);
        let mut done = Vec::new();
        for (row, logits) in wanting.zip(logits.chunks_exact(self.model.vocab())) {
            let index = batch.members[row.sequence];
            let active = &self.active[index];
            let request = active.request.id;
            let sampling = &active.request.sampling;
            let id = choose(sampling, &active.request.prompt, &active.output, logits)
                .map_err(|index| self.not_finite.insert((request, index)))
                .map_err(|&mut (request, index)| Error::NonFinite { request, index })?;
            let top = sampling.logprobs;
            if batch.phase == Phase::Prefill {
                self.prefilled(index, sink);
            }
            let active = &mut self.active[index];
            let logprobs = top.map_or_else(Vec::new, |top| logprobs(logits, id, top));
            active.output.push(id);
            self.decode_tokens += 1;
            sink.event(Event::Token {
                request,
                id,
                batch: batch.members.len(),
                logprobs: &logprobs,
            });
            if let Some(reason) = finish_reason(active, &self.eos) {
                sink.event(Event::Finish {
                    request,
                    reason,
                    logits,
                });
                done.push(index);
            }
        }
        done.sort_unstable();
        for index in done.into_iter().rev() {
            self.retire(index);
        }
        Ok(())
    }

    /// Takes a request out of the running set and leaves what it computed to the cache.
    fn retire(&mut self, index: usize) {
        let Active {
            request,
            output,
            table,
            carried_at,
            origin,
            ..
        } = self.active.remove(index);
        // Cancelled before its first step, it leaves the session's pending token as it found it.
        let unwritten = carried_at.filter(|at| *at == table.len());
        let pending = output
            .last()
            .copied()
            .or(unwritten.map(|at| request.prompt[at]));
        let left = (pending, origin);
        self.cache
            .keep(&mut self.pool, request.wanted(), table, left);
    }

    /// Ends a request between two steps, as for a stop string or a client that left; false if it is not in flight.
    ///
    /// What it computed stays cached. No event tells of it: the caller knows.
    pub fn cancel(&mut self, request: u64) -> bool {
        let queued = self.pending.retain(|pending| pending.id != request);
        let running = self
            .active
            .iter()
            .position(|active| active.request.id == request);
        running.map(|index| self.retire(index)).is_some() || queued
    }

    fn prefilled(&mut self, index: usize, sink: &mut dyn Sink) {
        let active = &mut self.active[index];
        if !active.is_approximate() {
            let (wanted, table) = (active.request.wanted(), &mut active.table);
            self.cache.publish(&mut self.pool, wanted, table);
        }
        self.replayed_tokens += active.replayed as u64;
        let (now, before) = (
            self.pool.written(active.table.pages()),
            active.written_before,
        );
        sink.event(Event::Prefill {
            request: active.request.id,
            computed: (now.prefill - before.prefill) as usize,
            carried: (now.carried - before.carried) as usize,
            replayed: active.replayed,
            chunks: active.chunks,
        });
    }

    /// Forgets an idle session, and what was cached for it alone.
    pub fn close_session(&mut self, session: u64) {
        self.cache.close(&mut self.pool, session);
    }
}

fn finish_reason(active: &Active, eos: &[u32]) -> Option<FinishReason> {
    let (request, last) = (&active.request, active.output.last()?);
    if eos.contains(last) && !request.ignore_eos {
        return Some(FinishReason::Eos);
    }
    if request.sampling.stop_ids.contains(last) {
        return Some(FinishReason::Stop);
    }
    (active.output.len() == request.decode_max).then_some(FinishReason::Length)
}

/// As many pages as both limits allow.
fn pool(model: &Model, options: &EngineOptions) -> Result<PagePool> {
    let (shape, element) = (model.kv_shape(), options.kv_type());
    let Some(bytes) = options.kv_bytes else {
        return Ok(PagePool::new(shape, element, options.kv_pages));
    };
    let within = PagePool::within(shape, element, bytes);
    if within.capacity() == 0 {
        return Err(Error::BadOption {
            option: "kv_bytes",
            value: usize::try_from(bytes).unwrap_or(usize::MAX),
            range: "at least the bytes of one KV page",
        });
    }
    let pages = within.capacity().min(options.kv_pages);
    Ok(PagePool::new(shape, element, pages))
}
