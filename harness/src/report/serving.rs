//! reports/SERVING.md: what serving engines do, with our status and the claim that says so; and the alternatives side by side,
//! every cell from the newest run that speaks.
//!
//! What is said is reviewed in reports/serving.toml; what follows from evidence is computed. Not here: verdicts (`scorecard`),
//! or the sentences of claims (`claims`).

mod cells;

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tera::Context;
use workloads::envelope::about::About;

use super::claims::Claim;
use super::classes;
use super::error::ReportError;
use super::evidence::{Anchored, speaker};
use super::page::{self, Template};
use super::scorecard::{self, Scorecard};

/// What it is made of, beside results.
pub(super) const FILE: &str = "reports/serving.toml";
/// What there is a template of.
pub(super) const TEMPLATES: [&str; 1] = ["SERVING.md"];
/// Fields that are prose.
pub(super) const PROSE: [&str; 5] = ["title", "what", "missing", "stands_for", "across"];
const SCHEMA: &str = "fak.serving/1";
/// The page, and the way from it to the root.
const PAGE: &str = "reports/SERVING.md";
const UP: &str = "../";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: String,
    envelopes: Vec<String>,
    optimisation: Vec<Optimisation>,
    alternative: Vec<Alternative>,
}

/// Something that engines do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Optimisation {
    id: String,
    title: String,
    /// What it is.
    what: String,
    status: Status,
    claims: Vec<String>,
    /// Rows of the scorecard.
    rows: Vec<String>,
    /// What nothing here shows.
    missing: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Status {
    #[serde(rename = "shipped")]
    Shipped,
    #[serde(rename = "in part")]
    InPart,
    #[serde(rename = "not here")]
    NotHere,
}

/// A way to serve, by the arm that stands for it.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Alternative {
    arm: String,
    title: String,
    stands_for: String,
    /// What happens across workers.
    across: String,
}

/// Renders the page, as (file name, text).
pub(super) fn render(
    root: &Path,
    templates: &[Template],
    claims: &[Claim],
    card: &Scorecard,
    about: &About,
    runs: &[Anchored],
) -> Result<(String, String), ReportError> {
    let file = load(root)?;
    let rows = scorecard::views(card);
    let mut shown = Vec::new();
    for it in &file.optimisation {
        let optimisation = optimisation(it, claims, &rows);
        shown.push(optimisation.map_err(|why| fail(format!("`{}`: {why}", it.id)))?);
    }
    let of_tables = file.envelopes.iter().filter_map(|it| speaker(runs, it));
    let tables: Vec<Value> = of_tables.map(|run| table(run, &file.alternative)).collect();
    let named = file.optimisation.iter().flat_map(|it| &it.claims);
    let named: BTreeSet<&str> = named.map(String::as_str).collect();
    let quoted = claims.iter().filter(|it| named.contains(&*it.id));
    let quoted = quoted
        .flat_map(|it| &it.runs)
        .map(|it| it.envelope.as_str());
    let envelopes = file.envelopes.iter().map(String::as_str);
    let spoken = envelopes.filter(|it| speaker(runs, it).is_some());
    let envelopes: BTreeSet<&str> = quoted.chain(spoken).collect();
    let losing = scorecard::losing_of(&envelopes, about, runs, UP);
    let context = json!({
        "optimisations": shown, "alternatives": file.alternative, "tables": tables, "losing": losing,
    });
    let context = Context::from_value(context).map_err(|it| page::template_error(&it))?;
    let text = page::engine(templates)?.render(TEMPLATES[0], &context);
    let text = text.map_err(|error| page::template_error(&error))?;
    classes::hold(about, runs, PAGE, &text.replace(&format!("({UP}"), "("))?;
    Ok((PAGE.to_owned(), text))
}

fn fail(message: String) -> ReportError {
    ReportError::Serving { message }
}

