//! Arguments of the subcommands that judge runs: audit, gate, explain, kv, compare, replay.
//!
//! Not here: arguments of making runs (`cli`).

use std::path::PathBuf;

use clap::Args;

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub struct AuditArguments {
    /// A run directory
    #[arg(conflicts_with = "all", required_unless_present = "all")]
    pub directory: Option<PathBuf>,
    /// Every run in results/INDEX
    #[arg(long)]
    pub all: bool,
    /// Also verify who signed the run, by their public ed25519 key in PEM; one that lies with the evidence is refused
    #[arg(long, value_name = "PUBLIC.pem", conflicts_with_all = ["all", "replay"])]
    pub key: Option<PathBuf>,
    /// The attestation; DIR.intoto.json when left out
    #[arg(long, value_name = "FILE", requires = "key")]
    pub attestation: Option<PathBuf>,
    /// Run this share of the requests again and compare ids and logits
    #[arg(long, value_name = "N%", conflicts_with = "all", value_parser = percent)]
    pub replay: Option<u32>,
    /// Kernel set of the replay; another than the run's when left out
    #[arg(long, requires = "replay", value_parser = ["auto", "scalar", "avx2", "avx512"])]
    pub kernels: Option<String>,
    /// Engine threads of the replay; another number than the run's when left out
    #[arg(long, requires = "replay", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: Option<u64>,
    /// Which requests are drawn; from the clock when left out, and printed
    #[arg(long, requires = "replay", value_name = "N")]
    pub seed: Option<u64>,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `attest`.
#[derive(Debug, Args)]
pub struct AttestArguments {
    /// A sealed run
    pub directory: PathBuf,
    /// Your private ed25519 key: PKCS#8 in PEM, not encrypted
    #[arg(long, value_name = "KEY.pem")]
    pub key: PathBuf,
    /// Where the attestation goes; beside the run as DIR.intoto.json when left out
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `claims`.
#[derive(Debug, Args)]
pub struct ClaimsArguments {
    /// One claim; all when left out
    #[arg(value_name = "CLAIM")]
    pub id: Option<String>,
    /// Run the witness of every claim of today's program
    #[arg(long)]
    pub run: bool,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `scorecard`.
#[derive(Debug, Args)]
pub struct ScorecardArguments {
    /// One row, whole
    #[arg(value_name = "ROW")]
    pub dimension: Option<String>,
    /// Write nothing; fail if a page is not what the evidence says
    #[arg(long, conflicts_with_all = ["dimension", "json"])]
    pub check: bool,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `gate`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // switches of a command line
pub struct GateArguments {
    /// Envelopes; all that have a baseline when left out
    #[arg(value_name = "ENVELOPE")]
    pub envelopes: Vec<String>,
    /// A sealed run to hold against instead of the baseline
    #[arg(long, value_name = "DIR")]
    pub against: Option<PathBuf>,
    /// Judge times too, against an earlier run on an equal machine
    #[arg(long)]
    pub timing: bool,
    /// Write the new baseline and show what changed
    #[arg(long, conflicts_with = "against")]
    pub accept: bool,
    /// Engine threads; no result may depend on them
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Kernel set; no result may depend on it
    #[arg(long, value_parser = ["auto", "scalar", "avx2", "avx512"])]
    pub kernels: Option<String>,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// Also write JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Also print `::error` and `::warning` lines for a GitHub workflow
    #[arg(long, conflicts_with = "json")]
    pub annotations: bool,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// A run directory
    pub directory: PathBuf,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `kv`.
#[derive(Debug, Args)]
pub struct KvArguments {
    /// A run directory
    pub directory: PathBuf,
    /// The arm; the one furthest up the ladder when left out
    #[arg(long, value_name = "ARM")]
    pub arm: Option<String>,
    /// The repetition, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rep: usize,
    /// One JSON document instead of the drawing
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// The run before
    pub first: PathBuf,
    /// The run after
    pub second: PathBuf,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// `N%`, the sign optional.
fn percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .filter(|percent| (1..=100).contains(percent))
        .ok_or_else(|| "give 1% to 100%".to_owned())
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Write nothing; fail if any page would change
    #[arg(long)]
    pub check: bool,
    /// Write a page for each run and an index as HTML files too, each whole in itself
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    pub html: Option<PathBuf>,
    /// The plots of those pages as PNG files too
    #[arg(long, requires = "html")]
    pub png: bool,
}
