//! The command line: every subcommand, its arguments and the examples its help shows.
//!
//! Not here: what a subcommand does. Only subcommands that work are listed.

mod baseline;
mod describe;
#[cfg(feature = "report")]
mod exporting;
mod judging;
mod model;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use clap::{Args, Parser, Subcommand};

pub use baseline::{BaselineAction, DoctorArguments};
use baseline::{attached, program};
pub use describe::{
    CompareWorkArguments, FanoutArguments, SessionArguments, Shown, Subject, TaskArguments,
};
#[cfg(feature = "report")]
pub use exporting::{ExportArguments, QueryArguments};
pub use judging::{
    AttestArguments, AuditArguments, ClaimsArguments, CompareArguments, ExplainArguments,
    GateArguments, KvArguments, ReportArguments, ScorecardArguments,
};
pub use model::{
    AgreeArguments, EngineArguments, GenerateArguments, LogitsArguments, ModelAction,
    SamplingArguments,
};

const EXAMPLES: &str = "\
Start here (no download, seconds):
  harness run smoke

On a real model:
  harness model pull smollm2-135m && harness model quantize smollm2-135m --to q8_0
  harness run session-small
  harness run engine-decode --bin llama-bench=PATH

Count tokens without running anything:
  harness describe session --turns 50 --agents 5 --prefix 2048 --decode 32 --result 64

Exit codes: 0 pass, 1 identity or check failed, 2 usage, 3 inconclusive, 4 evidence broken, 5 nothing measured";

/// Declared envelopes, run on the native engine, as evidence that anyone can check.
#[derive(Debug, Parser)]
#[command(name = "harness", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Envelopes: what each asks, which model, roughly how long here
    #[command(after_help = "Examples:
  harness list                every envelope, by group
  harness list zero-shared    where it comes from, what it asks, what it does not show, how to run it
  harness list sharing        one group
  harness list --json")]
    List(ListArguments),
    /// A commented envelope to start from, as NAME.toml
    #[command(after_help = "Example:\n  harness new mine && harness run mine.toml --reps 3")]
    New {
        /// Lower-case letters, digits and dashes
        name: String,
    },
    /// Run an envelope, every arm in its own process, and seal the evidence
    #[command(after_help = "Examples:
  harness run smoke
  harness run session-ladder        counted, not run: token accounts as evidence
  harness run session-small --arm instance-shared --arm fused --reps 7
  harness run session-small --arm fused --arm llama-server:shared
  harness run mine.toml --threads 2 --json > outcome.json
  harness run engine-prefill --bin llama-bench=PATH
  harness run engine-prefill --arm fak --arm fak-unshared --reps 3
  harness run session-50x5 --resume results/local/session-50x5/20260102-1")]
    Run(RunArguments),
    /// Verify evidence: recount every figure from the traces
    #[command(
        override_usage = "harness audit <DIR> [--replay N%] [--json]\n       harness audit <DIR> --key PUBLIC.pem [--attestation FILE] \
                          [--json]\n       harness audit --all [--json]",
        after_help = "Examples:
  harness audit results/local/smoke/20260102-1
  harness audit --all         every run in results/INDEX
  harness audit results/local/smoke/20260102-1 --replay 10%
  harness audit results/local/smoke/20260102-1 --key ~/keys/of-the-lab.pem    who vouches for it"
    )]
    Audit(AuditArguments),
    /// Sign a sealed run: an in-toto statement over its files, beside it
    #[command(after_help = "Example:
  openssl genpkey -algorithm ed25519 -out ~/keys/mine.pem
  harness attest results/local/smoke/20260102-1 --key ~/keys/mine.pem

Exit codes: 0 signed, 2 usage or a key that cannot sign, 4 the run's evidence is broken")]
    Attest(AttestArguments),
    /// Audit a sealed run and publish it under results/
    #[command(after_help = "Example:\n  harness anchor results/local/smoke/20260102-1")]
    Anchor {
        /// A sealed run
        directory: PathBuf,
    },
    /// Run envelopes and fail if a counter, a hit rate, an id or a logit is not the baseline's
    #[command(after_help = "Examples:
  harness gate                        every envelope with a baseline in results/gate
  harness gate smoke --annotations --junit gate.xml
  harness gate mine.toml --accept     write the new baseline, show what changed
  harness gate smoke --against results/smoke/2026-01-02-x86_64-avx2-2c-1 --timing

