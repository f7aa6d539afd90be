//! A session, played to a server: each agent's turn is sent as soon as it may be.
//!
//! As `drive` does with our engine, over the wire, in one thread, so that the client takes little from the cores it shares
//! with the server. Not here: whose turn it is (`fleet`), starting the server (`process`) or what is said to it (`protocol`).

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::Method;
use workloads::envelope::Workload;
use workloads::session::SessionPlan;
use workloads::trace::Body;
use workloads::trace::server::{Answer, Prime, Primed, Slot};

use super::answer::Completed;
use super::client::{Prepared, complete, text};
use super::endpoint::Endpoint;
use super::process::Started;
use super::protocol::Ask;
use super::protocol::llama;
use super::{Host, Trace, WHOLE};
use crate::Error;
use crate::fleet::{Fleet, Next, PREFIX_NAME, request_name};

/// Between two looks at whether the server still runs and anyone still waits.
const LOOK: Duration = Duration::from_millis(100);

/// What is played, and to whom.
pub(super) struct Play<'a> {
    pub(super) plan: SessionPlan,
    pub(super) workload: Workload,
    pub(super) batched: bool,
    pub(super) copies_prefix: bool,
    pub(super) limit_s: u64,
    pub(super) host: &'a Host<'a>,
}

/// The sums of what was played.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) requests: usize,
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: Option<u64>,
    pub(super) computed_tokens: Option<u64>,
    pub(super) decode_tokens: u64,
    pub(super) wall_ns: u64,
}

/// A request that was answered or was not.
struct Landed {
    agent: usize,
    start_ns: u64,
    prepared: Prepared,
    outcome: Result<Completed, Error>,
}

impl Play<'_> {
    /// Plays every turn of every agent and writes what happened.
    pub(super) async fn all<W: Write>(
        &self,
        server: &mut Started,
        trace: &mut Trace<'_, W>,
    ) -> Result<Totals, Error> {
        let prefix = self.plan.prefix();
        trace.say(Body::Text {
            name: PREFIX_NAME.to_owned(),
            ids: prefix.clone(),
        })?;
        let mut totals = Totals {
            cached_tokens: Some(0),
            computed_tokens: Some(0),
            ..Totals::default()
        };
        let start_ns = trace.now();
        if self.copies_prefix {
            self.copy_prefix(server, &prefix, trace, &mut totals)
                .await?;
        }
        let end_ns = self.turns(server, trace, &mut totals).await?;
        totals.wall_ns = end_ns.saturating_sub(start_ns.max(trace.first_sent_ns));
        Ok(totals)
    }

    /// Computes the prefix in the first slot and copies it to the others.
    async fn copy_prefix<W: Write>(
        &self,
        server: &Started,
        prefix: &[u32],
        trace: &mut Trace<'_, W>,
        totals: &mut Totals,
    ) -> Result<(), Error> {
        let endpoint = Endpoint::from(server.address);
        let ask = Ask {
            ids: prefix,
            text: None,
            decode: 0,
            slot: 0,
        };
        let prepared = Prepared::new(&WHOLE, &ask)?;
        trace.sent(Body::Prime(Prime {
            text: PREFIX_NAME.to_owned(),
            sent: prepared.sent.clone(),
        }))?;
        let clock = self.host.clock;
        let primed = complete(&endpoint, &WHOLE, &prepared, self.limit_s, clock).await;
        let primed = primed.map_err(|error| named("the prefix", &error))?;
        add(&mut totals.computed_tokens, primed.told.computed);
        trace.say(Body::Primed(Primed {
            text: PREFIX_NAME.to_owned(),
            status: primed.status,
            usage: primed.told.usage,
            cached: primed.told.cached,
            computed: primed.told.computed,
        }))?;
        let others = (1..self.workload.agents).map(|slot| ("restore", slot));
        for (action, slot) in [("save", 0)].into_iter().chain(others) {
            let (path, body) = llama::slot(action, slot);
            let start_ns = trace.now();
            let answer = text(&endpoint, Method::POST, &path, body, self.limit_s, clock);
            let tokens = llama::slot_tokens(&answer.await?)
                .map_err(|problem| Error::External(format!("{path}: {problem}")))?;
            let wall_ns = trace.now().saturating_sub(start_ns);
            trace.say(Body::Slot(Slot {
                action: action.to_owned(),
                slot,
                tokens,
                wall_ns,
            }))?;
        }
        Ok(())
    }

    /// The turns; when the last answer was there.
    async fn turns<W: Write>(
        &self,
        server: &mut Started,
        trace: &mut Trace<'_, W>,
        totals: &mut Totals,
    ) -> Result<u64, Error> {
        let (plan, workload) = (self.plan.clone(), self.workload.clone());
        let mut fleet = Fleet::new(plan, workload, self.batched, trace.now());
        let mut flights = FuturesUnordered::new();
        let mut end_ns = 0;
        loop {
            let now_ns = trace.now();
            let wait = match fleet.next(now_ns) {
                Next::Make(agent) => {
                    let address = server.address;
                    flights.push(self.submit(address, agent, &mut fleet, (trace, totals))?);
                    continue;
                }
                Next::NotBefore(due_ns) => Duration::from_nanos(due_ns - now_ns).min(LOOK),
                Next::Answer if flights.is_empty() => return Ok(end_ns),
                Next::Answer => LOOK,
            };
            if flights.is_empty() {
                tokio::time::sleep(wait).await;
                self.still_there(server)?;
                continue;
            }
            match tokio::time::timeout(wait, flights.next()).await {
                Ok(Some(landed)) => end_ns = land(landed, &mut fleet, server, (trace, totals))?,
                Ok(None) => {}
                Err(_) => self.still_there(server)?,
            }
        }
    }

    /// Fails once the server has ended or nobody waits for its answers.
    fn still_there(&self, server: &mut Started) -> Result<(), Error> {
        if (self.host.abandoned)() {
            let words = "the server was stopped, since nobody waited for it any more";
            return Err(Error::External(words.to_owned()));
        }
        match server.ended() {
            None => Ok(()),
            Some(status) => Err(gone(status, server)),
        }
    }

    /// Writes an agent's next request and sends it.
    fn submit<W: Write>(
        &self,
        address: SocketAddr,
        agent: usize,
        fleet: &mut Fleet,
        (trace, totals): (&mut Trace<'_, W>, &mut Totals),
    ) -> Result<impl Future<Output = Landed> + use<'_, W>, Error> {
        let line = fleet.make(agent);
        let ask = Ask {
            ids: fleet.transcript(agent),
            text: None,
            decode: self.workload.decode,
            slot: agent,
        };
        let prepared = Prepared::new(&WHOLE, &ask)?;
        totals.requests += 1;
        totals.prompt_tokens += ask.ids.len() as u64;
        let start_ns = trace.sent(line)?;
        let (limit_s, clock) = (self.limit_s, self.host.clock);
        let endpoint = Endpoint::from(address);
        Ok(async move {
            let outcome = complete(&endpoint, &WHOLE, &prepared, limit_s, clock).await;
            Landed {
                agent,
                start_ns,
                prepared,
                outcome,
            }
        })
    }
}

