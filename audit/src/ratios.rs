//! The ladder, and other engines beside it: how many times less one arm needed than another, recomputed from the samples.
//!
//! Not here: the statistics themselves.

use crate::arms::Arms;
use crate::oracle::{Cache, LADDER, is_served};
use crate::record::{Identity, Ratio};
use crate::server::figures::withheld;
use crate::statistics::{interval, median, rounded, verdict};

/// (arm, denominator), in the order of the record.
const ROWS: [(&str, &str); 6] = [
    ("agent-kv", "naive"),
    ("agent-kv-batched", "agent-kv"),
    ("instance-shared", "agent-kv-batched"),
    ("fused", "instance-shared"),
    ("fused", "agent-kv"),
    ("fused", "naive"),
];
/// Why no wall compares where it is mostly the schedule's.
const BY_CLOCK: &str = "requests come by the clock";
/// The arm of ours that every other engine is set beside.
const BEST: &str = "fused";

/// Every row whose two arms completed. `stated` lends its words where a figure is withheld for no reason the format words:
/// any will do, but not none.
pub(crate) fn recompute(arms: &Arms<'_>, identity: &Identity, stated: &[Ratio]) -> Vec<Ratio> {
    let declared = arms.envelope.run.arms.iter().map(String::as_str);
    let served = declared.filter(|arm| is_served(arm));
    let beside = served.flat_map(|theirs| {
        let ours = alike(theirs).filter(|ours| *ours != BEST);
        ours.into_iter()
            .chain([BEST])
            .map(move |ours| (ours, theirs))
    });
    let rows = ROWS.into_iter().chain(beside);
    rows.filter_map(|(arm, denominator)| row(arm, denominator, arms, identity, stated))
        .collect()
}

/// The arm of ours that has the cache of another engine's and batches as it does.
fn alike(theirs: &str) -> Option<&'static str> {
    let policy = Cache::of_arm(theirs);
    LADDER
        .into_iter()
        .find(|ours| Cache::of_arm(ours) == policy)
}

/// One row, if both arms completed.
fn row(
    arm: &str,
    denominator: &str,
    arms: &Arms<'_>,
    identity: &Identity,
    stated: &[Ratio],
) -> Option<Ratio> {
    let (ours, theirs) = (arms.walls(arm)?, arms.walls(denominator)?);
    let turns = (arms.turns(arm), arms.turns(denominator));
    let both = turns.0.min(turns.1);
    let computed = (arms.computed(denominator, both)).zip(arms.computed(arm, both));
    let mut ratio = Ratio {
        arm: arm.to_owned(),
        denominator: denominator.to_owned(),
        label: (denominator == "naive").then(|| "floor".to_owned()),
        pairs: ours.len().min(theirs.len()) as u64,
        prefill_tokens: computed.map(|(theirs, ours)| rounded(theirs as f64 / ours as f64)),
        wall: None,
        wall_low: None,
        wall_high: None,
        prefill: None,
        verdict: None,
        withheld: None,
        outliers: None, // added where the record states them
    };
    if identity.equal {
        let unequal = (turns.0 != turns.1).then(|| {
            let (ours, theirs) = turns;
            format!("unequal turns: {arm} {ours}, {denominator} {theirs}")
        });
        let answers = || is_served(denominator).then(|| withheld(denominator, arms));
        let by_clock = arms.envelope.workload.arrivals.is_some();
        let by_clock = by_clock.then(|| BY_CLOCK.to_owned());
        ratio.withheld = by_clock.or(unequal).or_else(|| answers().flatten());
        if ratio.withheld.is_none() {
            time_walls(&mut ratio, &theirs, &ours);
            time_prefills(&mut ratio, arms);
        }
    }
    if ratio.verdict.is_none() && ratio.withheld.is_none() {
        let same_row = |row: &&Ratio| row.arm == arm && row.denominator == denominator;
        let row = stated.iter().find(same_row);
        let words = row.and_then(|row| row.withheld.clone());
        let words = words.filter(|words| !words.is_empty());
        ratio.withheld = Some(words.unwrap_or("why".into()));
    }
    Some(ratio)
}

/// The run's verdict: that of fused/instance-shared.
pub(crate) fn headline(ratios: &[Ratio]) -> Option<&str> {
    let row = ratios
        .iter()
        .find(|row| row.arm == "fused" && row.denominator == "instance-shared");
    row.and_then(|row| row.verdict.as_deref())
}

fn time_walls(ratio: &mut Ratio, theirs: &[u64], ours: &[u64]) {
    let Some(walls) = pairs(theirs, ours) else {
        return;
    };
    // Judged as written, so that the printed interval and its verdict agree.
    let limits = interval(&walls).map(|(low, high)| (rounded(low), rounded(high)));
    ratio.wall = median(&walls).map(rounded);
    (ratio.wall_low, ratio.wall_high) = limits.unzip();
    ratio.verdict = Some(verdict(walls.len(), limits).to_owned());
}

/// Of two arms of ours: another engine's work is not timed apart.
fn time_prefills(ratio: &mut Ratio, arms: &Arms<'_>) {
    let prefills = |arm: &str| -> Option<Vec<u64>> {
        let ends = arms.ends(arm)?;
        Some(ends.iter().map(|end| end.prefill_ns).collect())
    };
    let both = prefills(&ratio.denominator).zip(prefills(&ratio.arm));
    let ratios = both.and_then(|(theirs, ours)| pairs(&theirs, &ours));
    ratio.prefill = ratios.and_then(|it| median(&it)).map(rounded);
}

/// Denominator over arm for each pair of equal repetitions; `None` where a time is zero.
fn pairs(theirs: &[u64], ours: &[u64]) -> Option<Vec<f64>> {
    let ratio = |(theirs, ours): (&u64, &u64)| (*ours > 0).then(|| *theirs as f64 / *ours as f64);
    theirs.iter().zip(ours).map(ratio).collect()
}
