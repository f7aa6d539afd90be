//! From events to trace lines: stamps them, keeps what a `finish` line needs, adds up what `end` says.
//!
//! Not here: when a request is made (`drive`) or whether the sums are right (`audit`).

use std::collections::BTreeMap;
use std::io::Write;

use engine::{Counters, Event, FinishReason, Phase, Sink};
use workloads::trace::{Body, TraceWriter, sha256_hex};

use crate::{Error, Report};

/// A request that has not finished.
struct Open {
    name: String,
    start_ns: u64,
    ids: Vec<u32>,
    token_t_ns: Vec<u64>,
    batch: Vec<usize>,
}

/// What the `end` line says, so far.
#[derive(Default)]
struct Totals {
    requests: usize,
    prefill_tokens_logical: u64,
    prefix_tokens_hit: u64,
    counters: Counters,
    first_request_ns: Option<u64>,
    last_finish_ns: u64,
    prefill_ns: u64,
    decode_ns: u64,
}

/// The trace of one arm, as it happens.
pub(crate) struct Recorder<'a, W: Write> {
    trace: TraceWriter<W>,
    clock: &'a dyn Fn() -> u64,
    open: BTreeMap<u64, Open>,
    finished: Vec<(u64, Vec<u32>)>,
    step_start_ns: u64,
    totals: Totals,
    failure: Option<Error>,
}

impl<'a, W: Write> Recorder<'a, W> {
    /// A recorder at the start of its trace.
    pub(crate) fn new(out: W, clock: &'a dyn Fn() -> u64) -> Self {
        Self {
            trace: TraceWriter::new(out),
            clock,
            open: BTreeMap::new(),
            finished: Vec::new(),
            step_start_ns: 0,
            totals: Totals::default(),
            failure: None,
        }
    }

    /// Nanoseconds since the trace began.
    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Writes a line, stamped now.
    pub(crate) fn say(&mut self, body: Body) -> Result<(), Error> {
        self.say_at((self.clock)(), body)
    }

    fn say_at(&mut self, t_ns: u64, body: Body) -> Result<(), Error> {
        Ok(self.trace.write(t_ns, body)?)
    }

    /// Writes the `request` line of request `number` and expects its events from now on.
    pub(crate) fn request(&mut self, number: u64, body: Body) -> Result<(), Error> {
        let t_ns = (self.clock)();
        if let Body::Request { id, prompt_len, .. } = &body {
            let (ids, token_t_ns, batch) = Default::default();
            let open = Open {
                name: id.clone(),
                start_ns: t_ns,
                ids,
                token_t_ns,
                batch,
            };
            self.open.insert(number, open);
            self.totals.requests += 1;
            self.totals.prefill_tokens_logical += *prompt_len as u64;
            self.totals.first_request_ns.get_or_insert(t_ns);
        }
        self.say_at(t_ns, body)
    }

    /// Requests that have not finished.
    pub(crate) fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// A step of the arm starts now.
    pub(crate) fn step_starts(&mut self) {
        self.step_start_ns = (self.clock)();
    }

