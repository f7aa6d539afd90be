//! What each metric of the catalogue is here: where its value comes from, and what stands on the other side.
//!
//! Every function reads samples and counters of records that are anchored, never a ratio somebody wrote down. Not here: the
//! rule that judges a value (`verdict`), counting (`counts`) or measured files (`files`).

use std::collections::BTreeSet;
use std::path::Path;

use workloads::arm::is_server;
use workloads::record::{ArmRecord, CellRecord, CellSample, RunRecord, Sample};
use workloads::statistics::{Interval, judge, pair_ratios};

use super::bound::{Bound, Place};
use super::catalogue::Dimension;
use super::verdict::{Measured, Noise};
use super::{counts, curves, files, latency};
use crate::fairness::asymmetries;
use crate::report::evidence::{Anchored, speaker};

/// Why a metric gave no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Evidence is not there yet: no verdict, for this reason.
    Waits(String),
    /// The record may not be used at all.
    Refused(String),
    /// Evidence contradicts itself.
    Broken(String),
}

/// A value and where it is from.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) measured: Measured,
    /// What was measured, with its numbers.
    pub(super) sentence: String,
    /// Who or what stands on the other side.
    pub(super) against: String,
    /// Directories of runs and names of files, relative to the repository root.
    pub(super) evidence: BTreeSet<String>,
    /// The runs among them.
    pub(super) runs: Vec<Source>,
}

impl Found {
    /// What one run gives.
    pub(super) fn of_run(
        run: &Anchored,
        measured: Measured,
        against: impl Into<String>,
        sentence: String,
    ) -> Self {
        Self {
            measured,
            sentence,
            against: against.into(),
            evidence: BTreeSet::from([run.directory()]),
            runs: vec![Source::of(run)],
        }
    }
}

/// A run that a value is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) directory: String,
    pub(super) envelope: String,
    pub(super) date: String,
    pub(super) started_unix_s: u64,
    pub(super) commit: String,
    pub(super) host: String,
    pub(super) model: String,
    pub(super) model_sha256: String,
    /// What runs it again.
    pub(super) command: String,
}

impl Source {
    pub(super) fn of(run: &Anchored) -> Self {
        let record = &run.record;
        Self {
            directory: run.directory(),
            envelope: record.envelope.clone(),
            date: run.date().unwrap_or_default(),
            started_unix_s: run.started_unix_s().unwrap_or_default(),
            commit: record.build.commit.clone().unwrap_or_default(),
            host: format!("{} ({})", record.machine.class, record.machine.cpu),
            model: record.model.name.clone(),
            model_sha256: record.model.sha256.clone(),
            command: command(run),
        }
    }
}

/// The command that asks what the run asked. Other engines are asked only where they are named.
fn command(run: &Anchored) -> String {
    let arms = run.declared["run"]["arms"].as_array().into_iter().flatten();
    let arms: Vec<&str> = arms.filter_map(|it| it.as_str()).collect();
    let mut words = format!("harness run {}", run.record.envelope);
    if arms.iter().any(|arm| is_server(arm)) {
        words.extend(arms.iter().flat_map(|arm| [" --arm ", arm]));
    }
    if arms.iter().any(|arm| arm.starts_with("llama-b")) {
        words += " --bin llama-bench=PATH";
    }
    words
}

/// What metrics read.
pub(super) struct Library<'a> {
    pub(super) root: &'a Path,
    pub(super) runs: &'a [Anchored],
}

impl<'a> Library<'a> {
    /// The run that speaks for the envelope of `place`.
    pub(super) fn run(&self, place: &Place) -> Result<&'a Anchored, Stop> {
        speaker(self.runs, &place.run)
            .ok_or_else(|| Stop::Waits(format!("no anchored run of `{}` speaks", place.run)))
    }
}