/// Reads the file, and checks what can be checked without claims and results.
fn load(root: &Path) -> Result<File, ReportError> {
    let text = page::read(root, FILE)?;
    let file: File = toml::from_str(&text).map_err(|error| fail(error.to_string()))?;
    if file.schema != SCHEMA {
        return Err(fail(format!("schema {}, not {SCHEMA}", file.schema)));
    }
    if file.optimisation.is_empty() || file.alternative.is_empty() || file.envelopes.is_empty() {
        let message =
            "needs at least one `[[optimisation]]`, one `[[alternative]]` and one of `envelopes`";
        return Err(fail(message.to_owned()));
    }
    let (mut ids, mut arms) = (BTreeSet::new(), BTreeSet::new());
    for it in &file.optimisation {
        let words = [&it.id, &it.title, &it.what, &it.missing];
        if words.iter().any(|it| it.trim().is_empty()) {
            return Err(fail(format!("`{}` has an empty field", it.id)));
        }
        if !ids.insert(&it.id) {
            return Err(fail(format!("`{}` stands there twice", it.id)));
        }
    }
    let known = workloads::arm::every_name();
    for it in &file.alternative {
        if !known.contains(&it.arm.as_str()) || !arms.insert(&it.arm) {
            return Err(fail(format!(
                "`{}` is no arm of sessions, or stands there twice",
                it.arm
            )));
        }
    }
    Ok(file)
}

/// One as the template sees it, or why it may not be said.
fn optimisation(it: &Optimisation, claims: &[Claim], rows: &[Value]) -> Result<Value, String> {
    let claims: Vec<&Claim> = it
        .claims
        .iter()
        .map(|id| {
            let claim = claims.iter().find(|claim| claim.id == *id);
            claim.ok_or_else(|| format!("there is no claim `{id}` in reports/claims.toml"))
        })
        .collect::<Result<_, _>>()?;
    let rows: Vec<Value> = it
        .rows
        .iter()
        .map(|id| {
            let row = rows.iter().find(|row| row["id"] == **id);
            let row = row.ok_or_else(|| format!("the scorecard has no row `{id}`"))?;
            let category = row["category"].as_str().unwrap_or_default();
            Ok(json!({
                "title": row["title"], "glyph": row["glyph"], "verdict": row["verdict"], "reason": row["reason"],
                "ours": row["ours"], "link": format!("scorecard/{category}.md#{id}"),
            }))
        })
        .collect::<Result<_, String>>()?;
    if rows.is_empty() {
        return Err("names no row of the scorecard".to_owned());
    }
    let is_said = claims.iter().any(|claim| claim.tag == "SHIPPED");
    match it.status {
        Status::Shipped if !is_said => {
            let words = "says shipped, and no claim with the tag SHIPPED speaks for it; name one in `claims`, or say `in part`";
            return Err(words.to_owned());
        }
        Status::InPart if claims.is_empty() => {
            return Err(
                "says `in part`, and no claim says of what; name one, or say `not here`".to_owned(),
            );
        }
        Status::NotHere if !claims.is_empty() => {
            return Err("says `not here`, and has claims".to_owned());
        }
        _ => {}
    }
    let claims = claims.into_iter().map(|claim| {
        json!({
            "id": claim.id, "tag": claim.tag, "provenance": claim.provenance, "sentence": claim.sentence,
            "waiting": claim.waiting, "runs": claim.runs,
        })
    });
    Ok(json!({
        "id": it.id, "title": it.title, "what": it.what, "status": it.status, "missing": it.missing,
        "claims": claims.collect::<Vec<_>>(), "rows": rows,
    }))
}

/// The alternatives in one run.
fn table(run: &Anchored, alternatives: &[Alternative]) -> Value {
    let in_run = |it: &&Alternative| run.record.arms.contains_key(&it.arm);
    let shown: Vec<&Alternative> = alternatives.iter().filter(in_run).collect();
    let absent = alternatives.iter().filter(|it| !in_run(it));
    let absent: Vec<&str> = absent.map(|it| it.arm.as_str()).collect();
    let mut rows = cells::rows(
        run,
        &shown.iter().map(|it| it.arm.as_str()).collect::<Vec<_>>(),
    );
    let across: Vec<&str> = shown.iter().map(|it| it.across.as_str()).collect();
    rows.push(json!({ "what": "across workers", "cells": across }));
    let work = &run.declared["workload"];
    let record = &run.record;
    json!({
        "envelope": record.envelope, "name": run.run.split('/').next_back(), "directory": run.directory(),
        "date": run.date(), "outdated": run.is_outdated(), "model": record.model.name,
        "machine": format!("{} ({})", record.machine.class, record.machine.cpu),
        "agents": cells::count(&work["agents"]), "prefix": cells::count(&work["prefix"]), "turns": cells::count(&work["turns"]),
        "workers": cells::count(&work["workers"]), "arms": shown.iter().map(|it| &it.arm).collect::<Vec<_>>(),
        "absent": absent, "rows": rows,
    })
}
