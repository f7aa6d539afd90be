//! reports/scorecard/evidence.toml: which evidence speaks for which dimension. It names runs, arms and tests, never a result.
//!
//! Not here: reading a value out of that evidence (`metrics`).

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Failure;
use super::catalogue::{Catalogue, Dimension};

/// The file, relative to the repository root.
pub(super) const FILE: &str = "reports/scorecard/evidence.toml";
const SCHEMA: &str = "fak.scorecard-evidence/1";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: String,
    #[serde(default)]
    evidence: Vec<Bound>,
}

/// What speaks for one dimension.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bound {
    pub(super) dimension: String,
    /// Places in runs; of several, the one that is worst for us counts.
    #[serde(default)]
    pub(super) from: Vec<Place>,
    /// What is counted, each with the test that shows it as `FILE#TEST`.
    #[serde(default)]
    pub(super) items: BTreeMap<String, String>,
    /// Engines of the bar that were not run.
    #[serde(default)]
    pub(super) missing: Vec<String>,
    /// What is unlike the row's terms on our side: any of it forbids a verdict.
    #[serde(default)]
    pub(super) differs: Vec<String>,
    /// The figure of `narrower`, in whose text it must stand.
    pub(super) bar: Option<f64>,
    /// What a reader must know of it.
    pub(super) note: String,
}

/// A place in the newest run that speaks for an envelope, or in a file of measurements.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    /// The envelope, or the file below reports/scorecard.
    pub(super) run: String,
    /// A cell of engine work, or an entry of the file.
    pub(super) cell: Option<String>,
    /// Whose value it is.
    pub(super) arm: Option<String>,
    /// Whom it is held against.
    pub(super) over: Option<String>,
}

impl Bound {
    /// The same binding with one place alone.
    pub(super) fn of_place(&self, place: &Place) -> Self {
        Self {
            from: vec![place.clone()],
            ..self.clone()
        }
    }
}

impl Place {
    /// How messages and pages call it.
    pub(super) fn words(&self) -> String {
        let cell = self.cell.iter().map(|it| format!(" {it}"));
        let arm = self.arm.iter().map(|it| format!(" `{it}`"));
        let over = self.over.iter().map(|it| format!(" over `{it}`"));
        let rest: String = cell.chain(arm).chain(over).collect();
        format!("`{}`{rest}", self.run)
    }
}

/// Reads the file and checks it against the catalogue.
pub(super) fn parse(text: &str, catalogue: &Catalogue) -> Result<Vec<Bound>, Failure> {
    let fail = |message: String| Failure::new(FILE, message);
    let file: File = toml::from_str(text).map_err(|error| fail(error.to_string()))?;
    if file.schema != SCHEMA {
        return Err(fail(format!("schema {}, not {SCHEMA}", file.schema)));
    }
    let mut seen = BTreeSet::new();
    for bound in &file.evidence {
        let id = &bound.dimension;
        let fail = |message: &str| Err(fail(format!("`{id}`: {message}")));
        let Some(row) = catalogue.dimensions.iter().find(|row| row.id == *id) else {
            return fail("there is no such dimension");
        };
        if !seen.insert(id) {
            return fail("is bound twice; one row has one verdict");
        }
        if bound.note.trim().is_empty() {
            return fail("`note` is empty");
        }
        if bound.from.is_empty() == bound.items.is_empty() {
            return fail("give either `from` or `items`");
        }
        let tests: BTreeSet<&String> = bound.items.values().collect();
        if tests.len() < bound.items.len() {
            return fail("two `items` have one test; give each its own");
        }
        if let Some(message) = wrong_bar(row, bound.bar) {
            return fail(message);
        }
    }
    Ok(file.evidence)
}