type Metric = fn(&Bound, &Library<'_>) -> Result<Found, Stop>;

/// Every metric that can be read here, by the name the catalogue has; a narrower one by its dimension.
const METRICS: [(&str, Metric); 19] = [
    ("decode_tok_s_ratio", cell_ratio),
    ("prefill_tok_s_ratio", cell_ratio),
    ("agg_decode_tok_s_ratio", cell_ratio),
    (
        "pareto_throughput_ratio_at_matched_tpot",
        curves::matched_throughput,
    ),
    ("warm_ttft_ms", latency::warm_first_token),
    ("deep_workflow_wallclock_ratio", wall_ratio),
    ("kv_capacity_ratio_at_speed", counts::capacity_at_speed),
    ("logit_cosine_vs_vendor", files::least_cosine),
    ("shared_prefix_req_s_ratio", wall_ratio),
    ("fleet_wallclock_ratio", wall_ratio),
    ("weight_stream_fraction_of_bandwidth", weight_stream),
    ("fusion_saving_fraction", counts::fusion_saving),
    ("hit_rate_fraction_of_optimal", counts::hits_of_optimal),
    (
        "narrower of automatic-prefix-caching-hit-rate",
        counts::hits_of_optimal,
    ),
    ("kv_live_over_allocated", counts::live_over_allocated),
    ("admitted_seqs_fraction_of_ideal", counts::admitted_of_ideal),
    ("mean_kld_nats", files::mean_kld),
    ("host_shape_fences", files::tests),
    ("samplers_matching_reference", files::tests),
];

/// Metrics that are a number of things, each shown by a test.
const TESTED: [&str; 4] = [
    "quant_methods",
    "format_device_cells",
    "device_backends",
    "api_families",
];

/// The value of a dimension's metric, from what is bound to it.
pub(super) fn find(row: &Dimension, bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    let name = if row.falsifiable {
        row.metric.clone()
    } else {
        format!("narrower of {}", row.id)
    };
    if TESTED.contains(&name.as_str()) {
        return files::tests(bound, library);
    }
    let metric = METRICS.iter().find(|(known, _)| *known == name);
    let (_, metric) = metric.ok_or_else(|| {
        Stop::Refused(format!(
            "there is no way to read `{name}` from evidence yet"
        ))
    })?;
    let mut found = metric(bound, library)?;
    found.measured.differs.extend(bound.differs.iter().cloned());
    Ok(found)
}

/// Reads every place of a binding and keeps the one that is worst for us: the one whose interval, or exact value, begins
/// lowest, for metrics that are better with more. What differs in any of them differs.
pub(super) fn worst(
    bound: &Bound,
    read: impl Fn(&Place) -> Result<Found, Stop>,
) -> Result<Found, Stop> {
    worst_by(bound, lowest, read)
}

/// The same by a rank of the caller's: the place that has least of it is the worst.
pub(super) fn worst_by(
    bound: &Bound,
    rank: fn(&Found) -> f64,
    read: impl Fn(&Place) -> Result<Found, Stop>,
) -> Result<Found, Stop> {
    let mut places = bound.from.iter();
    let none = || Stop::Refused("it needs `from`".to_owned());
    let mut worst = read(places.next().ok_or_else(none)?)?;
    for place in places {
        let mut found = read(place)?;
        if rank(&found) < rank(&worst) {
            std::mem::swap(&mut found, &mut worst);
        }
        worst.evidence.extend(found.evidence);
        for run in found.runs {
            if !worst.runs.contains(&run) {
                worst.runs.push(run);
            }
        }
        for unlike in found.measured.differs {
            if !worst.measured.differs.contains(&unlike) {
                worst.measured.differs.push(unlike);
            }
        }
    }
    if bound.from.len() > 1 {
        let all: Vec<String> = bound.from.iter().map(Place::words).collect();
        worst.sentence = format!("{} The worst of {}.", worst.sentence, all.join(", "));
    }
    Ok(worst)
}

fn lowest(found: &Found) -> f64 {
    match found.measured.noise {
        Noise::Pairs {
            interval: Some(it), ..
        } => it.low,
        Noise::Pairs { .. } | Noise::Exact => found.measured.ours,
    }
}

/// What is unlike between an arm of ours and one of another engine in the same run, with what withholds their row.
pub(super) fn sides(run: &Anchored, arm: &str, over: &str) -> Result<Vec<String>, Stop> {
    if !is_server(over) {
        return Err(Stop::Refused(format!(
            "`{over}` is no other engine: a floor or an arm of our own is no peer"
        )));
    }
    let record = &run.record;
    let theirs = arm_of(record, over)?;
    let mut differs = asymmetries(theirs, &record.effective);
    let settings = theirs.server.as_ref().and_then(|it| it.settings.as_ref());
    if settings.is_none() {
        differs.push(format!("`{over}` says nothing of its settings"));
    }
    let mut written = record.ratios.iter();
    let written = written.find(|it| it.arm == arm && it.denominator == over);
    differs.extend(written.and_then(|it| it.withheld.clone()));
    Ok(differs)
}

/// The two sides of a ratio of walls: how many times as long the other takes for the same requests.
fn wall_ratio(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    worst(bound, |place| {
        let run = library.run(place)?;
        let record = &run.record;
        let (arm, over) = (named(place.arm.as_ref())?, named(place.over.as_ref())?);
        let differs = sides(run, arm, over)?;
        let (ours, theirs) = (arm_of(record, arm)?, arm_of(record, over)?);
        let written = record.ratios.iter();
        let mut written = written.filter(|it| it.arm == arm && it.denominator == over);
        let written = written.next().ok_or_else(|| {
            Stop::Broken(format!(
                "{} has no ratio of {arm} over {over}",
                run.directory()
            ))
        })?;
        let samples = |it: &Sample| (it.rep, it.wall_ns);
        let pairs = paired(&ours.samples, &theirs.samples, samples);
        let (median, noise) = judged(pairs)?;
        if written.withheld.is_none() {
            agree(run, written.wall, median)?;
        }
        let program = theirs.server.as_ref().map(|it| &it.program);
        let seconds = |ns: Option<u64>| {
            ns.map_or_else(|| "?".to_owned(), |ns| format!("{:.2} s", ns as f64 / 1e9))
        };
        let sentence = format!(
            "In `{}` `{arm}` takes {} for what takes `{over}` {}, medians.",
            place.run,
            seconds(ours.wall_ns),
            seconds(theirs.wall_ns)
        );
        let against = format!("{over}, {}", files::program_words(program));
        let measured = Measured {
            noise,
            differs,
            missing_peers: bound.missing.clone(),
            ..Measured::exact(median, Some(1.0))
        };
        Ok(Found::of_run(run, measured, against, sentence))
    })
}

/// The same of a cell of engine work: tokens a second over those of the fastest way llama.cpp's bench was asked.
fn cell_ratio(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    worst(bound, |place| {
        let run = library.run(place)?;
        let (arm, cell) = (named(place.arm.as_ref())?, cell(run, place)?);
        let mut written = cell.ratios.iter();
        let written = written.find(|it| it.arm == arm && it.denominator.starts_with("llama-"));
        let written = written.ok_or_else(|| {
            Stop::Waits(format!(
                "{} has no other engine in {}",
                run.directory(),
                cell.name
            ))
        })?;
        let over = &written.denominator;
        let of = |name: &str| {
            let broken = || Stop::Broken(format!("{}: no arm {name}", run.directory()));
            cell.arms.get(name).ok_or_else(broken)
        };
        let (ours, theirs) = (of(arm)?, of(over)?);
        let speed = |it: &CellSample| (it.rep, it.timed_ns);
        let (median, noise) = judged(paired(&ours.samples, &theirs.samples, speed))?;
        if written.withheld.is_none() {
            agree(run, written.speed, median)?;
        }
        let rate = |rate: Option<f64>| {
            rate.map_or_else(|| "?".to_owned(), |rate| format!("{rate:.0} tok/s"))
        };
        let mut differs: Vec<String> = written.withheld.iter().cloned().collect();
        let bench = files::Bench::read(library.root, run, &cell.name, over)?;
        differs.extend(bench.differs);
        let sentence = format!(
            "In `{}`, {}: {} beside {} of `{over}`, the faster of its ways.",
            place.run,
            cell.name,
            rate(ours.tokens_per_s),
            rate(theirs.tokens_per_s)
        );
        let against = format!("{over}, {}", bench.program);
        let measured = Measured {
            noise,
            differs,
            missing_peers: bound.missing.clone(),
            ..Measured::exact(median, Some(1.0))
        };
        Ok(Found::of_run(run, measured, against, sentence))
    })
}

/// Bytes of all weights times tokens a second, over what as many threads read a second: decoding reads every weight once a
/// token, so that is its bound.
fn weight_stream(bound: &Bound, library: &Library<'_>) -> Result<Found, Stop> {
    worst(bound, |place| {
        let run = library.run(place)?;
        let record = &run.record;
        let (arm, cell) = (named(place.arm.as_ref())?, cell(run, place)?);
        let waits = |what: &str| Stop::Waits(format!("{} does not say {what}", run.directory()));
        let bytes = record.model.numbers.as_ref().map(|it| it.weight_bytes);
        let bytes = bytes.ok_or_else(|| waits("how large its weights are"))?;
        let threads = record.effective.threads;
        let ceilings = record.machine.ceilings.as_ref();
        let ceiling = ceilings.and_then(|it| it.read_bytes_per_s.get(&threads));
        let ceiling = *ceiling.ok_or_else(|| waits("how fast its machine reads"))?;
        let alone = ceilings.and_then(|it| it.read_bytes_per_s.get(&1));
        let alone = *alone.ok_or_else(|| waits("how fast one thread of it reads"))?;
        let mut differs = Vec::new();
        if ceiling > alone.saturating_mul(threads as u64) {
            differs.push(format!(
                "the machine's own ceilings: {threads} threads read {:.1} GB a second and one alone {:.1}, so one of the two \
                 was measured on a busy machine",
                ceiling as f64 / 1e9,
                alone as f64 / 1e9
            ));
        }
        let samples = cell.arms.get(arm).map(|it| it.samples.as_slice());
        let shares: Vec<f64> = samples
            .unwrap_or_default()
            .iter()
            .filter(|it| it.timed_ns > 0)
            .map(|it| {
                let seconds = it.timed_ns as f64 / 1e9;
                bytes as f64 * it.tokens as f64 / seconds / ceiling as f64
            })
            .collect();
        let (median, noise) = judged(Some(shares))?;
        let sentence = format!(
            "In `{}`, {}, {:.1} MB of weights are read for each token, by {threads} threads that read {:.1} GB a second at \
                 best.",
            place.run,
            cell.name,
            bytes as f64 / 1e6,
            ceiling as f64 / 1e9
        );
        let against = "the machine's own reading speed, measured in the same sitting".to_owned();
        let measured = Measured {
            noise,
            differs,
            missing_peers: Vec::new(),
            ..Measured::exact(median, Some(1.0))
        };
        Ok(Found::of_run(run, measured, against, sentence))
    })
}

/// A name that a binding must give.
pub(super) fn named(name: Option<&String>) -> Result<&str, Stop> {
    let missing =
        || Stop::Refused("each place of `from` needs `arm`, and a ratio `over`".to_owned());
    name.map(String::as_str).ok_or_else(missing)
}

pub(super) fn cell<'a>(run: &'a Anchored, place: &Place) -> Result<&'a CellRecord, Stop> {
    let name = place.cell.as_deref().unwrap_or_default();
    let mut cells = run.record.cells.iter().flatten();
    let missing = || Stop::Refused(format!("{} has no cell `{name}`", run.directory()));
    cells.find(|cell| cell.name == name).ok_or_else(missing)
}

