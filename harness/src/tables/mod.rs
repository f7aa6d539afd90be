//! Results as tables: runs, samples, requests and ratios of sealed runs, for SQL and for other programs to read.
//!
//! The only module that knows polars. A value that was not measured is null. Not here: the figures themselves, which are
//! those of run records and traces (`workloads::summary`, `requests`), or doubt about evidence (`audit`, `report::evidence`).

mod columns;
mod frame;
pub mod query;
mod rows;
mod source;

pub use columns::{Column, Kind};
pub use frame::Frame;
pub use source::Source;

use crate::error::Error;
use crate::world::World;

/// One of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableName {
    /// One row for each run.
    Runs,
    /// One row for each repetition of each arm, of each cell in engine work.
    Samples,
    /// One row for each request of each trace.
    Requests,
    /// One row for each ratio of two arms.
    Ratios,
}

impl TableName {
    /// All, small ones first.
    pub const ALL: [Self; 4] = [Self::Runs, Self::Samples, Self::Ratios, Self::Requests];

    /// As SQL and the command line call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Samples => "samples",
            Self::Requests => "requests",
            Self::Ratios => "ratios",
        }
    }

    /// What a row of it is, in one line.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Runs => {
                "one row for each anchored run: what was asked, of which model, where and with which build"
            }
            Self::Samples => "one row for each repetition of each arm, of each cell in engine work",
            Self::Requests => {
                "one row for each request; out of the traces of all runs, which takes some seconds"
            }
            Self::Ratios => "one row for each ratio of two arms, with its interval and verdict",
        }
    }

    /// The table of that name.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.word() == word)
    }
}

/// Makes a table of `sources`; `requests` reads every trace of theirs and says so first.
pub fn table(name: TableName, sources: &[Source], world: &World) -> Result<Frame, Error> {
    let mut frame = Frame::new(columns::of(name));
    if name == TableName::Requests {
        world.say(&format!(
            "reading the traces of {} for the table `requests`",
            crate::table::counted(sources.len(), "run")
        ));
    }
    for source in sources {
        let rows = match name {
            TableName::Runs => vec![rows::run(source)],
            TableName::Samples => rows::samples(source),
            TableName::Ratios => rows::ratios(source),
            TableName::Requests => {
                rows::requests(source, &mut |row| frame.push(&row))?;
                continue;
            }
        };
        for row in rows {
            frame.push(&row)?;
        }
    }
    Ok(frame)
}
