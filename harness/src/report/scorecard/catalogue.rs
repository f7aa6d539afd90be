//! reports/scorecard/dimensions.toml: what engines of this field are judged by, each with a bar, a source and a date.
//!
//! Nothing in it states our own standing. Not here: what we measured (`bound`), or the rule (`verdict`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Failure;

/// The file, relative to the repository root.
pub(super) const FILE: &str = "reports/scorecard/dimensions.toml";
const SCHEMA: &str = "scorecard-dimensions/1";

/// Rows that may never be hidden: they stand on the index whatever their verdict is.
pub(super) const ALWAYS_SHOWN: [&str; 3] = [
    "single-stream-decode-cpu",
    "single-stream-prefill-cpu",
    "max-model-and-moe-coverage",
];
/// Categories of which at least one row may never be hidden: all of theirs stand on the index.
pub(super) const ALWAYS_SHOWN_CATEGORIES: [&str; 3] =
    ["kv-cache", "agent-fleet", "numerical-correctness"];

/// The whole catalogue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalogue {
    schema: String,
    /// The month it was last gone through.
    pub(super) as_of: String,
    /// Whose catalogue it began as.
    pub(super) reference: String,
    #[serde(rename = "dimension")]
    pub(super) dimensions: Vec<Dimension>,
}

/// How a dimension is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// By a number from a run.
    Measured,
    /// By a count of things that pass a test.
    Coverage,
    /// By a property that holds or does not.
    Structural,
    /// By a checkpoint or hardware that we lack: never a verdict.
    External,
}

/// What stands on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Class {
    /// A named engine, tuned, run by us on the same host.
    TunedPeer,
    /// The printed figure.
    Published,
    /// An exact bound from our own inputs: never a lead.
    Ceiling,
    /// A correctness reference: never a lead.
    Oracle,
}

/// One axis.
#[allow(clippy::struct_excessive_bools)] // the catalogue's own keys
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dimension {
    pub(super) id: String,
    pub(super) category: String,
    pub(super) group: String,
    pub(super) title: String,
    pub(super) why: String,
    pub(super) metric: String,
    pub(super) unit: String,
    pub(super) higher_is_better: bool,
    /// The printed figure, if there is one.
    pub(super) sota_value: Option<f64>,
    /// The printed band, if there is one.
    pub(super) sota_band: Option<[f64; 2]>,
    pub(super) sota_systems: Vec<String>,
    pub(super) sota_bar: String,
    pub(super) source_url: String,
    /// Year, year and month, or day.
    pub(super) source_date: String,
    #[serde(default)]
    pub(super) source_date_approx: bool,
    pub(super) kind: Kind,
    pub(super) class: Class,
    /// Of a published figure: whether it holds on any machine.
    #[serde(default)]
    pub(super) portable: bool,
    /// Whether the bar as printed can fail at all.
    pub(super) falsifiable: bool,
    /// The metric that can, where it cannot.
    pub(super) narrower: Option<String>,
    /// Rows that one run may feed as well.
    #[serde(default)]
    pub(super) shares_evidence_with: Vec<String>,
    pub(super) evidence_hint: String,
    pub(super) bar_change: String,
    /// The month the bar was last looked up.
    pub(super) checked: Option<String>,
    /// An absolute margin instead of the ratio.
    pub(super) parity_abs: Option<f64>,
}

impl Dimension {
    /// The metric that a verdict is about.
    pub(super) fn judged_metric(&self) -> &str {
        match &self.narrower {
            Some(narrower) if !self.falsifiable => narrower,
            _ => &self.metric,
        }
    }

    /// Whether the bar is due for review: neither printed nor looked up within a year of `today`, `YYYY-MM-DD`.
    pub(super) fn is_stale(&self, today: &str) -> bool {
        let dates = [Some(&self.source_date), self.checked.as_ref()];
        let fresh = |date: &String| months(today).saturating_sub(months(date)) <= 12;
        !dates.into_iter().flatten().any(fresh)
    }
}

/// Months since the year 0; a year alone is its January.
fn months(date: &str) -> u64 {
    let mut parts = date.split('-').map(|it| it.parse::<u64>().unwrap_or(0));
    let (year, month) = (parts.next().unwrap_or(0), parts.next().unwrap_or(1));
    year * 12 + month
}

