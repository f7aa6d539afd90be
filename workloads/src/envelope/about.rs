//! What each embedded envelope is for: its group, where it comes from, what it asks and what it does not show.
//!
//! A group is a class of claims. It names the envelopes that were made to be lost or tied, so that whoever quotes its ratios
//! can be held to quoting those too. Not here: that rule itself (`harness report`) or how any of it is shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::check::line_of;
use super::embedded;
use crate::Error;

const TEXT: &str = include_str!("../../envelopes/ABOUT.toml");
/// Where it is said, from the root of the repository.
pub const FILE: &str = "workloads/envelopes/ABOUT.toml";

/// A class of claims: envelopes whose ratios answer one kind of question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// One word.
    pub id: String,
    /// What its ratios are about, as a heading.
    pub title: String,
    /// The same as a sentence.
    pub sentence: String,
    /// Its envelopes that were made for us to lose or to tie: no ratio of the group is quoted without them.
    #[serde(default)]
    pub losing: Vec<String>,
}

/// What one envelope is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paragraph {
    /// Id of its group.
    pub group: String,
    /// Where it comes from.
    pub origin: String,
    /// What it asks, and why.
    pub asks: String,
    /// What nobody may read into its results.
    pub does_not_show: String,
}

/// Every group, and a paragraph for every embedded envelope.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    #[serde(rename = "group")]
    groups: Vec<Group>,
    #[serde(rename = "envelope")]
    envelopes: BTreeMap<String, Paragraph>,
}

impl About {
    /// What is said of the envelopes that come with the program.
    pub fn embedded() -> Result<Self, Error> {
        let names: Vec<&str> = embedded().iter().map(|(name, _)| *name).collect();
        Self::parse(TEXT, &names)
    }

    /// Reads and checks what is said of envelopes of these names.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self, Error> {
        let about: Self = toml::from_str(text).map_err(|source| Error::Toml {
            file: FILE.to_owned(),
            source: Box::new(source),
        })?;
        about.check_groups(text)?;
        about.check_envelopes(text, names)?;
        Ok(about)
    }

    /// Every group, in the order of the file.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group and the paragraph of an envelope; none for an envelope that is not embedded.
    pub fn of(&self, envelope: &str) -> Option<(&Group, &Paragraph)> {
        let paragraph = self.envelopes.get(envelope)?;
        Some((self.group(&paragraph.group)?, paragraph))
    }

    /// The group of this id.
    pub fn group(&self, id: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.id == id)
    }

    fn check_groups(&self, text: &str) -> Result<(), Error> {
        for (place, group) in self.groups.iter().enumerate() {
            let id = &group.id;
            let field = |name: &str| format!("group.{id}.{name}");
            if self.groups[..place].iter().any(|it| it.id == *id) {
                return Err(refused(text, "group.id", id, "every group once"));
            }
            for (name, words) in [
                ("id", id),
                ("title", &group.title),
                ("sentence", &group.sentence),
            ] {
                said(text, &field(name), words)?;
            }
            for (place, name) in group.losing.iter().enumerate() {
                let member = self.envelopes.get(name).is_some_and(|it| it.group == *id);
                if !member || group.losing[..place].contains(name) {
                    let wanted = "envelopes of the group, each once";
                    return Err(refused(text, &field("losing"), name, wanted));
                }
            }
        }
        Ok(())
    }

    fn check_envelopes(&self, text: &str, names: &[&str]) -> Result<(), Error> {
        for (name, paragraph) in &self.envelopes {
            let field = |part: &str| format!("envelope.{name}.{part}");
            if !names.contains(&name.as_str()) {
                let wanted = "entries of embedded envelopes only";
                return Err(refused(
                    text,
                    &format!("envelope.{name}"),
                    "an entry",
                    wanted,
                ));
            }
            let group = &paragraph.group;
            if self.group(group).is_none() {
                let known: Vec<&str> = self.groups.iter().map(|it| it.id.as_str()).collect();
                return Err(refused(text, &field("group"), group, &known.join(" or ")));
            }
            for (part, words) in [
                ("origin", &paragraph.origin),
                ("asks", &paragraph.asks),
                ("does_not_show", &paragraph.does_not_show),
            ] {
                said(text, &field(part), words)?;
            }
        }
        match names
            .iter()
            .find(|name| !self.envelopes.contains_key(**name))
        {
            None => Ok(()),
            Some(name) => {
                let wanted = "group, origin, asks and does_not_show, as every embedded envelope";
                Err(refused(
                    text,
                    &format!("envelope.{name}"),
                    "nothing",
                    wanted,
                ))
            }
        }
    }
}

/// Refuses a text that says nothing.
fn said(text: &str, field: &str, words: &str) -> Result<(), Error> {
    if words.trim().is_empty() {
        return Err(refused(text, field, "nothing", "a sentence"));
    }
    Ok(())
}

/// The refusal of a field, with its line where it has one.
fn refused(text: &str, field: &str, value: &str, wanted: &str) -> Error {
    let place =
        line_of(text, field).map_or_else(|| FILE.to_owned(), |line| format!("{FILE}, line {line}"));
    Error::Field {
        place,
        field: field.to_owned(),
        value: value.to_owned(),
        wanted: wanted.to_owned(),
    }
}
