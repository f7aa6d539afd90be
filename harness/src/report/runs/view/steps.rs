//! What each mechanism of the ladder saved, one after the other: differences of medians, by phase where batching does two things.
//!
//! They are arithmetic on the table of arms and no second finding, so they have no interval; the ratio of the same two arms has one.

use super::super::axis::Unit;
use super::super::document::{Block, Drawn, Line, Piece, Section, Table, words};
use super::super::figures::{Figures, NOT_MEASURED, Operation, Shown};
use super::super::plots::{Bar, Plot};
use super::ratios;

/// A step of the ladder.
struct Step {
    from: &'static str,
    to: &'static str,
    /// What it buys: the field that shrinks, and the name of that.
    buys: &'static [(&'static str, &'static str)],
}

const STEPS: [Step; 4] = [
    Step {
        from: "naive",
        to: "agent-kv",
        buys: &[("wall_ns", "turn tax: the context again every turn")],
    },
    Step {
        from: "agent-kv",
        to: "agent-kv-batched",
        buys: &[
            ("prefill_ns", "batching of increments"),
            ("decode_ns", "batching of decode"),
        ],
    },
    Step {
        from: "agent-kv-batched",
        to: "instance-shared",
        buys: &[("wall_ns", "sharing of the prefix")],
    },
    Step {
        from: "instance-shared",
        to: "fused",
        buys: &[("wall_ns", "shared-prefix attention")],
    },
];

/// The section; none for engine work.
pub(super) fn section(figures: &Figures<'_>) -> Option<Section> {
    let record = &figures.run.record;
    if record.cells.is_some() {
        return None;
    }
    let mut table = Table {
        caption: "Time saved by each mechanism: medians of the two arms, one less the other"
            .to_owned(),
        head: vec![
            ("mechanism", false),
            ("from arm, to arm", false),
            ("phase", false),
            ("saved", true),
            ("share of all saved from agent-kv to fused", true),
            ("repetitions of the two", true),
            ("verdict on the step", false),
        ],
        rows: Vec::new(),
    };
    let (mut bars, mut skipped) = (Vec::new(), Vec::new());
    for step in &STEPS {
        if let Some(why) = missing(figures, step) {
            skipped.push(why);
            continue;
        }
        for (field, what) in step.buys {
            let saved = figures.derived(
                Operation::Difference,
                &[&["arms", step.from, field], &["arms", step.to, field]],
                Shown::Change,
            );
            if let Piece::Figure(figure) = &saved {
                bars.push(Bar {
                    label: (*what).to_owned(),
                    text: figure.text.clone(),
                    value: figure.value.parse().unwrap_or(0.0),
                    range: None,
                });
            }
            table.rows.push(row(figures, step, field, what, saved));
        }
    }
    let mut blocks = vec![Block::Paragraph(words(
        "The ladder adds one mechanism at a time. Each row is what the next arm took less than the one before it; where that \
         is negative, the mechanism cost time here. Batching is split by phase, since prompts and decoding are never in one step.",
    ))];
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table));
        blocks.push(plot(bars));
    }
    if !skipped.is_empty() {
        blocks.push(Block::Paragraph(words(
            "Not shown, since it cannot be said from this run:",
        )));
        blocks.push(Block::List(skipped));
    }
    Some(Section {
        id: "decomposition".to_owned(),
        heading: "Which mechanism saved how much".to_owned(),
        blocks,
    })
}

fn row(figures: &Figures<'_>, step: &Step, field: &str, what: &str, saved: Piece) -> Vec<Line> {
    let phase = match field {
        "prefill_ns" => "prompts",
        "decode_ns" => "decoding",
        _ => "whole session",
    };
    let repetitions = |arm| figures.of(&["arms", arm, "completed"], Shown::Count);
    let record = &figures.run.record;
    let ratio = record
        .ratios
        .iter()
        .position(|it| it.arm == step.to && it.denominator == step.from);
    vec![
        words(what),
        vec![
            Piece::code(step.from),
            Piece::words(", "),
            Piece::code(step.to),
        ],
        words(phase),
        vec![saved],
        share(figures, step, field),
        vec![
            repetitions(step.from),
            Piece::words(" and "),
            repetitions(step.to),
        ],
        ratio.map_or_else(|| words("no ratio"), |at| ratios::verdict(figures, at)),
    ]
}

