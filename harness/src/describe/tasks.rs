//! `describe swebench` and `describe webbench`: what a set of tasks costs, request by request. Provenance MODELED: nothing
//! is run.
//!
//! Not here: reading the sets (`workloads::datasets`) or counting (`workloads::accounting`).

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};
use workloads::accounting::{Account, Geometry};
use workloads::datasets::{Costs, DatasetError, TaskSet, Turns, declared, swebench, webbench};
use workloads::prices::{PUBLISHED, Price};

use super::document::Document;
use crate::cli::TaskArguments;
use crate::error::Error;
use crate::table::{Table, counted, grouped, size};
use crate::world::World;

/// Bytes of a cached element: half precision, as engines keep them unless told otherwise.
const ELEMENT_BYTES: u64 = 2;

/// The column that `--share-base` asks for.
const SHARED_BASE: &str = "shared, base too";

/// A kind of data set.
pub(super) struct Kind {
    /// Turns by label unless the command line says otherwise.
    turns: &'static [(&'static str, u64)],
    reader: fn(&str, &str, &Turns) -> Result<TaskSet, DatasetError>,
    /// Where lengths come from.
    lengths: &'static str,
}

pub(super) const SWEBENCH: Kind = Kind {
    turns: &swebench::TURNS,
    reader: swebench::read,
    lengths: "Lengths are those that the reference system's published reports assume (QUOTED): a prompt of 2500 tokens, \
        200 answered and 400 handed back a turn.",
};

pub(super) const WEBBENCH: Kind = Kind {
    turns: &webbench::TURNS,
    reader: webbench::read,
    lengths: "Lengths are those that the reference system's published reports assume (QUOTED): a prompt of 3000 tokens and \
        a quarter of the bytes of its description and instructions, a step and a page of 2150 tokens handed back a turn. \
        The step is what the agent decoded; those reports charge it as prompt, so this does too, and bills no answer.",
};

/// Reads the set, counts, shows.
pub(super) fn run(
    kind: &Kind,
    arguments: &TaskArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let turns = kind.turns(&arguments.turns);
    let (name, set) = kind.read(&arguments.dataset, &turns, world)?;
    let usage = |error: DatasetError| Error::Usage(error.to_string());
    let costs: Vec<Costs> = arguments
        .workers
        .iter()
        .map(|&workers| set.costs(workers, arguments.share_base).map_err(usage))
        .collect::<Result<_, _>>()?;
    let document = document(kind, &name, &set, &costs);
    document.show(&as_json(&name, &set, &costs), &arguments.shown, world, out)
}

impl Kind {
    /// Turns by label, those given over the others.
    pub(super) fn turns(&self, given: &[(String, u64)]) -> Turns {
        declared(self.turns, given)
    }

    /// Reads a file: what it is called, and what is in it.
    pub(super) fn read(
        &self,
        file: &Path,
        turns: &Turns,
        world: &World,
    ) -> Result<(String, TaskSet), Error> {
        let path = world.working_directory.join(file);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Error::Usage(format!("cannot read {}: {error}", path.display())))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let set = (self.reader)(&text, &name, turns);
        let set = set.map_err(|error| Error::Usage(error.to_string()))?;
        Ok((name.into_owned(), set))
    }
}

/// The words of `arms` are those of `describe session`: an agent is a worker with an instance of its own, so that instances
/// share nothing but in `fused`.
fn as_json(name: &str, set: &TaskSet, costs: &[Costs]) -> Value {
    let arm = |account: &Account| {
        json!({
            "prefill_tokens_computed": account.computed_tokens, "prefill_tokens_logical": account.prompt_tokens,
            "prefix_tokens_hit": account.reused_tokens, "decode_tokens": account.decode_tokens,
        })
    };
    let arms = costs.first().map(|it| {
        json!({
            "naive": arm(&it.naive), "agent-kv": arm(&it.agent_kv), "agent-kv-batched": arm(&it.agent_kv),
            "instance-shared": arm(&it.agent_kv), "fused": arm(&it.shared),
        })
    });
    json!({
        "provenance": "MODELED", "dataset": name, "tasks": set.tasks.len(), "labels": set.labels(), "turns": set.turns(),
        "base": set.base, "decode": set.decode, "result": set.result, "arms": arms, "costs": costs, "price": PUBLISHED,
    })
}

fn document(kind: &Kind, name: &str, set: &TaskSet, costs: &[Costs]) -> Document {
    let turns = set.turns();
    let mut it = Document::new(format!(
        "{name}: {}, {} turns in all",
        counted(set.tasks.len(), "task"),
        grouped(turns.total)
    ));
    it.words(format!(
        "What prompts cost when agents do these tasks, by who finds what was computed before. Nothing was run: the requests \
         follow from the data set and are counted one by one (MODELED). A task takes {} to {} turns, {} in the middle.",
        turns.min, turns.max, turns.median
    ));
    it.heading("Tasks");
    it.table(tasks_table(set));
    it.heading("Prompt tokens computed");
    it.table(tokens_table(costs));
    it.terms(terms(costs));
    it.heading("What a model makes of it (SmolLM2-135M, half precision)");
    it.table(operations_table(costs));
    it.words(
        "Operations are multiplications and additions, attention to the whole context before each token included. KV peak is \
         what all caches of one task hold at once; naive keeps nothing.",
    );
    it.heading("What a provider would bill");
    it.table(dollars_table(costs));
    it.words(PUBLISHED.words());
    it.heading("What this does not show");
    it.words(format!(
        "No time, and no answer: whether a task is solved is another question. {} How many turns a label stands for is \
         declared, not measured. Every worker does every task, so more workers are more copies of the same work, not the \
         same work sooner. Nothing is shared between tasks, though their prompts begin alike, unless --share-base asks for it.",
        kind.lengths
    ));
    it
}

