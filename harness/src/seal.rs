//! SHA256SUMS: the file that turns a run directory into evidence. Written last, whole or not at
//! all.
//!
//! Not here: checking it, which is `audit`'s work with code of its own.

use std::fmt::Write as _;
use std::path::Path;

use workloads::trace::sha256_hex;

use crate::error::Error;
use crate::files;

/// The file's name.
pub const SUMS: &str = "SHA256SUMS";

/// Hashes every file of `directory` and writes the sums; the directory is sealed from then on.
pub fn seal(directory: &Path) -> Result<(), Error> {
    let mut sums = String::new();
    for name in files::files_below(directory)? {
        let digest = files::file_sha256(&directory.join(&name))?;
        let _ = writeln!(sums, "{digest}  {name}"); // writing to a String cannot fail
    }
    files::write_atomically(&directory.join(SUMS), sums.as_bytes())
}

/// The digest that stands for a sealed run in results/INDEX.
pub fn digest(directory: &Path) -> Result<String, Error> {
    let path = directory.join(SUMS);
    if !path.is_file() {
        if !directory.is_dir() {
            return Err(Error::Usage(format!(
                "no directory {}",
                directory.display()
            )));
        }
        return Err(Error::Broken(format!(
            "{} is not sealed: it has no {SUMS}. Run it again; a new directory is taken",
            directory.display()
        )));
    }
    Ok(sha256_hex(files::read_text(&path)?.as_bytes()))
}
