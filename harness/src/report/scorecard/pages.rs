//! The scorecard as pages: an index and a page for each category, in reports/scorecard.
//!
//! Not here: what they say of a row (computed in the parent) or their prose (reports/templates).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tera::{Context, Tera};
use workloads::envelope::about::About;

use super::{Row, Scorecard, Verdict};
use crate::report::classes;
use crate::report::error::ReportError;
use crate::report::evidence::Anchored;
use crate::report::page::{Template, template_error};

/// From reports/scorecard to the root.
const UP: &str = "../../";
/// The templates, by what they make.
const INDEX: &str = "scorecard.md";
const CATEGORY: &str = "scorecard-category.md";

/// What there are templates of.
pub(in crate::report) const TEMPLATES: [&str; 2] = [INDEX, CATEGORY];

/// Renders every page, as (file name relative to the root, text).
pub(in crate::report) fn render(
    card: &Scorecard,
    templates: &[Template],
    about: &About,
    runs: &[Anchored],
) -> Result<Vec<(String, String)>, ReportError> {
    let mut tera = Tera::default();
    let sources = templates.iter().map(|it| (it.page, &it.text));
    tera.add_raw_templates(sources)
        .map_err(|error| template_error(&error))?;
    let mut pages = Vec::new();
    let mut page = |template: &str, name: &str, context: &Value| {
        let context = Context::from_value(context.clone());
        let text = context.and_then(|context| tera.render(template, &context));
        let text = text.map_err(|error| template_error(&error))?;
        let name = format!("reports/scorecard/{name}.md");
        classes::hold(about, runs, &name, &text.replace(&format!("({UP}"), "("))?;
        pages.push((name, text));
        Ok::<(), ReportError>(())
    };
    page(INDEX, "README", &index(card, about, runs))?;
    for category in categories(card) {
        let context = category_context(card, category, about, runs);
        page(CATEGORY, category, &context)?;
    }
    Ok(pages)
}

fn categories(card: &Scorecard) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for row in &card.rows {
        if !found.contains(&row.dimension.category.as_str()) {
            found.push(&row.dimension.category);
        }
    }
    found
}

fn index(card: &Scorecard, about: &About, runs: &[Anchored]) -> Value {
    let categories = categories(card).into_iter().map(|category| {
        let of: Vec<&Row> = card
            .rows
            .iter()
            .filter(|row| row.dimension.category == category)
            .collect();
        let count = |verdict| {
            of.iter()
                .filter(|row| row.ruling.verdict == verdict)
                .count()
        };
        let counts = Verdict::ALL.map(count);
        json!({ "name": category, "rows": of.len(), "counts": counts })
    });
    let honesty = card.honesty();
    let parts = honesty
        .parts
        .iter()
        .map(|(what, share)| json!({ "what": what, "share": format!("{:.0} %", share * 100.0) }));
    let hidden_never = card.rows.iter();
    let hidden_never: Vec<&Row> = hidden_never
        .filter(|row| row.is_always_shown() && !row.is_judged())
        .collect();
    let counts = card
        .counts()
        .map(|(verdict, count)| json!({ "word": verdict.word(), "glyph": glyph(verdict), "count": count }));
    let judged = card.judged();
    let shown = judged.iter().chain(&hidden_never).copied();
    json!({
        "as_of": card.as_of, "today": card.today, "reference": card.reference, "total": card.rows.len(),
        "counts": counts, "categories": categories.collect::<Vec<_>>(),
        "judged": judged.iter().map(|row| view(row)).collect::<Vec<_>>(),
        "unjudged": hidden_never.iter().map(|row| view(row)).collect::<Vec<_>>(),
        "reasons": card.reasons().iter().map(|(why, count)| json!({ "why": why, "count": count })).collect::<Vec<_>>(),
        "standing": format!("{:.1}", card.standing()), "honesty": format!("{:.1}", honesty.score()),
        "parts": parts.collect::<Vec<_>>(), "losing": losing(shown, about, runs),
    })
}

fn category_context(card: &Scorecard, category: &str, about: &About, runs: &[Anchored]) -> Value {
    let rows: Vec<&Row> = card
        .rows
        .iter()
        .filter(|row| row.dimension.category == category)
        .collect();
    json!({
        "category": category, "group": rows.first().map(|row| &row.dimension.group),
        "rows": rows.iter().map(|row| view(row)).collect::<Vec<_>>(),
        "losing": losing(rows.iter().copied(), about, runs),
    })
}

