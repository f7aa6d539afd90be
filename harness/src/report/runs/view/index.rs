//! The index of run pages: every run that speaks, by group, what shared capacity does to reuse, and what was only counted.

use std::collections::BTreeMap;

use workloads::envelope::about::{About, Group};

use super::super::axis::Unit;
use super::super::document::{Block, Document, Drawn, Line, Piece, Section, Table, code, words};
use super::super::figures::{Figures, Shown};
use super::super::page_name;
use super::super::plots::{Curve, Plot};
use super::{arms, losing};
use crate::report::evidence::Anchored;

/// The page. `counted` are runs that only count, as directories relative to results/.
pub(in crate::report::runs) fn page(
    name: &str,
    runs: &[Anchored],
    counted: &[String],
    about: &About,
) -> Document {
    let mut sections: Vec<Section> = Vec::new();
    for group in about.groups() {
        sections.extend(of_group(Some(group), runs, about));
    }
    sections.extend(of_group(None, runs, about));
    sections.push(capacity(runs));
    sections.extend(of_counted(counted));
    let opening = words(
        "One page for each run that speaks: the newest anchored run of every envelope and machine class that is complete, from a clean \
         tree, and whose arms agree. Each page says what was measured, against what, on which machine, by how much, and what was not shown.",
    );
    Document {
        name: name.to_owned(),
        title: "Runs".to_owned(),
        run: None,
        opening: vec![Block::Paragraph(opening)],
        sections,
    }
}

fn of_group(group: Option<&Group>, runs: &[Anchored], about: &About) -> Option<Section> {
    let is_losing =
        |run: &Anchored| group.is_some_and(|it| it.losing.contains(&run.record.envelope));
    let mut members: Vec<&Anchored> = runs
        .iter()
        .filter(|run| run.silent.is_none())
        .filter(|run| about.of(&run.record.envelope).map(|it| &it.0.id) == group.map(|it| &it.id))
        .collect();
    members.sort_by_key(|run| !is_losing(run));
    if members.is_empty() {
        return None;
    }
    let heading = group.map_or("Envelopes of one's own", |it| it.title.as_str());
    let mut table = Table {
        caption: format!("{heading}: runs that speak, those made to lose first"),
        head: vec![
            ("envelope", false),
            ("what was found", false),
            ("day", false),
            ("machine", false),
            ("model", false),
            ("evidence", false),
        ],
        rows: Vec::new(),
    };
    for run in members {
        let figures = Figures { run, named: true };
        let mut name = vec![Piece::Page {
            text: run.record.envelope.clone(),
            page: page_name(run, runs),
        }];
        if is_losing(run) {
            name.push(Piece::words(", made to lose"));
        }
        table.rows.push(vec![
            name,
            losing::summary(run),
            losing::day(run),
            vec![figures.of(&["machine", "class"], Shown::Text)],
            vec![figures.of(&["model", "name"], Shown::Text)],
            vec![Piece::File(run.directory())],
        ]);
    }
    let sentence = group.map(|it| Block::Paragraph(words(&it.sentence)));
    Some(Section {
        id: group.map_or_else(|| "own".to_owned(), |it| format!("group-{}", it.id)),
        heading: heading.to_owned(),
        blocks: sentence.into_iter().chain([Block::Table(table)]).collect(),
    })
}

fn of_counted(counted: &[String]) -> Option<Section> {
    let rows = counted
        .iter()
        .map(|run| vec![Piece::File(format!("results/{run}"))]);
    let rows: Vec<Line> = rows.collect();
    (!rows.is_empty()).then(|| Section {
        id: "counted".to_owned(),
        heading: "Counted and not run".to_owned(),
        blocks: vec![
            Block::Paragraph(words(
                "Token accounts without a model, an arm or a time. They have no page; the record says it all.",
            )),
            Block::List(rows),
        ],
    })
}

