//! The ladder: how many times less one arm needed than another, recomputed from the samples.
//!
//! Not here: the statistics themselves.

use crate::figures::Arms;
use crate::line::End;
use crate::record::{Identity, Ratio};
use crate::statistics::{interval, median, rounded, verdict};

/// (arm, denominator), in the order of the record.
const LADDER: [(&str, &str); 6] = [
    ("agent-kv", "naive"),
    ("agent-kv-batched", "agent-kv"),
    ("instance-shared", "agent-kv-batched"),
    ("fused", "instance-shared"),
    ("fused", "agent-kv"),
    ("fused", "naive"),
];

/// Every row whose two arms completed. `stated` lends its words where a figure is withheld: any reason will do, but not
/// none.
pub(crate) fn recompute(arms: &Arms<'_>, identity: &Identity, stated: &[Ratio]) -> Vec<Ratio> {
    let rows = LADDER.iter().filter_map(|(arm, denominator)| {
        let (ours, theirs) = (arms.ends(arm)?, arms.ends(denominator)?);
        let turns = (arms.turns(arm), arms.turns(denominator));
        let both = turns.0.min(turns.1);
        let computed = (arms.computed(arm, both)?, arms.computed(denominator, both)?);
        let mut ratio = Ratio {
            arm: (*arm).to_owned(),
            denominator: (*denominator).to_owned(),
            label: (*denominator == "naive").then(|| "floor".to_owned()),
            pairs: ours.len().min(theirs.len()) as u64,
            prefill_tokens: rounded(computed.1 as f64 / computed.0 as f64),
            wall: None,
            wall_low: None,
            wall_high: None,
            prefill: None,
            verdict: None,
            withheld: None,
            outliers: None, // added where the record states them
        };
        if identity.equal && turns.0 != turns.1 {
            let reason = format!(
                "unequal turns: {arm} {}, {denominator} {}",
                turns.0, turns.1
            );
            ratio.withheld = Some(reason);
            return Some(ratio);
        }
        if identity.equal {
            time_ratios(&mut ratio, &theirs, &ours);
        }
        if ratio.verdict.is_none() {
            let same_row = |row: &&Ratio| row.arm == *arm && row.denominator == *denominator;
            let reason = stated
                .iter()
                .find(same_row)
                .and_then(|row| row.withheld.clone());
            ratio.withheld = Some(
                reason
                    .filter(|words| !words.is_empty())
                    .unwrap_or("why".into()),
            );
        }
        Some(ratio)
    });
    rows.collect()
}

/// The run's verdict: that of fused/instance-shared.
pub(crate) fn headline(ratios: &[Ratio]) -> Option<&str> {
    let row = ratios
        .iter()
        .find(|row| row.arm == "fused" && row.denominator == "instance-shared");
    row.and_then(|row| row.verdict.as_deref())
}

fn time_ratios(ratio: &mut Ratio, theirs: &[&End], ours: &[&End]) {
    ratio.prefill = pairs(theirs, ours, |end| end.prefill_ns)
        .and_then(|ratios| median(&ratios))
        .map(rounded);
    let Some(walls) = pairs(theirs, ours, |end| end.wall_ns) else {
        return;
    };
    // Judged as written, so that the printed interval and its verdict agree.
    let limits = interval(&walls).map(|(low, high)| (rounded(low), rounded(high)));
    ratio.wall = median(&walls).map(rounded);
    (ratio.wall_low, ratio.wall_high) = limits.unzip();
    ratio.verdict = Some(verdict(walls.len(), limits).to_owned());
}

/// Denominator over arm for each pair of equal repetitions; `None` where a time is zero.
fn pairs(theirs: &[&End], ours: &[&End], time: impl Fn(&End) -> u64) -> Option<Vec<f64>> {
    let ratio = |(theirs, ours): (&&End, &&End)| {
        let (theirs, ours) = (time(theirs), time(ours));
        (ours > 0).then(|| theirs as f64 / ours as f64)
    };
    theirs.iter().zip(ours).map(ratio).collect()
}
