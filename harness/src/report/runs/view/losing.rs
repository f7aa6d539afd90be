//! What the envelopes of the same group that were made for us to lose showed: no ratio of a group stands on a page without them.

use std::collections::BTreeSet;

use workloads::envelope::about::About;

use super::super::document::{Block, Line, Piece, Section, Table, words};
use super::super::figures::{Figures, Operation, Shown};
use super::super::page_name;
use super::{cells, ratios};
use crate::report::classes;
use crate::report::evidence::Anchored;

/// The section; none where the group has no such envelopes, or no run of them speaks.
pub(super) fn section(run: &Anchored, runs: &[Anchored], about: &About) -> Option<Section> {
    let envelopes = BTreeSet::from([run.record.envelope.as_str()]);
    let losing = classes::losing_runs(about, runs, &envelopes);
    let others: Vec<&Anchored> = losing
        .into_iter()
        .map(|it| it.1)
        .filter(|it| it.run != run.run)
        .collect();
    if others.is_empty() {
        return None;
    }
    let mut table = Table {
        caption: "Envelopes of the same group that were made for us to lose or to tie".to_owned(),
        head: vec![
            ("envelope", false),
            ("what was found", false),
            ("day", false),
            ("evidence", false),
        ],
        rows: Vec::new(),
    };
    for other in others {
        table.rows.push(vec![
            vec![Piece::Page {
                text: other.record.envelope.clone(),
                page: page_name(other, runs),
            }],
            summary(other),
            day(other),
            vec![Piece::File(other.directory())],
        ]);
    }
    Some(Section {
        id: "losing".to_owned(),
        heading: "What stands beside it".to_owned(),
        blocks: vec![
            Block::Paragraph(words(
                "Ratios depend on what is asked. These runs take away what the ones above live on; no page quotes the one without the other.",
            )),
            Block::Table(table),
        ],
    })
}

/// The day of a run that is another than the page's.
pub(super) fn day(run: &Anchored) -> Line {
    let figures = Figures { run, named: true };
    let days: &[&[&str]] = &[&["sittings", "*", "started_unix_s"]];
    let mut line = vec![figures.derived(Operation::Greatest, days, Shown::Date)];
    if run.is_outdated() {
        line.push(Piece::words(", before the envelope's workload was changed"));
    }
    line
}

/// What a run found, in a sentence or two.
pub(super) fn summary(run: &Anchored) -> Line {
    let figures = Figures { run, named: true };
    if run.record.cells.is_some() {
        return cells::found(&figures);
    }
    let Some(at) = ratios::headline(run) else {
        return words("no ratio of times can be given");
    };
    let mut line = ratios::sentence(&figures, at);
    let all = &run.record.ratios;
    let own = all.iter().position(|it| {
        it.arm == "fused" && it.denominator == "instance-shared" && it.wall.is_some()
    });
    if let Some(own) = own.filter(|own| *own != at) {
        line.push(Piece::words(" "));
        line.extend(ratios::sentence(&figures, own));
    }
    line
}