    /// What finished since this was last asked, with its output; or why the events cannot be recorded.
    pub(crate) fn take_finished(&mut self) -> Result<Vec<(u64, Vec<u32>)>, Error> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(std::mem::take(&mut self.finished)),
        }
    }

    /// Writes the `end` line, if the arm's own counts are those of its events.
    pub(crate) fn end(
        &mut self,
        report: &Report,
        load_ns: u64,
        warmup_ns: u64,
        rss_bytes_peak: Option<u64>,
    ) -> Result<(), Error> {
        let totals = &self.totals;
        if report.counters != totals.counters {
            let (own, told) = (&report.counters, &totals.counters);
            return Err(Error::Contradiction(format!(
                "it counted {own:?} and told {told:?}"
            )));
        }
        let body = Body::End {
            requests: totals.requests,
            prefill_tokens_computed: totals.counters.prefill_tokens_computed,
            prefill_tokens_logical: totals.prefill_tokens_logical,
            prefix_tokens_hit: totals.prefix_tokens_hit,
            decode_tokens: totals.counters.decode_tokens,
            carried_tokens: totals.counters.carried_tokens,
            replayed_tokens: totals.counters.replayed_tokens,
            load_ns,
            warmup_ns,
            wall_ns: totals.last_finish_ns - totals.first_request_ns.unwrap_or_default(),
            prefill_ns: totals.prefill_ns,
            decode_ns: totals.decode_ns,
            kv_bytes_peak: report.kv_bytes_peak,
            rss_bytes_peak,
        };
        self.say(body)
    }

    fn record(&mut self, event: Event<'_>) -> Result<(), Error> {
        let t_ns = (self.clock)();
        let body = match event {
            Event::Prefix {
                request,
                own,
                instance,
                store,
                barred_at,
                approximate: _, // nothing of a session is ever rotated
            } => {
                let matched = own + instance + store;
                self.totals.prefix_tokens_hit += matched as u64;
                let request = self.open(request)?.name.clone();
                Body::Prefix {
                    request,
                    matched,
                    own,
                    instance,
                    fleet: 0,
                    store,
                    barred_at,
                }
            }
            Event::Prefill {
                request,
                computed,
                carried,
                replayed,
                chunks,
            } => {
                let counters = &mut self.totals.counters;
                counters.prefill_tokens_computed += computed as u64;
                counters.carried_tokens += carried as u64;
                counters.replayed_tokens += replayed as u64;
                let request = self.open(request)?.name.clone();
                Body::Prefill {
                    request,
                    computed,
                    carried,
                    replayed,
                    chunks,
                }
            }
            Event::Token {
                request, id, batch, ..
            } => return self.token(t_ns, request, id, batch),
            Event::Finish {
                request,
                reason,
                logits,
            } => self.finish(t_ns, request, reason, logits)?,
            Event::Step {
                phase,
                rows,
                requests,
            } => self.step(t_ns, phase, rows, requests),
        };
        self.say_at(t_ns, body)
    }

    fn token(&mut self, t_ns: u64, request: u64, id: u32, batch: usize) -> Result<(), Error> {
        let open = self.open(request)?;
        open.ids.push(id);
        open.token_t_ns.push(t_ns - open.start_ns);
        open.batch.push(batch);
        self.totals.counters.decode_tokens += 1;
        Ok(())
    }

    fn step(&mut self, t_ns: u64, phase: Phase, rows: usize, requests: usize) -> Body {
        let wall_ns = t_ns - self.step_start_ns;
        let (phase, total_ns) = match phase {
            Phase::Prefill => ("prefill", &mut self.totals.prefill_ns),
            Phase::Decode => ("decode", &mut self.totals.decode_ns),
        };
        *total_ns += wall_ns;
        Body::Step {
            phase: phase.to_owned(),
            rows,
            requests,
            wall_ns,
        }
    }

    fn finish(
        &mut self,
        t_ns: u64,
        request: u64,
        reason: FinishReason,
        logits: &[f32],
    ) -> Result<Body, Error> {
        let open = self.open.remove(&request).ok_or_else(|| unknown(request))?;
        self.totals.last_finish_ns = t_ns;
        self.finished.push((request, open.ids.clone()));
        let reason = match reason {
            FinishReason::Length => "length",
            FinishReason::Eos => "eos",
            FinishReason::Stop => "stop",
        };
        let bytes: Vec<u8> = logits
            .iter()
            .flat_map(|logit| logit.to_le_bytes())
            .collect();
        Ok(Body::Finish {
            request: open.name,
            ids: open.ids,
            token_t_ns: open.token_t_ns,
            batch: open.batch,
            reason: reason.to_owned(),
            logits_sha256: sha256_hex(&bytes),
        })
    }

    fn open(&mut self, request: u64) -> Result<&mut Open, Error> {
        self.open.get_mut(&request).ok_or_else(|| unknown(request))
    }
}

fn unknown(request: u64) -> Error {
    Error::Contradiction(format!("it speaks of request {request}, which is not open"))
}

impl<W: Write> Sink for Recorder<'_, W> {
    fn event(&mut self, event: Event<'_>) {
        if self.failure.is_none() {
            self.failure = self.record(event).err();
        }
    }
}
