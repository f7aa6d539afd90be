//! `harness claims`: whether each claim still stands on something: its figures bound, its evidence tracked and no older than the
//! source it speaks of, and with `--run` its witness seen again.
//!
//! Not here: reading and binding claims (`claims`), or the page (`page`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use super::claims::{self, Claim};
use super::evidence;
use crate::cli::ClaimsArguments;
use crate::error::Error;
use crate::near::suggestion;
use crate::table::Table;
use crate::world::World;

/// The tag of what is in the program today: only such a claim can fail.
const SHIPPED: &str = "SHIPPED";
/// Lines of a witness that failed that are shown.
const TAIL_LINES: usize = 12;

/// What was found of one claim.
#[derive(Debug, Serialize)]
struct Standing<'a> {
    id: &'a str,
    tag: &'a str,
    provenance: &'a str,
    sentence: &'a str,
    witness: &'a str,
    /// Whether its witness was run now and passed.
    seen: bool,
    /// What keeps it from standing.
    problems: Vec<String>,
}

/// Checks claims, runs their witnesses where asked, and shows both.
pub fn claims(
    arguments: &ClaimsArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let root = &world.working_directory;
    let runs = evidence::load(root)?;
    let all = claims::load(root, &runs)?;
    let asked = |claim: &&Claim| arguments.id.as_ref().is_none_or(|id| claim.id == *id);
    let chosen: Vec<&Claim> = all.iter().filter(asked).collect();
    if let (Some(id), true) = (&arguments.id, chosen.is_empty()) {
        let known: Vec<&str> = all.iter().map(|claim| claim.id.as_str()).collect();
        let hint = suggestion(id, known);
        return Err(Error::Usage(format!("no claim `{id}`; {hint}")));
    }
    let mut standings = Vec::new();
    // Several claims may have one witness: it is run once.
    let mut ended: BTreeMap<&str, Result<(), String>> = BTreeMap::new();
    for claim in chosen {
        let mut problems = problems(claim, root);
        let mut seen = false;
        if arguments.run && claim.tag == SHIPPED {
            let result = ended.entry(&claim.witness).or_insert_with(|| {
                world.say(&format!("{}: {}", claim.id, claim.witness));
                see(root, &world.scratch, &claim.witness)
            });
            seen = result.is_ok();
            problems.extend(result.clone().err());
        }
        standings.push(Standing {
            id: &claim.id,
            tag: &claim.tag,
            provenance: &claim.provenance,
            sentence: &claim.sentence,
            witness: &claim.witness,
            seen,
            problems,
        });
    }
    let failed: Vec<&str> = standings
        .iter()
        .filter(|it| !it.problems.is_empty())
        .map(|it| it.id)
        .collect();
    if arguments.json {
        let document = serde_json::json!({ "claims": standings, "failed": failed });
        writeln!(out, "{document:#}")?;
    } else {
        write!(out, "{}", words(&standings, arguments.run))?;
    }
    Ok(u8::from(!failed.is_empty()))
}

/// What keeps a claim from standing, without running anything.
fn problems(claim: &Claim, root: &Path) -> Vec<String> {
    if claim.tag != SHIPPED {
        return Vec::new();
    }
    let mut found = Vec::new();
    for envelope in &claim.waiting {
        found.push(format!("no anchored run speaks for `{envelope}`"));
    }
    let witness = claim.witness.split_once('#').map(|(file, _)| file);
    let records = claim.runs.iter();
    let records = records.map(|run| format!("{}/SHA256SUMS", run.directory));
    for file in records.chain(witness.map(str::to_owned)) {
        if git(root, &["ls-files", "--error-unmatch", &file]) == Some(false) {
            found.push(format!("{file} is not tracked; `git add` it"));
        }
    }
    let in_repository = git(root, &["rev-parse", "--git-dir"]) == Some(true);
    for run in &claim.runs {
        let mut arguments = vec!["diff", "--quiet", &run.commit, "--"];
        arguments.extend(claim.sources.iter().map(String::as_str));
        let same = git(root, &arguments);
        if in_repository && same.is_none() {
            found.push(format!(
                "git does not have commit {} of {}; fetch the whole history",
                run.commit, run.directory
            ));
        }
        if same == Some(false) {
            found.push(format!(
                "{} is older than the source it speaks of ({}); run `{}` again and anchor it",
                run.directory,
                claim.sources.join(", "),
                run.envelope
            ));
        }
    }
    found
}