pub(super) fn glyph(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Lead => "▲",
        Verdict::Parity => "≈",
        Verdict::Trails => "▼",
        Verdict::NoClaim => "○",
    }
}

/// Every row as templates see it.
pub(in crate::report) fn views(card: &Scorecard) -> Vec<Value> {
    card.rows.iter().map(view).collect()
}

/// A row as templates and programs see it.
pub(super) fn view(row: &Row) -> Value {
    let it = &row.dimension;
    let found = row.found.as_ref();
    let measured = found.map(|it| &it.measured);
    let runs = found.map(|it| it.runs.as_slice()).unwrap_or_default();
    let runs = runs.iter().map(|run| {
        json!({
            "directory": run.directory, "link": format!("{UP}{}", run.directory), "date": run.date, "commit": run.commit,
            "host": run.host, "model": run.model, "model_sha256": run.model_sha256,
            "command": run.command,
        })
    });
    let evidence = found.map(|it| &it.evidence);
    let evidence = evidence.into_iter().flatten().map(|id| {
        let (file, test) = id.split_once('#').unwrap_or((id, ""));
        json!({ "id": id, "link": format!("{UP}{file}"), "test": test })
    });
    json!({
        "dimension": it, "id": it.id, "title": it.title, "category": it.category, "metric": it.judged_metric(),
        "verdict": row.ruling.verdict, "glyph": glyph(row.ruling.verdict), "status": row.status, "reason": row.ruling.reason,
        "value": row.ruling.value, "interval": row.ruling.interval, "ours": row.ours(), "stale": row.stale,
        "sentence": found.map(|it| &it.sentence), "against": found.map(|it| &it.against), "note": row.note,
        "ours_value": measured.map(|it| it.ours), "other_value": measured.and_then(|it| it.other),
        "noise": measured.map(|it| it.noise), "apples_to_apples": found.map(|_| row.is_alike()),
        "differs": measured.map(|it| &it.differs), "missing_peers": measured.map(|it| &it.missing_peers),
        "runs": runs.collect::<Vec<_>>(), "evidence": evidence.collect::<Vec<_>>(),
    })
}

/// What the groups of the quoted runs lose: no ratio of a group stands without it.
fn losing<'a>(rows: impl Iterator<Item = &'a Row>, about: &About, runs: &[Anchored]) -> Vec<Value> {
    let quoted = rows.filter_map(|row| row.found.as_ref());
    let envelopes: BTreeSet<&str> = quoted
        .flat_map(|found| &found.runs)
        .map(|run| run.envelope.as_str())
        .collect();
    losing_of(&envelopes, about, runs, UP)
}

/// The same of envelopes, for a page from which `up` leads to the root.
pub(in crate::report) fn losing_of(
    envelopes: &BTreeSet<&str>,
    about: &About,
    runs: &[Anchored],
    up: &str,
) -> Vec<Value> {
    classes::losing_runs(about, runs, envelopes)
        .into_iter()
        .map(|(group, run)| {
            let ratios = run.record.ratios.iter();
            let lines = ratios.filter(|it| it.arm == "fused" && it.label.is_none()).map(|it| {
                let over = &it.denominator;
                match (&it.withheld, it.wall) {
                    (Some(why), _) => format!("`{over}` withheld, {why}"),
                    (None, Some(wall)) => {
                        let verdict = match it.verdict.as_deref() {
                            Some("FASTER") => "`fused` is faster",
                            Some("SLOWER") => "`fused` is slower",
                            Some("PARITY") => "neither is faster",
                            _ => "INCONCLUSIVE",
                        };
                        format!("`{over}` takes {wall:.2}× the time of `fused`, {verdict}")
                    }
                    (None, None) => format!("`{over}` has no time"),
                }
            });
            json!({
                "group": group.id, "envelope": run.record.envelope, "date": run.date(), "link": format!("{up}{}", run.directory()),
                "lines": lines.collect::<Vec<_>>(), "outdated": run.is_outdated(),
            })
        })
        .collect()
}
