//! What the page of a run says, and in which order: what was measured, against what, where, by how much, and what was not shown.
//!
//! Everything comes from the record, the envelope as it was asked, the traces, and what is written about the envelope. Not here:
//! how it looks (`html`, `markdown`, `plots`).

mod cells;
pub(super) mod index;
mod ladder;
mod latency;
mod losing;
mod ratios;
mod standing;
mod steps;

use std::path::Path;

use workloads::envelope::about::About;

use super::document::{Block, Document, Line, Piece, Section, words};
use super::figures::{Figures, Operation, Shown};
use crate::report::error::ReportError;
use crate::report::evidence::Anchored;

/// The arms of a session, in the order they were asked for; those of engine work stand in its cells.
pub(super) fn arms(run: &Anchored) -> Vec<String> {
    let asked = run.declared["run"]["arms"].as_array().into_iter().flatten();
    let named = asked.filter_map(|name| name.as_str());
    named
        .filter(|name| run.record.arms.contains_key(*name))
        .map(str::to_owned)
        .collect()
}

/// The page of one run.
pub(super) fn page(
    root: &Path,
    name: String,
    run: &Anchored,
    runs: &[Anchored],
    about: &About,
) -> Result<Document, ReportError> {
    let times = latency::read(root, run)?;
    let figures = Figures { run, named: false };
    let sections = [
        Some(not_shown(run, about)),
        Some(standing::section(&figures)),
        ladder::section(&figures),
        ratios::section(&figures),
        cells::section(&figures),
        steps::section(&figures),
        latency::section(&figures, &times),
        ladder::memory(&figures),
        losing::section(run, runs, about),
    ];
    Ok(Document {
        title: format!("Run of {}", run.record.envelope),
        name,
        run: Some(run.run.clone()),
        opening: opening(&figures),
        sections: sections.into_iter().flatten().collect(),
    })
}

/// What a reader of one minute takes away.
fn opening(figures: &Figures<'_>) -> Vec<Block> {
    let question = figures.is_asked(&["question"]).then(|| {
        vec![
            Piece::Strong("Asked: ".to_owned()),
            figures.asked(&["question"], Shown::Text),
        ]
    });
    let lines = [
        found(figures),
        identity(figures),
        measured(figures),
        machine(figures),
    ];
    let lines = question.into_iter().chain(lines);
    lines.map(Block::Paragraph).collect()
}

/// What was asked, and on which model.
fn measured(figures: &Figures<'_>) -> Line {
    let run = figures.run;
    let mut line = vec![Piece::Strong("Measured: ".to_owned())];
    let cells = run.record.cells.iter().flatten().next();
    let names: Vec<String> = match cells {
        Some(cell) => cell.arms.keys().cloned().collect(),
        None => arms(run),
    };
    for (at, name) in names.into_iter().enumerate() {
        line.extend((at > 0).then(|| Piece::words(", ")));
        line.push(Piece::code(name));
    }
    line.push(Piece::words(", each in a process of its own, "));
    if run.record.cells.is_none() {
        line.extend(shape(figures));
    }
    let of = |parts: &[&str]| figures.of(parts, Shown::Text);
    line.extend([
        Piece::words("on the model "),
        of(&["model", "name"]),
        Piece::words(" ("),
        of(&["model", "label"]),
        Piece::words(" weights), in mode "),
        of(&["effective", "mode"]),
        Piece::words(" with keys and values as "),
        of(&["effective", "kv_dtype"]),
        Piece::words(", "),
        figures.of(&["effective", "threads"], Shown::Count),
        Piece::words(" threads."),
    ]);
    line
}

/// Where, when, and by which program.
fn machine(figures: &Figures<'_>) -> Line {
    let of = |parts: &[&str]| figures.of(parts, Shown::Text);
    vec![
        Piece::Strong("Machine: ".to_owned()),
        of(&["machine", "class"]),
        Piece::words(" ("),
        of(&["machine", "cpu"]),
        Piece::words(", "),
        figures.of(&["machine", "cores"], Shown::Count),
        Piece::words(" cores, "),
        of(&["machine", "os"]),
        Piece::words("), on "),
        figures.derived(
            Operation::Greatest,
            &[&["sittings", "*", "started_unix_s"]],
            Shown::Date,
        ),
        Piece::words(", from commit "),
        figures.of(&["build", "commit"], Shown::Short),
        Piece::words("."),
    ]
}

