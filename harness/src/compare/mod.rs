//! `compare`: two sealed runs of one question, counters and answers exactly, times by the one statistical rule.
//!
//! Runs that ask different things are refused with what differs. Across machines counters and answers are compared,
//! for they are the same everywhere; times are withheld. Not here: the statistics (`workloads::statistics`).

mod rows;
pub mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use workloads::arm::{MOCK, is_server};

use crate::cli::CompareArguments;
use crate::error::Error;
use crate::fairness::servers;
use crate::gate::{fields, flatten};
use crate::sealed::{SealedRun, departure};
use crate::table::{Table, counted};
use crate::world::World;
use rows::Row;
use times::Times;

/// What differs between two runs that cannot be compared, or not in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// Its path in envelope.json or run.json.
    pub key: String,
    /// In the first run.
    pub first: String,
    /// In the second.
    pub second: String,
}

impl Key {
    fn of((key, first, second): (String, String, String)) -> Self {
        Self { key, first, second }
    }
}

/// Two runs beside each other.
#[derive(Serialize)]
struct Comparison<'a> {
    first: &'a Path,
    second: &'a Path,
    /// Why they are not compared at all.
    unlike: Vec<Key>,
    /// Counters, hit rates and answers.
    rows: Vec<Row>,
    /// Rows whose two values differ.
    rows_that_differ: usize,
    /// Where the arms of one run answered differently, which no agreement between two runs makes good.
    disagreements: Vec<String>,
    /// Arms of both runs that another engine answered: only their times are compared.
    answered_by_others: Vec<String>,
    /// Arms that only one of the runs asked.
    arms_of_one_run: Vec<String>,
    /// Builds may differ: that is what two runs are compared for.
    build: Vec<Key>,
    times: Option<Times>,
}

impl Comparison<'_> {
    /// 0 equal and judged, 1 counters or answers differ, 3 refused or no verdict on the times.
    fn exit_code(&self) -> u8 {
        match &self.times {
            _ if !self.unlike.is_empty() => 3,
            _ if self.rows_that_differ > 0 || !self.disagreements.is_empty() => 1,
            _ if self.rows.is_empty() => 3, // nothing in common says nothing
            Some(times) if times.withheld_across_machines() => 0,
            Some(times) if times.is_conclusive() => 0,
            _ => 3,
        }
    }
}

/// Compares two runs and prints the outcome.
pub fn compare(
    arguments: &CompareArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let first = SealedRun::open(&arguments.first, world)?;
    let second = SealedRun::open(&arguments.second, world)?;
    first.refuse_failed()?;
    second.refuse_failed()?;
    let both: BTreeSet<&str> = &arms_of(&first) & &arms_of(&second);
    let unlike = unlike(&first, &second);
    let likes = unlike.is_empty();
    let rows = if likes {
        rows::of(&first, &second)
    } else {
        Vec::new()
    };
    let comparison = Comparison {
        first: &arguments.first,
        second: &arguments.second,
        rows_that_differ: rows.iter().filter(|row| !row.equal).count(),
        disagreements: disagreements(&first, &second),
        answered_by_others: both
            .iter()
            .filter(|arm| is_server(arm))
            .map(|arm| (*arm).to_owned())
            .collect(),
        arms_of_one_run: rows::arms_of_one_run(&first, &second),
        build: keys(&builds(&both, &first), &builds(&both, &second)),
        times: likes.then(|| times::compare(&first, &second)),
        unlike,
        rows,
    };
    let code = comparison.exit_code();
    if arguments.json {
        let mut document = json!(comparison);
        document["exit_code"] = json!(code);
        writeln!(out, "{document:#}")?;
    } else {
        write_text(&comparison, out)?;
    }
    Ok(code)
}

/// Where the arms of a run answered differently.
fn disagreements(first: &SealedRun, second: &SealedRun) -> Vec<String> {
    let each = [("first", first), ("second", second)];
    let found = each.into_iter().filter_map(|(which, run)| {
        let at = run.record.identity.first_divergence.as_ref()?;
        Some(format!(
            "the arms of the {which} run answered differently: {}",
            departure(at)
        ))
    });
    found.collect()
}

/// What a run was asked, as far as the arms of both runs were. Who else was asked, and how often, is no part of it, nor
/// is the sentence it is introduced with; threads and kernels change times only.
fn asked_of(both: &BTreeSet<&str>, run: &SealedRun) -> Value {
    let mut asked = run.asked.clone();
    if let Some(asked) = asked.as_object_mut() {
        asked.remove("question");
        if !both.contains(MOCK.name) {
            asked.remove("mock");
        }
    }
    if let Some(run) = asked.get_mut("run").and_then(Value::as_object_mut) {
        for field in ["arms", "reps", "arm_reps", "threads", "kernels"] {
            run.remove(field);
        }
        if !both.iter().any(|arm| is_server(arm)) {
            run.remove("margin_millinats");
            run.remove("request_limit_s");
        }
        if let Some(turns) = run.get_mut("arm_turns").and_then(Value::as_object_mut) {
            turns.retain(|arm, _| both.contains(arm.as_str()));
        }
    }
    asked
}

/// What the servers of both runs say they are set to.
fn server_settings(both: &BTreeSet<&str>, run: &SealedRun) -> Value {
    let asked = servers(&run.record).filter(|(name, _)| both.contains(name));
    let settings = asked.map(|(name, arm)| {
        let settings = arm.server.as_ref().map(|it| &it.settings);
        (
            name.to_owned(),
            json!({ "server": { "settings": settings } }),
        )
    });
    json!({ "arms": settings.collect::<serde_json::Map<_, _>>() })
}

