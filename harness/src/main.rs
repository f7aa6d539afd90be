//! The `harness` program: reads arguments, environment and clocks, and hands them to the library.
//!
//! Not here: anything else.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use harness::cli::Cli;
use harness::error::Error;
use harness::world::World;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let start = Instant::now();
    let clock = move || start.elapsed().as_nanos() as u64;
    let mut out = io::stdout().lock();
    let done = surroundings().and_then(|world| {
        harness::execute(
            &cli.command,
            &world,
            Box::new(io::stdin()),
            &clock,
            &mut out,
        )
    });
    match done.and_then(|code| out.flush().map(|()| code).map_err(Error::Output)) {
        Ok(code) => ExitCode::from(code),
        // A reader that has seen enough, such as `head`, is no failure.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "harness: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn surroundings() -> Result<World, Error> {
    let unknown = |what: &'static str| {
        move |error| Error::Unreachable(format!("cannot tell the {what}: {error}"))
    };
    let variable = |name: &str| env::var_os(name).map(PathBuf::from);
    let from_cargo = env::args_os()
        .next()
        .is_some_and(|typed| Path::new(&typed).starts_with("target"));
    Ok(World {
        working_directory: env::current_dir().map_err(unknown("working directory"))?,
        cache: World::cache_from(
            variable("FAK_CACHE"),
            variable("XDG_CACHE_HOME"),
            variable("HOME"),
        ),
        scratch: env::temp_dir(),
        command: if from_cargo {
            "cargo run -p harness --"
        } else {
            "harness"
        }
        .to_owned(),
        executable: env::current_exe().map_err(unknown("path of this program"))?,
        llama_bench: variable("FAK_LLAMA_BENCH"),
        llama_server: variable("FAK_LLAMA_SERVER").filter(|path| !path.as_os_str().is_empty()),
        search_path: env::var_os("PATH")
            .map_or_else(Vec::new, |path| env::split_paths(&path).collect()),
        terminal: io::stderr().is_terminal(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        unix_s: || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs())
        },
    })
}