Exit codes: 0 as before, 1 something differs, or with --timing an arm is slower, 2 another question,
3 no verdict on the times, 4 the gate missed its own negative control, 5 an arm could not run")]
    Gate(GateArguments),
    /// Plain words for a run: where tokens and time went, why a request missed
    #[command(after_help = "Example:\n  harness explain results/local/smoke/20260102-1")]
    Explain(ExplainArguments),
    /// The tree a run's cache was left with: pages, owners, hits, what is quarantined
    #[command(after_help = "Examples:
  harness kv results/local/quarantine-mid-run/20260102-1
  harness kv results/local/quarantine-mid-run/20260102-1 --arm agent-kv --rep 2 --json

An envelope with `kv = true` under [evidence] has its arms say what their caches hold.

Exit codes: 0 drawn, 2 the run does not say, 4 its evidence is broken")]
    Kv(KvArguments),
    /// Two runs of one question: counters and answers exactly, times where they compare
    #[command(after_help = "Example:
  harness compare results/local/smoke/20260102-1 results/local/smoke/20260102-2

Exit codes: 0 same work and every time judged, 1 counters or answers differ, 3 unlike runs or no verdict,
5 an arm of a run failed")]
    Compare(CompareArguments),
    /// Regenerate README.md, CLAIMS.md, BENCHMARK-AUTHORITY.md, the page on serving, the scorecard's pages and those of runs
    #[cfg(feature = "report")]
    #[command(after_help = "Examples:
  harness report
  harness report --check
  harness report --html target/pages --png

Exit codes: 0 done, 1 a page differs or is not to be there, 2 a file cannot be read or written, 4 evidence is broken")]
    Report(ReportArguments),
    /// Whether each claim still stands: evidence tracked, none older than the source it speaks of, witnesses seen again
    #[cfg(feature = "report")]
    #[command(after_help = "Examples:
  harness claims
  harness claims --run                run every witness; minutes
  harness claims same-bits --run

Exit codes: 0 every claim stands, 1 one does not, 2 claims.toml is wrong, 4 evidence is broken")]
    Claims(ClaimsArguments),
    /// Where this project stands on what the field is judged by: verdicts, computed from committed evidence
    #[cfg(feature = "report")]
    #[command(after_help = "Examples:
  harness scorecard
  harness scorecard single-stream-decode-cpu
  harness scorecard --check

Exit codes: 0 computed, 1 a page is not what the evidence says, 3 evidence is too old to say it, 4 evidence is broken")]
    Scorecard(ScorecardArguments),
    /// SQL over all results: runs, samples, ratios, requests
    #[cfg(feature = "report")]
    #[command(after_help = "Examples:
  harness query                       tables and columns, each with what it means
  harness query \"SELECT arm, turns, MEDIAN(wall_ns) AS wall_ns FROM samples WHERE envelope = 'session-50x5' AND speaks GROUP BY arm, turns ORDER BY wall_ns\"
  harness query \"SELECT arm, denominator, wall, low, high, verdict FROM ratios WHERE envelope = 'zero-shared' AND speaks\" --json

Exit codes: 0 answered, 2 the query is wrong, 4 evidence is broken")]
    Query(QueryArguments),
    /// Files that other tools read: vLLM's, AIPerf's and llama.cpp's layouts, CSV, Parquet
    #[cfg(feature = "report")]
    #[command(after_help = "Examples:
  harness export session-small --format vllm-bench --arm fused --out fused        a file for each repetition
  harness export engine-decode --format llama-bench --out -
  harness export --all --format parquet --out samples.parquet
  harness export results/local/smoke/20260102-1 --format csv --table ratios --out -

Exit codes: 0 written, 2 usage, 4 evidence is broken, 5 no repetition completed")]
    Export(ExportArguments),
    /// Token accounting by closed form, without a model
    Describe {
        /// What is described.
        #[command(subcommand)]
        subject: Subject,
    },
    /// Ask the same on many paths and compare the bits of the answers
    #[command(after_help = "Examples:
  harness invariance
  harness invariance --model smollm2-135m --mode exact

Exit codes: 0 every path gave the same bits, 1 one did not")]
    Invariance(InvarianceArguments),
    /// Facts of this machine and what it can do at best, measured
    #[command(after_help = "Examples, each a few seconds of measuring:
  harness machine
  harness machine --json")]
    Machine(Json),
    /// What the harness is tested for on itself
    Selftest {
        /// What is tested.
        #[command(subcommand)]
        subject: Tested,
    },
    /// Get, check and use models
    Model {
        /// What to do with models.
        #[command(subcommand)]
        action: ModelAction,
    },
    /// Other engines: what is here, how it is used, what is missing and what to type
    Baseline {
        /// What to do with other engines.
        #[command(subcommand)]
        action: BaselineAction,
    },
    /// One repetition of one arm: job on stdin, trace on stdout
    #[command(hide = true)]
    Arm,
}