/// Writes an answer and takes it into the agent's transcript; when it was there.
fn land<W: Write>(
    landed: Landed,
    fleet: &mut Fleet,
    server: &mut Started,
    (trace, totals): (&mut Trace<'_, W>, &mut Totals),
) -> Result<u64, Error> {
    let name = request_name(landed.agent, fleet.turn(landed.agent));
    let completed = landed.outcome.map_err(|error| {
        // A server that died says more than a connection that broke.
        std::thread::sleep(LOOK);
        let cause = server.ended().map(|status| gone(status, server));
        named(&format!("request {name}"), &cause.unwrap_or(error))
    })?;
    let Completed {
        connect_ns,
        status,
        ids,
        chunk_t_ns,
        chunk_tokens,
        told,
        ..
    } = completed;
    fleet.answered(landed.agent, &ids);
    add(&mut totals.cached_tokens, told.cached);
    add(&mut totals.computed_tokens, told.computed);
    totals.decode_tokens += ids.len() as u64;
    let chunk_t_ns = chunk_t_ns.iter();
    trace.say(Body::Answer(Answer {
        request: name,
        sent: landed.prepared.sent,
        connect_ns: Some(connect_ns),
        status,
        ids,
        chunk_t_ns: chunk_t_ns
            .map(|t_ns| t_ns.saturating_sub(landed.start_ns))
            .collect(),
        chunk_tokens,
        reason: told.reason,
        usage: told.usage,
        cached: told.cached,
        computed: told.computed,
    }))
}

/// A sum of what is told; none once anything is not.
fn add(sum: &mut Option<u64>, told: Option<usize>) {
    *sum = sum.zip(told).map(|(sum, told)| sum + told as u64);
}

fn named(what: &str, error: &Error) -> Error {
    Error::External(format!("{what}: {error}"))
}

/// Why a server that should run does not.
pub(super) fn gone(status: std::process::ExitStatus, server: &Started) -> Error {
    Error::External(format!(
        "the server stopped by itself ({status}); {}",
        server.last_words()
    ))
}
