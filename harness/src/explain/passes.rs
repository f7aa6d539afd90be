//! A session that was asked several times: what each time computed, and how soon its answers began.
//!
//! Not here: runs that ask once, where there is nothing to tell apart.

use std::collections::BTreeMap;

use serde::Serialize;
use workloads::envelope::ResolvedEnvelope;
use workloads::statistics::median_u64;
use workloads::trace::Body;

use crate::sealed::Trace;

/// One time the session was asked, of one arm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Pass {
    /// Prompt tokens found in a cache, in one repetition.
    pub(super) found: u64,
    /// Prompt tokens computed, in one repetition.
    pub(super) computed: u64,
    /// Median time to first token over all repetitions.
    pub(super) ttft_ns: Option<u64>,
}

/// What an arm did each time, by its `traces`; nothing where the session is asked once.
pub(super) fn of<'a>(
    envelope: &ResolvedEnvelope,
    traces: impl Iterator<Item = &'a Trace>,
) -> Vec<Pass> {
    let workload = &envelope.workload;
    if workload.passes < 2 {
        return Vec::new();
    }
    let mut passes = vec![Pass::default(); workload.passes];
    let mut firsts = vec![Vec::new(); workload.passes];
    for trace in traces {
        let mut pass_of = BTreeMap::new();
        for line in &trace.lines {
            match &line.body {
                Body::Request { id, turn, .. } => {
                    pass_of.insert(id.as_str(), turn / workload.turns);
                }
                Body::Prefix {
                    request, matched, ..
                } if trace.rep == 0 => {
                    if let Some(pass) = place(&pass_of, request, &mut passes) {
                        pass.found += *matched as u64;
                    }
                }
                Body::Prefill {
                    request, computed, ..
                } if trace.rep == 0 => {
                    if let Some(pass) = place(&pass_of, request, &mut passes) {
                        pass.computed += *computed as u64;
                    }
                }
                Body::Finish {
                    request,
                    token_t_ns,
                    ..
                } => {
                    let firsts = place(&pass_of, request, &mut firsts);
                    if let Some((firsts, first_ns)) = firsts.zip(token_t_ns.first()) {
                        firsts.push(*first_ns);
                    }
                }
                _ => {}
            }
        }
    }
    for (pass, firsts) in passes.iter_mut().zip(&firsts) {
        pass.ttft_ns = median_u64(firsts);
    }
    passes
}

/// What stands for the time a request was made in.
fn place<'a, T>(
    pass_of: &BTreeMap<&str, usize>,
    request: &str,
    passes: &'a mut [T],
) -> Option<&'a mut T> {
    passes.get_mut(*pass_of.get(request)?)
}