/// Runs that differ in what their caches may hold and in nothing else that was asked of them.
fn alike(runs: &[Anchored]) -> Vec<Vec<&Anchored>> {
    let mut alike: BTreeMap<String, Vec<&Anchored>> = BTreeMap::new();
    for run in runs
        .iter()
        .filter(|run| run.silent.is_none() && run.record.cells.is_none())
    {
        let mut settings = run.declared["run"].clone();
        if settings["kv_pages"].is_null() {
            continue;
        }
        settings["kv_pages"] = serde_json::Value::Null;
        let key = serde_json::json!([
            run.record.machine.class,
            run.record.model.sha256,
            run.declared["mode"],
            run.declared["workload"],
            settings,
        ]);
        alike.entry(key.to_string()).or_default().push(run);
    }
    let mut alike: Vec<Vec<&Anchored>> = alike
        .into_values()
        .map(|mut runs| {
            runs.sort_by_key(|run| run.declared["run"]["kv_pages"].as_u64());
            runs.dedup_by_key(|run| run.declared["run"]["kv_pages"].as_u64());
            runs
        })
        .filter(|runs| runs.len() > 1)
        .collect();
    alike.sort_by(|a, b| a[0].run.cmp(&b[0].run));
    alike
}

/// Reuse over what a cache may hold, as far as runs were made that differ in nothing else.
fn capacity(runs: &[Anchored]) -> Section {
    let mut blocks = vec![Block::Paragraph(words(
        "The hit rate is the share of prompt tokens that were found in the cache and not computed; caches are cold at the start. \
         Runs stand here that were asked the same and differ in the pages a cache may hold alone.",
    ))];
    let sets = alike(runs);
    let mut drawn: Vec<Curve> = Vec::new();
    for set in &sets {
        blocks.push(Block::Table(rates(set)));
        if drawn.is_empty() {
            drawn = rate_curves(set);
        }
    }
    if !drawn.is_empty() {
        let names: Vec<&str> = drawn.iter().map(|it| it.label.as_str()).collect();
        blocks.push(Block::Plot(Drawn {
            name: "capacity",
            caption: "Hit rate over the pages a cache may hold. Only the marked places were measured; lines join them for the eye.".to_owned(),
            alternative: format!("The hit rate of {} over the pages a cache may hold, as in the table above.", names.join(", ")),
            plot: Plot::Curves { unit: Unit::Pages, steps: false, curves: drawn },
        }));
    }
    let fewest = sets.iter().map(Vec::len).max().unwrap_or(0);
    if fewest < 3 {
        blocks.push(Block::Paragraph(words(
            "A curve takes runs at three capacities or more, asked the same otherwise. What is missing are envelopes with other `kv_pages`; \
             where the rate bends between the places measured, nobody knows from these.",
        )));
    }
    Section {
        id: "capacity".to_owned(),
        heading: "Hit rate against capacity".to_owned(),
        blocks,
    }
}

fn rates(set: &[&Anchored]) -> Table {
    let mut table = Table {
        caption: format!(
            "Hit rate by capacity, session of {}",
            set[0].record.envelope
        ),
        head: vec![
            ("arm", false),
            ("pages a cache may hold", true),
            ("hit rate", true),
            ("prompt tokens computed", true),
            ("run", false),
        ],
        rows: Vec::new(),
    };
    for arm in arms(set[0]) {
        for run in set {
            let figures = Figures { run, named: true };
            table.rows.push(vec![
                code(&arm),
                vec![figures.asked(&["run", "kv_pages"], Shown::Count)],
                vec![figures.of(&["arms", &arm, "reuse_rate"], Shown::Percent)],
                vec![figures.of(&["arms", &arm, "prefill_tokens_computed"], Shown::Count)],
                vec![Piece::File(run.directory())],
            ]);
        }
    }
    table
}

fn rate_curves(set: &[&Anchored]) -> Vec<Curve> {
    let curve = |arm: String| {
        let points = set.iter().filter_map(|run| {
            let pages = run.declared["run"]["kv_pages"].as_f64()?;
            Some((pages, run.record.arms.get(&arm)?.reuse_rate?))
        });
        Curve {
            points: points.collect(),
            label: arm,
        }
    };
    arms(set[0]).into_iter().map(curve).collect()
}
