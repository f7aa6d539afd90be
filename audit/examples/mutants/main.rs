//! Mutation test of the auditor: every check of it is left out in turn, and some forged run must then get through or go
//! unnamed. A check that nobody misses survives; exit code 1.
//!
//! ```sh
//! cargo run -p audit --example mutants [-- --json]
//! ```
//!
//! Nothing is compiled again. A finding says which check it comes from, and `Checks::muting` leaves that one out of the
//! next audit of the same forged run. Checks are listed from the source text, so that one which no forged run ever reached
//! is a survivor too; one that stands in a loop over a table counts once for each row. Not here: what serde refuses before
//! any check is made; `shapes` holds the structs to that.
#![allow(clippy::unwrap_used)] // it stands on the tests' own helpers, and a broken one may stop it

#[path = "../../tests/corpus/attested.rs"]
mod attested;
#[path = "../../tests/fixture/mod.rs"]
mod fixture;
#[path = "../../tests/corpus/judge.rs"]
mod judge;
#[path = "../../tests/corpus/replaced.rs"]
mod replaced;
#[allow(dead_code)] // what only the corpus test asks of the rows
#[path = "../../tests/corpus/rows/mod.rs"]
mod rows;
mod sites;
#[path = "../../tests/corpus/tell.rs"]
mod tell;
mod trials;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::thread;

use serde_json::{Value, json};
use sites::Mutant;
use trials::{Trial, Without};

/// Checks that no forged run can fail, by file and a text of the check, and why.
const EXCEPTED: [(&str, &str, &str); 3] = [
    (
        "src/seal.rs",
        "format!(\"cannot be read",
        "a file that is there and cannot be read, which no directory can be made to hold for every user",
    ),
    (
        "src/chain.rs",
        "format!(\"cannot be read",
        "the same, of a trace that could be read when the seal was checked",
    ),
    (
        "src/trace/prompts.rs",
        "MAX_IDS_HELD",
        "takes a trace of a quarter of a gibibyte",
    ),
];

/// What became of one mutant.
enum Fate {
    /// A forged run passes the audit, or is given away by other words than its row demands.
    Killed {
        passes: bool,
        by: &'static str,
    },
    Excepted(&'static str),
    /// Whether any forged run fails the check at all.
    Survives {
        reached: bool,
    },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let json = arguments == ["--json"];
    if !json && !arguments.is_empty() {
        let usage = "usage: cargo run -p audit --example mutants [-- --json]\n";
        let _ = io::stderr().write_all(usage.as_bytes()); // there is nobody else to tell
        return ExitCode::from(2);
    }
    let mutants = sites::mutants();
    let trials = trials::all();
    std::panic::set_hook(Box::new(|_| ())); // an auditor that breaks down without a check is part of the answer
    let fates = in_parallel(&mutants, |mutant| fate(mutant, &trials));
    let unlisted = trials.iter().flat_map(|it| &it.sites);
    let unlisted: Vec<String> = unlisted
        .filter(|site| !mutants.iter().any(|it| it.is_at(site)))
        .map(ToString::to_string)
        .collect();
    let report: Vec<(&Mutant, Fate)> = mutants.iter().zip(fates).collect();
    let survive = report
        .iter()
        .filter(|it| matches!(it.1, Fate::Survives { .. }));
    let failed = survive.count() > 0 || !unlisted.is_empty();
    let text = if json {
        let report: Vec<Value> = report.iter().map(as_json).collect();
        let all = json!({ "forged_runs": trials.len(), "mutants": report, "unlisted": unlisted });
        format!("{all:#}\n")
    } else {
        render(&report, &unlisted, trials.len())
    };
    let written = io::stdout().write_all(text.as_bytes());
    ExitCode::from(u8::from(failed || written.is_err()))
}

/// The first forged run that passes without the check, or else the first that is not named as it must be.
fn fate(mutant: &Mutant, trials: &[Trial]) -> Fate {
    let (mut reached, mut named_otherwise) = (false, None);
    for trial in trials {
        let Some(site) = trial.sites.iter().find(|site| mutant.is_at(site)) else {
            continue;
        };
        reached = true;
        match trial.without(site, mutant.row) {
            Without::GivenAway => {}
            Without::Passes => {
                return Fate::Killed {
                    passes: true,
                    by: trial.name,
                };
            }
            Without::Otherwise => {
                named_otherwise.get_or_insert(trial.name);
            }
        }
    }
    let excepted = EXCEPTED
        .iter()
        .find(|(file, text, _)| mutant.file == *file && mutant.code.contains(text));
    match (named_otherwise, excepted) {
        (Some(by), _) => Fate::Killed { passes: false, by },
        (None, Some((_, _, why))) => Fate::Excepted(why),
        (None, None) => Fate::Survives { reached },
    }
}

/// Answers in the order of the questions.
fn in_parallel<T: Sync, A: Send>(questions: &[T], answer: impl Fn(&T) -> A + Sync) -> Vec<A> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (answer, mut answers) = (&answer, Vec::new());
    thread::scope(|scope| {
        let shares = (0..threads).map(|share| {
            let mine = questions.iter().enumerate().skip(share).step_by(threads);
            scope.spawn(move || -> Vec<(usize, A)> {
                mine.map(|(place, it)| (place, answer(it))).collect()
            })
        });
        let running: Vec<_> = shares.collect();
        for share in running {
            answers.extend(share.join().unwrap());
        }
    });
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn render(report: &[(&Mutant, Fate)], unlisted: &[String], runs: usize) -> String {
    let mut text = String::new();
    let mut counts = [0_usize; 4];
    // Writing to a String cannot fail.
    for (mutant, fate) in report {
        let (place, fate, why) = match fate {
            Fate::Killed { passes: true, by } => (0, "killed", format!("passes: {by}")),
            Fate::Killed { passes: false, by } => (1, "killed", format!("unnamed: {by}")),
            Fate::Excepted(why) => (2, "excepted", (*why).to_owned()),
            Fate::Survives { reached: true } => (3, "SURVIVES", "nobody misses it".to_owned()),
            Fate::Survives { reached: false } => (3, "SURVIVES", "nothing fails it".to_owned()),
        };
        counts[place] += 1;
        let at = format!("{}:{}:{}", mutant.file, mutant.line, mutant.column);
        let _ = writeln!(text, "{fate:<9} {at:<34} {:<34} {why}", mutant.row);
    }
    for site in unlisted {
        let _ = writeln!(text, "UNLISTED  {site}: no check was found there");
    }
    let [passes, unnamed, excepted, survive] = counts;
    let _ = writeln!(
        text,
        "{} mutants, {runs} forged runs: {} killed ({passes} let a lie pass, {unnamed} leave it unnamed), {excepted} excepted, {survive} survive",
        report.len(),
        passes + unnamed,
    );
    text
}

fn as_json((mutant, fate): &(&Mutant, Fate)) -> Value {
    let (fate, why) = match fate {
        Fate::Killed { passes: true, by } => ("killed", json!({ "passes": by })),
        Fate::Killed { passes: false, by } => ("killed", json!({ "unnamed": by })),
        Fate::Excepted(why) => ("excepted", json!(why)),
        Fate::Survives { reached } => ("survives", json!({ "reached": reached })),
    };
    json!({
        "file": mutant.file, "line": mutant.line, "column": mutant.column, "row": mutant.row,
        "fate": fate, "why": why,
    })
}
