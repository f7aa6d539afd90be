//! The arms of a session side by side: time, tokens, memory.

use super::super::axis::Unit;
use super::super::document::{Block, Drawn, Line, Piece, Section, Table, code, words};
use super::super::figures::{Figures, NOT_MEASURED, Operation, Shown};
use super::super::plots::{Bar, Plot};
use super::arms;

/// The ladder; none for engine work.
pub(super) fn section(figures: &Figures<'_>) -> Option<Section> {
    let run = figures.run;
    if run.record.cells.is_some() {
        return None;
    }
    let mut table = Table {
        caption: "Every arm: time from the first request to the last answer, and what it computed"
            .to_owned(),
        head: vec![
            ("arm", false),
            ("wall, median", true),
            ("least to greatest", true),
            ("turns", true),
            ("prompt tokens computed", true),
            ("prompt tokens found", true),
            ("share found", true),
            ("tokens decoded", true),
            ("keys and values, peak", true),
        ],
        rows: Vec::new(),
    };
    let mut bars = Vec::new();
    for arm in arms(run) {
        let of = |field, shown| vec![figures.of(&["arms", &arm, field], shown)];
        table.rows.push(vec![
            code(&arm),
            of("wall_ns", Shown::Duration),
            spread(figures, &arm),
            turns(figures, &arm),
            of("prefill_tokens_computed", Shown::Count),
            of("prefix_tokens_hit", Shown::Count),
            of("reuse_rate", Shown::Percent),
            of("decode_tokens", Shown::Count),
            of("kv_bytes_peak", Shown::Size),
        ]);
        let record = &run.record.arms[&arm];
        if let Some(wall_ns) = record.wall_ns {
            let walls = || record.samples.iter().map(|it| it.wall_ns as f64);
            bars.push(Bar {
                label: label(figures, &arm),
                text: Shown::Duration.write(&wall_ns.into()).unwrap_or_default(),
                value: wall_ns as f64,
                range: walls().reduce(f64::min).zip(walls().reduce(f64::max)),
            });
        }
    }
    let mut blocks = vec![Block::Table(table)];
    blocks.extend(missing_arms(figures));
    if !bars.is_empty() {
        blocks.push(Block::Plot(Drawn {
            name: "walls",
            caption: "Wall time, median; the line across a bar's end goes from the least to the greatest repetition. Shorter is better."
                .to_owned(),
            alternative: said("Bars of the wall time of each arm", &bars),
            plot: Plot::Bars {
                unit: Unit::Time,
                bars,
            },
        }));
    }
    Some(Section {
        id: "ladder".to_owned(),
        heading: "What each arm took".to_owned(),
        blocks,
    })
}

/// Bars in words, for who does not see them.
pub(super) fn said(what: &str, bars: &[Bar]) -> String {
    let each: Vec<String> = bars
        .iter()
        .map(|it| format!("{} {}", it.label, it.text))
        .collect();
    format!("{what}: {}.", each.join("; "))
}

/// The arm, and that it played fewer turns.
fn label(figures: &Figures<'_>, arm: &str) -> String {
    match &figures.run.declared["run"]["arm_turns"][arm] {
        serde_json::Value::Null => arm.to_owned(),
        turns => format!("{arm} (first {turns} turns only)"),
    }
}

fn turns(figures: &Figures<'_>, arm: &str) -> Line {
    let own = ["run", "arm_turns", arm];
    if figures.is_asked(&own) {
        vec![figures.asked(&own, Shown::Count), Piece::words(" only")]
    } else {
        vec![figures.asked(&["workload", "turns"], Shown::Count)]
    }
}

fn spread(figures: &Figures<'_>, arm: &str) -> Line {
    if figures.run.record.arms[arm].samples.is_empty() {
        return words(NOT_MEASURED);
    }
    let walls: &[&[&str]] = &[&["arms", arm, "samples", "*", "wall_ns"]];
    vec![
        figures.derived(Operation::Least, walls, Shown::Duration),
        Piece::words(" to "),
        figures.derived(Operation::Greatest, walls, Shown::Duration),
    ]
}

/// Says which arms failed.
fn missing_arms(figures: &Figures<'_>) -> Option<Block> {
    let failed = arms(figures.run).into_iter().filter_map(|arm| {
        figures.run.record.arms[&arm].error.as_ref()?;
        Some(vec![
            Piece::code(&arm),
            Piece::words(" failed: "),
            figures.of(&["arms", &arm, "error"], Shown::Text),
            Piece::words(". Its ratios are withheld."),
        ])
    });
    let failed: Vec<Line> = failed.collect();
    (!failed.is_empty()).then_some(Block::List(failed))
}

/// Memory; none for engine work.
pub(super) fn memory(figures: &Figures<'_>) -> Option<Section> {
    let run = figures.run;
    if run.record.cells.is_some() {
        return None;
    }
    let mut table = Table {
        caption: "Memory of every arm".to_owned(),
        head: vec![
            ("arm", false),
            ("keys and values, peak", true),
            ("whole process, peak", true),
        ],
        rows: Vec::new(),
    };
    let mut bars = Vec::new();
    for arm in arms(run) {
        let of = |field| vec![figures.of(&["arms", &arm, field], Shown::Size)];
        table
            .rows
            .push(vec![code(&arm), of("kv_bytes_peak"), of("rss_bytes_peak")]);
        if let Some(bytes) = run.record.arms[&arm].kv_bytes_peak {
            bars.push(Bar {
                label: label(figures, &arm),
                text: Shown::Size.write(&bytes.into()).unwrap_or_default(),
                value: bytes as f64,
                range: None,
            });
        }
    }
    let mut line = words("Keys and values stand in pages of sixty-four positions. ");
    if figures.is_asked(&["run", "kv_pages"]) {
        line.extend([
            Piece::words("A cache might hold "),
            figures.asked(&["run", "kv_pages"], Shown::Count),
            Piece::words(" of them. "),
        ]);
    }
    line.push(Piece::words(
        "The peak counts whole pages in use, and the process its weights too. Another engine does not say what its cache takes.",
    ));
    let mut blocks = vec![Block::Paragraph(line), Block::Table(table)];
    if !bars.is_empty() {
        blocks.push(Block::Plot(Drawn {
            name: "memory",
            caption: "Keys and values at their peak. Shorter is better.".to_owned(),
            alternative: said(
                "Bars of the peak memory of keys and values of each arm",
                &bars,
            ),
            plot: Plot::Bars {
                unit: Unit::Bytes,
                bars,
            },
        }));
    }
    Some(Section {
        id: "memory".to_owned(),
        heading: "Memory".to_owned(),
        blocks,
    })
}
