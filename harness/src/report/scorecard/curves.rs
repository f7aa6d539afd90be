//! The metric of a curve: throughput at equal time per token, over a sweep of agents that decode together.
//!
//! Not here: single points of it (`metrics`).

use std::collections::{BTreeMap, BTreeSet};

use workloads::record::CellRecord;

use super::bound::{Bound, Place};
use super::files::Bench;
use super::metrics::{Found, Library, Stop, cell, judged, named};
use super::verdict::Measured;
use crate::report::evidence::Anchored;

/// Times per token at which the two curves are compared.
const MATCHED: usize = 5;

/// A point: seconds per token of one agent, and tokens a second of all.
type Point = (f64, f64);

/// Tokens a second of ours over theirs at five times per token that both curves have, evenly spaced by ratio, as a geometric mean;
/// one for each repetition. Between two points of a curve throughput goes as a power of the time. Theirs is in each point the faster
/// of its ways.
pub(super) fn matched_throughput(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    let first = bound.from.first();
    let first = first.ok_or_else(|| Stop::Refused("it needs `from`".to_owned()))?;
    let run = library.run(first)?;
    let cells = bound.from.iter().map(|place| cell_of(run, place));
    let cells: Vec<(&CellRecord, f64)> = cells.collect::<Result<_, _>>()?;
    let arm = named(first.arm.as_ref())?;
    let others: Vec<&String> = cells
        .iter()
        .flat_map(|(cell, _)| cell.arms.keys())
        .filter(|name| name.starts_with("llama-"))
        .collect();
    let (mut differs, mut against) = (BTreeSet::new(), String::new());
    for (cell, _) in &cells {
        for other in others.iter().filter(|name| cell.arms.contains_key(**name)) {
            let bench = Bench::read(library.root, run, &cell.name, other)?;
            differs.extend(bench.differs);
            against = format!("llama.cpp's own bench, {}", bench.program);
        }
        differs.extend(cell.ratios.iter().filter_map(|it| it.withheld.clone()));
    }
    let ours = curves(&cells, |name| name == arm);
    let theirs = curves(&cells, |name| name.starts_with("llama-"));
    let ratios: Vec<f64> = ours
        .iter()
        .filter_map(|(rep, ours)| at_equal_times(ours, theirs.get(rep)?))
        .collect();
    let n = ratios.len();
    let (median, noise) = judged(Some(ratios))?;
    let sentence = format!(
        "In `{}`, {} numbers of agents from {} to {}: at equal times per token, in {n} repetitions.",
        first.run,
        cells.len(),
        cells.first().map_or("", |(cell, _)| &cell.name),
        cells.last().map_or("", |(cell, _)| &cell.name),
    );
    let measured = Measured {
        noise,
        differs: differs.into_iter().collect(),
        missing_peers: bound.missing.clone(),
        ..Measured::exact(median, Some(1.0))
    };
    Ok(Found::of_run(run, measured, against, sentence))
}

/// A cell and how many agents decode in it.
fn cell_of<'a>(run: &'a Anchored, place: &Place) -> Result<(&'a CellRecord, f64), Stop> {
    let found = cell(run, place)?;
    let declared = run.declared["workload"]["cells"].as_array();
    let mut declared = declared.into_iter().flatten();
    let agents = declared
        .find(|it| it["name"] == found.name.as_str())
        .and_then(|it| it["agents"].as_f64());
    let agents = agents
        .ok_or_else(|| Stop::Broken(format!("{}: no agents in {}", run.directory(), found.name)))?;
    Ok((found, agents))
}

/// The points of each repetition, in the order of their times. Of several arms the fastest makes the point.
fn curves(cells: &[(&CellRecord, f64)], of: impl Fn(&str) -> bool) -> BTreeMap<usize, Vec<Point>> {
    let mut curves: BTreeMap<usize, Vec<Point>> = BTreeMap::new();
    for (cell, agents) in cells {
        let mut best: BTreeMap<usize, f64> = BTreeMap::new();
        let arms = cell.arms.iter().filter(|(name, _)| of(name));
        for sample in arms.flat_map(|(_, arm)| &arm.samples) {
            let rate = sample.tokens as f64 * 1e9 / sample.timed_ns.max(1) as f64;
            let best = best.entry(sample.rep).or_default();
            *best = best.max(rate);
        }
        for (rep, rate) in best {
            curves.entry(rep).or_default().push((agents / rate, rate));
        }
    }
    for points in curves.values_mut() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves
}

/// `None` where the curves have no time in common.
fn at_equal_times(ours: &[Point], theirs: &[Point]) -> Option<f64> {
    let low = ours.first()?.0.max(theirs.first()?.0);
    let high = ours.last()?.0.min(theirs.last()?.0);
    if low >= high {
        return None;
    }
    let step = (high / low).ln() / (MATCHED - 1) as f64;
    let mut sum = 0.0;
    for point in 0..MATCHED {
        let time = (low.ln() + step * point as f64).exp().clamp(low, high);
        sum += (between(ours, time)? / between(theirs, time)?).ln();
    }
    Some((sum / MATCHED as f64).exp())
}

/// Throughput at `time`, straight between neighbours in logarithms.
fn between(curve: &[Point], time: f64) -> Option<f64> {
    let pair = curve.windows(2).find(|pair| time <= pair[1].0)?;
    let ((t0, r0), (t1, r1)) = (pair[0], pair[1]);
    if t1 <= t0 {
        return Some(r0.max(r1));
    }
    let share = (time / t0).ln() / (t1 / t0).ln();
    Some((r0.ln() + share * (r1 / r0).ln()).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_twice_as_high_is_twice_as_high_wherever_its_points_lie() {
        // rate = 100 * time, and 200 * time at other times.
        let curve = |factor: f64, times: &[f64]| -> Vec<Point> {
            times.iter().map(|&time| (time, factor * time)).collect()
        };
        let ours = curve(200.0, &[0.5, 1.5, 7.0]);
        let theirs = curve(100.0, &[1.0, 2.0, 9.0]);
        let ratio = at_equal_times(&ours, &theirs).unwrap();
        assert!((ratio - 2.0).abs() < 1e-12, "{ratio}");
        let back = at_equal_times(&theirs, &ours).unwrap();
        assert!((back - 0.5).abs() < 1e-12, "{back}");
    }

    #[test]
    fn curves_without_a_common_time_give_nothing() {
        let (fast, slow) = ([(1.0, 10.0), (2.0, 20.0)], [(3.0, 5.0), (4.0, 6.0)]);
        assert_eq!(at_equal_times(&fast, &slow), None);
        assert_eq!(at_equal_times(&fast, &[]), None);
        assert_eq!(at_equal_times(&fast, &[(1.5, 3.0)]), None);
    }
}
