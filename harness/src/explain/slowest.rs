//! The slowest request of each arm, and which part of it took the time.
//!
//! Not here: statistics; one request is an anecdote, and is told as one.

use std::collections::HashMap;

use serde::Serialize;
use workloads::statistics::median_u64;
use workloads::trace::Body;

use crate::sealed::Trace;

/// One request by its times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Slow {
    pub(super) request: String,
    pub(super) rep: usize,
    /// From being made to its last token.
    pub(super) total_ns: u64,
    /// Median of all requests of the arm.
    pub(super) median_ns: u64,
    /// From being made to being admitted.
    pub(super) waiting_ns: u64,
    /// From there until its prompt was in the cache.
    pub(super) reading_ns: u64,
    /// From there to its last token.
    pub(super) writing_ns: u64,
    /// Prompt tokens computed for it.
    pub(super) computed: usize,
    /// Tokens it wrote.
    pub(super) wrote: usize,
    /// Requests that wrote in the same steps, at most.
    pub(super) batch_max: usize,
}

#[derive(Clone, Copy, Default)]
struct Open {
    made_ns: u64,
    admitted_ns: u64,
    read_ns: u64,
    computed: usize,
}

/// The slowest request over all `traces` of one arm.
pub(super) fn of<'a>(traces: impl Iterator<Item = &'a Trace>) -> Option<Slow> {
    let all: Vec<Slow> = traces.flat_map(requests).collect();
    let totals: Vec<u64> = all.iter().map(|slow| slow.total_ns).collect();
    let median_ns = median_u64(&totals)?;
    let slowest = all.into_iter().max_by_key(|slow| slow.total_ns)?;
    Some(Slow {
        median_ns,
        ..slowest
    })
}

fn requests(trace: &Trace) -> Vec<Slow> {
    let mut open: HashMap<&str, Open> = HashMap::new();
    let mut done = Vec::new();
    for line in &trace.lines {
        match &line.body {
            Body::Request { id, .. } => {
                open.entry(id).or_default().made_ns = line.t_ns;
            }
            Body::Prefix { request, .. } => {
                open.entry(request).or_default().admitted_ns = line.t_ns;
            }
            Body::Prefill {
                request, computed, ..
            } => {
                let open = open.entry(request).or_default();
                (open.read_ns, open.computed) = (line.t_ns, *computed);
            }
            Body::Finish {
                request,
                token_t_ns,
                batch,
                ..
            } => {
                let it = open.get(request.as_str()).copied().unwrap_or_default();
                let total_ns = token_t_ns.last().copied().unwrap_or(0);
                let read_ns = it.read_ns.saturating_sub(it.made_ns);
                done.push(Slow {
                    request: request.clone(),
                    rep: trace.rep,
                    total_ns,
                    median_ns: 0,
                    waiting_ns: it.admitted_ns.saturating_sub(it.made_ns),
                    reading_ns: it.read_ns.saturating_sub(it.admitted_ns),
                    writing_ns: total_ns.saturating_sub(read_ns),
                    computed: it.computed,
                    wrote: token_t_ns.len(),
                    batch_max: batch.iter().copied().max().unwrap_or(0),
                });
            }
            _ => {}
        }
    }
    done
}
