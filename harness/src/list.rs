//! `list` and `new`: the envelopes there are, and a file to start one's own from.
//!
//! Not here: reading an envelope (`workloads::envelope`) or running one (`run`).

use std::fs::File;
use std::io::{ErrorKind, Write};

use serde_json::{Value, json};
use workloads::cells::CellWorkload;
use workloads::envelope::{self, Declared, Kind, Overrides, ResolvedOf};

use crate::describe::words_of;
use crate::error::Error;
use crate::run::estimate::{self, Estimate};
use crate::table::{counted, rough_duration};
use crate::world::World;
use crate::{machine, models};

/// What is shown of an envelope, whatever its kind.
struct Listed {
    question: String,
    model: String,
    workload: Value,
    words: String,
    arms: Vec<String>,
    reps: usize,
    estimate_ns: Option<u64>,
}

impl Listed {
    fn new<W: Kind>(envelope: &ResolvedOf<W>, words: String, estimate: Option<Estimate>) -> Self {
        Self {
            question: envelope.question.clone(),
            model: envelope.model.clone(),
            workload: json!(envelope.workload),
            words,
            arms: envelope.run.arms.clone(),
            reps: envelope.run.reps,
            estimate_ns: estimate.map(|it| it.total_ns),
        }
    }
}

/// Cells in one line.
pub fn cell_words(workload: &CellWorkload) -> String {
    let names: Vec<&str> = workload
        .cells
        .iter()
        .map(|cell| cell.name.as_str())
        .collect();
    format!("{}: {}", counted(names.len(), "cell"), names.join(", "))
}

/// How many arms, and by name those that another program answers.
fn arm_words(arms: &[String]) -> String {
    let others = arms.iter().filter(|arm| arm.contains(':'));
    let others: Vec<&str> = others.map(String::as_str).collect();
    let all = counted(arms.len(), "arm");
    if others.is_empty() {
        return all;
    }
    format!("{all} ({})", others.join(", "))
}

/// Prints every embedded envelope.
pub fn list(json: bool, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let class = machine::facts(world.cores).class;
    let mut rows: Vec<Value> = Vec::new();
    for (name, text) in envelope::embedded() {
        let refused = |source| Error::Envelope {
            file: (*name).to_owned(),
            source,
        };
        let none = Overrides::default();
        let resolved = match Declared::parse(text, name).map_err(refused)? {
            Declared::Session(envelope) => {
                let it = envelope.resolve(&none, world.cores).map_err(refused)?;
                let estimate = estimate::session(&it, &class, world);
                Listed::new(&it, words_of(&it), estimate)
            }
            Declared::Engine(envelope) => {
                let it = envelope.resolve(&none, world.cores).map_err(refused)?;
                let estimate = estimate::cells(&it, &class, world);
                Listed::new(&it, cell_words(&it.workload), estimate)
            }
        };
        let estimate_ns = resolved.estimate_ns;
        let present = models::locate(&resolved.model, world).is_ok();
        if !json {
            let here = if present {
                "here"
            } else {
                "not here, `run --pull` gets it"
            };
            let takes = estimate_ns.map_or("not timed here yet".to_owned(), |total_ns| {
                format!("takes about {}", rough_duration(total_ns))
            });
            writeln!(
                out,
                "{name}\n  {}\n  {}; {}, {}\n  model {} ({here}); {takes}\n",
                resolved.question,
                resolved.words,
                arm_words(&resolved.arms),
                counted(resolved.reps, "repetition"),
                resolved.model,
            )?;
        }
        rows.push(json!({
            "name": name,
            "question": resolved.question,
            "model": resolved.model,
            "model_present": present,
            "workload": resolved.workload,
            "arms": resolved.arms,
            "reps": resolved.reps,
            "estimate_ns": estimate_ns,
        }));
    }
    if json {
        writeln!(out, "{:#}", json!({ "envelopes": rows }))?;
    } else {
        writeln!(out, "run one:        {} run smoke", world.command)?;
        writeln!(out, "write your own: {} new NAME", world.command)?;
    }
    Ok(0)
}

/// Writes `NAME.toml`, which must not exist.
pub fn new(name: &str, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let text = envelope::template(name).map_err(|source| Error::Envelope {
        file: name.to_owned(),
        source,
    })?;
    let path = world.working_directory.join(format!("{name}.toml"));
    let mut file = File::create_new(&path).map_err(|source| {
        if source.kind() == ErrorKind::AlreadyExists {
            Error::Usage(format!(
                "{name}.toml exists and is never overwritten; give another name"
            ))
        } else {
            Error::io("cannot create", &path, source)
        }
    })?;
    file.write_all(text.as_bytes())
        .map_err(|source| Error::io("cannot write", &path, source))?;
    writeln!(
        out,
        "wrote {name}.toml: every field has its comment\n\nnext:"
    )?;
    writeln!(out, "  {} run {name}.toml", world.command)?;
    Ok(0)
}
