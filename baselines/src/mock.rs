//! The scripted arm: takes requests like any other, and for each step the time the envelope scripts.
//!
//! It computes nothing, and what it answers is made up. Not here: how long a step takes (`workloads::mock`).

use std::collections::VecDeque;
use std::hint;

use engine::{Counters, Event, FinishReason, Phase, Request, Sink};
use workloads::mock::{Script, StepKey};

use crate::arm::{Arm, Kv, Quarantined, Report};
use crate::{ArmJob, Error};

/// The request being answered, and how far it has come.
struct Running {
    request: Request,
    prefilled: usize,
    chunks: usize,
    answered: usize,
}

/// One request after another, nothing kept between them.
pub(crate) struct Mock<'a> {
    script: Script,
    clock: &'a dyn Fn() -> u64,
    key: StepKey,
    chunk_tokens: usize,
    waiting: VecDeque<Request>,
    running: Option<Running>,
    counters: Counters,
}

impl<'a> Mock<'a> {
    /// The arm of this job, waiting by `clock`.
    pub(crate) fn new(job: &ArmJob, script: Script, clock: &'a dyn Fn() -> u64) -> Self {
        let key = StepKey {
            seed: job.envelope.workload.seed,
            rep: job.rep,
            step: 0,
        };
        Self {
            script,
            clock,
            key,
            chunk_tokens: job.envelope.run.chunk_tokens,
            waiting: VecDeque::new(),
            running: None,
            counters: Counters::default(),
        }
    }

    /// Prompt positions until there are none left, then one token at a time.
    fn work(
        &mut self,
        running: &mut Running,
        start_ns: u64,
        sink: &mut dyn Sink,
    ) -> (Phase, usize) {
        let request = running.request.id;
        let left = running.request.prompt.len() - running.prefilled;
        let (phase, rows) = match left {
            0 => (Phase::Decode, 1),
            _ => (Phase::Prefill, left.min(self.chunk_tokens)),
        };
        let took_ns = match phase {
            Phase::Prefill => self.script.prefill_ns(rows, self.key),
            Phase::Decode => self.script.decode_ns(rows, self.key),
        };
        self.key.step += 1;
        wait_until(start_ns.saturating_add(took_ns), self.clock);
        if phase == Phase::Prefill {
            running.prefilled += rows;
            running.chunks += 1;
            if rows < left {
                return (phase, rows);
            }
            self.counters.prefill_tokens_computed += running.prefilled as u64;
            sink.event(Event::Prefill {
                request,
                computed: running.prefilled,
                carried: 0,
                replayed: 0,
                chunks: running.chunks,
            });
        }
        sink.event(Event::Token {
            request,
            id: running.answered as u32,
            batch: 1,
            logprobs: &[],
        });
        running.answered += 1;
        self.counters.decode_tokens += 1;
        (phase, rows)
    }
}

impl Arm for Mock<'_> {
    fn submit(&mut self, request: Request) -> Result<(), Error> {
        self.waiting.push_back(request);
        Ok(())
    }

    fn step(&mut self, sink: &mut dyn Sink) -> Result<bool, Error> {
        let start_ns = (self.clock)();
        let next = self.running.take().or_else(|| {
            let request = self.waiting.pop_front()?;
            sink.event(Event::Prefix {
                request: request.id,
                own: 0,
                instance: 0,
                store: 0,
                barred_at: None,
                approximate: false,
            });
            Some(Running {
                request,
                prefilled: 0,
                chunks: 0,
                answered: 0,
            })
        });
        let Some(mut running) = next else {
            return Ok(false);
        };
        let (phase, rows) = self.work(&mut running, start_ns, sink);
        if running.answered < running.request.decode_max {
            self.running = Some(running);
        } else {
            sink.event(Event::Finish {
                request: running.request.id,
                reason: FinishReason::Length,
                logits: &[],
            });
        }
        sink.event(Event::Step {
            phase,
            rows,
            requests: 1,
        });
        Ok(true)
    }

    fn report(&self) -> Report {
        Report {
            counters: self.counters,
            kv_bytes_peak: 0,
        }
    }

    /// Nothing is kept, so nothing is found.
    fn quarantine(&mut self, _ids: &[u32], _start: usize) -> Result<Quarantined, Error> {
        Ok(Quarantined {
            pages: 0,
            running: 0,
        })
    }

    fn kv(&self) -> Result<Kv, Error> {
        Ok(Kv::default())
    }
}

/// Watches the clock: a sleeping process wakes too late to keep to a script of microseconds.
fn wait_until(t_ns: u64, clock: &dyn Fn() -> u64) {
    while clock() < t_ns {
        hint::spin_loop();
    }
}
