//! Turns templates, runs and claims into the text of the three pages.
//!
//! Templates see run.json under its own field names plus a few conveniences (`view`), and write every number through
//! a style of `figure`. Not here: which run speaks (`evidence`) or whether a page on disk is current (`report`).

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use tera::{Context, Tera};
use workloads::envelope::about::About;

use super::claims::Claim;
use super::classes;
use super::error::ReportError;
use super::evidence::{Anchored, speaker};
use super::figure::Style;
use super::{status, tombstones};

/// The generated pages; each has its template in reports/templates/.
const PAGES: [&str; 3] = ["README.md", "CLAIMS.md", "BENCHMARK-AUTHORITY.md"];
/// What pages include.
const STATUS: &str = "status.md";

/// The source of one page, or of several alike.
#[derive(Debug)]
pub(super) struct Template {
    /// What it makes.
    pub(super) page: &'static str,
    /// Relative to the repository root.
    pub(super) file: String,
    pub(super) text: String,
}

/// Reads a text file of the repository.
pub(super) fn read(root: &Path, file: &str) -> Result<String, ReportError> {
    let path = root.join(file);
    fs::read_to_string(&path).map_err(|source| ReportError::Read { path, source })
}

/// Reads the template of every page, and of what pages include.
pub(super) fn read_templates(root: &Path) -> Result<Vec<Template>, ReportError> {
    let mut found = templates(root, &PAGES)?;
    found.extend(templates(root, &[STATUS])?);
    Ok(found)
}

/// Reads the templates of these pages.
pub(super) fn templates(root: &Path, pages: &[&'static str]) -> Result<Vec<Template>, ReportError> {
    pages
        .iter()
        .map(|&page| {
            let file = format!("reports/templates/{page}.tera");
            Ok(Template {
                page,
                text: read(root, &file)?,
                file,
            })
        })
        .collect()
}

/// Renders every page, as (file name, text).
pub(super) fn render(
    templates: &[Template],
    runs: &[Anchored],
    claims: &[Claim],
    about: &About,
) -> Result<Vec<(String, String)>, ReportError> {
    let tera = engine(templates)?;
    let context = context(runs, claims, about).map_err(|error| template_error(&error))?;
    PAGES
        .iter()
        .map(|page| {
            let text = tera.render(page, &context);
            let text = text.map_err(|error| template_error(&error));
            Ok(((*page).to_owned(), text?))
        })
        .collect()
}

/// Templates by the page they make, with the styles as filters.
pub(super) fn engine(templates: &[Template]) -> Result<Tera, ReportError> {
    let mut tera = Tera::default();
    for (name, style) in Style::ALL {
        tera.register_filter(name, move |value: &Value, _: &HashMap<String, Value>| {
            style
                .write(value)
                .map(Value::String)
                .map_err(tera::Error::msg)
        });
    }
    let sources = templates
        .iter()
        .map(|template| (template.page, &template.text));
    tera.add_raw_templates(sources)
        .map_err(|error| template_error(&error))?;
    Ok(tera)
}

/// What templates see: `runs` (speaking), `latest` (the newest of them by envelope), `silent`, `claims`, `classes`,
/// `status` (of all of it) and `tombstones` (figures that were replaced).
fn context(runs: &[Anchored], claims: &[Claim], about: &About) -> tera::Result<Context> {
    let mut latest = Map::new();
    let mut speaking = Vec::new();
    let mut silent = Vec::new();
    for run in runs {
        match &run.silent {
            None => speaking.push(view(run)),
            Some(reason) => silent.push(json!({
                "run": run.run, "directory": run.directory(), "date": run.date(), "reason": reason
            })),
        }
        if let Some(run) = speaker(runs, &run.record.envelope) {
            latest.insert(run.record.envelope.clone(), view(run));
        }
    }
    let mut context = Context::new();
    context.insert("runs", &speaking);
    context.insert("latest", &latest);
    context.insert("silent", &silent);
    context.insert("classes", &classes::context(about, runs, view));
    context.insert("status", &status::context(runs));
    context.insert("tombstones", &tombstones::context(runs));
    context.try_insert("claims", claims)?;
    Ok(context)
}

/// run.json with: `declared` (envelope.json), `directory`, `date`, `ladder` (the arms in declared order,
/// each with its `name`) and `ratio` (the ratios by `arm/denominator`).
fn view(run: &Anchored) -> Value {
    let arm = |name: &str| {
        let mut arm = run.measured["arms"][name].clone();
        arm["name"] = name.into();
        arm
    };
    let names = run.declared["run"]["arms"].as_array().into_iter().flatten();
    let ladder: Vec<Value> = names
        .filter_map(Value::as_str)
        .filter(|name| run.record.arms.contains_key(*name))
        .map(arm)
        .collect();
    let ratios = run
        .record
        .ratios
        .iter()
        .zip(run.measured["ratios"].as_array().into_iter().flatten());
    let ratio: Map<String, Value> = ratios
        .map(|(ratio, value)| {
            (
                format!("{}/{}", ratio.arm, ratio.denominator),
                value.clone(),
            )
        })
        .collect();
    let mut view = run.measured.clone();
    view["declared"] = run.declared.clone();
    view["directory"] = run.directory().into();
    view["name"] = run.run.split('/').next_back().into();
    view["date"] = run.date().into();
    view["ladder"] = ladder.into();
    view["ratio"] = ratio.into();
    view
}

/// The template engine keeps place and cause in a chain of sources; all of it is wanted.
pub(super) fn template_error(error: &tera::Error) -> ReportError {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    ReportError::Template { message }
}