/// Whether git says yes or no; none where it cannot say.
fn git(root: &Path, arguments: &[&str]) -> Option<bool> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(arguments);
    match command.output().ok()?.status.code() {
        Some(0) => Some(true),
        Some(1) => Some(false),
        _ => None,
    }
}

/// Runs a witness; why it did not pass.
fn see(root: &Path, scratch: &Path, witness: &str) -> Result<(), String> {
    let test = witness.split_once('#');
    let words: Vec<String> = match test {
        Some((file, name)) => {
            cargo_test(file, name).ok_or_else(|| format!("no cargo test is known for {file}"))?
        }
        None => witness.split_whitespace().map(str::to_owned).collect(),
    };
    let (program, arguments) = words.split_first().ok_or("the witness is empty")?;
    // Tests that cannot run say so in this file, and pass.
    let skips = scratch.join(format!("fak-claims-skips-{}", std::process::id()));
    let _ = std::fs::remove_file(&skips);
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .env("FAK_SKIPS", &skips)
        .output()
        .map_err(|error| format!("`{}`: {error}", words.join(" ")))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let skipped = std::fs::read_to_string(&skips).unwrap_or_default();
    let _ = std::fs::remove_file(&skips);
    if let Some(why) = skipped.lines().next() {
        return Err(format!("its witness skipped itself: {why}"));
    }
    // A filter that matches nothing passes too.
    if output.status.success() && (test.is_none() || said.contains("test result: ok. 1 passed")) {
        return Ok(());
    }
    let all = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = all.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n    ");
    Err(format!(
        "its witness `{}` does not pass:\n    {tail}",
        words.join(" ")
    ))
}

/// The command that runs one test of a file: `CRATE/tests/NAME.rs`, `CRATE/tests/NAME/MODULE.rs` or `CRATE/src/...`.
fn cargo_test(file: &str, name: &str) -> Option<Vec<String>> {
    let parts: Vec<&str> = file.strip_suffix(".rs")?.split('/').collect();
    let (target, test) = match parts.as_slice() {
        [_, "tests", target] => (vec!["--test", *target], name.to_owned()),
        [_, "tests", target, modules @ ..] => {
            let test = modules.iter().filter(|it| **it != "main").copied();
            let test: Vec<&str> = test.chain([name]).collect();
            (vec!["--test", *target], test.join("::"))
        }
        [_, "src", modules @ ..] => {
            let test = modules
                .iter()
                .filter(|it| !["mod", "lib"].contains(it))
                .copied();
            let test: Vec<&str> = test.chain(["tests", name]).collect();
            (vec!["--lib"], test.join("::"))
        }
        _ => return None,
    };
    let mut words = vec!["cargo", "test", "--quiet", "--package", parts.first()?];
    words.extend(target);
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    words.extend(["--".to_owned(), "--exact".to_owned(), test]);
    Some(words)
}

fn words(standings: &[Standing<'_>], run: bool) -> String {
    let mut table = Table::new(&["claim", "tag", "provenance", "stands"]).left(4);
    for it in standings {
        let stands = match (it.problems.is_empty(), it.seen, it.tag == SHIPPED) {
            (false, ..) => "NO",
            (true, true, _) => "yes, and its witness passed now",
            (true, false, true) => "yes",
            (true, false, false) => "not claimed of today's program",
        };
        table.row([it.id, it.tag, it.provenance, stands]);
    }
    let mut text = table.render();
    for it in standings {
        for problem in &it.problems {
            let _ = writeln!(text, "\n{}: {problem}", it.id);
        }
    }
    if !run {
        text += "\n`harness claims --run` runs every witness as well.\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_run_by_crate_target_and_full_name() {
        for (file, expected) in [
            (
                "engine/tests/golden.rs",
                "--package engine --test golden -- --exact t",
            ),
            (
                "harness/tests/cli/radix.rs",
                "--package harness --test cli -- --exact radix::t",
            ),
            (
                "audit/tests/corpus/main.rs",
                "--package audit --test corpus -- --exact t",
            ),
            (
                "harness/src/report/lint.rs",
                "--package harness --lib -- --exact report::lint::tests::t",
            ),
        ] {
            let words = cargo_test(file, "t").unwrap().join(" ");
            assert_eq!(words, format!("cargo test --quiet {expected}"));
        }
        assert_eq!(cargo_test("README.md", "t"), None);
    }
}