/// What `selftest` tests.
#[derive(Debug, Subcommand)]
pub enum Tested {
    /// How often the statistical rule errs, on made-up runs whose truth is known
    #[command(
        after_help = "Exit codes: 0 every promise holds, 1 one is broken, 3 so few runs cannot tell"
    )]
    Statistics {
        /// Runs of each kind
        #[arg(long, value_name = "N", default_value_t = 4000,
              value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000_000))]
        trials: usize,
        /// One JSON document instead of the table
        #[arg(long)]
        json: bool,
    },
}

/// `--json` and nothing else.
#[derive(Clone, Copy, Debug, Args)]
pub struct Json {
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// One envelope, or one group of them; all when left out
    #[arg(value_name = "ENVELOPE|GROUP")]
    pub name: Option<String>,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// An embedded envelope (see `harness list`) or a TOML file
    #[arg(value_name = "ENVELOPE|FILE.toml")]
    pub envelope: String,
    /// Only this arm; may be repeated
    #[arg(long = "arm", value_name = "ARM",
          value_parser = PossibleValuesParser::new(arm_names()))]
    pub arms: Vec<String>,
    /// Repetitions of every arm; a verdict needs 5
    #[arg(long, value_name = "N")]
    pub reps: Option<usize>,
    /// A name out of `harness model list`, a GGUF file or a Hugging Face directory
    #[arg(long, value_name = "REF")]
    pub model: Option<String>,
    /// Engine threads; every core when left out
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Kernel set: the answer is the same, the time is not
    #[arg(long, value_parser = ["auto", "scalar", "avx2", "avx512"])]
    pub kernels: Option<String>,
    /// Numeric mode
    #[arg(long, value_parser = ["exact", "fast"])]
    pub mode: Option<String>,
    /// Another program to measure: llama-server, llama-bench or llama-batched-bench; may be repeated
    ///
    /// Left out, llama-server is what FAK_LLAMA_SERVER names, or on the search path, or in the Python package xllamacpp.
    /// FAK_LLAMA_BENCH names llama-bench too, and the other is looked for beside it.
    #[arg(long = "bin", value_name = "PROGRAM=PATH", value_parser = program)]
    pub programs: Vec<(String, PathBuf)>,
    /// Ask a llama-server that runs already: llama-server=http://127.0.0.1:PORT
    ///
    /// It must have the run's model (-m and a whole path), a slot for each agent (-np), --slot-save-path. Its slots are
    /// emptied before each repetition, and shared arms leave prefix.bin where it saves them. Times are compared with nobody's.
    #[arg(long, value_name = "PROGRAM=URL", value_parser = attached, conflicts_with = "programs")]
    pub attach: Option<SocketAddr>,
    /// The data set that an envelope of kind counts names by its digest
    #[arg(long, value_name = "FILE")]
    pub dataset: Option<PathBuf>,
    /// Where the evidence goes; must not exist or be empty
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with a run that was interrupted, at its next whole round; everything else as it was begun
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub resume: Option<PathBuf>,
    /// Get a missing model first
    #[arg(long)]
    pub pull: bool,
    /// Wait up to so long for the machine to be quiet before the first arm
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub wait_quiet: u64,
    /// One JSON document instead of the closing table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `invariance`.
#[derive(Debug, Args)]
pub struct InvarianceArguments {
    /// A name, a GGUF file or a Hugging Face directory
    #[arg(long, value_name = "REF", default_value = "synthetic-tiny")]
    pub model: String,
    /// The full product on a real model too, not only every pair
    #[arg(long, conflicts_with = "pairs")]
    pub full: bool,
    /// Only every pair on a synthetic model too
    #[arg(long)]
    pub pairs: bool,
    /// Only this numeric mode, not both
    #[arg(long, value_parser = ["exact", "fast"])]
    pub mode: Option<String>,
    /// Type of cached keys and values; left out, f32 in exact and f16 in fast
    #[arg(long, value_name = "TYPE", value_parser = ["f32", "f16", "q8_0"])]
    pub kv: Option<String>,
    /// One JSON document instead of the tables
    #[arg(long)]
    pub json: bool,
}

/// Arms of every kind of envelope.
fn arm_names() -> Vec<&'static str> {
    let (sessions, cells) = (workloads::arm::every_name(), workloads::cells::arm::names());
    sessions.into_iter().chain(cells).collect()
}