/// The shape of a session in words, as far as it has one.
fn shape(figures: &Figures<'_>) -> Line {
    let parts = [
        ("agents", "agent", "agents"),
        ("turns", "turn each", "turns each"),
        (
            "prefix",
            "shared id before the first",
            "shared ids before the first",
        ),
        ("decode", "id answered a turn", "ids answered a turn"),
        ("result", "id of a result a turn", "ids of results a turn"),
        ("workers", "worker process", "worker processes"),
    ];
    let mut line = Line::new();
    for (field, one, several) in parts {
        let value = &figures.run.declared["workload"][field];
        if !value.is_null() {
            line.push(figures.asked(&["workload", field], Shown::Count));
            let what = if *value == 1 { one } else { several };
            line.push(Piece::words(format!(" {what}, ")));
        }
    }
    line
}

/// The headline, and what of our own it stands beside.
fn found(figures: &Figures<'_>) -> Line {
    let run = figures.run;
    let mut line = vec![Piece::Strong("Found: ".to_owned())];
    if run.record.cells.is_some() {
        line.extend(cells::found(figures));
    } else if let Some(at) = ratios::headline(run) {
        line.extend(ratios::sentence(figures, at));
        let ratios = &run.record.ratios;
        let own = ratios.iter().position(|it| {
            it.arm == "fused" && it.denominator == "instance-shared" && it.wall.is_some()
        });
        if let Some(own) = own.filter(|own| *own != at) {
            line.push(Piece::words(" Beside the arm to beat of our own: "));
            line.extend(ratios::sentence(figures, own));
        }
        let (withheld, slower) = (
            ratios.iter().filter(|it| it.withheld.is_some()).count(),
            ratios
                .iter()
                .filter(|it| it.verdict.as_deref() == Some("SLOWER"))
                .count(),
        );
        if withheld > 0 {
            line.push(Piece::words(
                " Some ratios are withheld; each says why below.",
            ));
        }
        if slower > 0 {
            line.push(Piece::words(
                " In some the first arm is slower; they stand below with the others.",
            ));
        }
    } else {
        line.push(Piece::words(
            "no ratio of times can be given; the tables say why.",
        ));
    }
    line
}

/// Whether answers agree.
fn identity(figures: &Figures<'_>) -> Line {
    let record = &figures.run.record;
    let mut line = vec![Piece::Strong("Answers: ".to_owned())];
    if record.identity.arms.len() > 1 {
        line.push(Piece::words("our own arms ("));
        for (at, name) in record.identity.arms.iter().enumerate() {
            line.extend((at > 0).then(|| Piece::words(", ")));
            line.push(Piece::code(name));
        }
        line.push(Piece::words(
            ") gave identical answers, bit for bit in ids and logits, over the turns they have in common: ",
        ));
    } else {
        line.push(Piece::words(
            "our own arm answered alike in every repetition, bit for bit in ids and logits, over ",
        ));
    }
    line.push(figures.of(&["identity", "requests"], Shown::Count));
    line.push(Piece::words(" requests."));
    for (name, _) in record.arms.iter().filter(|(_, arm)| arm.score.is_some()) {
        line.extend([
            Piece::words(" Of the answers of "),
            Piece::code(name),
            Piece::words(", read by our model in mode exact, "),
            figures.of(&["arms", name, "score", "exact_share"], Shown::Percent),
            Piece::words(" of tokens are the ones it would choose."),
        ]);
    }
    line
}

/// What nobody may read into the run.
fn not_shown(run: &Anchored, about: &About) -> Section {
    let mut blocks = match about.of(&run.record.envelope) {
        Some((_, paragraph)) => vec![
            Block::Paragraph(words(&paragraph.does_not_show)),
            Block::Paragraph(vec![
                Piece::Strong("Where it comes from: ".to_owned()),
                Piece::words(&paragraph.origin),
            ]),
        ],
        None => vec![Block::Paragraph(words(
            "Its envelope is none of those that come with the program, and nothing is written about what it does not show.",
        ))],
    };
    blocks.push(Block::Paragraph(words(
        "Nothing here was measured on another machine than the one named, and clock times are asserted by it: an auditor recomputes \
         counts, rates and ratios from the traces, and can repeat answers, but cannot know how long they took.",
    )));
    Section {
        id: "not-shown".to_owned(),
        heading: "What this does not show".to_owned(),
        blocks,
    }
}
