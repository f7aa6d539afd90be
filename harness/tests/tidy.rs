//! House rules that a test can hold: sizes, prologues, levels, crate arrows, where `unsafe` may stand.

#![allow(clippy::unwrap_used)] // tests

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const CRATES: [&str; 6] = [
    "audit",
    "baselines",
    "engine",
    "harness",
    "store",
    "workloads",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every Rust file of the workspace: path from the root, text.
fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for name in CRATES {
        rust_files(&root().join(name), &mut files);
    }
    files.sort();
    assert!(
        files.len() > 50,
        "the walk found only {} files",
        files.len()
    );
    let relative = |path: &Path| {
        path.strip_prefix(root())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    files
        .iter()
        .map(|path| (relative(path), fs::read_to_string(path).unwrap()))
        .collect()
}

fn report(broken: &[String]) {
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Functions as (name line, lines), found by indentation: rustfmt closes a body at the column of its `fn`.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_function = code.starts_with("fn ") || code.contains(" fn ");
        if !is_function || code.starts_with("//") || code.ends_with(';') || code.contains('"') {
            continue;
        }
        let close = format!("{}}}", &line[..line.len() - code.len()]);
        let end = lines[start..].iter().position(|line| *line == close);
        found.push((start + 1, end.map_or(1, |end| end + 1)));
    }
    found
}

#[test]
fn files_and_functions_stay_small() {
    let mut broken = Vec::new();
    let mut counted = 0;
    for (path, text) in sources() {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            broken.push(format!("{path}: {lines} lines, at most {FILE_LINES_MAX}"));
        }
        for (line, length) in functions(&text) {
            counted += 1;
            if length > FUNCTION_LINES_MAX {
                broken.push(format!(
                    "{path}:{line}: {length} lines, at most {FUNCTION_LINES_MAX}"
                ));
            }
        }
    }
    assert!(counted > 300, "only {counted} functions were found");
    report(&broken);
}

#[test]
fn every_module_says_what_it_is_for() {
    let broken: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| format!("{path}: does not begin with //!"))
        .collect();
    report(&broken);
}

/// The level table of ARCHITECTURE.md.
fn levels() -> BTreeMap<String, u32> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut levels = BTreeMap::new();
    for line in text.lines() {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (Some(level), Some(modules)) = (cells.next(), cells.next()) else {
            continue;
        };
        let Ok(level) = level.parse() else { continue };
        for module in modules.split_whitespace() {
            levels.insert(module.trim_matches('`').to_owned(), level);
        }
    }
    levels
}

/// Modules named by `crate::` paths in code lines.
fn imports(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.flat_map(|(number, line)| {
        line.match_indices("crate::").map(move |(at, _)| {
            let rest = &line[at + "crate::".len()..];
            let end = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            (number + 1, &rest[..end])
        })
    })
}

#[test]
fn engine_modules_import_strictly_lower_levels() {
    let levels = levels();
    let (mut broken, mut checked) = (Vec::new(), 0);
    for (path, text) in sources() {
        let Some(module) = path.strip_prefix("engine/src/") else {
            continue;
        };
        let module = module.split(['/', '.']).next().unwrap();
        if module == "lib" {
            continue;
        }
        let Some(level) = levels.get(module) else {
            broken.push(format!(
                "{path}: `{module}` has no level in ARCHITECTURE.md"
            ));
            continue;
        };
        for (line, import) in imports(&text).filter(|(_, import)| *import != module) {
            checked += 1;
            match levels.get(import) {
                Some(other) if other < level => {}
                other => broken.push(format!(
                    "{path}:{line}: `{import}` is at level {other:?}, not below {level}"
                )),
            }
        }
    }
    assert!(checked > 50, "only {checked} imports were found");
    report(&broken);
}

/// Lines of a manifest's tables of dependencies.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    manifest.lines().filter(move |line| {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]");
        }
        inside
    })
}

#[test]
fn crates_depend_downwards_only() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("audit", &[][..]),
        ("engine", &[]),
        ("store", &["engine"]),
        ("workloads", &[]),
        ("baselines", &["engine", "workloads"]),
        ("harness", &["audit", "baselines", "engine", "workloads"]),
    ]);
    let mut broken = Vec::new();
    for name in CRATES {
        let manifest = fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
        for other in CRATES.iter().filter(|other| **other != name) {
            let depends = dependencies(&manifest).any(|line| {
                line.starts_with(&format!("{other}.")) || line.starts_with(&format!("{other} "))
            });
            if depends && !allowed[name].contains(other) {
                broken.push(format!("{name} depends on {other}"));
            }
        }
    }
    report(&broken);
}

#[test]
fn unsafe_code_stands_only_where_it_is_allowed() {
    let allowed = [
        "engine/benches/invariance_cost/free.rs",
        "engine/src/kernels/scalar/mod.rs",
        "engine/src/kernels/avx2/mod.rs",
        "engine/src/kernels/avx512/mod.rs",
        "engine/src/kernels/ceilings.rs",
        "engine/src/tensor/buffer/arena.rs",
        "engine/src/tensor/buffer/mod.rs",
        "engine/src/pool/mod.rs",
        "engine/src/pool/tile.rs",
    ];
    let found: Vec<String> = sources()
        .into_iter()
        .filter(|(path, text)| {
            path != "harness/tests/tidy.rs" && text.contains("allow(unsafe_code")
        })
        .map(|(path, _)| path)
        .collect();
    let broken: Vec<String> = found
        .iter()
        .filter(|path| !allowed.contains(&path.as_str()))
        .cloned()
        .collect();
    report(&broken);
    assert_eq!(
        found.len(),
        allowed.len(),
        "a listed file no longer needs unsafe"
    );
}

#[test]
fn every_test_the_architecture_names_exists() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = text.split("## The numeric contract").nth(1).unwrap();
    let guards = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .filter_map(|line| line.split('|').nth(3));
    let code: String = sources().into_iter().map(|(_, text)| text).collect();
    let mut named = 0;
    let mut broken = Vec::new();
    for name in guards.flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
        // File names stand there too; tests are sentences.
        if name.matches('_').count() >= 3 && !name.contains('/') {
            named += 1;
            if !code.contains(&format!("fn {name}(")) {
                broken.push(format!("ARCHITECTURE.md names `{name}`, which is no test"));
            }
        }
    }
    assert!(named > 15, "only {named} tests were found in the table");
    report(&broken);
}

#[test]
fn every_bad_input_names_tests_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let table = fs::read_to_string(root.join("baselines/BAD-INPUTS.md")).unwrap();
    let rows = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| #"));
    let (mut broken, mut named) = (Vec::new(), 0);
    for row in rows.filter(|row| !row.contains("| ---")) {
        let tests = row.split('`').filter(|word| word.contains("::"));
        let before = named;
        for test in tests {
            let (path, name) = test.split_once("::").unwrap();
            let text = fs::read_to_string(root.join(path)).unwrap_or_default();
            if !text.contains(&format!("fn {name}(")) {
                broken.push(format!("{test} is not there"));
            }
            named += 1;
        }
        if named == before && !row.contains("| Open: ") {
            broken.push(format!("neither a test nor open: {row}"));
        }
    }
    assert!(named > 30, "only {named} tests were found");
    report(&broken);
}
