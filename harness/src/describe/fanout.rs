//! `describe fanout`: one goal handed to many agents. Nothing is run.
//!
//! Not here: the quantities (`workloads::fanout`).

use std::io::Write;

use serde_json::{Value, json};
use workloads::fanout::{Fanout, Path, Profile, Saved};

use super::document::Document;
use crate::cli::FanoutArguments;
use crate::error::Error;
use crate::table::{Table, grouped};
use crate::world::World;

/// Made-up calls of all rows and trials: some seconds.
const CALLS_MAX: u64 = 50_000_000;
/// The control that may gain nothing.
const CONTROL: &str = "no-share";

/// One row: a number of agents.
struct Row {
    asked: Fanout,
    path: Path,
    prefix_tokens_saved: u64,
    /// The middle trial by what sharing adds.
    saved: Saved,
    control: Saved,
}

/// Counts and shows.
pub(super) fn run(
    arguments: &FanoutArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    check_size(arguments)?;
    let unknown = || Error::Usage(format!("no profile {}", arguments.profile));
    let profile = Profile::named(&arguments.profile).ok_or_else(unknown)?;
    let control = Profile::named(CONTROL).ok_or_else(unknown)?;
    let rows: Vec<Row> = arguments
        .agents
        .iter()
        .map(|&agents| row(agents, arguments, [profile, control]))
        .collect::<Result<_, _>>()?;
    let document = document(arguments, &rows);
    document.show(&as_json(arguments, &rows), &arguments.shown, world, out)
}

/// Refuses more made-up calls than are drawn in some seconds.
fn check_size(arguments: &FanoutArguments) -> Result<(), Error> {
    let agents: u64 = arguments.agents.iter().sum();
    let calls = agents
        .saturating_mul(arguments.turns)
        .saturating_mul(arguments.trials);
    if calls <= CALLS_MAX {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} made-up calls (agents x turns x trials) are more than {} that can be drawn: give fewer --trials",
        grouped(calls),
        grouped(CALLS_MAX)
    )))
}

fn row(
    agents: u64,
    arguments: &FanoutArguments,
    [profile, control]: [&Profile; 2],
) -> Result<Row, Error> {
    let asked = Fanout {
        agents,
        turns: arguments.turns,
        prefix: arguments.prefix,
    };
    let middle = |profile: &Profile| {
        let trials = (0..arguments.trials).map(|it| asked.saved(profile, arguments.seed, it));
        let mut trials: Vec<Saved> = trials.collect();
        trials.sort_by_key(Saved::uplift);
        trials.get(trials.len() / 2).copied().unwrap_or_default()
    };
    let too_many = || Error::Usage("so many agents and turns cannot be counted".to_owned());
    Ok(Row {
        path: asked.path().ok_or_else(too_many)?,
        prefix_tokens_saved: asked.prefix_tokens_saved().ok_or_else(too_many)?,
        saved: middle(profile),
        control: middle(control),
        asked,
    })
}

fn as_json(arguments: &FanoutArguments, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "fanout": row.asked,
                "path": { "provenance": "MODELED", "turns": row.path },
                "prefix_tokens_saved": { "provenance": "MODELED", "tokens": row.prefix_tokens_saved },
                "calls": {
                    "provenance": "SIMULATED", "profile": arguments.profile, "trials": arguments.trials,
                    "seed": arguments.seed, "middle": row.saved, "uplift": row.saved.uplift(),
                    "control_uplift": row.control.uplift(),
                },
            })
        })
        .collect();
    json!({ "rows": rows })
}

fn document(arguments: &FanoutArguments, rows: &[Row]) -> Document {
    let mut it = Document::new(format!(
        "One goal, many agents of {} turns on a prompt of {} tokens",
        arguments.turns,
        grouped(arguments.prefix)
    ));
    it.words(
        "Four quantities that are easily mixed, each on its own. None of them is a time: what an engine takes for a fan-out is \
         measured by running one, and named at the end.",
    );
    it.heading("1. How many turns must wait for each other (MODELED: arithmetic, the same for every engine)");
    let mut table = Table::new(&["agents", "turns in all", "one after the other", "ratio"]);
    for row in rows {
        let Path {
            total_turns,
            critical_turns,
            ..
        } = row.path;
        table.row([
            grouped(row.asked.agents),
            grouped(total_turns),
            grouped(critical_turns),
            format!("{:.2}x", total_turns as f64 / critical_turns as f64),
        ]);
    }
    it.table(table);
    it.words(
        "One turn to plan, the agents' turns at once, and one turn for each 4000 tokens of results, of which every agent leaves \
         200. The ratio says what would be possible if all agents ran at once and cost nothing; it is not a speed.",
    );
    it.heading("2. Prompt tokens that need not be computed again (MODELED: (N - 1) P)");
    let mut table = Table::new(&["agents", "prefix tokens saved"]);
    for row in rows {
        table.row([grouped(row.asked.agents), grouped(row.prefix_tokens_saved)]);
    }
    it.table(table);
    it.heading("3. Calls that need not be made (SIMULATED: made-up calls)");
    let mut table = Table::new(&[
        "agents",
        "calls",
        "saved by sharing answers",
        "saved by each alone",
        "sharing adds",
        "control: nothing in common",
    ]);
    for row in rows {
        table.row([
            grouped(row.asked.agents),
            grouped(row.saved.calls),
            grouped(row.saved.shared),
            grouped(row.saved.isolated),
            grouped(row.saved.uplift()),
            grouped(row.control.uplift()),
        ]);
    }
    it.table(table);
    it.words(format!(
        "Profile {}, with the reference system's probabilities (QUOTED) and draws of our own; the middle of {} trials. How often agents ask the same is assumed, so this shows what follows from the \
         assumption and nothing about any fleet. Two controls must give 0: one agent, and agents with nothing in common.",
        arguments.profile, arguments.trials
    ));
    it.heading("4. What an engine takes");
    it.words(
        "Not here, where nothing is run: `harness run fan-out-64` and `harness run fan-out-1024` ask one of a model, with lengths \
         of their own (`harness list fan-out-64`). Their tokens, times and memory stand in BENCHMARK-AUTHORITY.md.",
    );
    it
}
