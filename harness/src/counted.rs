//! Counted runs: reading one back, and their table.
//!
//! Not here: counting (`workloads::counts`), making such a run (`run`), or checking one (`audit`).

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};
use workloads::counts::{
    self, ArmCounts, COUNTS_SCHEMA, CountedRow, CountsEnvelope, CountsRecord, CountsWorkload,
};

use crate::error::Error;
use crate::files;
use crate::table::{Table, counted, grouped, or_dash};
use crate::world::World;

/// What is counted, in one line.
pub fn words(workload: &CountsWorkload) -> String {
    let names = |names: Vec<&str>| names.join(", ");
    if let Some(dataset) = &workload.dataset {
        let workers: Vec<String> = workload.workers.iter().map(u64::to_string).collect();
        let workers = workers.join(", ");
        return format!("tasks of {}, {workers} workers on each", dataset.file);
    }
    if let Some(fleet) = &workload.routing {
        let (instances, families) = (fleet.instances, fleet.families);
        return format!("{instances} made-up instances, {families} families of requests");
    }
    if workload.streams.is_empty() {
        let sessions = workload.sessions.iter().map(|it| it.name.as_str());
        let (count, sessions) = (workload.sessions.len(), names(sessions.collect()));
        return format!("{}: {sessions}", counted(count, "session"));
    }
    let mut streams: Vec<&str> = workload.streams.iter().map(|it| it.name.as_str()).collect();
    streams.dedup();
    format!(
        "{}: {}",
        counted(workload.streams.len(), "row"),
        names(streams)
    )
}

/// Whether the run in `directory` was counted, by the tag of its record.
pub fn is_counted(directory: &Path) -> bool {
    let text = files::read_text(&directory.join("run.json")).unwrap_or_default();
    let record: Value = serde_json::from_str(&text).unwrap_or_default();
    record["schema"] == COUNTS_SCHEMA
}

/// What those say who need a run of arms.
pub fn refusal(directory: &Path) -> Error {
    Error::Usage(format!(
        "{} was counted and not run, so it has no times and no answers; `harness explain` shows its counts, and \
         `harness audit` counts them again",
        directory.display()
    ))
}

/// Reads the record of a counted run.
pub fn read(directory: &Path) -> Result<CountsRecord, Error> {
    let path = directory.join("run.json");
    serde_json::from_str(&files::read_text(&path)?)
        .map_err(|error| Error::Broken(format!("{}: {error}", path.display())))
}

/// Explains a counted run: what was asked, the counts, what they do not show.
pub fn explain(
    directory: &Path,
    as_json: bool,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let directory = world.working_directory.join(directory);
    let audit = audit::audit_run(&directory);
    if audit.exit_code() != 0 {
        return Err(Error::Broken(audit.render()));
    }
    let record = read(&directory)?;
    if as_json {
        let document = json!({
            "envelope": record.envelope, "dir": directory, "provenance": record.provenance, "rows": record.rows,
        });
        writeln!(out, "{document:#}")?;
        return Ok(0);
    }
    let text = files::read_text(&directory.join("envelope.toml"))?;
    let envelope = CountsEnvelope::parse(&text, "envelope.toml");
    let question = envelope.map(|it| it.question).unwrap_or_default();
    writeln!(out, "{}: {question}\n", record.envelope)?;
    for line in text.lines().map_while(|line| line.strip_prefix('#')) {
        writeln!(out, "{}", line.trim_start())?;
    }
    writeln!(out)?;
    write(&record, out)?;
    Ok(0)
}

/// The counts as a table, and how to read it.
pub fn write(record: &CountsRecord, out: &mut dyn Write) -> Result<(), Error> {
    let rows = &record.rows;
    let any = |has: fn(&CountedRow) -> bool| rows.iter().any(has);
    let (what, table, legend) = if any(|row| row.routed.is_some()) {
        ("Prefixes found", routed(rows), ROUTED_LEGEND)
    } else if any(|row| row.cache.is_some()) {
        ("Prompt tokens computed", streams(rows), STREAMS_LEGEND)
    } else {
        ("Prompt tokens computed", sessions(rows), SESSIONS_LEGEND)
    };
    writeln!(
        out,
        "{what}, counted request by request; nothing was run ({})\n\n{}\n{legend}\n",
        record.provenance,
        table.render()
    )?;
    Ok(())
}

