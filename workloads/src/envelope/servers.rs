//! What an envelope says of arms that another engine answers.
//!
//! Not here: how one is started and spoken to (`baselines`), or who they are (`arm`).

use super::check::{Refusal, within};
use super::{Evidence, Run, RunAsked, Workload};
use crate::arm::{self, Runner, is_server};

/// A tenth of a nat: about where sums in another order part two ids. Products of bytes part them further, and envelopes
/// in mode `fast` say by how much they may.
const MARGIN_MILLINATS: u64 = 100;
/// Ten minutes: a prompt of some thousand ids on a slow machine.
const REQUEST_LIMIT_S: u64 = 600;

impl Run {
    /// How far below the best an id of another engine's answer may be by our model, in thousandths of a nat.
    pub fn margin_millinats(&self) -> u64 {
        self.margin_millinats.unwrap_or(MARGIN_MILLINATS)
    }

    /// How long another engine may take for one request.
    pub fn request_limit_s(&self) -> u64 {
        self.request_limit_s.unwrap_or(REQUEST_LIMIT_S)
    }
}

/// Refuses limits nobody means, and what only our own arms can do.
pub(super) fn check(
    workload: &Workload,
    run: &RunAsked,
    evidence: &Evidence,
) -> Result<(), Refusal> {
    let margin = run.margin_millinats.unwrap_or(MARGIN_MILLINATS) as usize;
    within("run.margin_millinats", margin, &(1..=10_000))?;
    let limit = run.request_limit_s.unwrap_or(REQUEST_LIMIT_S) as usize;
    within("run.request_limit_s", limit, &(1..=7_200))?;
    let Some(server) = run.arms.iter().find(|arm| is_server(arm)) else {
        return Ok(());
    };
    let ours = |name: &String| arm::named(name).is_ok_and(|arm| arm.runner == Runner::Engine);
    if !run.arms.iter().any(ours) {
        let asked = run.arms.join(", ");
        let wanted =
            "an arm of ours too, for what a run states of model and settings is ours: add fused";
        return Err(Refusal::new("run.arms", asked, wanted));
    }
    let wanted = |what: &str| format!("no {server} in run.arms: {what} of ours only");
    if let Some(asked) = workload.quarantine {
        let field = "workload.quarantine";
        return Err(Refusal::new(field, asked, wanted("a text is taken out")));
    }
    if evidence.kv {
        return Err(Refusal::new(
            "evidence.kv",
            "true",
            wanted("a cache is shown"),
        ));
    }
    Ok(())
}

/// Refuses for cells what only sessions have.
pub(crate) fn refuse_for_cells(run: &RunAsked) -> Result<(), Refusal> {
    let wanted = "nothing: only sessions are answered by other servers";
    for (field, value) in [
        ("run.margin_millinats", run.margin_millinats),
        ("run.request_limit_s", run.request_limit_s),
    ] {
        if let Some(value) = value {
            return Err(Refusal::new(field, value, wanted));
        }
    }
    Ok(())
}
