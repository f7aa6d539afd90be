//! What a finished run shows of its spread: times per request, samples far out, results near the instrument, noise.
//!
//! Not here: any figure that is not in the run record.

use workloads::arm::is_server;
use workloads::record::{ArmRecord, CellRatio, Latencies, RunRecord};
use workloads::statistics::spread::{Distribution, not_licensed};

use crate::machine::noise;
use crate::table::{Table, duration, or_dash};

/// Times of requests by arm: the median of each kind, and of the whole what else the number of requests allows.
pub(super) fn latencies_table(record: &RunRecord) -> Option<Table> {
    let arms: Vec<(&str, &Latencies)> = workloads::arm::every_name()
        .into_iter()
        .filter_map(|name| Some((name, record.arms.get(name)?.latencies.as_ref()?)))
        .collect();
    let most = arms.iter().max_by_key(|(_, it)| it.e2e_ns.count)?.1;
    let tails: Vec<&String> = (most.e2e_ns.percentiles.keys())
        .filter(|name| *name != "p50")
        .collect();
    let header = ["arm", "requests", "TTFT p50", "TPOT p50", "E2E p50"].map(str::to_owned);
    let header: Vec<String> = header
        .into_iter()
        .chain(tails.iter().map(|name| format!("E2E {name}")))
        .chain(clocked(record).then(|| "scheduled E2E p50".to_owned()))
        .chain(
            tails
                .iter()
                .filter(|_| clocked(record))
                .map(|name| format!("scheduled E2E {name}")),
        )
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new(&header);
    for (name, it) in arms {
        let shown = |of: Option<&Distribution>, name: &str| {
            let percentile = of.and_then(|it| it.percentiles.get(name));
            or_dash(percentile, |it| duration(it.nearest))
        };
        let first = [
            name.to_owned(),
            it.e2e_ns.count.to_string(),
            // Another engine's answers come whole.
            shown(Some(&it.ttft_ns).filter(|_| !is_server(name)), "p50"),
            shown(it.tpot_ns.as_ref(), "p50"),
            shown(Some(&it.e2e_ns), "p50"),
        ];
        let rest = tails.iter().map(|name| shown(Some(&it.e2e_ns), name));
        let scheduled = ["p50"]
            .into_iter()
            .chain(tails.iter().map(|name| name.as_str()))
            .filter(|_| clocked(record))
            .map(|name| shown(it.scheduled_e2e_ns.as_ref(), name));
        table.row(first.into_iter().chain(rest).chain(scheduled));
    }
    Some(table)
}

/// Whether requests came by the clock.
fn clocked(record: &RunRecord) -> bool {
    let mut latencies = record
        .arms
        .values()
        .filter_map(|arm| arm.latencies.as_ref());
    latencies.any(|it| it.scheduled_e2e_ns.is_some())
}

/// How many requests kept the objective, by arm; nothing without one.
pub(super) fn goodput_table(record: &RunRecord) -> Option<Table> {
    let mut table = Table::new(&["arm", "offered", "good", "share", "good/s"]);
    let mut any = false;
    for name in workloads::arm::every_name() {
        let Some(goodput) = record.arms.get(name).and_then(|arm| arm.goodput.as_ref()) else {
            continue;
        };
        any = true;
        let share = goodput.good as f64 / goodput.offered.max(1) as f64;
        table.row([
            name.to_owned(),
            goodput.offered.to_string(),
            goodput.good.to_string(),
            format!("{:.1} %", share * 100.0),
            or_dash(goodput.good_per_s.as_ref(), |x| format!("{x:.3}")),
        ]);
    }
    any.then_some(table)
}

/// What the columns mean, and which percentiles so few requests do not allow.
pub(super) fn latencies_legend(record: &RunRecord) -> String {
    let counts = record
        .arms
        .values()
        .filter_map(|arm| arm.latencies.as_ref());
    let most = counts.map(|it| it.e2e_ns.count).max().unwrap_or(0);
    let missing: Vec<String> = not_licensed(most)
        .map(|(name, samples)| format!("{name} from {samples}"))
        .collect();
    let more = if missing.is_empty() {
        String::new()
    } else {
        format!("\nMore takes more requests: {}.", missing.join(", "))
    };
    let scheduled = if clocked(record) {
        "\nScheduled: from when a request was due, so that waiting for an arm that is busy counts."
    } else {
        ""
    };
    format!(
        "per request, all repetitions together: until the first token, between tokens (the mean of a request), \
         until\nthe last. Percentiles are samples (nearest rank).{scheduled}{more}"
    )
}

/// Samples far out, results near the instrument, and how noisy it was: one line each.
pub(in crate::run) fn remarks(record: &RunRecord) -> Vec<String> {
    let sittings = record.sittings.iter().filter_map(|it| it.noise.as_ref());
    let noise = sittings.map(|it| format!("noise: {}", noise::words(it, record.machine.cores)));
    let lines = far_out(record)
        .into_iter()
        .chain(near_the_instrument(record));
    lines.chain(noise).collect()
}

fn far_out(record: &RunRecord) -> Option<String> {
    let arms = record.arms.iter();
    let arms = arms.map(|(name, arm)| (format!("{name} repetition"), &arm.outliers));
    let ratios = record.ratios.iter().map(|it| {
        let words = format!("{} over {} pair", it.arm, it.denominator);
        (words, &it.outliers)
    });
    let cells = || record.cells.iter().flatten();
    let cell_arms = cells().flat_map(|cell| {
        let words = |name: &str| format!("{}, {name} repetition", cell.name);
        cell.arms
            .iter()
            .map(move |(name, arm)| (words(name), &arm.outliers))
    });
    let cell_ratios = cells().flat_map(|cell| {
        let words = |it: &CellRatio| format!("{}, over {} pair", cell.name, it.denominator);
        cell.ratios.iter().map(move |it| (words(it), &it.outliers))
    });
    let places = arms.chain(ratios).chain(cell_arms).chain(cell_ratios);
    let found: Vec<String> = places
        .filter_map(|(words, outliers)| {
            let places: Vec<String> = outliers.iter().flatten().map(ToString::to_string).collect();
            (!places.is_empty()).then(|| format!("{words} {}", places.join(", ")))
        })
        .collect();
    (!found.is_empty()).then(|| {
        let found = found.join("; ");
        format!("beyond Tukey's fences, and counted like the others: {found}")
    })
}

fn near_the_instrument(record: &RunRecord) -> Option<String> {
    let instrument = record.instrument.as_ref()?;
    let near = |(name, arm): (&String, &ArmRecord)| {
        arm.at_instrument_limit
            .unwrap_or(false)
            .then(|| name.clone())
    };
    let cells = record.cells.iter().flatten().flat_map(|cell| {
        let arms = cell
            .arms
            .iter()
            .filter(|(_, arm)| arm.at_instrument_limit == Some(true));
        arms.map(move |(name, _)| format!("{}, {name}", cell.name))
    });
    let near: Vec<String> = record.arms.iter().filter_map(near).chain(cells).collect();
    (!near.is_empty()).then(|| {
        format!(
            "at instrument limit (a time under ten times the {} that the harness itself may take): {}",
            duration(instrument.floor_ns),
            near.join("; ")
        )
    })
}
