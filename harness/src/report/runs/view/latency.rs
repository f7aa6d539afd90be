//! Times of single requests: read from the traces of a session, drawn as the share of requests that had their answer by then.
//!
//! Percentiles are those of the record. Not here: which percentiles so many requests allow (`workloads::statistics`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::super::axis::Unit;
use super::super::document::{Block, Drawn, Piece, Section, Table, code, words};
use super::super::figures::{Figures, Shown};
use super::super::plots::{Curve, Plot};
use super::arms;
use crate::error::Error;
use crate::report::error::ReportError;
use crate::report::evidence::Anchored;
use crate::requests::{self, Request};
use crate::sealed;

/// Points a curve has at most.
const POINTS_MAX: usize = 100;
/// Percentiles of the table; the record has those that so many requests allow.
const PERCENTILES: [&str; 4] = ["p50", "p90", "p95", "p99"];

/// What the requests of one arm took, all repetitions together, each from its own beginning.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::report::runs) struct Times {
    pub(in crate::report::runs) first_ns: Vec<u64>,
    pub(in crate::report::runs) whole_ns: Vec<u64>,
    /// Whether any answer came in more than one piece: else the first piece is the whole answer.
    pub(in crate::report::runs) in_pieces: bool,
}

/// Reads the traces of a run, by arm. Those of engine work have no requests of interest and are left out, as are scores.
pub(in crate::report::runs) fn read(
    root: &Path,
    run: &Anchored,
) -> Result<BTreeMap<String, Times>, ReportError> {
    let mut times = BTreeMap::new();
    if run.record.cells.is_some() {
        return Ok(times);
    }
    let directory = root.join(run.directory()).join("trace");
    let failed = |source| ReportError::Read {
        path: directory.clone(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name());
    }
    names.sort_unstable();
    for name in names {
        let name = name.to_string_lossy();
        if name.ends_with(".jsonl") && !name.ends_with(".score.jsonl") {
            let trace = sealed::read_trace(&root.join(run.directory()), format!("trace/{name}"));
            let broken = |error: Error| ReportError::Evidence {
                run: run.run.clone(),
                message: error.to_string(),
            };
            if let Some(trace) = trace.map_err(broken)? {
                let times: &mut Times = times.entry(trace.arm).or_default();
                times.take(&requests::of(&trace.lines));
            }
        }
    }
    Ok(times)
}

impl Times {
    fn take(&mut self, requests: &[Request]) {
        for it in requests {
            let Some(whole_ns) = it.e2e_ns else { continue };
            let first_ns = it.ttft_ns.unwrap_or(whole_ns);
            self.first_ns.push(first_ns);
            self.whole_ns.push(whole_ns);
            self.in_pieces |= first_ns < whole_ns;
        }
    }
}

/// The share of requests that were done by each time, at most so many points of it; the last is the slowest request.
fn shares(mut values: Vec<u64>) -> Vec<(f64, f64)> {
    values.sort_unstable();
    let (all, points) = (values.len(), values.len().min(POINTS_MAX));
    (1..=points)
        .map(|point| {
            let done = point * all / points;
            (values[done - 1] as f64, done as f64 / all as f64)
        })
        .collect()
}

/// The section; none for engine work.
pub(super) fn section(figures: &Figures<'_>, times: &BTreeMap<String, Times>) -> Option<Section> {
    if figures.run.record.cells.is_some() {
        return None;
    }
    let mut blocks = vec![Block::Paragraph(words(
        "What single requests took, all repetitions together, each from the moment it was asked. A percentile stands here only \
         if there are requests enough for it.",
    ))];
    blocks.push(Block::Table(table(figures)));
    let curves = |of: &dyn Fn(&Times) -> Option<Vec<u64>>| -> Vec<Curve> {
        let named = arms(figures.run).into_iter();
        named
            .filter_map(|arm| {
                let points = shares(of(times.get(&arm)?)?);
                Some(Curve { label: arm, points })
            })
            .collect()
    };
    let whole = curves(&|it| Some(it.whole_ns.clone()));
    let first = curves(&|it| it.in_pieces.then(|| it.first_ns.clone()));
    let missing: Vec<Piece> = arms(figures.run)
        .into_iter()
        .filter(|arm| times.get(arm).is_some_and(|it| !it.in_pieces))
        .map(Piece::Code)
        .collect();
    if whole.is_empty() {
        blocks.push(Block::Paragraph(words(
            "The traces hold no answered request, so nothing is drawn.",
        )));
    } else {
        blocks.push(drawn("answers", "the whole answer", whole));
    }
    if !first.is_empty() {
        blocks.push(drawn("first-tokens", "the first token", first));
    }
    if !missing.is_empty() {
        let mut line = words(
            "Their answers came in one piece, so they have no time to a first token of its own: ",
        );
        for (at, arm) in missing.into_iter().enumerate() {
            line.extend((at > 0).then(|| Piece::words(", ")));
            line.push(arm);
        }
        line.push(Piece::words("."));
        blocks.push(Block::Paragraph(line));
    }
    Some(Section {
        id: "latency".to_owned(),
        heading: "How long single requests took".to_owned(),
        blocks,
    })
}

