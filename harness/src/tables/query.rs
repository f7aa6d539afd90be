//! `harness query`: SQL over the tables.
//!
//! Not here: which columns the tables have (`columns`). SQL is polars's: nothing it says changes a file.

use std::fmt::Write as _;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};

use polars::prelude::DataFrame;
use polars::sql::SQLContext;
use serde_json::{Value, json};

use super::frame::{Cells, csv};
use super::{Source, TableName, columns, table};
use crate::cli::QueryArguments;
use crate::error::Error;
use crate::sealed::SealedRun;
use crate::table::{COLUMNS, Table, folded};
use crate::world::World;

/// Answers a query, or says what can be asked. Returns the exit code.
pub fn query(arguments: &QueryArguments, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let Some(sql) = &arguments.sql else {
        return tables(arguments, world, out);
    };
    check(sql)?;
    let sources = match &arguments.run {
        Some(directory) => vec![Source::of(&SealedRun::open(directory, world)?, world)?],
        None => Source::anchored(world)?,
    };
    let mut answer = ask(sql, &sources, world)?;
    if arguments.csv {
        out.write_all(&csv(&mut answer)?)?;
        return Ok(0);
    }
    let cells = Cells::of(&answer)?;
    if arguments.json {
        writeln!(out, "{:#}", cells.json())?;
    } else {
        write!(out, "{}", cells.text())?;
    }
    Ok(0)
}

/// Refuses what is no question about results: statements that change tables, and files that are read beside them.
fn check(sql: &str) -> Result<(), Error> {
    const FILES: [&str; 4] = ["read_csv", "read_parquet", "read_ipc", "read_json"];
    let lower = sql.to_lowercase();
    let question = lower.trim_start_matches(['(', ' ', '\t', '\r', '\n']);
    if !(question.starts_with("select") || question.starts_with("with")) {
        return Err(refusal("a query begins with SELECT or WITH"));
    }
    match FILES.into_iter().find(|it| lower.contains(it)) {
        Some(function) => Err(refusal(&format!(
            "{function} reads other files, and a query is of results alone"
        ))),
        None => Ok(()),
    }
}

/// Asks the small tables, and all if the query speaks of requests: those take every trace to be read.
fn ask(sql: &str, sources: &[Source], world: &World) -> Result<DataFrame, Error> {
    let small = [TableName::Runs, TableName::Samples, TableName::Ratios];
    match answer(sql, sources, &small, world)? {
        Err(message) if lacks(&message, TableName::Requests) => {
            answer(sql, sources, &TableName::ALL, world)?
        }
        answered => answered,
    }
    .map_err(|message| refusal(&message))
}

/// Whether a query failed for want of that table.
fn lacks(message: &str, name: TableName) -> bool {
    message.contains(&format!("relation '{}' was not found", name.word()))
}

/// The answer of these tables, or what polars has against the query.
fn answer(
    sql: &str,
    sources: &[Source],
    names: &[TableName],
    world: &World,
) -> Result<Result<DataFrame, String>, Error> {
    let mut context = SQLContext::new();
    for &name in names {
        context.register(name.word(), table(name, sources, world)?.lazy()?);
    }
    let asked = || context.execute(sql)?.collect();
    // Some SQL that polars does not know ends in a panic there; here it is a query that cannot be answered.
    let answered = panic::catch_unwind(AssertUnwindSafe(asked));
    Ok(match answered {
        Ok(answered) => answered.map_err(|error| error.to_string()),
        Err(_) => Err("this SQL is more than polars can do".to_owned()),
    })
}

/// What is wrong with a query, and what can be asked.
fn refusal(message: &str) -> Error {
    let mut text = format!("the query cannot be answered: {message}\n\ntables and columns");
    for name in TableName::ALL {
        let columns = columns::of(name);
        let names: Vec<&str> = columns.iter().map(|it| it.name).collect();
        let _ = write!(text, "\n  {}\n    ", name.word()); // writing to a String cannot fail
        text.push_str(&folded(&names.join(", "), COLUMNS - 4).join("\n    "));
    }
    text.push_str("\n`harness query --tables` says what they mean");
    Error::Usage(text)
}

/// Lists tables and columns.
fn tables(arguments: &QueryArguments, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    if arguments.csv {
        return Err(Error::Usage(
            "--csv is for the answer of a query; the list of tables is text or --json".to_owned(),
        ));
    }
    if arguments.json {
        let tables: Vec<Value> = TableName::ALL.into_iter().map(described).collect();
        writeln!(out, "{:#}", json!({ "tables": tables }))?;
        return Ok(0);
    }
    for name in TableName::ALL {
        writeln!(out, "{}: {}\n", name.word(), name.meaning())?;
        let mut table = Table::new(&["column", "kind", "meaning"])
            .left(2)
            .words_last();
        for column in columns::of(name) {
            table.row([column.name, column.kind.word(), column.meaning]);
        }
        writeln!(out, "{}", table.render())?;
    }
    writeln!(
        out,
        "Any value may be null: not measured, not said, or not of this kind of run. Ask, for instance\n  \
         {} query \"SELECT arm, turns, MEDIAN(wall_ns) AS wall_ns FROM samples WHERE envelope = 'session-50x5' AND \
         speaks GROUP BY arm, turns\"",
        world.command
    )?;
    Ok(0)
}

fn described(name: TableName) -> Value {
    let columns = columns::of(name);
    let columns = columns
        .iter()
        .map(|it| json!({ "name": it.name, "kind": it.kind.word(), "meaning": it.meaning }));
    json!({ "name": name.word(), "meaning": name.meaning(), "columns": columns.collect::<Vec<_>>() })
}
