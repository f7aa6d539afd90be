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

enum Part {
    Words(String),
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

    pub(super) fn table(&mut self, table: Table) {
        self.parts.push(Part::Table(table));
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for part in &self.parts {
            text.push('\n');
            match part {
                Part::Words(words) => text.push_str(&(folded(words, COLUMNS).join("\n") + "\n")),
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

fn write_file(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| Error::io("cannot write", path, source))
}
