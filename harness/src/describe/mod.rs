//! `describe`: what work must cost before any of it is run. Here `describe session`, by closed form (MODELED); sets of tasks
//! in `tasks`, a goal handed to many agents in `fanout`, all kinds side by side in `compare`, how all of them are shown in `document`.
//!
//! Not here: the formulas (`workloads::oracle`) or the counting (`workloads::accounting`).

use std::io::Write;

use serde_json::{Map, Value, json};
use workloads::arm::{ARMS, SERVERS};
use workloads::envelope::ResolvedEnvelope;
use workloads::oracle::{self, Counts, Shape};

use crate::cli::{SessionArguments, Subject};
use crate::error::Error;
use crate::table::{Table, counted, grouped};
use crate::world::World;

mod compare;
mod document;
mod fanout;
mod tasks;

use document::Document;

/// Describes what the command line names.
pub fn describe(subject: &Subject, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    match subject {
        Subject::Session(shape) => session(shape, world, out),
        Subject::Swebench(set) => tasks::run(&tasks::SWEBENCH, set, world, out),
        Subject::Webbench(set) => tasks::run(&tasks::WEBBENCH, set, world, out),
        Subject::Compare(asked) => compare::run(asked, world, out),
        Subject::Fanout(asked) => fanout::run(asked, world, out),
    }
}

/// Shows the counts of all arms.
fn session(arguments: &SessionArguments, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let shape = Shape {
        agents: arguments.agents,
        turns: arguments.turns,
        prefix: arguments.prefix,
        decode: arguments.decode,
        result: arguments.result,
        workers: arguments.workers,
        ..Shape::default()
    };
    let counts: Vec<Counts> = ARMS
        .iter()
        .map(|arm| oracle::counts(arm, &shape).map_err(|error| Error::Usage(error.to_string())))
        .collect::<Result<_, _>>()?;
    let arms: Map<String, Value> = ARMS
        .iter()
        .zip(&counts)
        .map(|(arm, it)| (arm.name.to_owned(), json!(it)))
        .collect();
    let json = json!({ "provenance": "MODELED", "shape": shape, "arms": arms });
    of_session(&shape, &counts).show(&json, &arguments.shown, world, out)
}

/// A shape in one line.
pub fn words(shape: &Shape) -> String {
    format!(
        "{} x {}, prefix {}, decode {}, result {} tokens, {}",
        counted(shape.agents as usize, "agent"),
        counted(shape.turns as usize, "turn"),
        shape.prefix,
        shape.decode,
        shape.result,
        counted(shape.workers as usize, "worker"),
    )
}

/// The shape an envelope asks for, and which arms play less of it.
pub fn words_of(envelope: &ResolvedEnvelope) -> String {
    let short = envelope.run.arm_turns.iter();
    let short = short.map(|(arm, &turns)| format!(", {arm} only {}", counted(turns, "turn")));
    let workload = &envelope.workload;
    let clocked = workload.arrivals.map(|it| format!(", {it}"));
    let slo = workload.slo.map(|it| format!(", good within {it}"));
    let tree = workload.tree.map(|it| {
        let levels = counted(it.levels, "level");
        format!(
            ", a tree of {} branches, {levels}, {} tokens a node",
            it.branches, it.tokens
        )
    });
    let again = (workload.passes > 1).then(|| format!(", asked {} times", workload.passes));
    let more = tree
        .into_iter()
        .chain(again)
        .chain(short)
        .chain(clocked)
        .chain(slo);
    words(&workload.shape()) + &more.collect::<String>()
}

fn of_session(shape: &Shape, counts: &[Counts]) -> Document {
    let mut it = Document::new(words(shape));
    it.words(
        "What each arm must compute of the prompts of such a session, by closed form; nothing was run (MODELED).",
    );
    let mut table = Table::new(&[
        "arm",
        "prefill computed",
        "reused",
        "decoded",
        "vs naive",
        "stands for",
    ]);
    let floor = counts
        .first()
        .map_or(0, |naive| naive.prefill_tokens_computed);
    for (arm, count) in ARMS.iter().zip(counts) {
        let reused = count.prefix_tokens_hit as f64 / count.prefill_tokens_logical.max(1) as f64;
        let times = floor as f64 / count.prefill_tokens_computed.max(1) as f64;
        table.row([
            arm.name.to_owned(),
            grouped(count.prefill_tokens_computed),
            format!("{:.1} %", reused * 100.0),
            grouped(count.decode_tokens),
            format!("{times:.2}x"),
            arm.stands_for.to_owned(),
        ]);
    }
    it.table(table.words_last());
    it.terms([
        (
            "prefill computed",
            "prompt tokens whose keys and values are computed anew.".to_owned(),
        ),
        (
            "reused",
            "the share of prompt tokens that is found in a cache.".to_owned(),
        ),
        (
            "vs naive",
            "how many times fewer than the floor that nobody ships. The arm to beat is instance-shared.".to_owned(),
        ),
        (
            "other engines",
            format!(
                "they count for themselves, and each is asked as one of these arms: {}.",
                beside().join(", ")
            ),
        ),
    ]);
    it
}

/// Other engines' arms, each with ours that keeps and batches as it does.
fn beside() -> Vec<String> {
    let pairs = SERVERS.iter().filter_map(|arm| {
        let ours = arm.of_ours_alike()?.name;
        Some(format!("{} as {ours}", arm.name))
    });
    pairs.collect()
}
