//! Arguments of `baseline`, and how a program of others is given.
//!
//! Not here: looking for it (`programs`).

use std::net::SocketAddr;
use std::path::PathBuf;

use baselines::server::Endpoint;
use clap::{Args, Subcommand};

use super::Json;

/// Programs of others that an arm may be.
const KNOWN_PROGRAMS: [&str; 3] = ["llama-server", "llama-bench", "llama-batched-bench"];

/// What to do with other engines.
#[derive(Debug, Subcommand)]
pub enum BaselineAction {
    /// Every other engine known, and whether it is here
    #[command(after_help = "Examples:\n  harness baseline list\n  harness baseline list --json")]
    List(Json),
    /// One other engine: where it is, its version, which switches matter, what is missing
    #[command(after_help = "Examples:
  harness baseline doctor llama-server
  harness baseline doctor llama-server --bin llama-server=PATH

Exit codes: 0 it can be used, 2 nobody knows it, 5 it is missing or not run here")]
    Doctor(DoctorArguments),
}

/// Arguments of `baseline doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// A name out of `harness baseline list`
    pub name: String,
    /// Look at this program instead of what is found
    #[arg(long = "bin", value_name = "PROGRAM=PATH", value_parser = program)]
    pub program: Option<(String, PathBuf)>,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// `NAME=PATH` of a known program.
pub(super) fn program(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if KNOWN_PROGRAMS.contains(&name) && !path.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(path)))
        }
        _ => Err(format!("give {}=PATH", KNOWN_PROGRAMS.join("=PATH or "))),
    }
}

/// `llama-server=URL` of a server that runs already.
pub(super) fn attached(text: &str) -> Result<SocketAddr, String> {
    let url = text
        .strip_prefix(KNOWN_PROGRAMS[0])
        .and_then(|it| it.strip_prefix('='));
    let url = url.ok_or_else(|| format!("give {}=http://127.0.0.1:PORT", KNOWN_PROGRAMS[0]))?;
    let endpoint = Endpoint::parse(url).map_err(|error| error.to_string())?;
    Ok(endpoint.address())
}