/// A bar may be typed only where the catalogue has it in words alone.
fn wrong_bar(row: &Dimension, bar: Option<f64>) -> Option<&'static str> {
    let narrower = row.narrower.as_deref().unwrap_or_default();
    match bar {
        None => None,
        Some(bar) if numbers(narrower).contains(&bar) => None,
        Some(_) => Some("`bar` must be the figure that stands in the dimension's `narrower`"),
    }
}

/// The numbers that stand in a sentence.
fn numbers(sentence: &str) -> Vec<f64> {
    let part = |letter: char| !letter.is_ascii_digit() && letter != '.' && letter != ',';
    let words = sentence
        .split(part)
        .map(|word| word.trim_matches(['.', ',']));
    words
        .filter_map(|word| word.replace(',', "").parse().ok())
        .collect()
}

/// Refuses evidence that backs two verdicts, unless the catalogue has the rows share it. `used`: the evidence ids of each row.
pub(super) fn check_shared(
    catalogue: &Catalogue,
    used: &[(String, BTreeSet<String>)],
) -> Result<(), Failure> {
    let shares = |a: &str, b: &str| {
        let row = catalogue.dimensions.iter().find(|row| row.id == a);
        row.is_some_and(|row| row.shares_evidence_with.iter().any(|it| it == b))
    };
    for (place, (a, of_a)) in used.iter().enumerate() {
        for (b, of_b) in &used[..place] {
            if shares(a, b) || shares(b, a) {
                continue;
            }
            if let Some(id) = of_a.intersection(of_b).next() {
                let message = format!(
                    "`{a}` and `{b}` both rest on {id}; one piece of evidence backs one verdict unless the catalogue has \
                     the rows share it"
                );
                return Err(Failure::new(FILE, message));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        let text = include_str!("../../../../reports/scorecard/dimensions.toml");
        Catalogue::parse(text).unwrap()
    }

    #[test]
    fn bindings_that_would_mislead_are_refused_by_name() {
        let good = "schema = \"fak.scorecard-evidence/1\"\n[[evidence]]\ndimension = \"automatic-prefix-caching-hit-rate\"\n\
            from = [{ run = \"smoke\", arm = \"fused\" }]\nbar = 0.96\nnote = \"n\"\n";
        assert_eq!(parse(good, &catalogue()).unwrap().len(), 1);
        for (from, to, said) in [
            ("evidence/1", "evidence/0", "schema"),
            ("automatic-prefix", "nobodys-prefix", "no such dimension"),
            ("0.96", "0.5", "stands in the dimension's `narrower`"),
            ("0.96", "0.9", "stands in the dimension's `narrower`"),
            ("0.96", "6", "stands in the dimension's `narrower`"),
            ("note = \"n\"", "note = \" \"", "`note` is empty"),
            (
                "from = [{ run = \"smoke\", arm = \"fused\" }]\n",
                "",
                "either `from` or `items`",
            ),
            ("arm = \"fused\"", "value = 7", "value"),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good);
            let error = parse(&text, &catalogue()).unwrap_err().to_string();
            assert!(error.contains(said), "{from}: {error}");
        }
        let (_, entry) = good.split_once('\n').unwrap();
        let error = parse(&(good.to_owned() + entry), &catalogue()).unwrap_err();
        assert!(error.to_string().contains("bound twice"), "{error}");
    }

    #[test]
    fn one_piece_of_evidence_backs_one_verdict_unless_rows_share_it() {
        let used = |a: &str, b: &str| {
            let of = |id: &str| {
                (
                    id.to_owned(),
                    BTreeSet::from(["results/smoke/1".to_owned()]),
                )
            };
            [of(a), of(b)]
        };
        let (decode, weights) = ("single-stream-decode-cpu", "int8-simd-decode-vs-peer");
        assert!(check_shared(&catalogue(), &used(decode, weights)).is_ok());
        let error = check_shared(&catalogue(), &used(decode, "cross-agent-fleet-serving"));
        assert!(error.unwrap_err().to_string().contains("results/smoke/1"));
    }
}
