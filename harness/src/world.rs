//! What the program may know of its surroundings, read once in `main` and handed down.
//!
//! Not here: facts of the machine (`machine`) and of the build (`build_facts`).

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Working directory, cache, clock and terminal.
pub struct World {
    /// Where results go and relative paths start.
    pub working_directory: PathBuf,
    /// Where models are kept; absent when the environment names no home.
    pub cache: Option<PathBuf>,
    /// Where scratch files may go.
    pub scratch: PathBuf,
    /// How the user types this program.
    pub command: String,
    /// This program, to be started again for each arm.
    pub executable: PathBuf,
    /// llama.cpp's benchmark, where the environment names it.
    pub llama_bench: Option<PathBuf>,
    /// llama.cpp's server, where the environment names it.
    pub llama_server: Option<PathBuf>,
    /// Directories in which programs are looked for by name, in order.
    pub search_path: Vec<PathBuf>,
    /// Standard error is a terminal.
    pub terminal: bool,
    /// Usable cores.
    pub cores: usize,
    /// Seconds since 1970.
    pub unix_s: fn() -> u64,
}

impl World {
    /// `$FAK_CACHE`, `$XDG_CACHE_HOME/fak` or `~/.cache/fak`, whichever is set first.
    pub fn cache_from(
        own: Option<PathBuf>,
        shared: Option<PathBuf>,
        home: Option<PathBuf>,
    ) -> Option<PathBuf> {
        let set = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
        set(own)
            .or_else(|| set(shared).map(|path| path.join("fak")))
            .or_else(|| set(home).map(|path| path.join(".cache/fak")))
    }

    /// The directory of one cached model.
    pub fn model_directory(&self, name: &str) -> Result<PathBuf, Error> {
        let cache = self.cache.as_ref().ok_or_else(|| {
            Error::Usage("no cache directory: set FAK_CACHE to a directory for models".to_owned())
        })?;
        Ok(cache.join("models").join(name))
    }

    /// Where runs are kept.
    pub fn results(&self) -> PathBuf {
        self.working_directory.join("results")
    }

    /// One line of progress on standard error; a lost one is no failure.
    pub fn say(&self, text: &str) {
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// `path` as a user would type it from the working directory.
    pub fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.working_directory)
            .unwrap_or(path)
            .display()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_cache_wins_and_an_empty_one_is_none() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(
            World::cache_from(path("a"), path("b"), path("c")),
            path("a")
        );
        assert_eq!(
            World::cache_from(path(""), path("b"), path("c")),
            path("b/fak")
        );
        assert_eq!(
            World::cache_from(None, None, path("c")),
            path("c/.cache/fak")
        );
        assert_eq!(World::cache_from(None, path(""), None), None);
    }
}