/// What the columns of [`tokens_table`] mean.
fn terms(costs: &[Costs]) -> Vec<(&'static str, String)> {
    let on_base = costs.iter().any(|it| it.shared_base.is_some());
    let all = [
        (
            "naive",
            "every turn computes its whole context again. Nobody ships that, so ratios over it are a floor.",
        ),
        (
            "each keeps",
            "every worker has a cache of its own, so only what is new in a turn is computed.",
        ),
        (
            "shared",
            "workers on the same task find the prompt that another computed.",
        ),
        (
            "keeping saves",
            "naive over each keeps. It has nothing to do with sharing.",
        ),
        (
            "sharing saves",
            "each keeps over shared: the only column that an engine that shares may claim.",
        ),
        (
            SHARED_BASE,
            "with --share-base: the beginning that all prompts have in common is found across tasks as well.",
        ),
    ];
    let shown = all.into_iter().filter(|it| on_base || it.0 != SHARED_BASE);
    shown.map(|(term, it)| (term, it.to_owned())).collect()
}

fn tasks_table(set: &TaskSet) -> Table {
    let mut table = Table::new(&["label", "tasks", "turns each"]);
    for (label, tasks) in set.labels() {
        let of_label = |label: &str| {
            let mut tasks = set.tasks.iter();
            tasks.find(|task| task.label.as_deref() == Some(label))
        };
        let turns = of_label(label).map_or_else(|| "-".to_owned(), |task| task.turns.to_string());
        table.row([label.to_owned(), tasks.to_string(), turns]);
    }
    table
}

fn tokens_table(costs: &[Costs]) -> Table {
    let header = [
        "workers",
        "naive",
        "each keeps",
        "shared",
        "keeping saves",
        "sharing saves",
        "naive/shared (floor)",
        "found when shared",
    ];
    // A column that nobody asked for would be dashes.
    let on_base = costs.iter().any(|it| it.shared_base.is_some());
    let more = on_base.then_some(SHARED_BASE);
    let header: Vec<&str> = header.into_iter().chain(more).collect();
    let mut table = Table::new(&header);
    for it in costs {
        let [naive, kept, shared] =
            [it.naive, it.agent_kv, it.shared].map(|account| account.computed_tokens);
        let over = |a: u64, b: u64| format!("{:.3}x", a as f64 / b.max(1) as f64);
        let on_base = it.shared_base.map(|it| grouped(it.computed_tokens));
        let row = [
            it.workers.to_string(),
            grouped(naive),
            grouped(kept),
            grouped(shared),
            over(naive, kept),
            over(kept, shared),
            over(naive, shared),
            format!("{:.1} %", it.shared.hit_rate() * 100.0),
        ];
        table.row(row.into_iter().chain(on_base));
    }
    table
}

/// The three ways of keeping, by name.
fn arms(costs: &Costs) -> [(&'static str, &Account); 3] {
    [
        ("naive", &costs.naive),
        ("each keeps", &costs.agent_kv),
        ("shared", &costs.shared),
    ]
}

fn operations_table(costs: &[Costs]) -> Table {
    let header = ["workers", "", "operations", "of them attention", "KV peak"];
    let mut table = Table::new(&header).left(2);
    for it in costs {
        for (name, account) in arms(it) {
            let needs = Geometry::SMOLLM2_135M.operations(account, ELEMENT_BYTES);
            let all = needs.matrix + needs.attention;
            let attention = needs.attention as f64 / (all.max(1)) as f64;
            let held = u64::try_from(needs.kv_bytes_peak).unwrap_or(u64::MAX);
            table.row([
                it.workers.to_string(),
                name.to_owned(),
                format!("{:.1} T", all as f64 / 1e12),
                format!("{:.0} %", attention * 100.0),
                if held == 0 {
                    "-".to_owned()
                } else {
                    size(held)
                },
            ]);
        }
    }
    table
}

fn dollars_table(costs: &[Costs]) -> Table {
    let mut table = Table::new(&["workers", "naive", "each keeps", "shared"]);
    for it in costs {
        let dollars = |account: &Account, keeps: bool| {
            format!(
                "$ {:.2}",
                Price::dollars(PUBLISHED.microdollars(account, keeps))
            )
        };
        table.row([
            it.workers.to_string(),
            dollars(&it.naive, false),
            dollars(&it.agent_kv, true),
            dollars(&it.shared, true),
        ]);
    }
    table
}
