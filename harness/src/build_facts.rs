//! Facts of the build: commit, whether the tree is clean, and git tree ids of our crates as they
//! are on disk.
//!
//! Gathered only when the working directory lies in the checkout this program was built from;
//! elsewhere, or without git, they are null. Not here: facts of the machine. Nothing in the
//! repository is changed: the index and the objects that hashing the working tree makes live in a
//! scratch directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use workloads::record::BuildRecord;

use crate::world::World;

/// Directories whose content decides what a run measures.
const SOURCES: [&str; 4] = ["engine", "workloads", "baselines", "harness"];

/// What may change without making a tree dirty: evidence and the pages rendered from it.
const OUTPUTS: [&str; 5] = [
    "results",
    "reports",
    "README.md",
    "CLAIMS.md",
    "BENCHMARK-AUTHORITY.md",
];

/// The facts of this build.
pub fn facts(world: &World) -> BuildRecord {
    let checkout = checkout(&world.working_directory);
    let commit = checkout
        .as_deref()
        .and_then(|root| git(root, &["rev-parse", "HEAD"], &[]));
    BuildRecord {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        dirty: checkout
            .as_deref()
            .filter(|_| commit.is_some())
            .and_then(dirty),
        trees: checkout
            .as_deref()
            .and_then(|root| trees(root, &world.scratch)),
        commit,
        rustc: env!("FAK_RUSTC").to_owned(),
        debug_assertions: cfg!(debug_assertions),
    }
}

/// Whether `commit` leads to what is checked out; none outside the checkout this program was built from. A commit that the clone
/// does not have leads nowhere.
pub fn is_ancestor(world: &World, commit: &str) -> Option<bool> {
    let root = checkout(&world.working_directory)?;
    let mut command = Command::new("git");
    command.arg("-C").arg(root);
    command.args(["merge-base", "--is-ancestor", commit, "HEAD"]);
    Some(command.output().ok()?.status.success())
}

/// The checkout this program was built from, if the working directory is inside it.
fn checkout(working_directory: &Path) -> Option<PathBuf> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()?
        .canonicalize()
        .ok()?;
    let here = working_directory.canonicalize().ok()?;
    let ours = built_from.join("audit/FORMAT.md").is_file() && built_from.join(".git").exists();
    (ours && here.starts_with(&built_from)).then_some(built_from)
}

/// What git prints, or nothing if it is absent or fails.
fn git(root: &Path, arguments: &[&str], variables: &[(&str, &Path)]) -> Option<String> {
    let mut command = Command::new("git");
    command
        .arg("--no-optional-locks")
        .arg("-C")
        .arg(root)
        .args(arguments);
    command.envs(variables.iter().map(|&(name, value)| (name, value)));
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8(output.stdout)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn dirty(root: &Path) -> Option<bool> {
    let excluded: Vec<String> = OUTPUTS
        .iter()
        .map(|path| format!(":(top,exclude){path}"))
        .collect();
    let mut arguments = vec!["status", "--porcelain", "--", ":(top)"];
    arguments.extend(excluded.iter().map(String::as_str));
    git(root, &arguments, &[]).map(|changes| !changes.is_empty())
}

fn trees(root: &Path, scratch: &Path) -> Option<BTreeMap<String, String>> {
    let objects = root.join(git(root, &["rev-parse", "--git-path", "objects"], &[])?);
    let scratch = scratch.join(format!("fak-trees-{}", std::process::id()));
    fs::create_dir_all(&scratch).ok()?;
    let found = hash_trees(root, &scratch, &objects);
    let _ = fs::remove_dir_all(&scratch); // scratch only: a leftover harms nobody
    found
}

fn hash_trees(root: &Path, scratch: &Path, objects: &Path) -> Option<BTreeMap<String, String>> {
    let index = scratch.join("index");
    let variables = [
        ("GIT_INDEX_FILE", index.as_path()),
        ("GIT_OBJECT_DIRECTORY", scratch),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects),
    ];
    // The index starts as the commit so that only changed files are read; there may be no commit yet.
    let _ = git(root, &["read-tree", "HEAD"], &variables);
    let mut add = vec!["add", "-A", "--"];
    add.extend(SOURCES);
    git(root, &add, &variables)?;
    let whole = git(root, &["write-tree"], &variables)?;
    let id = |name: &str| git(root, &["rev-parse", &format!("{whole}:{name}")], &variables);
    SOURCES
        .iter()
        .map(|&name| Some((name.to_owned(), id(name)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for name in SOURCES {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("lib.rs"), name).unwrap();
        }
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t"];
        git(root.path(), &["init", "-q"], &[]).unwrap();
        git(root.path(), &["add", "-A"], &[]).unwrap();
        let commit = [&identity[..], &["commit", "-qm", "start"]].concat();
        git(root.path(), &commit, &[]).unwrap();
        root
    }

    #[test]
    fn evidence_and_pages_leave_a_tree_clean_and_source_does_not() {
        let root = repository();
        assert_eq!(dirty(root.path()), Some(false));
        fs::create_dir(root.path().join("results")).unwrap();
        fs::write(root.path().join("results/INDEX"), "x").unwrap();
        fs::write(root.path().join("README.md"), "x").unwrap();
        assert_eq!(dirty(root.path()), Some(false));
        fs::write(root.path().join("engine/new.rs"), "x").unwrap();
        assert_eq!(dirty(root.path()), Some(true));
    }

    #[test]
    fn tree_ids_follow_the_disk_and_leave_the_repository_alone() {
        let root = repository();
        let scratch = tempfile::tempdir().unwrap();
        let before = trees(root.path(), scratch.path()).unwrap();
        let committed = git(root.path(), &["rev-parse", "HEAD:engine"], &[]).unwrap();
        assert_eq!(before["engine"], committed);
        fs::write(root.path().join("engine/lib.rs"), "changed").unwrap();
        let objects = crate::files::files_below(&root.path().join(".git")).unwrap();
        let after = trees(root.path(), scratch.path()).unwrap();
        assert_ne!(after["engine"], before["engine"]);
        assert_eq!(after["harness"], before["harness"]);
        assert_eq!(
            crate::files::files_below(&root.path().join(".git")).unwrap(),
            objects
        );
        assert_eq!(crate::files::files_below(scratch.path()).unwrap().len(), 0);
    }

    #[test]
    fn outside_a_repository_nothing_is_claimed() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(checkout(root.path()), None);
        assert_eq!(dirty(root.path()), None);
    }
}
