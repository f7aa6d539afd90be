//! `kv`: the tree a cache was left with at the end of a run, drawn for people: pages, whose they are, what was found how
//! often, what is quarantined.
//!
//! Not here: whether the tree can be one (`audit`), or what a cache did on the way there (`explain`).

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::json;
use workloads::arm;
use workloads::envelope::{Declared, embedded};
use workloads::trace::{Body, KvNode, KvTombstone};

use crate::cli::KvArguments;
use crate::error::Error;
use crate::near::suggestion;
use crate::sealed::{SealedRun, Trace};
use crate::table::{counted, grouped};
use crate::world::World;

/// Positions of a full page.
const PAGE_POSITIONS: usize = engine::PAGE_POSITIONS;
/// Columns a page is set in below the one it continues.
const INDENT: usize = 2;

/// A tree as a trace states it.
struct Tree<'a> {
    nodes: &'a [KvNode],
    tombstones: &'a [KvTombstone],
}

/// Pages, each the only one to continue the one before and all written by one session.
struct Run<'a> {
    pages: Vec<&'a KvNode>,
}

/// Draws the tree of one trace; 0, or 4 if the run's evidence is broken.
pub fn kv(arguments: &KvArguments, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let run = SealedRun::open(&arguments.directory, world)?;
    let (trace, tree) = chosen(&run, arguments)?;
    if arguments.json {
        let document = json!({
            "dir": arguments.directory, "envelope": run.record.envelope, "arm": trace.arm, "rep": trace.rep,
            "nodes": tree.nodes, "tombstones": tree.tombstones,
        });
        writeln!(out, "{document:#}")?;
        return Ok(0);
    }
    writeln!(
        out,
        "{}, {}, repetition {}: what the cache held after the last request\n",
        run.record.envelope, trace.arm, trace.rep
    )?;
    tree.draw(out)?;
    tree.totals(trace, out)?;
    Ok(0)
}

/// The trace asked for: of `--arm`, or of the arm furthest up the ladder that keeps something.
fn chosen<'r>(run: &'r SealedRun, arguments: &KvArguments) -> Result<(&'r Trace, Tree<'r>), Error> {
    let mut with_tree: Vec<(&Trace, Tree<'_>)> = Vec::new();
    for trace in &run.traces {
        with_tree.extend(tree_of(trace).map(|tree| (trace, tree)));
    }
    if with_tree.is_empty() {
        return Err(Error::Usage(format!(
            "no trace in {} says what a cache held; an envelope with `kv = true` under [evidence] has its arms say it, as \
             {} do",
            arguments.directory.display(),
            envelopes_with_trees().join(", ")
        )));
    }
    let ladder = arm::names();
    let place = |trace: &Trace| ladder.iter().position(|name| *name == trace.arm);
    let highest = with_tree.iter().map(|it| it.0).max_by_key(|it| place(it));
    let highest = highest.map_or_else(String::new, |trace| trace.arm.clone());
    let (arm, rep) = (arguments.arm.as_ref().unwrap_or(&highest), arguments.rep);
    let known: Vec<String> = with_tree.iter().map(|it| it.0.arm.clone()).collect();
    let found = with_tree
        .into_iter()
        .find(|it| it.0.arm == *arm && it.0.rep == rep);
    found.ok_or_else(|| {
        let reps = known.iter().filter(|it| *it == arm).count();
        let mut arms = known;
        arms.dedup();
        Error::Usage(match reps {
            0 => format!(
                "no arm {arm} in this run says what its cache held ({})",
                suggestion(arm, arms.iter().map(String::as_str)),
            ),
            reps => format!("--rep {rep}: {arm} has repetitions 0 to {}", reps - 1),
        })
    })
}

fn tree_of(trace: &Trace) -> Option<Tree<'_>> {
    trace.lines.iter().rev().find_map(|line| match &line.body {
        Body::Kv { nodes, tombstones } => Some(Tree { nodes, tombstones }),
        _ => None,
    })
}

/// Envelopes that come with the program and ask for the tree.
fn envelopes_with_trees() -> Vec<&'static str> {
    let asks = |text: &str, name: &str| match Declared::parse(text, name) {
        Ok(Declared::Session(envelope)) => envelope.evidence.kv,
        _ => false,
    };
    let all = embedded().iter().filter(|(name, text)| asks(text, name));
    all.map(|(name, _)| *name).collect()
}

