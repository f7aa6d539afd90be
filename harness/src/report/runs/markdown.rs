//! Pages as Markdown, with their plots as SVG files beside them. Not here: what stands around the sections (reports/templates).

use std::fmt::Write as _;

use serde_json::{Value, json};
use tera::Context;

use super::document::{Block, Document, Drawn, Line, Piece, Section, Table};
use super::html::escaped;
use super::{DIRECTORY, INDEX, plots, shell};
use crate::report::error::ReportError;
use crate::report::page::{Template, template_error};

/// The template.
pub(super) const TEMPLATE: &str = "run.md";
/// From reports/runs to the root.
pub(super) const UP: &str = "../../";

/// The page and its plots, as (file name relative to the root, text).
pub(super) fn render(
    document: &Document,
    templates: &[Template],
) -> Result<Vec<(String, String)>, ReportError> {
    let section =
        |it: &Section| json!({ "heading": it.heading, "text": blocks(&it.blocks, &document.name) });
    let context = json!({
        "title": document.title, "is_run": document.run.is_some(), "index": format!("{}.md", file(INDEX)),
        "opening": blocks(&document.opening, &document.name),
        "sections": document.sections.iter().map(section).collect::<Vec<Value>>(),
    });
    let tera = shell(templates, &[TEMPLATE])?;
    let text = Context::from_value(context).and_then(|context| tera.render(TEMPLATE, &context));
    let text = text.map_err(|error| template_error(&error))?;
    let mut files = vec![(format!("{DIRECTORY}/{}.md", file(&document.name)), text)];
    for drawn in document.plots() {
        files.push((
            format!("{DIRECTORY}/{}", picture(&document.name, drawn)),
            svg(drawn)?,
        ));
    }
    Ok(files)
}

/// The index is what a directory shows by itself.
fn file(name: &str) -> &str {
    if name == INDEX { "README" } else { name }
}

fn picture(page: &str, drawn: &Drawn) -> String {
    format!("{page}-{}.svg", drawn.name)
}

/// The plot as a file: on paper of its own, with what it shows in words.
fn svg(drawn: &Drawn) -> Result<String, ReportError> {
    let svg = plots::svg(&drawn.plot)?;
    let said = format!("<title>{}</title>", escaped(&drawn.alternative));
    let svg = svg.replacen("<svg ", "<svg role=\"img\" ", 1);
    Ok(svg.replacen(">\n", &format!(">\n{said}\n"), 1))
}

fn blocks(blocks: &[Block], page: &str) -> String {
    let each = blocks.iter().map(|block| match block {
        Block::Paragraph(pieces) => line(pieces),
        Block::List(items) => {
            let items = items.iter().map(|item| format!("- {}", line(item)));
            items.collect::<Vec<_>>().join("\n")
        }
        Block::Table(it) => table(it),
        Block::Plot(drawn) => format!(
            "![{}]({})\n\n*{}*",
            safe(&drawn.alternative),
            picture(page, drawn),
            safe(&drawn.caption)
        ),
    });
    each.collect::<Vec<_>>().join("\n\n")
}

fn table(table: &Table) -> String {
    let mut text = format!("**{}**\n\n", safe(&table.caption));
    let names = table.head.iter().map(|(name, _)| *name);
    let _ = writeln!(text, "| {} |", names.collect::<Vec<_>>().join(" | ")); // writing to a String cannot fail
    let rules = table
        .head
        .iter()
        .map(|(_, number)| if *number { " ---: |" } else { " --- |" });
    let _ = write!(text, "|{}", rules.collect::<String>());
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(line).collect();
        let _ = write!(text, "\n| {} |", cells.join(" | "));
    }
    text
}

fn line(pieces: &Line) -> String {
    pieces.iter().map(piece).collect()
}

fn piece(piece: &Piece) -> String {
    match piece {
        Piece::Words(text) => safe(text),
        Piece::Strong(text) => match text.strip_suffix(' ') {
            Some(text) => format!("**{}** ", safe(text)),
            None => format!("**{}**", safe(text)),
        },
        Piece::Code(text) => name(text),
        Piece::Page { text, page } => format!("[{}]({page}.md)", name(text)),
        Piece::File(file) => format!("[{file}]({UP}{file})"),
        Piece::Figure(figure) => safe(&figure.text),
    }
}

/// A name as code; a backtick or the end of a table's cell cannot stand in it.
fn name(text: &str) -> String {
    format!("`{}`", text.replace(['`', '|', '\n'], "?"))
}

/// Words that stand for themselves, wherever they are: no markup, no HTML, no end of a cell or a line.
fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut code = false;
    let closed = text.matches('`').count().is_multiple_of(2);
    let mut before = ' ';
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let inside = |it: char| it.is_alphanumeric();
        let in_word = inside(before) && letters.peek().is_some_and(|it| inside(*it));
        code ^= letter == '`' && closed;
        match letter {
            '\n' | '\r' => safe.push(' '),
            '`' if closed => safe.push('`'),
            '|' => safe.push_str("\\|"),
            letter if code => safe.push(letter),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '_' if in_word => safe.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' => safe.extend(['\\', letter]),
            letter => safe.push(letter),
        }
        before = letter;
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_no_markup_and_code_in_them_stays_code() {
        for (text, expected) in [
            ("q8_0 and `naive|x`, _so_", "q8_0 and `naive\\|x`, \\_so\\_"),
            ("<img src=x>\n# [a](b)", "&lt;img src=x&gt; \\# \\[a\\](b)"),
            ("a ` b | c*d", "a \\` b \\| c\\*d"),
        ] {
            assert_eq!(safe(text), expected);
        }
        assert_eq!(name("a`|b"), "`a??b`");
    }
}
