//! What can go wrong while making the pages, and the exit code each failure has.
//!
//! Not here: a page that merely differs; that is an outcome of `report --check`, not an error.

use std::io;
use std::path::PathBuf;

use super::lint::Violation;

/// Why the pages could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file the pages are made from cannot be read.
    #[error("cannot read {path}: {source}; run `harness report` at the root of the repository", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A page cannot be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// The page.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line of results/INDEX is not what FORMAT.md says.
    #[error(
        "results/INDEX:{line}: {message}; lines are written by `harness anchor` and never edited"
    )]
    Index {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// An anchored run is no longer what was anchored.
    #[error(
        "results/{run}: {message}; restore the run from version control, results are write-once"
    )]
    Evidence {
        /// The run, relative to results/.
        run: String,
        /// What is wrong with it.
        message: String,
    },
    /// A template does not parse or asks for something that is not there.
    #[error("reports/templates: {message}")]
    Template {
        /// What the template engine said, outermost cause first.
        message: String,
    },
    /// reports/claims.toml as a whole is wrong.
    #[error("reports/claims.toml: {message}")]
    Claims {
        /// What is wrong with it.
        message: String,
    },
    /// One claim is wrong.
    #[error("reports/claims.toml:{line}: claim `{id}`: {message}")]
    Claim {
        /// Line of the claim's id.
        line: usize,
        /// The claim's id.
        id: String,
        /// What is wrong with it and what to type instead.
        message: String,
    },
    /// What is said of serving does not follow from claims and scorecard.
    #[error("reports/serving.toml: {message}")]
    Serving {
        /// What is wrong with it and what to type instead.
        message: String,
    },
    /// What is said of envelopes and their groups is wrong.
    #[error("{0}")]
    Groups(workloads::Error),
    /// Ratios of a group without a run of what the group loses.
    #[error(
        "group `{group}` ({title}): {quoted} speaks, and `{losing}`, made for us to lose, has no anchored run that \
         speaks{why}. No page quotes the one without the other: type `harness run {losing}`, then `harness anchor DIR` \
         with the directory it prints, then `harness report`"
    )]
    Unbalanced {
        /// Id of the group.
        group: String,
        /// Its heading.
        title: String,
        /// A run of it that speaks.
        quoted: String,
        /// The losing envelope.
        losing: String,
        /// What keeps its runs from speaking, if there are any.
        why: String,
    },
    /// A page with ratios of a group and without what the group loses.
    #[error(
        "{page} links {quoted} of the group `{group}` and no run of `{losing}`, made for us to lose; show the runs of \
         `classes` in reports/templates/{page}.tera that are `losing`, each with a link to its directory"
    )]
    OneSided {
        /// The page.
        page: String,
        /// Id of the group.
        group: String,
        /// A run of it that is linked.
        quoted: String,
        /// The losing envelope that is not.
        losing: String,
    },
    /// The catalogue of the scorecard, or what is bound to it, is wrong.
    #[error(transparent)]
    Scorecard(#[from] super::scorecard::Failure),
    /// Evidence that a row of the scorecard rests on contradicts itself.
    #[error(
        "row `{row}` of the scorecard: {message}; restore the run from version control, results are write-once"
    )]
    Contradicted {
        /// The row.
        row: String,
        /// What is wrong with its evidence.
        message: String,
    },
    /// A plot of a run page cannot be drawn.
    #[error(transparent)]
    Plot(#[from] super::runs::plots::Failure),
    /// Digits in prose.
    #[error(
        "{}\nNumbers come from results: write a placeholder, put code in backticks, or add a name to reports/allow.txt",
        violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    )]
    Lint {
        /// Each place, in file order.
        violations: Vec<Violation>,
    },
}

impl ReportError {
    /// The exit code of the command: 2 usage, 4 evidence broken, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Read { .. } | Self::Write { .. } => 2,
            Self::Index { .. } | Self::Evidence { .. } | Self::Contradicted { .. } => 4,
            _ => 1,
        }
    }
}