impl<'a> Tree<'a> {
    /// Pages by the one they continue.
    fn below(&self) -> BTreeMap<Option<usize>, Vec<&'a KvNode>> {
        let mut below: BTreeMap<Option<usize>, Vec<&KvNode>> = BTreeMap::new();
        for node in self.nodes {
            below.entry(node.parent).or_default().push(node);
        }
        below
    }

    /// Texts refused right after this page.
    fn refused_after(&self, page: Option<usize>) -> impl Iterator<Item = &'a KvTombstone> {
        self.tombstones.iter().filter(move |it| it.parent == page)
    }

    /// A line for every run of pages, set in below the one it continues.
    fn draw(&self, out: &mut dyn Write) -> Result<(), Error> {
        let below = self.below();
        let none: &[&KvNode] = &[];
        let after = |page: Option<usize>| below.get(&page).map_or(none, Vec::as_slice);
        // Drawn from its end.
        let mut waiting: Vec<(usize, &KvNode)> = Vec::new();
        waiting.extend(after(None).iter().rev().map(|page| (0, *page)));
        while let Some((depth, first)) = waiting.pop() {
            let mut run = Run { pages: vec![first] };
            let mut last = first;
            while let [next] = after(Some(last.id))
                && next.session == first.session
                && self.refused_after(Some(last.id)).next().is_none()
            {
                run.pages.push(next);
                last = next;
            }
            writeln!(out, "{:width$}{}", "", run.words(), width = depth * INDENT)?;
            for refused in self.refused_after(Some(last.id)) {
                let width = (depth + 1) * INDENT;
                writeln!(out, "{:width$}{}", "", words(refused))?;
            }
            let next = after(Some(last.id)).iter().rev();
            waiting.extend(next.map(|page| (depth + 1, *page)));
        }
        for refused in self.refused_after(None) {
            let gone = if refused.start < PAGE_POSITIONS {
                ""
            } else {
                "; the page before is gone"
            };
            writeln!(out, "{}{gone}", words(refused))?;
        }
        if self.nodes.is_empty() && self.tombstones.is_empty() {
            writeln!(out, "nothing")?;
        }
        Ok(())
    }

    fn totals(&self, trace: &Trace, out: &mut dyn Write) -> Result<(), Error> {
        let positions: usize = self.nodes.iter().map(|node| node.positions).sum();
        let room = self.nodes.len() * PAGE_POSITIONS;
        let filled = positions as f64 / room.max(1) as f64 * 100.0;
        let settings = trace.lines.first().and_then(|line| match &line.body {
            Body::Begin { settings, .. } => Some(settings),
            _ => None,
        });
        let cache = settings.map_or_else(String::new, |it| {
            let (pages, eviction) = (grouped(it.kv_pages as u64), &it.eviction);
            format!(" of {pages} the cache may hold ({}, {eviction})", it.cache)
        });
        writeln!(
            out,
            "\nin all {}{cache}, {} positions, {filled:.1} % filled; {} quarantined",
            counted(self.nodes.len(), "page"),
            grouped(positions as u64),
            counted(self.tombstones.len(), "text"),
        )?;
        Ok(())
    }
}

impl Run<'_> {
    /// How much it holds, whose it is, and how often it was found.
    fn words(&self) -> String {
        let positions: usize = self.pages.iter().map(|page| page.positions).sum();
        let last = self.pages.last().map_or(0, |page| page.positions);
        let part = if last < PAGE_POSITIONS && self.pages.len() > 1 {
            format!(", the last one {last}")
        } else {
            String::new()
        };
        let session = self.pages.first().and_then(|page| page.session.as_deref());
        let hits = || self.pages.iter().map(|page| page.hits);
        let (least, most) = (hits().min().unwrap_or(0), hits().max().unwrap_or(0));
        let found = match (least, most) {
            (0, 0) => "never found".to_owned(),
            (least, most) if least == most => format!("found {}", counted(most as usize, "time")),
            (least, most) => format!("found {least} to {most} times"),
        };
        format!(
            "{}, {}{part}, by {}, {found}",
            counted(self.pages.len(), "page"),
            counted(positions, "position"),
            session.unwrap_or("nobody known"),
        )
    }
}

fn words(refused: &KvTombstone) -> String {
    let (start, end) = (refused.start, refused.start + refused.positions);
    format!(
        "QUARANTINED from position {start} on: what has the text of {start} to {end} is refused"
    )
}