/// Our build, and the programs that answered arms of both runs.
fn builds(both: &BTreeSet<&str>, run: &SealedRun) -> Value {
    let asked = servers(&run.record).filter(|(name, _)| both.contains(name));
    let programs = asked.filter_map(|(name, arm)| {
        let program = &arm.server.as_ref()?.program;
        let build = json!({ "sha256": program.sha256, "libraries_sha256": program.libraries_sha256,
                            "version": program.version });
        Some((name.to_owned(), build))
    });
    let mut builds = json!(run.record.build);
    for (name, program) in programs {
        builds[name] = program;
    }
    builds
}

fn arms_of(run: &SealedRun) -> BTreeSet<&str> {
    let arms = run.asked["run"]["arms"].as_array();
    arms.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// What makes two runs answers to different questions.
fn unlike(first: &SealedRun, second: &SealedRun) -> Vec<Key> {
    let both: BTreeSet<&str> = &arms_of(first) & &arms_of(second);
    let question = |run: &SealedRun| {
        let record = &run.record;
        json!({
            "envelope": asked_of(&both, run),
            "model": { "sha256": record.model.sha256, "tokenizer_sha256": record.model.tokenizer_sha256 },
            "effective": { "mode": record.effective.mode, "kv_dtype": record.effective.kv_dtype },
        })
    };
    let mut found = keys(&question(first), &question(second));
    found.extend(keys(
        &server_settings(&both, first),
        &server_settings(&both, second),
    ));
    let machines = times::unequal_machines(&first.record, &second.record);
    if machines.is_empty() {
        // On one machine unlike settings are a mistake; across machines they follow from the machine.
        found.extend(times::unequal_settings(&first.record, &second.record));
    }
    let hashes = [&first.record, &second.record].map(|record| record.envelope_sha256.clone());
    if !found.is_empty() && hashes[0] != hashes[1] {
        let [first, second] = hashes;
        let key = "envelope_sha256".to_owned();
        found.insert(0, Key { key, first, second });
    }
    found
}

/// Fields in which two documents differ.
pub(crate) fn keys(first: &Value, second: &Value) -> Vec<Key> {
    let flat = |value: &Value| {
        let mut flat = BTreeMap::new();
        flatten("", value, &mut flat);
        flat
    };
    fields(&flat(first), &flat(second))
        .into_iter()
        .map(Key::of)
        .collect()
}

fn write_text(comparison: &Comparison<'_>, out: &mut dyn Write) -> Result<(), Error> {
    writeln!(
        out,
        "first   {}\nsecond  {}\n",
        comparison.first.display(),
        comparison.second.display()
    )?;
    if !comparison.unlike.is_empty() {
        writeln!(
            out,
            "INCONCLUSIVE: these runs are unlike, so nothing is compared. What differs:"
        )?;
        write!(out, "{}", table_of(&comparison.unlike).render())?;
        writeln!(
            out,
            "\nRun one of them again with the settings of the other."
        )?;
        return Ok(());
    }
    write_rows(comparison, out)?;
    if !comparison.answered_by_others.is_empty() {
        let arms = comparison.answered_by_others.join("; ");
        writeln!(
            out,
            "Answered by another engine, and compared in time only: {arms}\n"
        )?;
    }
    if !comparison.arms_of_one_run.is_empty() {
        let arms = comparison.arms_of_one_run.join("; ");
        writeln!(out, "Asked in one run only, and not compared: {arms}\n")?;
    }
    if !comparison.build.is_empty() {
        writeln!(out, "The builds differ, which is no obstacle:")?;
        writeln!(out, "{}", table_of(&comparison.build).render())?;
    }
    if let Some(times) = &comparison.times {
        write!(out, "{}", times.render())?;
    }
    Ok(())
}

fn write_rows(comparison: &Comparison<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let rows = &comparison.rows;
    if rows.is_empty() {
        writeln!(
            out,
            "INCONCLUSIVE: no arm was asked in both runs, so nothing is compared.\n"
        )?;
        return Ok(());
    }
    for words in &comparison.disagreements {
        writeln!(out, "NO IDENTITY: {words}.")?;
    }
    if comparison.rows_that_differ == 0 {
        let same = if comparison.disagreements.is_empty() {
            "Same work, same answers"
        } else {
            "Each arm as in the other run"
        };
        writeln!(
            out,
            "{same}: {} of counters, hit rates, output ids and logits, all equal.\n",
            counted(rows.len(), "row")
        )?;
        return Ok(());
    }
    writeln!(
        out,
        "NOT THE SAME: {} of {} of counters, hit rates, output ids and logits differ.",
        comparison.rows_that_differ,
        counted(rows.len(), "row")
    )?;
    let mut table = Table::new(&["arm", "field", "first", "second"]).left(2);
    for row in rows.iter().filter(|row| !row.equal) {
        table.row([&row.arm, &row.field, &row.first, &row.second].map(String::as_str));
    }
    writeln!(out, "{}", table.render())?;
    Ok(())
}

fn table_of(keys: &[Key]) -> Table {
    let mut table = Table::new(&["key", "first", "second"]).left(3);
    for Key { key, first, second } in keys {
        table.row([key.as_str(), first, second]);
    }
    table
}