fn drawn(name: &'static str, what: &str, curves: Vec<Curve>) -> Block {
    let labels: Vec<&str> = curves.iter().map(|it| it.label.as_str()).collect();
    let alternative = format!(
        "Curves, one for each of {}: the share of requests that had {what} by then, over the time since they were asked. \
         The table above has percentiles of them.",
        labels.join(", ")
    );
    Block::Plot(Drawn {
        name,
        caption: format!(
            "Share of requests that had {what} by then. Further left is sooner; a curve is drawn at so many points that none \
             is more than a hundredth off."
        ),
        alternative,
        plot: Plot::Curves {
            unit: Unit::Time,
            steps: true,
            curves,
        },
    })
}

fn table(figures: &Figures<'_>) -> Table {
    let mut table = Table {
        caption: "Percentiles of request times, by nearest rank".to_owned(),
        head: vec![("arm", false), ("time of", false), ("requests", true)],
        rows: Vec::new(),
    };
    table.head.extend(PERCENTILES.map(|name| (name, true)));
    for arm in arms(figures.run) {
        let it = arm.as_str();
        for (what, field) in [("first token", "ttft_ns"), ("whole answer", "e2e_ns")] {
            if !figures.has(&["arms", it, "latencies", field]) {
                continue;
            }
            // Without a time between tokens the first one's is the whole answer's, and stands there.
            if field == "ttft_ns" && !figures.has(&["arms", it, "latencies", "tpot_ns"]) {
                continue;
            }
            let mut row = vec![code(it), words(what)];
            row.push(vec![
                figures.of(&["arms", it, "latencies", field, "count"], Shown::Count),
            ]);
            for name in PERCENTILES {
                let place = [
                    "arms",
                    it,
                    "latencies",
                    field,
                    "percentiles",
                    name,
                    "nearest",
                ];
                row.push(if figures.has(&place) {
                    vec![figures.of(&place, Shown::Duration)]
                } else {
                    words("too few")
                });
            }
            table.rows.push(row);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::evidence;

    #[test]
    fn times_of_a_trace_give_the_medians_of_its_record() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let runs = evidence::load(&root).unwrap();
        let run = evidence::speaker(&runs, "session-small").unwrap();
        let times = read(&root, run).unwrap();
        for (arm, record) in &run.record.arms {
            let shares = |values: &[u64]| shares(values.to_vec());
            let median = |values: &[u64]| {
                let mut sorted = values.to_vec();
                sorted.sort_unstable();
                sorted[sorted.len().div_ceil(2) - 1]
            };
            let (found, expected) = (&times[arm], record.latencies.as_ref().unwrap());
            assert_eq!(
                Some(median(&found.whole_ns)),
                expected.e2e_ns.p50(),
                "{arm}"
            );
            assert_eq!(
                Some(median(&found.first_ns)),
                expected.ttft_ns.p50(),
                "{arm}"
            );
            assert_eq!(found.whole_ns.len(), expected.e2e_ns.count);
            let last = *shares(&found.whole_ns).last().unwrap();
            assert_eq!(last, (*found.whole_ns.iter().max().unwrap() as f64, 1.0));
        }
    }

    #[test]
    fn a_curve_of_many_is_short_and_of_few_is_whole() {
        assert_eq!(
            shares(vec![3, 1, 2, 2]),
            [(1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0)]
        );
        let many = shares((0..12_345).collect());
        assert_eq!(many.len(), POINTS_MAX);
        assert!(many.is_sorted() && shares(Vec::new()).is_empty());
    }
}
