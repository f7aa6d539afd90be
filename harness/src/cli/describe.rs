//! Arguments of `describe`.
//!
//! Not here: what is counted (`workloads::accounting`).

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What `describe` describes.
#[derive(Debug, Subcommand)]
pub enum Subject {
    /// Agents that share a prefix and take turns
    #[command(after_help = "Example:
  harness describe session --turns 50 --agents 5 --prefix 2048 --decode 32 --result 64 --workers 2")]
    Session(SessionArguments),
    /// Tasks of SWE-bench: a JSON object from task to label of difficulty
    #[command(after_help = "Examples:
  harness describe swebench smoke.json
  harness describe swebench twenty.json --turns '<15 min fix=12' --turns '15 min - 1 hour=22' --turns '1-4 hours=38'
  harness describe swebench smoke.json --workers 1,2,4,8 --share-base --md smoke.md

Exit codes: 0 counted, 2 the file says what cannot be taken")]
    Swebench(TaskArguments),
    /// Tasks of web agents: a JSON object a line
    #[command(after_help = "Examples:
  harness describe webbench tasks.jsonl --workers 1,4,8
  harness describe webbench tasks.jsonl --json

Exit codes: 0 counted, 2 the file says what cannot be taken")]
    Webbench(TaskArguments),
    /// Every kind of work under one account, side by side
    #[command(after_help = "Examples:
  harness describe compare
  harness describe compare --swebench smoke.json --webbench tasks.jsonl --md work.md")]
    Compare(CompareWorkArguments),
    /// One goal handed to many agents: four quantities, never mixed
    #[command(after_help = "Examples:
  harness describe fanout
  harness describe fanout --agents 1,64,1024 --profile write-goal --md fanout.md")]
    Fanout(FanoutArguments),
}

/// How a description is shown.
#[derive(Clone, Debug, Args)]
pub struct Shown {
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// Write it as Markdown to this file too
    #[arg(long, value_name = "FILE")]
    pub md: Option<PathBuf>,
}

/// A set of tasks.
#[derive(Debug, Args)]
pub struct TaskArguments {
    /// The data set
    #[arg(value_name = "DATASET")]
    pub dataset: PathBuf,
    /// Workers that each do all tasks
    #[arg(long, value_name = "W,W,...", value_delimiter = ',', default_values_t = [1],
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub workers: Vec<u64>,
    /// How many turns a label stands for; may be repeated
    #[arg(long, value_name = "LABEL=N", value_parser = turns)]
    pub turns: Vec<(String, u64)>,
    /// Count what is saved if tasks share the beginning of their prompts too
    #[arg(long)]
    pub share_base: bool,
    /// How it is shown.
    #[command(flatten)]
    pub shown: Shown,
}

/// What is compared besides what is built in.
#[derive(Debug, Args)]
pub struct CompareWorkArguments {
    /// Tasks of SWE-bench too; may be repeated
    #[arg(long, value_name = "DATASET")]
    pub swebench: Vec<PathBuf>,
    /// Tasks of web agents too; may be repeated
    #[arg(long, value_name = "DATASET")]
    pub webbench: Vec<PathBuf>,
    /// How many turns a label stands for; may be repeated
    #[arg(long, value_name = "LABEL=N", value_parser = turns)]
    pub turns: Vec<(String, u64)>,
    /// How it is shown.
    #[command(flatten)]
    pub shown: Shown,
}

/// A fan-out.
#[derive(Debug, Args)]
pub struct FanoutArguments {
    /// N: agents
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_values_t = [1, 4, 16, 64, 256, 1024],
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub agents: Vec<u64>,
    /// T: turns of each agent
    #[arg(long, value_name = "T", default_value_t = 4,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub turns: u64,
    /// P: tokens every agent starts from
    #[arg(long, value_name = "P", default_value_t = 2048,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub prefix: u64,
    /// What agents have in common
    #[arg(long, default_value = "research-goal", value_parser = ["research-goal", "write-goal", "no-share"])]
    pub profile: String,
    /// Trials of made-up calls
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub trials: u64,
    /// Seed of the made-up calls
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How it is shown.
    #[command(flatten)]
    pub shown: Shown,
}

/// The shape of a session.
#[derive(Clone, Debug, Args)]
pub struct SessionArguments {
    /// T: turns of each agent
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    pub turns: u64,
    /// C: agents
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u64).range(1..))]
    pub agents: u64,
    /// W: processes that serve agents
    #[arg(long, value_name = "W", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub workers: u64,
    /// P: tokens every agent starts from
    #[arg(long, value_name = "P")]
    pub prefix: u64,
    /// D: tokens decoded per turn
    #[arg(long, value_name = "D")]
    pub decode: u64,
    /// R: tokens appended before every turn but the first
    #[arg(long, value_name = "R")]
    pub result: u64,
    /// How it is shown.
    #[command(flatten)]
    pub shown: Shown,
}

/// `LABEL=N`.
fn turns(text: &str) -> Result<(String, u64), String> {
    // A label may hold the sign itself.
    let parted = text.rsplit_once('=').filter(|(label, _)| !label.is_empty());
    let parsed = parted.and_then(|(label, turns)| Some((label.to_owned(), turns.parse().ok()?)));
    parsed.ok_or_else(|| "give LABEL=N, as in --turns 'hard=25'".to_owned())
}
