//! Pages as HTML files that need nothing beside them: no script, no font, no network.
//!
//! Every number stands in an element that says where in run.json it is from (`data-field`, `data-envelope` or `data-derived`),
//! its raw value (`data-value`) and how it is written (`data-style`). Not here: layout and colours (reports/templates).

use serde_json::{Value, json};
use tera::{Context, Tera};

use super::document::{Block, Document, Drawn, Line, Piece, Section, Table};
use super::plots::{self, INK, PAPER};
use super::{INDEX, shell};
use crate::report::error::ReportError;
use crate::report::page::{Template, template_error};

/// Templates: what all pages have, then a run's and the index's.
pub(super) const TEMPLATES: [&str; 3] = ["page.html", "run.html", "index.html"];

/// Letters from which on a cell needs more room than a name does.
const LONG: usize = 60;

/// The page as one file.
pub(super) fn render(document: &Document, templates: &[Template]) -> Result<String, ReportError> {
    let tera = shell(templates, &TEMPLATES)?;
    let template = if document.run.is_some() {
        TEMPLATES[1]
    } else {
        TEMPLATES[2]
    };
    text(&tera, template, &context(document)?)
}

fn text(tera: &Tera, template: &str, context: &Value) -> Result<String, ReportError> {
    let context = Context::from_value(context.clone());
    let text = context.and_then(|context| tera.render(template, &context));
    text.map_err(|error| template_error(&error))
}

fn context(document: &Document) -> Result<Value, ReportError> {
    let blocks = |blocks: &[Block]| blocks.iter().map(block).collect::<Result<Vec<Value>, _>>();
    let section = |section: &Section| {
        let blocks = blocks(&section.blocks)?;
        Ok::<Value, ReportError>(
            json!({ "id": section.id, "heading": section.heading, "blocks": blocks }),
        )
    };
    let sections: Vec<Value> = document
        .sections
        .iter()
        .map(section)
        .collect::<Result<_, _>>()?;
    Ok(json!({
        "title": document.title, "run": document.run.as_deref().map(escaped), "opening": blocks(&document.opening)?, "sections": sections,
        "index": format!("{INDEX}.html"),
    }))
}

fn block(block: &Block) -> Result<Value, ReportError> {
    Ok(match block {
        Block::Paragraph(pieces) => json!({ "kind": "paragraph", "html": line(pieces) }),
        Block::List(items) => {
            json!({ "kind": "list", "items": items.iter().map(line).collect::<Vec<_>>() })
        }
        Block::Table(it) => table(it),
        Block::Plot(drawn) => json!({
            "kind": "plot", "svg": inline(drawn)?, "caption": drawn.caption, "name": drawn.name,
        }),
    })
}

fn table(table: &Table) -> Value {
    let head: Vec<Value> = table
        .head
        .iter()
        .map(|(name, number)| json!({ "name": name, "number": number }))
        .collect();
    let rows: Vec<Vec<Value>> = table
        .rows
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&table.head);
            let cell = |(cell, (_, number)): (&Line, &(&str, bool))| {
                let letters = cell.iter().map(|it| it.text().chars().count());
                let kind = if *number {
                    "number"
                } else if letters.sum::<usize>() > LONG {
                    "long"
                } else {
                    ""
                };
                json!({ "html": line(cell), "kind": kind })
            };
            cells.map(cell).collect()
        })
        .collect();
    json!({ "kind": "table", "caption": table.caption, "head": head, "rows": rows })
}

/// The plot as a part of the page, in the page's colours.
fn inline(drawn: &Drawn) -> Result<String, ReportError> {
    let svg = plots::svg(&drawn.plot)?;
    let svg = svg.replace(INK, "currentColor").replace(PAPER, "none");
    let open = format!(
        "<svg class=\"plot\" role=\"img\" aria-label=\"{}\" ",
        escaped(&drawn.alternative)
    );
    Ok(svg.replacen("<svg ", &open, 1))
}

fn line(pieces: &Line) -> String {
    pieces.iter().map(piece).collect()
}

fn piece(piece: &Piece) -> String {
    let text = escaped(piece.text());
    match piece {
        Piece::Words(_) => with_code(text),
        Piece::Strong(_) => format!("<strong>{text}</strong>"),
        Piece::Code(_) | Piece::File(_) => format!("<code>{text}</code>"),
        Piece::Page { page, .. } => format!("<a href=\"{}.html\">{text}</a>", escaped(page)),
        Piece::Figure(it) => {
            let run = it
                .run
                .as_ref()
                .map(|run| format!(" data-run=\"{}\"", escaped(run)));
            format!(
                "<span class=\"figure\" data-{}=\"{}\" data-value=\"{}\" data-style=\"{}\"{}>{text}</span>",
                it.origin,
                escaped(&it.place),
                escaped(&it.value),
                it.style,
                run.unwrap_or_default()
            )
        }
    }
}

/// Names between backticks as code, where each that opens is closed.
fn with_code(text: String) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return text;
    }
    let marked = parts.iter().enumerate().map(|(at, part)| {
        if at.is_multiple_of(2) {
            (*part).to_owned()
        } else {
            format!("<code>{part}</code>")
        }
    });
    marked.collect()
}

/// Text that stands for itself in an element or between quotes of an attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_between_backticks_are_code_and_a_lone_backtick_is_itself() {
        let html = |text: &str| piece(&Piece::words(text));
        assert_eq!(html("a `<b>` c"), "a <code>&lt;b&gt;</code> c");
        assert_eq!(html("a ` c"), "a ` c");
    }

    #[test]
    fn nothing_in_a_piece_opens_an_element_or_closes_an_attribute() {
        let hostile = "\"><script>alert('1')</script>&";
        for piece in [
            Piece::words(hostile),
            Piece::Strong(hostile.to_owned()),
            Piece::code(hostile),
            Piece::File(hostile.to_owned()),
            Piece::Page {
                text: hostile.to_owned(),
                page: hostile.to_owned(),
            },
        ] {
            let html = super::piece(&piece);
            assert!(
                !html.contains("<script") && !html.contains("\"><"),
                "{html}"
            );
            assert!(
                html.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;"),
                "{html}"
            );
        }
    }
}
