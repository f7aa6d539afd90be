//! Ratios of a run: which arm needed how many times less than which, with interval and verdict, or why that is withheld.
//!
//! All of them, in the record's order, whoever won. Not here: computing one (`workloads`).

use super::super::document::{Block, Line, Piece, Section, Table, words};
use super::super::figures::{Figures, Shown};
use crate::report::evidence::Anchored;

/// The ratio a page opens with: over the fastest other engine, else over the arm to beat of our own, else over any arm in use.
pub(super) fn headline(run: &Anchored) -> Option<usize> {
    let ratios = &run.record.ratios;
    let shown = |at: &usize| ratios[*at].wall.is_some() && ratios[*at].label.is_none();
    let wall = |at: &usize| {
        run.record
            .arms
            .get(&ratios[*at].denominator)
            .and_then(|it| it.wall_ns)
    };
    let is_other = |at: &usize| workloads::arm::is_server(&ratios[*at].denominator);
    let fused = || (0..ratios.len()).filter(|at| shown(at) && ratios[*at].arm == "fused");
    let other = fused()
        .filter(is_other)
        .min_by_key(|at| wall(at).unwrap_or(u64::MAX));
    let own = || fused().find(|at| ratios[*at].denominator == "instance-shared");
    other.or_else(own).or_else(|| (0..ratios.len()).find(shown))
}

/// Verdict with number of pairs, or why there is none.
pub(super) fn verdict(figures: &Figures<'_>, at: usize) -> Line {
    let place = |field| figures.of(&["ratios", &at.to_string(), field], Shown::Text);
    if figures.run.record.ratios[at].withheld.is_some() {
        return vec![Piece::words("withheld: "), place("withheld")];
    }
    if figures.run.record.ratios[at].verdict.is_none() {
        return words("no verdict");
    }
    vec![place("verdict")]
}

/// The interval, or the word for none.
fn interval(figures: &Figures<'_>, at: usize, fields: [&str; 2]) -> Line {
    let at = at.to_string();
    if fields
        .iter()
        .any(|field| !figures.has(&["ratios", &at, field]))
    {
        return words("none");
    }
    let end = |field| figures.of(&["ratios", &at, field], Shown::Times);
    vec![end(fields[0]), Piece::words(" to "), end(fields[1])]
}

/// One ratio as a sentence, its denominator named.
pub(super) fn sentence(figures: &Figures<'_>, at: usize) -> Line {
    let ratio = &figures.run.record.ratios[at];
    let number = at.to_string();
    let mut line = vec![
        Piece::code(&ratio.denominator),
        Piece::words(" took "),
        figures.of(&["ratios", &number, "wall"], Shown::Times),
        Piece::words(" the time of "),
        Piece::code(&ratio.arm),
        Piece::words(" (median of n = "),
        figures.of(&["ratios", &number, "pairs"], Shown::Count),
        Piece::words(" pairs, 95 % interval "),
    ];
    line.extend(interval(figures, at, ["wall_low", "wall_high"]));
    line.push(Piece::words("): "));
    let verdict = &ratio.verdict.as_deref();
    line.extend(self::verdict(figures, at));
    line.push(Piece::words(match verdict {
        Some("FASTER") => format!(", {} is faster.", ratio.arm),
        Some("SLOWER") => format!(", {} is slower.", ratio.arm),
        Some("PARITY") => ", neither is faster.".to_owned(),
        _ => ": too few pairs or too wide an interval to say which is faster.".to_owned(),
    }));
    line
}

/// The section; none for engine work.
pub(super) fn section(figures: &Figures<'_>) -> Option<Section> {
    let record = &figures.run.record;
    if record.cells.is_some() {
        return None;
    }
    let mut table = Table {
        caption: "Ratios: how many times more the second arm needed than the first".to_owned(),
        head: vec![
            ("arm", false),
            ("over", false),
            ("wall", true),
            ("pairs", true),
            ("interval", true),
            ("verdict", false),
            ("prompt tokens computed", true),
        ],
        rows: Vec::new(),
    };
    for (at, ratio) in record.ratios.iter().enumerate() {
        let number = at.to_string();
        let times = |field| {
            if figures.has(&["ratios", &number, field]) {
                vec![figures.of(&["ratios", &number, field], Shown::Times)]
            } else {
                words("none")
            }
        };
        let mut over = vec![Piece::code(&ratio.denominator)];
        if figures.has(&["ratios", &number, "label"]) {
            over.extend([
                Piece::words(" ("),
                figures.of(&["ratios", &number, "label"], Shown::Text),
                Piece::words(")"),
            ]);
        }
        table.rows.push(vec![
            vec![Piece::code(&ratio.arm)],
            over,
            times("wall"),
            vec![figures.of(&["ratios", &number, "pairs"], Shown::Count)],
            interval(figures, at, ["wall_low", "wall_high"]),
            verdict(figures, at),
            times("prefill_tokens"),
        ]);
    }
    let mut blocks = vec![Block::Paragraph(words(
        "Above one the first arm needed less. The interval is a 95 % bootstrap of the median over pairs of repetitions that ran in turn. \
         FASTER, SLOWER and PARITY need enough pairs and the whole interval on one side; anything else is INCONCLUSIVE. A floor is \
         what nobody ships: a ratio over it is no headline.",
    ))];
    if table.rows.is_empty() {
        blocks.push(Block::Paragraph(words(
            "This run has no ratio: no two of its arms are compared.",
        )));
    } else {
        blocks.push(Block::Table(table));
    }
    Some(Section {
        id: "ratios".to_owned(),
        heading: "By how much".to_owned(),
        blocks,
    })
}
