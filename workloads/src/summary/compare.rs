//! Arms against each other: the same answers or the first difference, what each rung of the ladder saves, and how ours
//! stand to other engines.
//!
//! Not here: the statistical rule (`statistics`).

use std::collections::BTreeMap;

use super::read::{Answer, Reading};
use crate::arm::{MOCK, SERVERS, is_server};
use crate::envelope::{ResolvedEnvelope, Workload};
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
const HEADLINE: (&str, &str) = (FUSED, "instance-shared");
/// The arm that stands beside every other engine.
const FUSED: &str = "fused";

/// Compares every answer of every completed arm with the first given to the same request.
pub(super) fn identity(
    envelope: &ResolvedEnvelope,
    arms: &BTreeMap<String, ArmRecord>,
    readings: &[Reading],
) -> IdentityRecord {
    let compared = |name: &str| name != MOCK.name && !is_server(name);
    let completed =
        |name: &str| compared(name) && arms.get(name).is_some_and(|arm| arm.error.is_none());
    let mut first_answers = BTreeMap::new();
    let first_divergence = readings
        .iter()
        .filter(|reading| completed(&reading.place.arm))
        .find_map(|reading| divergence(&mut first_answers, reading, &envelope.workload));
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
    workload: &Workload,
) -> Option<Divergence> {
    reading.answers.iter().find_map(|(&(agent, turn), answer)| {
        let asked = (agent, workload.turn_of(turn)); // again, where it was asked before
        let expected = first_answers.entry(asked).or_insert(answer);
        let position = expected.difference(answer)?;
        Some(Divergence {
            cell: None,
            arm: reading.place.arm.clone(),
            rep: reading.place.rep,
            agent,
            turn,
            position,
        })
    })
}

/// Prefill tokens computed, by arm and turn.
pub(super) type ByTurn<'a> = BTreeMap<&'a str, &'a BTreeMap<usize, u64>>;

/// What ratios are made of.
pub(super) struct Compared<'a> {
    pub(super) envelope: &'a ResolvedEnvelope,
    pub(super) arms: &'a BTreeMap<String, ArmRecord>,
    pub(super) computed: ByTurn<'a>,
    pub(super) identity: &'a IdentityRecord,
}

impl Compared<'_> {
    /// Every rung whose two arms completed, then ours over every other engine that did.
    pub(super) fn ratios(&self) -> Vec<RatioRecord> {
        let ladder = LADDER.iter().filter_map(|&rung| self.ratio(rung));
        let asked = self.envelope.run.arms.iter();
        let servers = asked.filter_map(|name| SERVERS.iter().find(|arm| arm.name == name));
        let beside = servers.flat_map(|server| {
            let alike = server.of_ours_alike().map(|ours| ours.name);
            let ours = alike.into_iter().chain([FUSED]);
            ours.map(|name| (name, server.name))
        });
        ladder
            .chain(beside.filter_map(|pair| self.ratio(pair)))
            .collect()
    }

    /// An arm over another; `None` unless both completed.
    fn ratio(&self, (name, denominator): (&str, &str)) -> Option<RatioRecord> {
        let completed = |name: &str| self.arms.get(name).filter(|arm| arm.error.is_none());
        let (arm, base) = (completed(name)?, completed(denominator)?);
        let withheld = self
            .diverged()
            .or_else(|| self.clocked())
            .or_else(|| self.unequal_turns(name, denominator))
            .or_else(|| is_server(denominator).then(|| unscored(denominator, base))?);
        let mut record = RatioRecord {
            arm: name.to_owned(),
            denominator: denominator.to_owned(),
            label: (denominator == "naive").then(|| "floor".to_owned()),
            pairs: arm.samples.len().min(base.samples.len()),
            prefill_tokens: self.token_ratio(name, denominator).map(round6),
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
        let prefills = pairs().map(|(base, arm)| base.prefill_ns.zip(arm.prefill_ns));
        let prefills: Option<Vec<_>> = prefills.collect();
        let prefills = prefills.and_then(|pairs| pair_ratios(pairs.into_iter()));
        record.prefill = prefills.as_deref().and_then(median).map(round6);
        match walls {
            Some(walls) => fill_wall(&mut record, &walls),
            None => {
                record.withheld =
                    Some("a repetition took 0 ns: the clock is too coarse".to_owned());
            }
        }
        Some(record)
    }

    /// Why nothing of ours compares: it answered in two ways.
    fn diverged(&self) -> Option<String> {
        let at = self.identity.first_divergence.as_ref()?;
        let what = match at.position {
            Some(position) => format!("output token {position}"),
            None => "logits".to_owned(),
        };
        Some(format!(
            "answers differ: {}-{}, agent {}, turn {}, {what}",
            at.arm, at.rep, at.agent, at.turn
        ))
    }

    /// Why times say little of requests that did not come as fast as they were answered.
    fn clocked(&self) -> Option<String> {
        let arrivals = self.envelope.workload.arrivals;
        arrivals.map(|_| "requests come by the clock".to_owned())
    }

    fn turns(&self, arm: &str) -> usize {
        self.envelope.workload_of(arm).turns_asked()
    }

    /// Why arms that play unequal turns have no ratio of times.
    fn unequal_turns(&self, name: &str, denominator: &str) -> Option<String> {
        let (own, other) = (self.turns(name), self.turns(denominator));
        (own != other).then(|| format!("unequal turns: {name} {own}, {denominator} {other}"))
    }

    /// Prefill tokens of the denominator over those of the arm, in the turns both play; `None` if either is unknown.
    fn token_ratio(&self, name: &str, denominator: &str) -> Option<f64> {
        let both = self.turns(name).min(self.turns(denominator));
        let computed = |arm: &str| {
            let all = self.arms.get(arm)?.prefill_tokens_computed?;
            if self.turns(arm) == both {
                return Some(all as f64);
            }
            let by_turn = self.computed.get(arm)?.range(..both);
            Some(by_turn.map(|(_, computed)| computed).sum::<u64>() as f64)
        };
        Some(computed(denominator)? / computed(name)?)
    }
}

/// Why there is no ratio over another engine that nobody here set, whose answers our model did not read, or finds too far
/// from its own.
fn unscored(name: &str, server: &ArmRecord) -> Option<String> {
    let program = server.server.as_ref().map(|server| &server.program);
    if program.is_some_and(|program| program.arguments.is_empty()) {
        return Some(format!("how it was started is unknown: {name}"));
    }
    let Some(score) = &server.score else {
        return Some(format!("not scored: {name}"));
    };
    let at = score.beyond_margin.as_ref()?;
    Some(format!(
        "outside the margin: {name}-{}, agent {}, turn {}, output token {}, {} micronats",
        at.rep, at.agent, at.turn, at.position, at.micronats
    ))
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
