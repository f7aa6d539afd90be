//! What a page holds, before it is Markdown or HTML: sections of paragraphs, lists, tables and plots.
//!
//! Not here: how any of it is written (`html`, `markdown`), or what a page says (`view`).

use super::figures::Figure;
use super::plots::Plot;

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Words(String),
    Strong(String),
    /// A name of a program or file.
    Code(String),
    /// Another page of the same kind, by its name without ending.
    Page {
        text: String,
        page: String,
    },
    /// A file or directory of the repository, relative to its root.
    File(String),
    Figure(Figure),
}

impl Piece {
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self::Words(text.into())
    }

    pub(super) fn code(text: impl Into<String>) -> Self {
        Self::Code(text.into())
    }

    /// What a reader sees.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Words(text)
            | Self::Strong(text)
            | Self::Code(text)
            | Self::File(text)
            | Self::Page { text, .. } => text,
            Self::Figure(figure) => &figure.text,
        }
    }
}

/// Pieces side by side.
pub(super) type Line = Vec<Piece>;

/// A line of words alone.
pub(super) fn words(text: impl Into<String>) -> Line {
    vec![Piece::words(text)]
}

/// A line of one name.
pub(super) fn code(text: impl Into<String>) -> Line {
    vec![Piece::code(text)]
}

/// Rows under a header; the first cell of a row is its header.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) caption: String,
    /// Columns, and whether each holds numbers.
    pub(super) head: Vec<(&'static str, bool)>,
    pub(super) rows: Vec<Vec<Line>>,
}

/// A plot with its name in file names, its caption and what it shows in words.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) name: &'static str,
    pub(super) caption: String,
    pub(super) alternative: String,
    pub(super) plot: Plot,
}

/// A part of a section.
#[derive(Clone, Debug)]
pub(super) enum Block {
    Paragraph(Line),
    List(Vec<Line>),
    Table(Table),
    Plot(Drawn),
}

/// A heading and what stands under it.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) id: String,
    pub(super) heading: String,
    pub(super) blocks: Vec<Block>,
}

/// A page.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// Its file name without ending.
    pub(super) name: String,
    pub(super) title: String,
    /// The run it is about, relative to results/; the index is about many.
    pub(super) run: Option<String>,
    /// What comes before the first section.
    pub(super) opening: Vec<Block>,
    pub(super) sections: Vec<Section>,
}

impl Document {
    /// Its plots, in order.
    pub(super) fn plots(&self) -> impl Iterator<Item = &Drawn> {
        let of_sections = self.sections.iter().flat_map(|section| &section.blocks);
        self.opening
            .iter()
            .chain(of_sections)
            .filter_map(|block| match block {
                Block::Plot(drawn) => Some(drawn),
                _ => None,
            })
    }
}