/// What part of the way from one warm cache an agent to this engine a step is, where that way is shorter at its end.
fn share(figures: &Figures<'_>, step: &Step, field: &str) -> Line {
    let (first, last) = (STEPS[1].from, STEPS[3].to);
    let arms = &figures.run.record.arms;
    let wall_ns = |arm| arms.get(arm).filter(|it| it.error.is_none())?.wall_ns;
    let is_saving = wall_ns(first) > wall_ns(last) && wall_ns(last).is_some();
    if step.from == STEPS[0].from || !is_saving || turns(figures, first) != turns(figures, last) {
        return words("none");
    }
    let places: [&[&str]; 4] = [
        &["arms", step.from, field],
        &["arms", step.to, field],
        &["arms", first, "wall_ns"],
        &["arms", last, "wall_ns"],
    ];
    vec![figures.derived(Operation::Share, &places, Shown::Percent)]
}

fn turns(figures: &Figures<'_>, arm: &str) -> serde_json::Value {
    let run = &figures.run.declared["run"]["arm_turns"][arm];
    let all = &figures.run.declared["workload"]["turns"];
    if run.is_null() { all } else { run }.clone()
}

fn plot(bars: Vec<Bar>) -> Block {
    let said: Vec<String> = bars
        .iter()
        .map(|it| format!("{} {}", it.label, it.text))
        .collect();
    Block::Plot(Drawn {
        name: "steps",
        caption: "Time saved by each mechanism, from the line at zero; to the left of it the mechanism cost time.".to_owned(),
        alternative: format!("Bars of the time each mechanism saved: {}.", said.join("; ")),
        plot: Plot::Bars {
            unit: Unit::Time,
            bars,
        },
    })
}

/// Why a step cannot be told, in words.
fn missing(figures: &Figures<'_>, step: &Step) -> Option<Line> {
    let names: Vec<&str> = step.buys.iter().map(|it| it.1).collect();
    let mut line = vec![
        Piece::Strong(names.join(", ")),
        Piece::words(", from "),
        Piece::code(step.from),
        Piece::words(" to "),
        Piece::code(step.to),
        Piece::words(": "),
    ];
    let arms = &figures.run.record.arms;
    let absent: Vec<&str> = [step.from, step.to]
        .into_iter()
        .filter(|it| !arms.contains_key(*it))
        .collect();
    if !absent.is_empty() {
        line.push(Piece::words(format!(
            "the run has no arm {}.",
            absent.join(" and no arm ")
        )));
        return Some(line);
    }
    if let Some(failed) = [step.from, step.to]
        .into_iter()
        .find(|it| arms[*it].error.is_some())
    {
        line.push(Piece::words(format!("{failed} failed.")));
        return Some(line);
    }
    if turns(figures, step.from) != turns(figures, step.to) {
        line.push(Piece::words("their turns are unequal, "));
        line.extend(turns_of(figures, step.from));
        line.push(Piece::words(" and "));
        line.extend(turns_of(figures, step.to));
        line.push(Piece::words(", and nothing is extrapolated."));
        let ratios = &figures.run.record.ratios;
        let at = ratios
            .iter()
            .position(|it| it.arm == step.to && it.denominator == step.from);
        if let Some(at) = at.filter(|at| ratios[*at].prefill_tokens.is_some()) {
            line.push(Piece::words(
                " In prompt tokens, over the turns both have, the first computed ",
            ));
            line.push(figures.of(&["ratios", &at.to_string(), "prefill_tokens"], Shown::Times));
            line.push(Piece::words(" as many."));
        }
        return Some(line);
    }
    let unmeasured = |arm| {
        step.buys
            .iter()
            .any(|(field, _)| !figures.has(&["arms", arm, field]))
    };
    [step.from, step.to]
        .into_iter()
        .find(|it| unmeasured(it))
        .map(|arm| {
            line.push(Piece::words(format!("of {arm} it was {NOT_MEASURED}.")));
            line
        })
}

fn turns_of(figures: &Figures<'_>, arm: &str) -> Line {
    let own = ["run", "arm_turns", arm];
    let turns = if figures.is_asked(&own) {
        figures.asked(&own, Shown::Count)
    } else {
        figures.asked(&["workload", "turns"], Shown::Count)
    };
    vec![turns, Piece::words(" of "), Piece::code(arm)]
}