impl Catalogue {
    /// Reads and checks the text of the file.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let fail = |message: String| Failure::new(FILE, message);
        let it: Self = toml::from_str(text).map_err(|error| fail(error.to_string()))?;
        if it.schema != SCHEMA {
            return Err(fail(format!("schema {}, not {SCHEMA}", it.schema)));
        }
        let ids: BTreeSet<&str> = it.dimensions.iter().map(|row| row.id.as_str()).collect();
        if ids.len() != it.dimensions.len() {
            return Err(fail("two dimensions have one id".to_owned()));
        }
        for row in &it.dimensions {
            row.check(&ids)
                .map_err(|message| fail(format!("`{}`: {message}", row.id)))?;
        }
        for id in ALWAYS_SHOWN {
            if !ids.contains(id) {
                return Err(fail(format!("`{id}` may not be hidden, and is not there")));
            }
        }
        for category in ALWAYS_SHOWN_CATEGORIES {
            if !it.dimensions.iter().any(|row| row.category == category) {
                let message = format!("no row of `{category}`, which may not be hidden");
                return Err(fail(message));
            }
        }
        Ok(it)
    }
}

impl Dimension {
    fn check(&self, ids: &BTreeSet<&str>) -> Result<(), String> {
        let words = [
            ("title", &self.title),
            ("why", &self.why),
            ("metric", &self.metric),
            ("unit", &self.unit),
            ("sota_bar", &self.sota_bar),
            ("source_date", &self.source_date),
        ];
        if let Some((field, _)) = words.iter().find(|(_, text)| text.trim().is_empty()) {
            return Err(format!("`{field}` is empty"));
        }
        let name = |it: &str| it.chars().all(|it| it.is_ascii_alphanumeric() || it == '-');
        if !name(&self.category) || !name(&self.id) {
            return Err("id and category are letters, digits and hyphens".to_owned());
        }
        if !self.source_url.starts_with("https://") {
            return Err("`source_url` begins with https://".to_owned());
        }
        if self.falsifiable == self.narrower.is_some() {
            let message = "`narrower` stands exactly where the bar is not falsifiable";
            return Err(message.to_owned());
        }
        if self.portable && self.class != Class::Published {
            return Err("only a published figure is `portable`".to_owned());
        }
        if self.parity_abs.is_some_and(|margin| margin < 0.0) {
            return Err("`parity_abs` is below zero".to_owned());
        }
        let mut others = self.shares_evidence_with.iter();
        match others.find(|id| !ids.contains(id.as_str())) {
            Some(id) => Err(format!("shares evidence with `{id}`, which is not there")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> &'static str {
        include_str!("../../../../reports/scorecard/dimensions.toml")
    }

    #[test]
    fn the_catalogue_has_every_row_that_its_notes_count() {
        let it = Catalogue::parse(text()).unwrap();
        assert_eq!(it.dimensions.len(), 91);
        let categories = it.dimensions.iter().map(|row| &row.category);
        assert_eq!(categories.collect::<BTreeSet<_>>().len(), 21);
        let count = |class| {
            it.dimensions
                .iter()
                .filter(|row| row.class == class)
                .count()
        };
        let classes = [
            Class::TunedPeer,
            Class::Published,
            Class::Ceiling,
            Class::Oracle,
        ];
        assert_eq!(classes.map(count), [38, 43, 5, 5]);
        let not_falsifiable = it.dimensions.iter().filter(|row| !row.falsifiable);
        assert_eq!(not_falsifiable.count(), 11);
    }

    #[test]
    fn a_bar_neither_printed_nor_looked_up_within_a_year_is_stale() {
        let mut row = Catalogue::parse(text()).unwrap().dimensions.remove(0);
        for (printed, checked, today, stale) in [
            ("2024-06", None, "2025-06-30", false),
            ("2024-06", None, "2025-07-01", true),
            ("2024-06-15", Some("2025-01"), "2026-01-09", false),
            ("2024", Some("2025-01"), "2026-02-01", true),
            ("2026-12", None, "2026-01-01", false),
        ] {
            row.source_date = printed.to_owned();
            row.checked = checked.map(str::to_owned);
            assert_eq!(row.is_stale(today), stale, "{printed} {checked:?} {today}");
        }
    }

    #[test]
    fn rows_that_contradict_themselves_are_refused_by_name() {
        for (from, to, said) in [
            (
                "schema = \"scorecard-dimensions/1\"",
                "schema = \"x\"",
                "schema x",
            ),
            (
                "id = \"latency-throughput-pareto\"",
                "id = \"slo-constrained-goodput\"",
                "one id",
            ),
            (
                "id = \"single-stream-decode-cpu\"",
                "id = \"renamed\"",
                "single-stream-decode-cpu",
            ),
            (
                "falsifiable = true",
                "falsifiable = false",
                "`narrower` stands exactly",
            ),
            ("portable = true", "portable = true\ntypo = 1", "typo"),
            (
                "source_url = \"https://",
                "source_url = \"ftp://",
                "begins with https",
            ),
        ] {
            let error = Catalogue::parse(&text().replacen(from, to, 1)).unwrap_err();
            assert!(error.to_string().contains(said), "{from}: {error}");
        }
    }
}
