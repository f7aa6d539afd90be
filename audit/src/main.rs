//! The command line of the verifier: `audit DIR`, `audit DIR --key PUBLIC.pem`, `audit --all RESULTS`.
//!
//! Arguments are read by hand: an auditor must be able to build this in seconds. Not here: any check.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use audit::{KeyRefused, audit_attested, audit_index, audit_run};

const HELP: &str = "\
Verifies the evidence of a run: recomputes every figure from its traces.

usage: audit DIR [--json]            one run directory
       audit --all RESULTS [--json]  every run that RESULTS/INDEX names
       audit DIR --key PUBLIC.pem [--attestation FILE] [--json]
                                     and that the run was signed by the ed25519 key that you have from elsewhere;
                                     without FILE by the attestation beside it, DIR.intoto.json

A key proves nothing that came with the evidence: one in the run, beside the attestation, or below the directory that has
results/INDEX is refused.

exit codes: 0 pass, 1 identity failed, 2 usage, 4 evidence broken

examples: audit results/local/smoke/20250101-1
          audit results/local/smoke/20250101-1 --key ~/keys/of-the-lab.pem
";

struct Command {
    path: PathBuf,
    all: bool,
    json: bool,
    key: Option<PathBuf>,
    attestation: Option<PathBuf>,
}

fn main() -> ExitCode {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments
        .iter()
        .any(|argument| argument == "--help" || argument == "-h")
    {
        return written(&out.write_all(HELP.as_bytes()), 0);
    }
    let command = match parse(arguments) {
        Ok(command) => command,
        Err(problem) => {
            let hint = "try `audit --help`";
            return written(&writeln!(err, "audit: {problem}; {hint}"), 2);
        }
    };
    let (text, code) = match execute(&command) {
        Ok(done) => done,
        Err(refused) => return written(&writeln!(err, "audit: {refused}"), 2),
    };
    written(&out.write_all(text.as_bytes()), code)
}

fn parse(arguments: Vec<OsString>) -> Result<Command, String> {
    let (mut path, mut all, mut json) = (None, false, false);
    let (mut key, mut attestation) = (None, None);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--json") => json = true,
            Some("--all") => all = true,
            Some("--key") => put(&mut key, "--key", "PUBLIC.pem", arguments.next())?,
            Some("--attestation") => {
                put(&mut attestation, "--attestation", "FILE", arguments.next())?;
            }
            Some(option) if option.starts_with('-') => {
                return Err(format!("unknown option {option}"));
            }
            _ if path.is_none() => path = Some(PathBuf::from(argument)),
            _ => return Err("more than one directory was named".to_owned()),
        }
    }
    let path = path.ok_or(if all {
        "--all needs the directory that holds INDEX: audit --all RESULTS"
    } else {
        "name the directory to audit"
    })?;
    if !path.is_dir() {
        return Err(format!("no directory {}", path.display()));
    }
    if all && key.is_some() {
        return Err("--key is for one run: audit DIR --key PUBLIC.pem".to_owned());
    }
    if attestation.is_some() && key.is_none() {
        return Err("--attestation needs the key to hold it against: --key PUBLIC.pem".to_owned());
    }
    Ok(Command {
        path,
        all,
        json,
        key,
        attestation,
    })
}

/// Keeps the value of an option, which may be given once.
fn put(
    into: &mut Option<PathBuf>,
    option: &str,
    what: &str,
    value: Option<OsString>,
) -> Result<(), String> {
    let value = value.ok_or_else(|| format!("{option} needs a value: {option} {what}"))?;
    match into.replace(PathBuf::from(value)) {
        None => Ok(()),
        Some(_) => Err(format!("{option} was given twice")),
    }
}

/// What to print and the exit code; of a key that is refused, why.
fn execute(command: &Command) -> Result<(String, u8), KeyRefused> {
    let path: &Path = &command.path;
    let (json, text, code) = if command.all {
        let report = audit_index(path);
        (
            serde_json::to_string_pretty(&report),
            report.render(),
            report.exit_code(),
        )
    } else {
        let report = match &command.key {
            Some(key) => audit_attested(path, key, command.attestation.as_deref())?,
            None => audit_run(path),
        };
        (
            serde_json::to_string_pretty(&report),
            report.render(),
            report.exit_code(),
        )
    };
    Ok(match json {
        Ok(json) if command.json => (json + "\n", code),
        _ => (text, code),
    })
}

/// The exit code, unless the answer could not be written in full: then nobody should take it for one.
fn written(result: &io::Result<()>, code: u8) -> ExitCode {
    ExitCode::from(if result.is_ok() { code } else { 4 })
}
