//! What the numbers of a page rest on: the anchored run, its hash, who says so, how often, and whether anything is newer.

use workloads::envelope::Declared;

use super::super::document::{Block, Line, Piece, Section, Table, words};
use super::super::figures::{Figures, Operation, Shown};
use crate::report::evidence::Anchored;

/// The section.
pub(super) fn section(figures: &Figures<'_>) -> Section {
    let run = figures.run;
    let table = Table {
        caption: "What the numbers rest on".to_owned(),
        head: vec![("what", false), ("is", false)],
        rows: facts(figures)
            .into_iter()
            .map(|(what, is)| vec![words(what), is])
            .collect(),
    };
    let mut blocks = vec![Block::Table(table)];
    if run.record.cells.is_none() {
        blocks.push(Block::Table(per_arm(figures)));
        blocks.push(Block::Paragraph(words(
            "WITNESSED: we ran it and the trace is attached. OBSERVED: another engine's own counters, and our clock. SIMULATED: made up.",
        )));
    }
    Section {
        id: "standing".to_owned(),
        heading: "What it rests on".to_owned(),
        blocks,
    }
}

/// What is known of the run as a whole, each with its name.
fn facts(figures: &Figures<'_>) -> Vec<(&'static str, Line)> {
    let run = figures.run;
    let mut rows: Vec<(&'static str, Line)> = vec![
        ("anchored run", vec![Piece::File(run.directory())]),
        (
            "SHA-256 of its SHA256SUMS, in results/INDEX",
            vec![Piece::code(&run.sums_sha256)],
        ),
        ("complete", vec![figures.of(&["complete"], Shown::Text)]),
        (
            "answers of our own arms identical",
            vec![figures.of(&["identity", "equal"], Shown::Text)],
        ),
        ("verdict of the run", verdict(figures)),
        ("envelope", envelope(run)),
        ("commit, and whether the tree was dirty", {
            vec![
                figures.of(&["build", "commit"], Shown::Text),
                Piece::words(", "),
                figures.of(&["build", "dirty"], Shown::Text),
            ]
        }),
        (
            "compiler",
            vec![figures.of(&["build", "rustc"], Shown::Text)],
        ),
        (
            "kernels",
            vec![figures.of(&["effective", "kernels"], Shown::Text)],
        ),
        (
            "SHA-256 of the model",
            vec![figures.of(&["model", "sha256"], Shown::Text)],
        ),
        (
            "memory of the machine",
            vec![figures.of(&["machine", "memory_bytes"], Shown::Size)],
        ),
        (
            "sittings",
            vec![figures.derived(
                Operation::Number,
                &[&["sittings", "*", "started_unix_s"]],
                Shown::Count,
            )],
        ),
    ];
    if figures.has(&["sittings", "0", "noise", "spread"]) {
        let noise = |operation| {
            figures.derived(
                operation,
                &[&["sittings", "*", "noise", "spread"]],
                Shown::Percent,
            )
        };
        rows.push((
            "noise before the first arm, spread of a fixed piece of work",
            vec![noise(Operation::Greatest)],
        ));
    }
    rows
}

fn verdict(figures: &Figures<'_>) -> Line {
    if figures.run.record.verdict.is_some() {
        let of = Piece::words(", of fused over instance-shared");
        return vec![figures.of(&["verdict"], Shown::Text), of];
    }
    words("none, for it has not both fused and instance-shared")
}

/// Whether the envelope of this name still asks the same.
fn envelope(run: &Anchored) -> Line {
    words(if run.is_outdated() {
        "outdated: the envelope of this name asks another workload by now; the page says what was asked then"
    } else if Declared::named(&run.record.envelope).is_ok() {
        "up to date: the envelope of this name asks the same workload today"
    } else {
        "none of those that come with the program"
    })
}

fn per_arm(figures: &Figures<'_>) -> Table {
    let mut table = Table {
        caption: "Who says so, and how often it was asked".to_owned(),
        head: vec![
            ("arm", false),
            ("provenance", false),
            ("repetitions asked", true),
            ("completed", true),
            ("failure", false),
            ("note", false),
        ],
        rows: Vec::new(),
    };
    for arm in super::arms(figures.run) {
        let of = |field, shown| vec![figures.of(&["arms", &arm, field], shown)];
        let said = |field| {
            if figures.has(&["arms", &arm, field]) {
                of(field, Shown::Text)
            } else {
                words("none")
            }
        };
        table.rows.push(vec![
            vec![Piece::code(&arm)],
            of("provenance", Shown::Text),
            of("reps", Shown::Count),
            of("completed", Shown::Count),
            said("error"),
            said("note"),
        ]);
    }
    table
}
