//! The scorecard: where this project stands on every axis the field is judged by. Verdicts are computed from committed
//! evidence by one rule; what has no evidence says so.
//!
//! Data flows one way: catalogue and bindings -> values (`metrics`, `curves`, `latency`, `counts`, `files`) -> rulings (`verdict`) -> rows, counts
//! and scores (here) -> pages and the command's output (`pages`, `show`).

mod bound;
mod catalogue;
mod counts;
mod curves;
mod files;
mod latency;
mod metrics;
mod pages;
pub mod show;
mod verdict;

use std::collections::BTreeMap;
use std::path::Path;

use super::error::ReportError;
use super::evidence::Anchored;
use super::page;
use crate::calendar::dashed;
use bound::Bound;
use catalogue::{ALWAYS_SHOWN, ALWAYS_SHOWN_CATEGORIES, Catalogue, Class, Dimension, Kind};
use metrics::{Found, Library, Source, Stop};
pub(super) use pages::{TEMPLATES, losing_of, render, views};
use verdict::{Noise, Ruling, Verdict};

/// Days after which evidence no longer speaks.
const EVIDENCE_DAYS_MAX: u64 = 150;
const DAY_S: u64 = 86_400;

/// Something wrong with the catalogue or a binding.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {message}")]
pub struct Failure {
    file: String,
    message: String,
}

impl Failure {
    fn new(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            message: message.into(),
        }
    }
}

/// One axis and our standing.
#[derive(Debug)]
struct Row {
    dimension: Dimension,
    ruling: Ruling,
    /// `shipped`, `in-flight` or `stub`.
    status: &'static str,
    /// What was found, where anything was.
    found: Option<Found>,
    /// What the binding says of it.
    note: Option<String>,
    /// The printed figure, of the narrower metric where that is judged.
    printed: Option<f64>,
    /// Whether neither source nor review of the bar is younger than a year.
    stale: bool,
}

/// All of them.
#[derive(Debug)]
pub struct Scorecard {
    rows: Vec<Row>,
    as_of: String,
    reference: String,
    /// The day it was computed for, `YYYY-MM-DD`.
    today: String,
}

/// How much of what makes the page honest holds, by part, as shares of one.
#[derive(Debug)]
struct Honesty {
    parts: Vec<(&'static str, f64)>,
}

/// What decides whether evidence still counts.
pub(super) struct Now<'a> {
    /// Seconds since 1970.
    pub(super) unix_s: u64,
    /// Whether a commit leads to what is checked out, as far as that is known.
    pub(super) is_ancestor: &'a dyn Fn(&str) -> Option<bool>,
}

/// Computes every row. Without `now` it is the day of the newest anchored run and every commit counts, so that a page does not
/// change by itself.
pub(super) fn compute(
    root: &Path,
    runs: &[Anchored],
    now: Option<&Now<'_>>,
) -> Result<Scorecard, ReportError> {
    let catalogue = Catalogue::parse(&page::read(root, catalogue::FILE)?)?;
    let bounds = bound::parse(&page::read(root, bound::FILE)?, &catalogue)?;
    let newest = runs.iter().filter_map(Anchored::started_unix_s).max();
    let of_pages = Now {
        unix_s: newest.unwrap_or(0),
        is_ancestor: &|_| None,
    };
    let now = now.unwrap_or(&of_pages);
    let library = Library { root, runs };
    let mut rows = Vec::new();
    for dimension in &catalogue.dimensions {
        let bound = bounds.iter().find(|it| it.dimension == dimension.id);
        rows.push(row(dimension, bound, &library, now)?);
    }
    let used: Vec<_> = rows
        .iter()
        .filter_map(|row| {
            Some((
                row.dimension.id.clone(),
                row.found.as_ref()?.evidence.clone(),
            ))
        })
        .collect();
    bound::check_shared(&catalogue, &used)?;
    Ok(Scorecard {
        rows,
        as_of: catalogue.as_of,
        reference: catalogue.reference,
        today: dashed(now.unix_s),
    })
}

fn row(
    dimension: &Dimension,
    bound: Option<&Bound>,
    library: &Library<'_>,
    now: &Now<'_>,
) -> Result<Row, ReportError> {
    let mut row = Row {
        dimension: dimension.clone(),
        ruling: Ruling::none(unbound(dimension)),
        status: "stub",
        found: None,
        note: bound.map(|it| it.note.clone()),
        printed: bound.and_then(|it| it.bar).or(dimension.sota_value),
        stale: dimension.is_stale(&dashed(now.unix_s)),
    };
    let Some(bound) = bound else { return Ok(row) };
    row.status = "in-flight";
    match metrics::find(dimension, bound, library) {
        Ok(found) => {
            row.ruling = verdict::rule(dimension, &found.measured, bound.bar);
            match found.runs.iter().find_map(|run| expired(run, now)) {
                Some(reason) => {
                    row.ruling.verdict = Verdict::NoClaim;
                    row.ruling.reason = reason;
                }
                None => row.status = "shipped",
            }
            row.found = Some(found);
        }
        Err(Stop::Waits(reason)) => row.ruling = Ruling::none(reason),
        Err(Stop::Refused(message)) => {
            let message = format!("`{}`: {message}", dimension.id);
            return Err(Failure::new(bound::FILE, message).into());
        }
        Err(Stop::Broken(message)) => {
            let row = dimension.id.clone();
            return Err(ReportError::Contradicted { row, message });
        }
    }
    Ok(row)
}

