//! The pages: README.md, CLAIMS.md, BENCHMARK-AUTHORITY.md, reports/SERVING.md, those of the scorecard and one for each run,
//! rendered whole from templates, claims and anchored runs.
//!
//! A page is a pure function of files in the repository: no clock, no machine, no git. Not here: verifying a run
//! (`audit`), deciding what is evidence (`harness anchor`), or computing a figure; pages only quote run records.

mod claims;
mod classes;
mod error;
pub(crate) mod evidence;
mod figure;
mod lint;
mod page;
mod runs;
pub mod scorecard;
mod serving;
mod status;
mod tombstones;
pub mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::Path;

pub use error::ReportError;
use evidence::Anchored;
use page::Template;
use workloads::envelope::about::About;

use crate::build_facts;
use crate::cli::ReportArguments;
use crate::error::Error;
use crate::files::temporary_name;
use crate::world::World;

/// Git tree ids by source directory, as in `build.trees` of a run record.
pub type Trees = BTreeMap<String, String>;

/// What `report` found and did.
#[derive(Debug)]
pub struct Outcome {
    /// Whether pages were only compared.
    pub check: bool,
    /// The pages, in the order they were rendered.
    pub pages: Vec<Page>,
    runs: Vec<Anchored>,
    library: runs::Library,
    of_runs: Vec<Template>,
}

/// One page and how the file on disk compared with it.
#[derive(Debug)]
pub struct Page {
    /// File name, relative to the repository root.
    pub name: String,
    /// The first line that differed, or `None` when the file was byte-equal.
    pub difference: Option<Difference>,
    /// Whether there should be no such file.
    pub stale: bool,
}

/// Where a page on disk first departs from what it must be.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// Line number, from 1.
    pub line: usize,
    /// That line on disk; `None` when the file ends before it or does not exist.
    pub found: Option<String>,
    /// That line as rendered; `None` when the page ends before it.
    pub expected: Option<String>,
}

/// Renders the pages of the repository at `root` and writes those that differ, or with `check` only compares.
pub fn report(root: &Path, check: bool) -> Result<Outcome, ReportError> {
    let templates = page::read_templates(root)?;
    let of_scorecard = page::templates(root, &scorecard::TEMPLATES)?;
    let of_serving = page::templates(root, &serving::TEMPLATES)?;
    let of_runs = page::templates(root, &runs::TEMPLATES)?;
    let all = templates
        .iter()
        .chain(&of_scorecard)
        .chain(&of_serving)
        .chain(&of_runs);
    lint::lint(root, all)?;
    let runs = evidence::load(root)?;
    let about = About::embedded().map_err(ReportError::Groups)?;
    classes::require(&about, &runs)?;
    let claims = claims::load(root, &runs)?;
    let mut rendered = page::render(&templates, &runs, &claims, &about)?;
    for (name, text) in &rendered {
        classes::hold(&about, &runs, name, text)?;
    }
    let card = scorecard::compute(root, &runs, None)?;
    rendered.extend(scorecard::render(&card, &of_scorecard, &about, &runs)?);
    let serving = serving::render(root, &of_serving, &claims, &card, &about, &runs)?;
    rendered.push(serving);
    let library = runs::collect(root, &runs, &about)?;
    rendered.extend(library.markdown(&of_runs, &about, &runs)?);
    let mut pages = Vec::new();
    for (name, text) in &rendered {
        pages.push(settle(root, name, text, check)?);
    }
    let names: BTreeSet<&str> = rendered.iter().map(|(name, _)| name.as_str()).collect();
    for name in runs::stale(root, &names)? {
        pages.push(remove(root, name, check)?);
    }
    Ok(Outcome {
        check,
        pages,
        runs,
        library,
        of_runs,
    })
}

/// Compares a page with its file, and writes it where it differs, unless it is only checked.
fn settle(root: &Path, name: &str, text: &str, check: bool) -> Result<Page, ReportError> {
    let path = root.join(name);
    let difference = difference(fs::read(&path).ok().as_deref(), text.as_bytes());
    if difference.is_some() && !check {
        let directory = path.parent().unwrap_or(root);
        let written = fs::create_dir_all(directory).and_then(|()| write_page(&path, text));
        written.map_err(|source| ReportError::Write { path, source })?;
    }
    Ok(Page {
        name: name.to_owned(),
        difference,
        stale: false,
    })
}

/// Removes a file that is no page any more, unless it is only checked.
fn remove(root: &Path, name: String, check: bool) -> Result<Page, ReportError> {
    let path = root.join(&name);
    let found = fs::read(&path).unwrap_or_default();
    let difference = difference(Some(&found), b"").unwrap_or(Difference {
        line: 1,
        found: Some(String::new()),
        expected: None,
    });
    if !check {
        fs::remove_file(&path).map_err(|source| ReportError::Write { path, source })?;
    }
    Ok(Page {
        name,
        difference: Some(difference),
        stale: true,
    })
}

