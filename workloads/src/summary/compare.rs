//! Arms against each other: the same answers or the first difference, and what each rung of the ladder saves.
//!
//! Not here: the statistical rule (`statistics`).

use std::collections::BTreeMap;

use super::read::{Answer, Reading};
use crate::arm::MOCK;
use crate::envelope::ResolvedEnvelope;
use crate::record::{ArmRecord, Divergence, IdentityRecord, RatioRecord};
use crate::statistics::spread::outliers;
use crate::statistics::{judge, median, pair_ratios, round6};

/// Arm over denominator, in the order of the record.
const LADDER: [(&str, &str); 6] = [
    ("agent-kv", "naive"),
    ("agent-kv-batched", "agent-kv"),
    ("instance-shared", "agent-kv-batched"),
    ("fused", "instance-shared"),
    ("fused", "agent-kv"),
    ("fused", "naive"),
];
/// The rung the whole run is judged by.
const HEADLINE: (&str, &str) = ("fused", "instance-shared");

/// Compares every answer of every completed arm with the first given to the same request.
pub(super) fn identity(
    envelope: &ResolvedEnvelope,
    arms: &BTreeMap<String, ArmRecord>,
    readings: &[Reading],
) -> IdentityRecord {
    let completed =
        |name: &str| name != MOCK.name && arms.get(name).is_some_and(|arm| arm.error.is_none());
    let mut first_answers = BTreeMap::new();
    let first_divergence = readings
        .iter()
        .filter(|reading| completed(&reading.arm))
        .find_map(|reading| divergence(&mut first_answers, reading));
    IdentityRecord {
        equal: first_divergence.is_none(),
        arms: envelope
            .run
            .arms
            .iter()
            .filter(|name| completed(name))
            .cloned()
            .collect(),
        requests: envelope.requests_compared(),
        first_divergence,
    }
}

/// Where `reading` departs from the first answers; what it is the first to answer joins them.
fn divergence<'a>(
    first_answers: &mut BTreeMap<(usize, usize), &'a Answer>,
    reading: &'a Reading,
) -> Option<Divergence> {
    reading.answers.iter().find_map(|(&(agent, turn), answer)| {
        let expected = first_answers.entry((agent, turn)).or_insert(answer);
        let position = expected.difference(answer)?;
        Some(Divergence {
            cell: None,
            arm: reading.arm.clone(),
            rep: reading.rep,
            agent,
            turn,
            position,
        })
    })
}

/// Every rung whose two arms completed.
pub(super) fn ratios(
    envelope: &ResolvedEnvelope,
    arms: &BTreeMap<String, ArmRecord>,
    readings: &[Reading],
    identity: &IdentityRecord,
) -> Vec<RatioRecord> {
    let diverged = identity.first_divergence.as_ref().map(|at| {
        let what = match at.position {
            Some(position) => format!("output token {position}"),
            None => "logits".to_owned(),
        };
        format!(
            "answers differ: {}-{}, agent {}, turn {}, {what}",
            at.arm, at.rep, at.agent, at.turn
        )
    });
    LADDER
        .iter()
        .filter_map(|rung| {
            let unequal = unequal_turns(envelope, rung);
            let withheld = diverged.clone().or(unequal);
            ratio(
                rung,
                arms,
                token_ratio(envelope, rung, arms, readings)?,
                withheld,
            )
        })
        .collect()
}

/// Why arms that play unequal turns have no ratio of times.
fn unequal_turns(
    envelope: &ResolvedEnvelope,
    &(name, denominator): &(&str, &str),
) -> Option<String> {
    let turns = |arm: &str| envelope.workload_of(arm).turns;
    let (own, other) = (turns(name), turns(denominator));
    (own != other).then(|| format!("unequal turns: {name} {own}, {denominator} {other}"))
}

/// Prefill tokens of the denominator over those of the arm, in the turns both play.
fn token_ratio(
    envelope: &ResolvedEnvelope,
    rung: &(&str, &str),
    arms: &BTreeMap<String, ArmRecord>,
    readings: &[Reading],
) -> Option<f64> {
    let (name, denominator) = *rung;
    let (arm, base) = (arms.get(name)?, arms.get(denominator)?);
    let all = (arm.prefill_tokens_computed?, base.prefill_tokens_computed?);
    if unequal_turns(envelope, rung).is_none() {
        return Some(all.1 as f64 / all.0 as f64);
    }
    let turns = |arm: &str| envelope.workload_of(arm).turns;
    let both = turns(name).min(turns(denominator));
    let computed = |arm: &str| {
        let reading = readings.iter().find(|reading| reading.arm == arm)?;
        let by_turn = reading.computed_by_turn.range(..both);
        Some(by_turn.map(|(_, computed)| computed).sum::<u64>() as f64)
    };
    Some(computed(denominator)? / computed(name)?)
}

fn ratio(
    &(name, denominator): &(&str, &str),
    arms: &BTreeMap<String, ArmRecord>,
    tokens: f64,
    withheld: Option<String>,
) -> Option<RatioRecord> {
    let (arm, base) = (arms.get(name)?, arms.get(denominator)?);
    let mut record = RatioRecord {
        arm: name.to_owned(),
        denominator: denominator.to_owned(),
        label: (denominator == "naive").then(|| "floor".to_owned()),
        pairs: arm.samples.len().min(base.samples.len()),
        prefill_tokens: round6(tokens),
        wall: None,
        wall_low: None,
        wall_high: None,
        prefill: None,
        verdict: None,
        withheld,
        outliers: None,
    };
    if record.withheld.is_some() {
        return Some(record);
    }
    let pairs = || base.samples.iter().zip(&arm.samples);
    let walls = pair_ratios(pairs().map(|(base, arm)| (base.wall_ns, arm.wall_ns)));
    let prefills = pair_ratios(pairs().map(|(base, arm)| (base.prefill_ns, arm.prefill_ns)));
    record.prefill = prefills.as_deref().and_then(median).map(round6);
    match walls {
        Some(walls) => fill_wall(&mut record, &walls),
        None => {
            record.withheld = Some("a repetition took 0 ns: the clock is too coarse".to_owned());
        }
    }
    Some(record)
}

fn fill_wall(record: &mut RatioRecord, walls: &[f64]) {
    let judged = judge(walls);
    record.wall = judged.median;
    record.wall_low = judged.interval.map(|interval| interval.low);
    record.wall_high = judged.interval.map(|interval| interval.high);
    record.outliers = Some(outliers(walls));
    record.verdict = Some(judged.verdict.to_owned());
}

/// The verdict of the rung the run is judged by.
pub(super) fn verdict(ratios: &[RatioRecord]) -> Option<String> {
    ratios
        .iter()
        .find(|ratio| (ratio.arm.as_str(), ratio.denominator.as_str()) == HEADLINE)
        .and_then(|ratio| ratio.verdict.clone())
}
