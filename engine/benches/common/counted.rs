//! Instructions of a run of this very program, counted by valgrind: the same under any load.
//!
//! Not here: what is run.

use std::process::Command;

/// Why nothing can be counted, if nothing can.
pub(crate) fn unavailable() -> Option<&'static str> {
    let found = Command::new("valgrind").arg("--version").output().is_ok();
    (!found).then_some("not counted: valgrind is not installed (apt install valgrind)")
}

/// Instructions of a whole run of this program with these arguments.
pub(crate) fn instructions(arguments: &[String]) -> Result<u64, String> {
    let this = std::env::current_exe().map_err(|error| format!("own path: {error}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(this)
        .args(arguments)
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected :"));
    collected
        .filter(|_| output.status.success())
        .and_then(|(_, count)| count.trim().parse().ok())
        .ok_or_else(|| format!("valgrind counted nothing for {arguments:?}:\n{said}"))
}

/// Instructions of one call of the work `name`: what `many` calls took longer than `few`, over their difference.
pub(crate) fn per_call(name: &str, [few, many]: [u64; 2]) -> Result<f64, String> {
    let run = |calls: u64| instructions(&[name.to_owned(), calls.to_string()]);
    let (short, long) = (run(few)?, run(many)?);
    Ok(long.saturating_sub(short) as f64 / (many - few) as f64)
}