/// Does what `harness report` says. Returns the exit code.
pub fn command(
    arguments: &ReportArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let outcome = report(&world.working_directory, arguments.check)?;
    let trees = build_facts::facts(world).trees;
    write!(out, "{}", outcome.render(trees.as_ref()))?;
    if let Some(directory) = &arguments.html {
        let files = outcome.write_html(&world.working_directory.join(directory), arguments.png)?;
        for file in files {
            writeln!(out, "{}: written", directory.join(file).display())?;
        }
    }
    Ok(outcome.exit_code())
}

impl Outcome {
    /// Whether every page was already byte-equal to what it must be.
    pub fn unchanged(&self) -> bool {
        self.pages.iter().all(|page| page.difference.is_none())
    }

    /// The exit code of the command: 1 when a check found a difference, else 0.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.check && !self.unchanged())
    }

    /// Writes the page of every run that speaks, and their index, into `directory` as HTML files that need nothing else; with
    /// `png` their plots too. Returns the names of the files.
    pub fn write_html(&self, directory: &Path, png: bool) -> Result<Vec<String>, ReportError> {
        self.library.write_html(&self.of_runs, directory, png)
    }

    /// The runs the pages speak from, as directories relative to results/.
    pub fn speaking(&self) -> impl Iterator<Item = &str> {
        self.runs
            .iter()
            .filter(|run| run.silent.is_none())
            .map(|run| run.run.as_str())
    }

    /// The result in plain words. `trees` are the source trees as they are now, if known: whether a run's source
    /// has changed since is told here and not on a page, since a page must not change with every commit.
    pub fn render(&self, trees: Option<&Trees>) -> String {
        let mut text = String::new();
        for page in &self.pages {
            let _ = match (&page.difference, self.check) {
                (None, _) => writeln!(text, "{}: up to date", page.name),
                (Some(_), false) if page.stale => {
                    writeln!(text, "{}: removed, it is no page any more", page.name)
                }
                (Some(_), true) if page.stale => writeln!(
                    text,
                    "{}: is no page any more, and no run speaks there",
                    page.name
                ),
                (Some(_), false) => writeln!(text, "{}: rewritten", page.name),
                (Some(difference), true) => writeln!(text, "{}: {difference}", page.name),
            };
        }
        if self.exit_code() != 0 {
            text.push_str(
                "`harness report` rewrites the pages from templates, claims and results.\n",
            );
        }
        if self.runs.is_empty() {
            text.push_str("No anchored run yet; `harness anchor DIR` publishes one.\n");
        }
        for run in &self.runs {
            let _ = match &run.silent {
                None => {
                    let source = source_state(run, trees);
                    let asked = if run.is_outdated() {
                        "; its envelope asks another workload by now"
                    } else {
                        ""
                    };
                    writeln!(text, "speaks: {} ({source}){asked}", run.run)
                }
                Some(reason) => writeln!(text, "does not speak: {} ({reason})", run.run),
            };
        }
        text
    }
}

/// Whether the source a run was built from is the source of now.
fn source_state(run: &Anchored, now: Option<&Trees>) -> String {
    let (Some(then), Some(now)) = (&run.record.build.trees, now) else {
        return "whether its source changed since is unknown".into();
    };
    let changed: Vec<&str> = then
        .iter()
        .filter(|(name, id)| now.get(*name) != Some(id))
        .map(|(name, _)| &**name)
        .collect();
    if changed.is_empty() {
        "same source".into()
    } else {
        format!("source changed since in {}", changed.join(", "))
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |line: &Option<String>| match line {
            Some(line) => format!("`{line}`"),
            None => "the end of the file".into(),
        };
        let (found, expected) = (show(&self.found), show(&self.expected));
        write!(
            out,
            "differs first at line {}: found {found}, expected {expected}",
            self.line
        )
    }
}

/// The first line at which two files differ. Bytes are compared, so an invalid one is a difference too.
fn difference(found: Option<&[u8]>, expected: &[u8]) -> Option<Difference> {
    if found == Some(expected) {
        return None;
    }
    let lossy = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    let mut found = found
        .map(|bytes| bytes.split(|&byte| byte == b'\n'))
        .into_iter()
        .flatten();
    let mut expected = expected.split(|&byte| byte == b'\n');
    let mut line = 1;
    loop {
        let (have, want) = (found.next(), expected.next());
        if have != want || have.is_none() {
            return Some(Difference {
                line,
                found: have.map(lossy),
                expected: want.map(lossy),
            });
        }
        line += 1;
    }
}

/// Writes beside the page and renames, so that a reader never sees half of one.
fn write_page(path: &Path, text: &str) -> std::io::Result<()> {
    let temporary = temporary_name(path);
    fs::write(&temporary, text)?;
    fs::rename(&temporary, path)
}
