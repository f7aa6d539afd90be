//! A description as a reader gets it: a heading, words and tables, as text or as Markdown, from one source.
//!
//! Not here: what it says.

use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::cli::Shown;
use crate::error::Error;
use crate::table::{COLUMNS, Table, folded};
use crate::world::World;

/// Spaces before a term's meaning where it goes on.
const INDENT: usize = 2;

enum Part {
    Words(String),
    Terms(Vec<(&'static str, String)>),
    Heading(String),
    Table(Table),
}

/// Parts in the order they are read.
pub(super) struct Document {
    title: String,
    parts: Vec<Part>,
}

impl Document {
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            parts: Vec::new(),
        }
    }

    pub(super) fn heading(&mut self, words: impl Into<String>) {
        self.parts.push(Part::Heading(words.into()));
    }

    pub(super) fn words(&mut self, words: impl Into<String>) {
        self.parts.push(Part::Words(words.into()));
    }

    /// What the words of a table mean, each on its own line.
    pub(super) fn terms(&mut self, terms: impl IntoIterator<Item = (&'static str, String)>) {
        self.parts.push(Part::Terms(terms.into_iter().collect()));
    }

    pub(super) fn table(&mut self, table: Table) {
        self.parts.push(Part::Table(table));
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for part in &self.parts {
            text.push('\n');
            match part {
                Part::Words(words) => text.push_str(&(folded(words, COLUMNS).join("\n") + "\n")),
                Part::Terms(terms) => terms.iter().for_each(|term| text += &term_as_text(term)),
                Part::Heading(words) => text += &(words.clone() + ":\n"),
                Part::Table(table) => text.push_str(&table.render()),
            }
        }
        text
    }

    fn markdown(&self) -> String {
        let mut text = format!("# {}\n", self.title);
        for part in &self.parts {
            text.push('\n');
            match part {
                Part::Words(words) => text += &(words.clone() + "\n"),
                Part::Terms(terms) => {
                    for (term, meaning) in terms {
                        text.extend(["- **", term, "**: ", meaning, "\n"]);
                    }
                }
                Part::Heading(words) => text += &("## ".to_owned() + words + "\n"),
                Part::Table(table) => text.push_str(&table.markdown()),
            }
        }
        text
    }

    /// Shows it as asked: `json` is the same for programs.
    pub(super) fn show(
        &self,
        json: &Value,
        shown: &Shown,
        world: &World,
        out: &mut dyn Write,
    ) -> Result<u8, Error> {
        if let Some(file) = &shown.md {
            write_file(&world.working_directory.join(file), &self.markdown())?;
        }
        if shown.json {
            writeln!(out, "{json:#}")?;
        } else {
            write!(out, "{}", self.text())?;
        }
        Ok(0)
    }
}

fn term_as_text((term, meaning): &(&'static str, String)) -> String {
    let lines = folded(&format!("{term}: {meaning}"), COLUMNS - INDENT);
    lines.join(&format!("\n{:INDENT$}", "")) + "\n"
}

fn write_file(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| Error::io("cannot write", path, source))
}