const SESSIONS_LEGEND: &str = "\
naive: every turn computes its whole context again, which nobody ships, so ratios over it are a floor. agent-kv: each agent
keeps its own text. instance-shared: agents of a worker share what is common. fused: all agents do. Floor is naive over fused;
sharing is agent-kv over fused, the only one that an engine which shares may claim. Attended: the same of the positions that
all computed and decoded tokens attend to.";

const STREAMS_LEGEND: &str = "\
naive computes every prompt whole, agent-kv what its own conversation has not said, fused what nobody has. Found: the share of
prompt tokens that is in the cache of fused. Room: tokens that this cache may hold after a request. Order: as requests come,
or, of those that wait, the one that finds most, with nobody overtaken more often than stated.";

const ROUTED_LEGEND: &str = "\
kv-aware: asked is an instance that holds the prefix, else the one that holds fewest. by-prefix: always the same instance for
a prefix, which takes no knowledge of caches. round-robin: the next one. Found: the share of requests whose prefix their
instance held.";

/// A row for each way to choose an instance.
fn routed(rows: &[CountedRow]) -> Table {
    let header = [
        "router",
        "instances",
        "requests",
        "hits",
        "found",
        "evicted",
    ];
    let mut table = Table::new(&header);
    for row in rows {
        let Some(it) = &row.routed else { continue };
        let found = it.hits as f64 / it.requests.max(1) as f64;
        table.row([
            row.name.clone(),
            row.workers.to_string(),
            grouped(it.requests),
            grouped(it.hits),
            format!("{:.2} %", found * 100.0),
            grouped(it.evictions),
        ]);
    }
    table
}

/// A row for each number of workers or each session.
fn sessions(rows: &[CountedRow]) -> Table {
    // Rows of a data set differ in their workers alone, which come last where they are most.
    let alike = rows.windows(2).all(|pair| pair[0].name == pair[1].name);
    let by_workers = alike && rows.last().is_some_and(|row| row.workers > 1);
    let first = if by_workers { "workers" } else { "of" };
    let name_of = |row: &CountedRow| {
        if by_workers {
            row.workers.to_string()
        } else {
            row.name.clone()
        }
    };
    let header = [
        first,
        "requests",
        "naive",
        "agent-kv",
        "instance-shared",
        "fused",
        "floor",
        "sharing",
        "floor, attended",
        "sharing, attended",
    ];
    let mut table = Table::new(&header);
    for row in rows {
        let arm = |name: &str| row.arms.get(name).copied().unwrap_or_default();
        let arms = counts::arms().map(arm);
        let [naive, kept, _, fused] = &arms;
        let computed = |it: &ArmCounts| it.prefill_tokens_computed;
        let over = |arm: &ArmCounts, of: fn(&ArmCounts) -> u64, digits: usize| {
            let ratio = of(arm) as f64 / of(fused).max(1) as f64;
            format!("{ratio:.digits$}x")
        };
        let attended = |it: &ArmCounts| it.attended_positions;
        let lead = [name_of(row), grouped(fused.requests)];
        let ratios = [
            over(naive, computed, 2),
            over(kept, computed, 3),
            over(naive, attended, 2),
            over(kept, attended, 2),
        ];
        let counts = arms.iter().map(|it| grouped(computed(it)));
        table.row(lead.into_iter().chain(counts).chain(ratios));
    }
    table
}

/// A row for each stream under its cache.
fn streams(rows: &[CountedRow]) -> Table {
    let header = [
        "stream", "room", "order", "requests", "naive", "agent-kv", "fused", "found", "evicted",
    ];
    let mut table = Table::new(&header);
    for row in rows {
        let computed = |name: &str| row.arms.get(name).map(|it| it.prefill_tokens_computed);
        let fused = row.arms.get("fused").copied().unwrap_or_default();
        let found = fused.prefix_tokens_hit as f64 / fused.prefill_tokens_logical.max(1) as f64;
        let cache = row.cache.as_ref();
        let order = cache.and_then(|it| it.overtaken_max);
        let order = order.map_or("as they come".to_owned(), |most| {
            format!("overtaken {} at most", counted(most as usize, "time"))
        });
        let room = cache.and_then(|it| it.capacity_tokens);
        table.row([
            row.name.clone(),
            room.map_or("for all".to_owned(), grouped),
            order,
            grouped(fused.requests),
            or_dash(computed("naive"), grouped),
            or_dash(computed("agent-kv"), grouped),
            grouped(fused.prefill_tokens_computed),
            format!("{:.2} %", found * 100.0),
            or_dash(cache.map(|it| it.evictions), grouped),
        ]);
    }
    table
}
