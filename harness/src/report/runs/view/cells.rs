//! Engine work: how fast single pieces of it were, cell by cell, beside another engine's own benchmark.

use super::super::axis::Unit;
use super::super::document::{Block, Drawn, Line, Piece, Section, Table, code, words};
use super::super::figures::{Figures, Operation, Shown};
use super::super::plots::{Bar, Plot};
use super::ladder::said;

/// From which to which ratio the cells go.
pub(super) fn found(figures: &Figures<'_>) -> Line {
    let places: &[&[&str]] = &[&["cells", "*", "ratios", "*", "speed"]];
    let cells = figures.run.record.cells.iter().flatten();
    let ratios = cells.flat_map(|cell| &cell.ratios);
    let (mut best, mut slower, mut withheld) = (0, 0, 0);
    for ratio in ratios {
        best += usize::from(ratio.speed.is_some());
        slower += usize::from(ratio.verdict.as_deref() == Some("SLOWER"));
        withheld += usize::from(ratio.withheld.is_some());
    }
    if best == 0 {
        return words("no ratio of speeds can be given; the table says why.");
    }
    let mut line = vec![
        Piece::words("between "),
        figures.derived(Operation::Least, places, Shown::Times),
        Piece::words(" and "),
        figures.derived(Operation::Greatest, places, Shown::Times),
        Piece::words(" the speed of what it is held against, over "),
        figures.derived(Operation::Number, places, Shown::Count),
        Piece::words(" ratios; each stands below with its denominator, its pairs and its verdict."),
    ];
    if slower > 0 {
        line.push(Piece::words(" In some we are slower."));
    }
    if withheld > 0 {
        line.push(Piece::words(" Some are withheld."));
    }
    line
}

/// The section; none for sessions.
pub(super) fn section(figures: &Figures<'_>) -> Option<Section> {
    let cells = figures.run.record.cells.as_ref()?;
    let mut speeds = Table {
        caption: "Speed of every arm in every cell".to_owned(),
        head: vec![
            ("cell", false),
            ("arm", false),
            ("provenance", false),
            ("repetitions", true),
            ("tokens a second, median", true),
            ("share of limit", true),
            ("failure", false),
        ],
        rows: Vec::new(),
    };
    let mut bars = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let at = at.to_string();
        for (arm, record) in &cell.arms {
            let has = |field| figures.has(&["cells", &at, "arms", arm, field]);
            let of = |field, shown| vec![figures.of(&["cells", &at, "arms", arm, field], shown)];
            speeds.rows.push(vec![
                vec![figures.of(&["cells", &at, "name"], Shown::Text)],
                code(arm),
                of("provenance", Shown::Text),
                of("completed", Shown::Count),
                of("tokens_per_s", Shown::Rate),
                of("share_of_limit", Shown::Percent),
                if has("error") {
                    of("error", Shown::Text)
                } else {
                    words("none")
                },
            ]);
            if let Some(rate) = record.tokens_per_s {
                bars.push(Bar {
                    label: format!("{}, {arm}", cell.name),
                    text: Shown::Rate.write(&rate.into()).unwrap_or_default(),
                    value: rate,
                    range: None,
                });
            }
        }
    }
    let mut blocks = vec![
        Block::Paragraph(words(
            "A cell is one piece of work: prompts, or decoding, at a depth. Share of limit is the time the machine's measured ceilings \
             allow for the bytes and operations it needs, over the time taken.",
        )),
        Block::Table(speeds),
        Block::Table(ratios(figures)),
    ];
    if !bars.is_empty() {
        blocks.push(Block::Plot(Drawn {
            name: "speeds",
            caption: "Tokens a second, median. Longer is better.".to_owned(),
            alternative: said("Bars of the speed of each arm in each cell", &bars),
            plot: Plot::Bars {
                unit: Unit::Rate,
                bars,
            },
        }));
    }
    Some(Section {
        id: "cells".to_owned(),
        heading: "By how much, cell by cell".to_owned(),
        blocks,
    })
}

fn ratios(figures: &Figures<'_>) -> Table {
    let mut table = Table {
        caption: "Ratios: how many times as fast the first arm was as the second".to_owned(),
        head: vec![
            ("cell", false),
            ("arm", false),
            ("over", false),
            ("speed", true),
            ("pairs", true),
            ("interval", true),
            ("verdict", false),
        ],
        rows: Vec::new(),
    };
    for (at, cell) in figures.run.record.cells.iter().flatten().enumerate() {
        for (number, ratio) in cell.ratios.iter().enumerate() {
            let (at, number) = (at.to_string(), number.to_string());
            let has = |field| figures.has(&["cells", &at, "ratios", &number, field]);
            let of = |field, shown| figures.of(&["cells", &at, "ratios", &number, field], shown);
            let end = |field| of(field, Shown::Times);
            table.rows.push(vec![
                vec![figures.of(&["cells", &at, "name"], Shown::Text)],
                code(&ratio.arm),
                code(&ratio.denominator),
                if has("speed") {
                    vec![end("speed")]
                } else {
                    words("none")
                },
                vec![of("pairs", Shown::Count)],
                if has("low") && has("high") {
                    vec![end("low"), Piece::words(" to "), end("high")]
                } else {
                    words("none")
                },
                match (&ratio.withheld, &ratio.verdict) {
                    (Some(_), _) => vec![Piece::words("withheld: "), of("withheld", Shown::Text)],
                    (None, Some(_)) => vec![of("verdict", Shown::Text)],
                    (None, None) => words("no verdict"),
                },
            ]);
        }
    }
    table
}
