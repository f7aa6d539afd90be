//! Our engine over the others, cell by cell, by the one statistical rule.
//!
//! Not here: the rule (`statistics`).

use std::collections::BTreeMap;

use crate::cells::arm;
use crate::record::{CellArmRecord, CellRatio, CellSample, Divergence};
use crate::statistics::judge;
use crate::statistics::spread::outliers;

const UNSHARED: &str = "fak-unshared";

/// The rate of one sample.
pub(super) fn tokens_per_s(sample: &CellSample) -> f64 {
    sample.tokens as f64 * 1e9 / sample.timed_ns as f64
}

/// Our engine over its better external opponent, then over itself without shared-prefix attention.
pub(super) fn ratios(
    asked: &[String],
    arms: &BTreeMap<String, CellArmRecord>,
    divergence: Option<&Divergence>,
) -> Vec<CellRatio> {
    let external = best_external(asked, arms);
    let unshared = arms.contains_key(UNSHARED).then_some(UNSHARED);
    external
        .into_iter()
        .chain(unshared)
        .filter_map(|denominator| ratio(denominator, arms, divergence))
        .collect()
}

/// The external arm with the greatest median rate, the first of equals; none unless all that were asked completed, since
/// the better of them might be the one that failed.
fn best_external<'a>(
    asked: &'a [String],
    arms: &BTreeMap<String, CellArmRecord>,
) -> Option<&'a str> {
    let mut best: Option<(&str, f64)> = None;
    for name in asked {
        if !arm::named(name).is_ok_and(arm::CellArm::is_external) {
            continue;
        }
        let rate = arms.get(name)?.tokens_per_s?;
        if best.is_none_or(|(_, known)| rate > known) {
            best = Some((name, rate));
        }
    }
    best.map(|(name, _)| name)
}

fn ratio(
    denominator: &str,
    arms: &BTreeMap<String, CellArmRecord>,
    divergence: Option<&Divergence>,
) -> Option<CellRatio> {
    let (ours, theirs) = (arms.get(arm::OURS)?, arms.get(denominator)?);
    if ours.error.is_some() || theirs.error.is_some() {
        return None;
    }
    let mut record = CellRatio {
        arm: arm::OURS.to_owned(),
        denominator: denominator.to_owned(),
        pairs: ours.samples.len().min(theirs.samples.len()),
        speed: None,
        low: None,
        high: None,
        verdict: None,
        withheld: divergence
            .map(|at| format!("answers differ: {}-{}, agent {}", at.arm, at.rep, at.agent)),
        outliers: None,
    };
    if record.withheld.is_some() {
        return Some(record);
    }
    let pairs = ours.samples.iter().zip(&theirs.samples);
    let speeds: Vec<f64> = pairs
        .map(|(ours, theirs)| tokens_per_s(ours) / tokens_per_s(theirs))
        .collect();
    let judged = judge(&speeds);
    record.speed = judged.median;
    record.low = judged.interval.map(|it| it.low);
    record.high = judged.interval.map(|it| it.high);
    record.outliers = Some(outliers(&speeds));
    record.verdict = Some(judged.verdict.to_owned());
    Some(record)
}
