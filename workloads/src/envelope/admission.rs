//! What an envelope says of requests that wait for room: who of them is let in first.
//!
//! Not here: who lets them in (`engine`), or when they come (`arrivals`).

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::check::Refusal;
use super::{Order, RunAsked, Workload};
use crate::arm::{MOCK, is_server};

/// More than a session has requests: nobody is overtaken more often.
const OVERTAKEN: RangeInclusive<usize> = 0..=1 << 20;

/// An order of admission other than first come, first served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Who goes first.
    pub order: AdmissionOrder,
    /// How often later-comers may be let in before a request, at most.
    pub overtaken_max: usize,
}

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionOrder {
    /// Whoever would find most in the cache, the first come of equals.
    CacheAware,
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            order: AdmissionOrder::CacheAware,
            overtaken_max,
        } = self;
        write!(
            f,
            "{{ order = \"cache-aware\", overtaken_max = {overtaken_max} }}"
        )
    }
}

/// Refuses an order among requests of which never two wait, or that somebody else would have to keep.
pub(super) fn check(workload: &Workload, run: &RunAsked) -> Result<(), Refusal> {
    let Some(asked) = run.admission else {
        return Ok(());
    };
    let server = run.arms.iter().find(|arm| is_server(arm));
    let wanted = if !OVERTAKEN.contains(&asked.overtaken_max) {
        format!(
            "overtaken_max from {} to {}",
            OVERTAKEN.start(),
            OVERTAKEN.end()
        )
    } else if workload.order == Order::Agents {
        "nothing where workload.order is \"agents\": one request is there at a time".to_owned()
    } else if let Some(server) = server {
        format!("no {server} in run.arms: whom another engine lets in first is its own affair")
    } else if run.arms.iter().any(|arm| arm == MOCK.name) {
        format!("no arm {} in run.arms: it keeps nothing", MOCK.name)
    } else {
        return Ok(());
    };
    Err(Refusal::new("run.admission", asked, wanted))
}

/// Refuses for cells what only sessions have.
pub(crate) fn refuse_for_cells(run: &RunAsked) -> Result<(), Refusal> {
    let Some(asked) = run.admission else {
        return Ok(());
    };
    let wanted = "nothing: in a cell all agents are let in together";
    Err(Refusal::new("run.admission", asked, wanted))
}
