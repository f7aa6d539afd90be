//! `harness scorecard`: the scorecard on a terminal or for a program, computed now.
//!
//! Not here: the pages (`pages`).

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::pages::{glyph, view};
use super::{Now, Row, Scorecard, compute};
use crate::build_facts::is_ancestor;
use crate::cli::ScorecardArguments;
use crate::error::Error;
use crate::near::suggestion;
use crate::report::{self, ReportError, evidence};
use crate::table::{COLUMNS, Table, folded};
use crate::world::World;

/// Computes and shows the scorecard, one row of it, or whether its pages are what the evidence says.
pub fn scorecard(
    arguments: &ScorecardArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let root = &world.working_directory;
    let runs = evidence::load(root)?;
    let now = Now {
        unix_s: (world.unix_s)(),
        is_ancestor: &|commit| is_ancestor(world, commit),
    };
    let card = compute(root, &runs, Some(&now))?;
    if arguments.check {
        return check(&card, world, out);
    }
    if let Some(id) = &arguments.dimension {
        let row = card.rows.iter().find(|row| row.dimension.id == *id);
        let row = row.ok_or_else(|| unknown(&card, id))?;
        if arguments.json {
            writeln!(out, "{:#}", view(row))?;
        } else {
            write!(out, "{}", one(row))?;
        }
    } else if arguments.json {
        writeln!(out, "{:#}", document(&card))?;
    } else {
        write!(out, "{}", text(&card))?;
    }
    Ok(0)
}

fn unknown(card: &Scorecard, id: &str) -> Error {
    let known: Vec<&str> = card
        .rows
        .iter()
        .map(|it| it.dimension.id.as_str())
        .collect();
    let hint = suggestion(id, known);
    Error::Usage(format!("no dimension `{id}`; {hint}"))
}

/// 1 where a page is not what evidence says, 3 where evidence that was bound has become too old to say it.
fn check(card: &Scorecard, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let outcome = report::report(&world.working_directory, true)?;
    let pages = outcome.pages.iter();
    let mut differ = false;
    for page in pages.filter(|page| page.name.starts_with("reports/scorecard/")) {
        if let Some(difference) = &page.difference {
            differ = true;
            writeln!(out, "{}: {difference}", page.name)?;
        }
    }
    let old = card.rows.iter();
    let old: Vec<&Row> = old
        .filter(|row| row.found.is_some() && row.status != "shipped")
        .collect();
    for row in &old {
        writeln!(out, "{}: {}", row.dimension.id, row.ruling.reason)?;
    }
    write!(out, "{}", summary(card))?;
    if differ {
        writeln!(
            out,
            "`harness report` rewrites the pages from the evidence."
        )?;
        return Ok(1);
    }
    Ok(if old.is_empty() { 0 } else { 3 })
}

fn summary(card: &Scorecard) -> String {
    let counts = card
        .counts()
        .map(|(verdict, count)| format!("{} {count} {}", glyph(verdict), verdict.word()));
    format!(
        "{} rows: {}. Standing {:.1} of 100, honesty of the page {:.1} of 100.\n",
        card.rows.len(),
        counts.join(", "),
        card.standing(),
        card.honesty().score()
    )
}

fn text(card: &Scorecard) -> String {
    let mut text = summary(card) + "\n";
    let mut table = Table::new(&["", "row", "ours against the bar", "evidence"]).left(4);
    for row in card.judged() {
        let found = row.found.as_ref();
        let evidence = found.map(|it| it.evidence.iter().cloned().collect::<Vec<_>>());
        let evidence = evidence.unwrap_or_default();
        let more = match evidence.len() {
            0 | 1 => String::new(),
            several => format!(" and {} more", several - 1),
        };
        table.row([
            format!(
                "{} {}",
                glyph(row.ruling.verdict),
                row.ruling.verdict.word()
            ),
            row.dimension.id.clone(),
            row.ours().unwrap_or_default(),
            evidence.first().cloned().unwrap_or_default() + &more,
        ]);
    }
    text += &table.render();
    text += "\nNo verdict, and why:\n";
    for (why, count) in card.reasons() {
        let _ = writeln!(text, "  {count:>3}  {why}");
    }
    text += "\n`harness scorecard ROW` shows one row whole; pages are in reports/scorecard.\n";
    text
}

fn one(row: &Row) -> String {
    let it = &row.dimension;
    let ruling = &row.ruling;
    let mut lines = vec![
        ("why", it.why.clone()),
        ("bar", it.sota_bar.clone()),
        ("source", format!("{} ({})", it.source_url, it.source_date)),
        ("metric", format!("{}, {}", it.judged_metric(), it.unit)),
    ];
    if let Some(found) = &row.found {
        lines.extend(row.ours().map(|ours| ("ours", ours)));
        lines.push(("", found.sentence.clone()));
        lines.push(("against", found.against.clone()));
        lines.extend(found.evidence.iter().map(|id| ("trace", id.clone())));
    }
    lines.extend(row.note.iter().map(|note| ("note", note.clone())));
    if !ruling.reason.is_empty() {
        lines.push(("open", format!("no verdict: {}", ruling.reason)));
    }
    let (word, status) = (ruling.verdict.word(), row.status);
    let mut text = format!(
        "{} {}: {word} (evidence: {status})\n{}\n\n",
        glyph(ruling.verdict),
        it.id,
        it.title
    );
    for (label, words) in &lines {
        text += &labelled(label, words);
    }
    text
}

/// Words folded beside their label.
fn labelled(label: &str, words: &str) -> String {
    const INDENT: usize = 9;
    let lines = folded(words, COLUMNS - INDENT);
    let mut text = String::new();
    for (place, line) in lines.iter().enumerate() {
        let label = if place == 0 { label } else { "" };
        let _ = writeln!(text, "{label:<INDENT$}{line}");
    }
    text
}

/// The scorecard of the repository at `root` as one document, as of the day of its newest anchored run.
pub fn document_of(root: &Path) -> Result<Value, ReportError> {
    let runs = evidence::load(root)?;
    compute(root, &runs, None).map(|card| document(&card))
}

fn document(card: &Scorecard) -> Value {
    let counts: serde_json::Map<String, Value> = card
        .counts()
        .into_iter()
        .map(|(verdict, count)| (verdict.word().to_owned(), count.into()))
        .collect();
    let honesty = card.honesty();
    let parts = honesty.parts.iter();
    let parts = parts.map(|(what, share)| json!({ "what": what, "share": share }));
    json!({
        "schema": "fak.scorecard/1", "as_of": card.as_of, "today": card.today, "counts": counts, "standing": card.standing(),
        "honesty": { "score": honesty.score(), "parts": parts.collect::<Vec<_>>() },
        "rows": card.rows.iter().map(view).collect::<Vec<_>>(),
    })
}
