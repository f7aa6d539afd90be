//! The command line of the verifier: `audit DIR`, `audit --all RESULTS`.
//!
//! Arguments are read by hand: an auditor must be able to build this in seconds. Not here: any check.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use audit::{audit_index, audit_run};

const HELP: &str = "\
Verifies the evidence of a run: recomputes every figure from its traces.

usage: audit DIR [--json]            one run directory
       audit --all RESULTS [--json]  every run that RESULTS/INDEX names

exit codes: 0 pass, 1 identity failed, 2 usage, 4 evidence broken

example: audit results/local/smoke/20250101-1
";

struct Command {
    path: PathBuf,
    all: bool,
    json: bool,
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
    let (text, code) = execute(&command);
    written(&out.write_all(text.as_bytes()), code)
}

fn parse(arguments: Vec<std::ffi::OsString>) -> Result<Command, String> {
    let (mut path, mut all, mut json) = (None, false, false);
    for argument in arguments {
        match argument.to_str() {
            Some("--json") => json = true,
            Some("--all") => all = true,
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
    Ok(Command { path, all, json })
}

fn execute(command: &Command) -> (String, u8) {
    let path: &Path = &command.path;
    let (json, text, code) = if command.all {
        let report = audit_index(path);
        (
            serde_json::to_string_pretty(&report),
            report.render(),
            report.exit_code(),
        )
    } else {
        let report = audit_run(path);
        (
            serde_json::to_string_pretty(&report),
            report.render(),
            report.exit_code(),
        )
    };
    match json {
        Ok(json) if command.json => (json + "\n", code),
        _ => (text, code),
    }
}

/// The exit code, unless the answer could not be written in full: then nobody should take it for one.
fn written(result: &io::Result<()>, code: u8) -> ExitCode {
    ExitCode::from(if result.is_ok() { code } else { 4 })
}
