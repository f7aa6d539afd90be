//! A page for each run that speaks, and an index: as Markdown in reports/runs, and as HTML files that need nothing else.
//!
//! Data flows one way: a run's records and traces -> a document (`view`) -> Markdown or HTML. Not here: which runs speak
//! (`evidence`), or the pages that quote several (`page`).

mod axis;
mod document;
mod figures;
mod html;
mod markdown;
pub(super) mod plots;
mod view;

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use tera::Tera;
use workloads::envelope::about::About;

use super::error::ReportError;
use super::evidence::{self, Anchored, speaker};
use super::page::{Template, template_error};
use super::{classes, write_page};
use document::Document;

/// Where the Markdown pages are.
const DIRECTORY: &str = "reports/runs";
/// The name of the page that lists the others.
const INDEX: &str = "index";
/// What there are templates of.
pub(super) const TEMPLATES: [&str; 4] = [
    markdown::TEMPLATE,
    html::TEMPLATES[0],
    html::TEMPLATES[1],
    html::TEMPLATES[2],
];

/// All pages, before they are written in any form.
#[derive(Debug)]
pub(super) struct Library {
    /// The index last.
    documents: Vec<Document>,
}

/// The name of a run's page: its envelope's, with the machine class if a newer run of another class has that.
fn page_name(run: &Anchored, runs: &[Anchored]) -> String {
    let envelope = &run.record.envelope;
    let newest = speaker(runs, envelope).is_some_and(|newest| newest.run == run.run);
    let taken = [INDEX, "README"].contains(&envelope.as_str());
    match (newest, taken) {
        (true, false) => envelope.clone(),
        (true, true) => format!("{envelope}.run"),
        (false, _) => format!(
            "{envelope}.{}",
            run.record.machine.class.replace(['/', '\\'], "-")
        ),
    }
}

/// Makes every page from the runs that speak.
pub(super) fn collect(
    root: &Path,
    runs: &[Anchored],
    about: &About,
) -> Result<Library, ReportError> {
    let mut documents = Vec::new();
    for run in runs.iter().filter(|run| run.silent.is_none()) {
        documents.push(view::page(root, page_name(run, runs), run, runs, about)?);
    }
    let counted = evidence::counted(root)?;
    documents.push(view::index::page(INDEX, runs, &counted, about));
    Ok(Library { documents })
}

/// The template engine with these templates.
fn shell(templates: &[Template], names: &[&str]) -> Result<Tera, ReportError> {
    let mut tera = Tera::default();
    let wanted = templates.iter().filter(|it| names.contains(&it.page));
    tera.add_raw_templates(wanted.map(|it| (it.page, &it.text)))
        .map_err(|error| template_error(&error))?;
    Ok(tera)
}

impl Library {
    /// Every Markdown page with its plots, as (file name relative to the root, text).
    pub(super) fn markdown(
        &self,
        templates: &[Template],
        about: &About,
        runs: &[Anchored],
    ) -> Result<Vec<(String, String)>, ReportError> {
        let mut files = Vec::new();
        for document in &self.documents {
            let of_page = markdown::render(document, templates)?;
            for (name, text) in &of_page {
                let text = text.replace(&format!("({}", markdown::UP), "(");
                classes::hold(about, runs, name, &text)?;
            }
            files.extend(of_page);
        }
        Ok(files)
    }

    /// Writes every page as a file of its own into `directory`, with its plots as PNG if so asked. Returns their names.
    pub(super) fn write_html(
        &self,
        templates: &[Template],
        directory: &Path,
        png: bool,
    ) -> Result<Vec<String>, ReportError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ReportError::Write { path, source }
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        let mut names = Vec::new();
        for document in &self.documents {
            let name = format!("{}.html", document.name);
            let path = directory.join(&name);
            let text = html::render(document, templates)?;
            write_page(&path, &text).map_err(failed(&path))?;
            names.push(name);
            for drawn in document.plots().filter(|_| png) {
                let stem = format!("{}-{}", document.name, drawn.name);
                let path = directory.join(format!("{stem}.png"));
                // The ending says which format it is, so the temporary name has it too.
                let temporary = directory.join(format!("{stem}.tmp.png"));
                plots::png(&drawn.plot, &temporary)?;
                fs::rename(&temporary, &path).map_err(failed(&path))?;
                names.push(format!("{stem}.png"));
            }
        }
        Ok(names)
    }
}

/// Files in the directory of Markdown pages that no page or plot is in, in order of their names.
pub(super) fn stale(root: &Path, pages: &BTreeSet<&str>) -> Result<Vec<String>, ReportError> {
    let path = root.join(DIRECTORY);
    let failed = |source| ReportError::Read {
        path: path.clone(),
        source,
    };
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let name = format!("{DIRECTORY}/{}", name.to_string_lossy());
        if !pages.contains(name.as_str()) {
            found.push(name);
        }
    }
    found.sort_unstable();
    Ok(found)
}