/// Why a run no longer speaks, if so.
fn expired(run: &Source, now: &Now<'_>) -> Option<String> {
    let age_s = now.unix_s.saturating_sub(run.started_unix_s);
    let directory = &run.directory;
    if age_s > EVIDENCE_DAYS_MAX * DAY_S {
        return Some(format!(
            "{directory} is older than {EVIDENCE_DAYS_MAX} days; run it again"
        ));
    }
    ((now.is_ancestor)(&run.commit) == Some(false))
        .then(|| format!("{directory} is of a commit that does not lead here; run it again"))
}

/// Why a row without evidence has none.
fn unbound(dimension: &Dimension) -> &'static str {
    match dimension.kind {
        Kind::External => "decided by a checkpoint or hardware that is not here",
        _ => "nothing here has been measured for it",
    }
}

impl Row {
    /// Whether the index shows it whatever its verdict is.
    fn is_always_shown(&self) -> bool {
        ALWAYS_SHOWN.contains(&self.dimension.id.as_str())
            || ALWAYS_SHOWN_CATEGORIES.contains(&self.dimension.category.as_str())
    }

    /// Our value against the other side's, in words.
    fn ours(&self) -> Option<String> {
        let found = self.found.as_ref()?;
        let it = &found.measured;
        let is_ratio = self.dimension.class == Class::TunedPeer && it.other == Some(1.0);
        let other = it.other.or(self.printed).filter(|_| !is_ratio);
        let other = other.map(|other| format!(" against {}", number(other)));
        let other = other.unwrap_or_else(|| if is_ratio { "×" } else { "" }.to_owned());
        let noise = match (it.noise, self.ruling.interval) {
            (Noise::Exact, _) => "exact".to_owned(),
            (Noise::Pairs { n, .. }, Some((low, high))) => {
                format!("{} to {}, n = {n}", number(low), number(high))
            }
            (Noise::Pairs { n, .. }, None) => format!("n = {n}, no interval"),
        };
        Some(format!("{}{other} ({noise})", number(it.ours)))
    }
}

/// A number as a reader wants it: three decimals at most, and what is small not as nothing.
fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.001 {
        return format!("{value:.1e}");
    }
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

impl Scorecard {
    /// How many rows have each verdict, best first.
    fn counts(&self) -> [(Verdict, usize); 4] {
        Verdict::ALL.map(|verdict| {
            let of = |row: &&Row| row.ruling.verdict == verdict;
            (verdict, self.rows.iter().filter(of).count())
        })
    }

    /// Rows with a verdict, best first.
    fn judged(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| row.is_judged()).collect();
        rows.sort_by_key(|row| row.ruling.verdict);
        rows
    }

    /// Why rows have no verdict, with how many each reason holds for; the commonest first.
    fn reasons(&self) -> Vec<(&str, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| !row.is_judged()) {
            *counts.entry(&row.ruling.reason).or_default() += 1;
        }
        let mut reasons: Vec<(&str, usize)> = counts.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons
    }

    /// How good the product is: the mean of what verdicts are worth over every row that could have one here, a row
    /// without one counting nothing. Of a hundred.
    fn standing(&self) -> f64 {
        let rows = self.rows.iter();
        let open: Vec<f64> = rows
            .filter(|row| row.dimension.kind != Kind::External)
            .map(|row| row.ruling.verdict.points())
            .collect();
        100.0 * open.iter().sum::<f64>() / open.len().max(1) as f64
    }

    /// How honest the page is: what of it can be checked, each part a share of one.
    fn honesty(&self) -> Honesty {
        let share = |of: &dyn Fn(&Row) -> bool, among: &dyn Fn(&Row) -> bool| {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| among(row)).collect();
            let held = rows.iter().filter(|row| of(row)).count();
            if rows.is_empty() {
                1.0
            } else {
                held as f64 / rows.len() as f64
            }
        };
        let measured = |row: &Row| row.found.is_some();
        let bound = |row: &Row| row.note.is_some();
        let parts = vec![
            (
                "bars printed or looked up within a year",
                share(&|row| !row.stale, &|_| true),
            ),
            (
                "bars whose source has an exact date",
                share(&|row| !row.dimension.source_date_approx, &|_| true),
            ),
            (
                "bars that can fail as printed",
                share(&|row| row.dimension.falsifiable, &|_| true),
            ),
            (
                "bound rows whose evidence is there and young",
                share(&|row| row.status == "shipped", &bound),
            ),
            (
                "measured rows that are alike on both sides",
                share(&Row::is_alike, &measured),
            ),
            (
                "rows that may not be hidden with anything measured",
                share(&measured, &|row| {
                    row.is_always_shown() && row.dimension.kind != Kind::External
                }),
            ),
        ];
        Honesty { parts }
    }
}

impl Row {
    fn is_judged(&self) -> bool {
        self.ruling.verdict != Verdict::NoClaim
    }

    fn is_alike(&self) -> bool {
        let found = self.found.as_ref().map(|it| &it.measured);
        found.is_some_and(|it| it.differs.is_empty() && it.missing_peers.is_empty())
    }
}

impl Honesty {
    /// The mean of the parts, of a hundred.
    fn score(&self) -> f64 {
        let sum: f64 = self.parts.iter().map(|(_, share)| share).sum();
        100.0 * sum / self.parts.len().max(1) as f64
    }
}
