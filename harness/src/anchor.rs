//! Publishing a sealed run: audit it, move it under results/, add one line to results/INDEX.
//!
//! Not here: what an audit checks (`audit`) and what the pages make of anchored runs (`report`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use workloads::record::RunRecord;

use crate::error::Error;
use crate::sealed::failures;
use crate::world::World;
use crate::{calendar, counted, files, seal};

/// In place of a machine, in the name of a run that had none.
const COUNTED: &str = "counted";

/// What a run's place under results/ is made of.
struct Published {
    envelope: String,
    started_unix_s: u64,
    class: String,
}

impl Published {
    /// Of a run that passed its audit; one with arms that did not complete is refused.
    fn of(directory: &Path) -> Result<Self, Error> {
        if counted::is_counted(directory) {
            let record = counted::read(directory)?;
            return Ok(Self {
                envelope: record.envelope,
                started_unix_s: record.counted_unix_s,
                class: COUNTED.to_owned(),
            });
        }
        let path = directory.join("run.json");
        let record: RunRecord = serde_json::from_str(&files::read_text(&path)?)
            .map_err(|error| Error::Broken(format!("{}: {error}", path.display())))?;
        refuse_incomplete(&record)?;
        let first = record.sittings.first();
        Ok(Self {
            started_unix_s: first.map_or(0, |sitting| sitting.started_unix_s),
            envelope: record.envelope,
            class: record.machine.class,
        })
    }
}

/// Anchors `directory` and says what to commit.
pub fn anchor(directory: &Path, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let directory = &world.working_directory.join(directory);
    let results = world.results();
    let digest = seal::digest(directory)?;
    let index = results.join("INDEX");
    refuse_anchored(&index, &digest)?;

    let report = audit::audit_run(directory);
    if report.exit_code() != 0 {
        write!(out, "{}", report.render())?;
        writeln!(
            out,
            "\nnot anchored: only a run that passes its audit is published"
        )?;
        return Ok(report.exit_code());
    }
    let record = Published::of(directory)?;
    let home = results.join(part("envelope", &record.envelope)?);
    let anchored = if directory
        .canonicalize()
        .ok()
        .as_deref()
        .and_then(Path::parent)
        == home.canonicalize().ok().as_deref()
    {
        directory.clone() // an earlier anchoring was stopped between the move and the line
    } else {
        let class = part("machine class", &record.class)?;
        let stem = format!("{}-{class}", calendar::dashed(record.started_unix_s));
        move_to(directory, &home, &stem)?
    };
    let name = anchored.file_name().unwrap_or_default().to_string_lossy();
    append_line(&index, &format!("{digest}  {}/{name}\n", record.envelope))?;

    writeln!(out, "anchored {}", world.shown(&anchored))?;
    writeln!(out, "sha256 of its SHA256SUMS: {digest}\n\nnext:")?;
    if cfg!(feature = "report") {
        writeln!(out, "  harness report")?;
    }
    writeln!(out, "  git add {} results/INDEX", world.shown(&anchored))?;
    writeln!(out, "  git commit -m \"Anchor {}/{name}\"", record.envelope)?;
    Ok(0)
}

/// A value of run.json that becomes part of a path.
fn part<'a>(what: &str, value: &'a str) -> Result<&'a str, Error> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let usable = !value.is_empty() && !value.starts_with('.') && value.chars().all(plain);
    if usable && value != "local" && value != "INDEX" {
        Ok(value)
    } else {
        Err(Error::Broken(format!(
            "run.json: {what} {value:?} cannot name a directory"
        )))
    }
}

/// What did not complete cannot answer the envelope's question.
fn refuse_incomplete(record: &RunRecord) -> Result<(), Error> {
    if record.complete {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "not anchored: not every requested arm completed\n  {}\nrun the envelope again, with --arm for \
         the arms that can run, and anchor that",
        failures(record).join("\n  ")
    )))
}

