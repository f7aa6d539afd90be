//! Where programs of others are: given on the command line, named by the environment, or on the search path.
//!
//! Not here: starting them (`baselines`), or what they measure.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::world::World;

/// llama.cpp's server, as arms and `--bin` call it.
pub const LLAMA_SERVER: &str = "llama-server";

/// A program and who says that it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its file.
    pub path: PathBuf,
    /// What led to it, as a user would name it.
    pub by: &'static str,
}

/// The file that `--bin NAME=PATH` gives.
pub fn given(name: &str, path: &Path, world: &World) -> Result<PathBuf, Error> {
    let path = world.working_directory.join(path);
    if path.is_file() {
        return Ok(path);
    }
    let usage = format!("--bin {name}: no file {}", path.display());
    Err(Error::Usage(usage))
}

/// llama.cpp's server: the one the environment names, else the first on the search path.
pub fn llama_server(world: &World) -> Result<Option<Found>, Error> {
    if let Some(named) = &world.llama_server {
        let path = world.working_directory.join(named);
        if !path.is_file() {
            return Err(Error::Usage(format!(
                "FAK_LLAMA_SERVER: no file {}; give the path of {LLAMA_SERVER}, or unset it",
                path.display()
            )));
        }
        let by = "FAK_LLAMA_SERVER";
        return Ok(Some(Found { path, by }));
    }
    let found = on_search_path(LLAMA_SERVER, &world.search_path);
    Ok(found.map(|path| Found {
        path,
        by: "the search path",
    }))
}

/// The first file of this name in `directories` that may be executed.
fn on_search_path(name: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let mut candidates = directories.iter().map(|directory| directory.join(&name));
    candidates.find(|path| is_executable(path))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let executable = |found: std::fs::Metadata| found.permissions().mode() & 0o111 != 0;
    path.is_file() && path.metadata().is_ok_and(executable)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    #[cfg(unix)]
    fn the_first_program_of_a_name_is_found_and_no_other_file() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let directories: Vec<PathBuf> = ["none", "text", "directory", "first", "second"]
            .map(|name| root.path().join(name))
            .to_vec();
        for (place, mode) in [(1, 0o644), (3, 0o755), (4, 0o755)] {
            fs::create_dir(&directories[place]).unwrap();
            let file = directories[place].join(LLAMA_SERVER);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(directories[2].join(LLAMA_SERVER)).unwrap();
        let found = on_search_path(LLAMA_SERVER, &directories);
        assert_eq!(found, Some(directories[3].join(LLAMA_SERVER)));
        assert_eq!(on_search_path(LLAMA_SERVER, &directories[..3]), None);
    }
}
