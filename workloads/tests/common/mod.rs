//! What tests on other people's data share: where it lies, and skipping out loud where it does not.

use std::path::PathBuf;

/// A file of the reference system's test data, which is not ours to commit; none, said out loud, where it is not.
pub(crate) fn reference(name: &str) -> Option<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../shared/traces/fak-testdata").join(name);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        skip(&format!("{name} is absent"));
    }
    text
}

/// Says that a test did not run, where `./test.sh` counts it.
#[allow(clippy::print_stderr)] // out loud
fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
    if let Some(log) = std::env::var_os("FAK_SKIPS") {
        use std::io::Write;
        let log = std::fs::File::options().append(true).create(true).open(log);
        writeln!(log.unwrap(), "{why}").unwrap();
    }
}
