//! Where programs of others are: given on the command line, named by the environment, on the search path, or in a
//! Python package.
//!
//! Not here: starting them as arms (`baselines`), or what they measure.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use baselines::server::launcher::PROGRAM;

use crate::error::Error;
use crate::files::Scratch;
use crate::world::World;

/// llama.cpp's server, as arms and `--bin` call it.
pub const LLAMA_SERVER: &str = "llama-server";

/// For a program to say its version, or what it can do.
const SAYING: Duration = Duration::from_secs(30);
/// What is kept of that.
const SAID_BYTES_MAX: u64 = 1 << 20;
/// Between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// A program and who says that it is there.
#[derive(Debug)]
pub struct Found {
    /// Its file.
    pub path: PathBuf,
    /// What led to it, as a user would name it.
    pub by: &'static str,
    /// Gone with this.
    launcher: Option<Scratch>,
}

impl Found {
    /// Where it is, as a user would type it; what is written for the purpose is nowhere for long.
    pub fn shown(&self, world: &World) -> String {
        match self.launcher {
            Some(_) => "a launcher, written where it is needed".to_owned(),
            None => world.shown(&self.path).to_string(),
        }
    }

    /// Whether it is the launcher and no program of another's.
    pub fn is_launcher(&self) -> bool {
        self.launcher.is_some()
    }

    /// A program that is where it is, whoever looks for it.
    pub fn at(path: PathBuf, by: &'static str) -> Self {
        Self {
            path,
            by,
            launcher: None,
        }
    }
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

/// llama.cpp's server: the one the environment names, else the first on the search path, else the Python package that
/// has it, through a launcher written for as long as what is found is kept.
pub fn llama_server(world: &World) -> Result<Option<Found>, Error> {
    if let Some(named) = &world.llama_server {
        let path = world.working_directory.join(named);
        if !path.is_file() {
            return Err(Error::Usage(format!(
                "FAK_LLAMA_SERVER: no file {}; give the path of {LLAMA_SERVER}, or unset it",
                path.display()
            )));
        }
        return Ok(Some(Found::at(path, "FAK_LLAMA_SERVER")));
    }
    if let Some(path) = on_search_path(LLAMA_SERVER, &world.search_path) {
        return Ok(Some(Found::at(path, "the search path")));
    }
    if on_search_path("python3", &world.search_path).is_none() {
        return Ok(None);
    }
    let launcher = launcher(&world.scratch)?;
    let path = launcher.path().join(LLAMA_SERVER);
    Ok(said(&path, "--version").ok().map(|_| Found {
        path,
        by: "the Python package xllamacpp",
        launcher: Some(launcher),
    }))
}

/// A program of its own that serves through the Python package, in a directory of its own.
fn launcher(parent: &Path) -> Result<Scratch, Error> {
    let scratch = Scratch::take(parent, "launcher")?;
    let path = scratch.path().join(LLAMA_SERVER);
    let written = fs::write(&path, PROGRAM).and_then(|()| make_executable(&path));
    written.map_err(|source| Error::io("cannot write", &path, source))?;
    Ok(scratch)
}

/// What `program argument` says, on either stream; an error unless it succeeds in time.
pub fn said(program: &Path, argument: &str) -> Result<String, String> {
    let unread = |error: std::io::Error| error.to_string();
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(unread)?;
    let pipes = [collect(child.stdout.take()), collect(child.stderr.take())];
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(unread)? {
            Some(status) => break status,
            None if start.elapsed() > SAYING => {
                let _ = child.kill(); // it may have ended by itself
                let _ = child.wait();
                return Err(format!("it said nothing within {} s", SAYING.as_secs()));
            }
            None => thread::sleep(LOOK),
        }
    };
    let words = pipes.map(|pipe| pipe.recv_timeout(LOOK * 100).unwrap_or_default());
    let text = words.concat();
    if status.success() {
        Ok(text)
    } else {
        Err(format!("{status}: {}", text.trim()))
    }
}

/// Reads a pipe beside the wait, so that it can never fill and stop the program.
fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(mut pipe) = pipe {
        thread::spawn(move || {
            let mut kept = Vec::new();
            let _ = pipe.by_ref().take(SAID_BYTES_MAX).read_to_end(&mut kept);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            let _ = sender.send(String::from_utf8_lossy(&kept).into_owned());
        });
    }
    receiver
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

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
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

    #[test]
    #[cfg(unix)]
    fn what_a_program_says_is_heard_and_a_failure_is_told() {
        let sh = Path::new("/bin/sh");
        assert!(said(sh, "-c").unwrap_err().contains("exit status"));
        assert!(
            said(Path::new("/bin/echo"), "words")
                .unwrap()
                .contains("words")
        );
        assert!(said(Path::new("/none"), "words").is_err());
    }

    #[test]
    fn the_launcher_is_a_file_of_the_programs_name_and_goes_with_what_was_found() {
        let root = tempfile::tempdir().unwrap();
        let launcher = launcher(root.path()).unwrap();
        assert!(is_executable(&launcher.path().join(LLAMA_SERVER)));
        drop(launcher);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