/// Theirs over ours, for every repetition that both have.
fn paired<T>(ours: &[T], theirs: &[T], of: impl Fn(&T) -> (usize, u64)) -> Option<Vec<f64>> {
    let theirs: Vec<(usize, u64)> = theirs.iter().map(&of).collect();
    let pairs = ours.iter().filter_map(|sample| {
        let (rep, arm_ns) = of(sample);
        let base = theirs.iter().find(|(its, _)| *its == rep)?;
        Some((base.1, arm_ns))
    });
    pair_ratios(pairs)
}

/// Median of ratios and what is known of its noise.
pub(super) fn judged(ratios: Option<Vec<f64>>) -> Result<(f64, Noise), Stop> {
    let ratios = ratios.ok_or_else(|| Stop::Broken("a sample took no time".to_owned()))?;
    let found = judge(&ratios);
    let median = found
        .median
        .ok_or_else(|| Stop::Waits("no repetition that both sides ended well".to_owned()))?;
    let interval = found.interval.map(|it| Interval {
        low: it.low,
        high: it.high,
    });
    let n = ratios.len();
    Ok((median, Noise::Pairs { n, interval }))
}

/// The record's own ratio is the one of its samples, or the record was tampered with.
fn agree(run: &Anchored, written: Option<f64>, found: f64) -> Result<(), Stop> {
    if written == Some(found) {
        return Ok(());
    }
    Err(Stop::Broken(format!(
        "{}: run.json has a ratio of {written:?} where its samples give {found}",
        run.directory()
    )))
}

/// An arm of a session by name.
pub(super) fn arm_of<'a>(record: &'a RunRecord, name: &str) -> Result<&'a ArmRecord, Stop> {
    let missing = || {
        Stop::Waits(format!(
            "the run of `{}` has no arm `{name}`",
            record.envelope
        ))
    };
    record.arms.get(name).ok_or_else(missing)
}
