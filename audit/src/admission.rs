//! Who of those that wait goes first, where an envelope says so: what may be declared.
//!
//! Not here: whether a trace keeps to it (`trace::overtaken`). Whom a cache-aware order picks is asserted, since what a cache
//! holds between two lines stands in no trace; that nobody is overtaken too often can be counted.

use serde::Deserialize;

use crate::envelope::{Plan, Workload};
use crate::notebook::{Layer, Notebook, quote};
use crate::oracle::{MOCK, is_served};

/// No session an auditor follows has more requests.
const MAX_OVERTAKEN: u64 = 1 << 20;

/// An order other than first come, first served.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Admission {
    order: String,
    pub(crate) overtaken_max: u64,
}

/// Checks what an envelope declares, if it does.
pub(crate) fn check(work: &Workload, run: &Plan, notes: &mut Notebook) {
    let Some(Admission {
        order,
        overtaken_max,
    }) = &run.admission
    else {
        return;
    };
    notes.check(Layer::Format, order == "cache-aware", || {
        let order = quote(order);
        format!("run.admission.order is {order}, expected cache-aware")
    });
    notes.check(Layer::Format, *overtaken_max <= MAX_OVERTAKEN, || {
        format!("run.admission.overtaken_max is {overtaken_max}, expected at most {MAX_OVERTAKEN}")
    });
    notes.check(Layer::Format, work.order != "agents", || {
        "run.admission: where agents come one by one nobody waits".to_owned()
    });
    let others = |arm: &String| arm == MOCK || is_served(arm);
    notes.check(Layer::Format, !run.arms.iter().any(others), || {
        "run.admission is for arms of our engine, and there are others in run.arms".to_owned()
    });
}