fn refuse_anchored(index: &Path, digest: &str) -> Result<(), Error> {
    let text = if index.exists() {
        files::read_text(index)?
    } else {
        String::new()
    };
    if !(text.is_empty() || text.ends_with('\n')) {
        return Err(Error::Broken(format!(
            "{}: the last line is not complete; restore the file from git",
            index.display()
        )));
    }
    match text.lines().find(|line| line.starts_with(digest)) {
        Some(line) => Err(Error::Usage(format!(
            "this run is already anchored, as results/{}",
            line.get(digest.len()..).unwrap_or_default().trim_start()
        ))),
        None => Ok(()),
    }
}

/// Moves a directory to the next free `<home>/<stem>-<n>`.
fn move_to(directory: &Path, home: &Path, stem: &str) -> Result<PathBuf, Error> {
    let target = files::take_numbered_directory(home, stem)?;
    // The taken directory is empty, and renaming onto an empty directory replaces it in one step.
    match fs::rename(directory, &target) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy_verified(directory, &target)?;
            fs::remove_dir_all(directory)
                .map_err(|source| Error::io("cannot remove", directory, source))?;
        }
        Err(source) => {
            let _ = fs::remove_dir(&target); // give the number back; the move itself is the error
            return Err(Error::io("cannot move", directory, source));
        }
        Ok(()) => {}
    }
    files::sync_directory(home).map_err(|source| Error::io("cannot sync", home, source))?;
    Ok(target)
}

/// Copies every file, synced, and compares what was written with what was read.
fn copy_verified(from: &Path, to: &Path) -> Result<(), Error> {
    for name in files::files_below(from)? {
        let (source_path, target) = (from.join(&name), to.join(&name));
        files::create_directories(target.parent().unwrap_or(to))?;
        let failed = |source| Error::io("cannot copy to", &target, source);
        let mut source = File::open(&source_path).map_err(failed)?;
        let mut copy = File::create_new(&target).map_err(failed)?;
        let expected = files::copy_hashing(&mut source, &mut copy).map_err(failed)?;
        copy.sync_all().map_err(failed)?;
        let found = files::file_sha256(&target)?;
        if found != expected {
            let what = target.display().to_string();
            let next = "the original is untouched; try again".to_owned();
            return Err(Error::WrongDigest {
                what,
                expected,
                found,
                next,
            });
        }
    }
    Ok(())
}

fn append_line(path: &Path, line: &str) -> Result<(), Error> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| {
            file.write_all(line.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .and_then(|()| path.parent().map_or(Ok(()), files::sync_directory))
        .map_err(|source| Error::io("cannot append to", path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_cannot_choose_a_path_outside_results() {
        for hostile in ["", "..", "../x", "a/b", ".hidden", "local", "INDEX", "a\0b"] {
            assert!(
                part("envelope", hostile).is_err(),
                "{hostile:?} was let through"
            );
        }
        assert_eq!(part("envelope", "session-small").unwrap(), "session-small");
    }

    #[test]
    fn a_copy_across_file_systems_holds_the_same_bytes() {
        let root = tempfile::tempdir().unwrap();
        let from = root.path().join("from");
        fs::create_dir_all(from.join("trace")).unwrap();
        fs::write(from.join("trace/a-0.jsonl"), b"{}\n").unwrap();
        fs::write(from.join("run.json"), b"{}").unwrap();
        let to = root.path().join("to");
        copy_verified(&from, &to).unwrap();
        assert_eq!(
            files::files_below(&to).unwrap(),
            ["run.json", "trace/a-0.jsonl"]
        );
        assert!(
            copy_verified(&from, &to).is_err(),
            "a copy never overwrites"
        );
    }

    #[test]
    fn an_index_cut_short_is_not_appended_to() {
        let root = tempfile::tempdir().unwrap();
        let index = root.path().join("INDEX");
        fs::write(&index, "abc  smoke/x").unwrap();
        assert_eq!(refuse_anchored(&index, "def").unwrap_err().exit_code(), 4);
        fs::write(&index, "abc  smoke/x\n").unwrap();
        refuse_anchored(&index, "def").unwrap();
        let error = refuse_anchored(&index, "abc").unwrap_err();
        assert!(error.to_string().contains("results/smoke/x"), "{error}");
    }
}
