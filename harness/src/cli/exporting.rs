//! Arguments of the subcommands that hand results to others: query, export.
//!
//! Not here: arguments of making runs (`cli`) or judging them (`judging`).

use std::path::PathBuf;

use clap::Args;

/// Arguments of `query`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // switches of a command line
pub struct QueryArguments {
    /// The question; tables and columns are listed when left out
    pub sql: Option<String>,
    /// Ask of this run alone, anchored or not, audited first
    #[arg(long, value_name = "DIR", requires = "sql")]
    pub run: Option<PathBuf>,
    /// List tables and columns, and what they mean
    #[arg(long, visible_alias = "table-schema", conflicts_with_all = ["sql", "run", "csv"])]
    pub tables: bool,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// Comma-separated values instead of text
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// A run directory, or an envelope: its newest run that pages quote
    #[arg(value_name = "DIR|ENVELOPE", required_unless_present = "all")]
    pub run: Option<String>,
    /// Whose layout the files have
    #[arg(long, value_name = "FORMAT",
          value_parser = ["vllm-bench", "llama-bench", "aiperf", "csv", "parquet"])]
    pub format: String,
    /// Only this arm; may be repeated
    #[arg(long = "arm", value_name = "ARM")]
    pub arms: Vec<String>,
    /// Which table, of csv and parquet; samples when left out
    #[arg(long, value_name = "TABLE", value_parser = ["runs", "samples", "requests", "ratios"])]
    pub table: Option<String>,
    /// Every anchored run, of csv and parquet
    #[arg(long, conflicts_with = "run")]
    pub all: bool,
    /// A file, for vllm-bench and aiperf a directory; must not exist. - is standard output, for llama-bench and csv
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
}
