//! `list` and `new`: the envelopes there are, and a file to start one's own from.
//!
//! Not here: reading an envelope (`workloads::envelope`), running one (`run`), or how the list looks (`show`).

mod show;

use std::fs::File;
use std::io::{ErrorKind, Write};

use serde_json::{Value, json};
use workloads::cells::CellWorkload;
use workloads::counts::CountsEnvelope;
use workloads::envelope::about::{self, About};
use workloads::envelope::{self, Declared, Kind, Overrides, ResolvedOf};

use crate::cli::ListArguments;
use crate::describe::words_of;
use crate::error::Error;
use crate::near::suggestion;
use crate::run::estimate::{self, Estimate};
use crate::table::counted;
use crate::world::World;
use crate::{counted, machine, models};

/// What is shown of an envelope, whatever its kind.
struct Listed {
    name: String,
    question: String,
    /// None where nothing is run.
    model: Option<String>,
    /// Whether it is in the cache; set once all of it is read.
    model_present: bool,
    /// The file of a set of tasks, which is not ours to carry.
    dataset: Option<String>,
    mode: String,
    workload: Value,
    words: String,
    arms: Vec<String>,
    reps: usize,
    estimate: Option<Estimate>,
}

impl Listed {
    fn new<W: Kind>(envelope: &ResolvedOf<W>, words: String, estimate: Option<Estimate>) -> Self {
        Self {
            name: envelope.name.clone(),
            question: envelope.question.clone(),
            model: Some(envelope.model.clone()),
            model_present: false,
            dataset: None,
            mode: envelope.mode.clone(),
            workload: json!(envelope.workload),
            words,
            arms: envelope.run.arms.clone(),
            reps: envelope.run.reps,
            estimate,
        }
    }

    /// An envelope that is counted and not run.
    fn counted(envelope: &CountsEnvelope) -> Self {
        let workload = &envelope.workload;
        let dataset = workload.dataset.as_ref();
        Self {
            name: envelope.name.clone(),
            question: envelope.question.clone(),
            model: None,
            model_present: false,
            dataset: dataset.map(|it| it.file.clone()),
            mode: String::new(),
            workload: json!(workload),
            words: counted::words(workload),
            arms: workloads::counts::arms().map(str::to_owned).to_vec(),
            reps: 0,
            estimate: None,
        }
    }

    fn json(&self, about: &About) -> Value {
        let said = about.of(&self.name);
        let (group, paragraph) = said.unzip();
        json!({
            "name": self.name,
            "question": self.question,
            "model": self.model,
            "model_present": self.model.as_ref().map(|_| self.model_present),
            "workload": self.workload,
            "arms": self.arms,
            "reps": self.model.as_ref().map(|_| self.reps),
            "estimate_ns": self.estimate.as_ref().map(|it| it.total_ns),
            "group": group.map(|it| &it.id),
            "losing": group.map(|it| it.losing.contains(&self.name)),
            "origin": paragraph.map(|it| &it.origin),
            "asks": paragraph.map(|it| &it.asks),
            "does_not_show": paragraph.map(|it| &it.does_not_show),
        })
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

/// Prints the embedded envelopes: all by group, those of one group, or one with all that is said of it.
pub fn list(arguments: &ListArguments, world: &World, out: &mut dyn Write) -> Result<u8, Error> {
    let about = About::embedded().map_err(|source| Error::Envelope {
        file: about::FILE.to_owned(),
        source,
    })?;
    let asked = arguments.name.as_deref();
    refuse_unknown(asked, &about)?;
    let class = machine::facts(world.cores).class;
    let mut listed: Vec<Listed> = Vec::new();
    for (name, text) in envelope::embedded() {
        let group = about.of(name).map(|(group, _)| group.id.as_str());
        if asked.is_some_and(|asked| asked != *name && Some(asked) != group) {
            continue;
        }
        let refused = |source| Error::Envelope {
            file: (*name).to_owned(),
            source,
        };
        let none = Overrides::default();
        let mut resolved = match Declared::parse(text, name).map_err(refused)? {
            Declared::Counts(envelope) => Listed::counted(&envelope),
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
        let model = resolved.model.as_ref();
        resolved.model_present = model.is_some_and(|it| models::locate(it, world).is_ok());
        listed.push(resolved);
    }
    match (&listed[..], asked) {
        _ if arguments.json => {
            let envelopes: Vec<Value> = listed.iter().map(|it| it.json(&about)).collect();
            let document = json!({ "groups": about.groups(), "envelopes": envelopes });
            writeln!(out, "{document:#}")?;
        }
        ([one], Some(name)) if one.name == name => {
            write!(out, "{}", show::one(one, &about, world))?;
        }
        _ => write!(out, "{}", show::overview(&listed, &about, world))?,
    }
    Ok(0)
}

/// Refuses what is neither an envelope nor a group.
fn refuse_unknown(asked: Option<&str>, about: &About) -> Result<(), Error> {
    let envelopes = envelope::embedded().iter().map(|(name, _)| *name);
    let groups = about.groups().iter().map(|group| group.id.as_str());
    let known = envelopes.chain(groups);
    match asked {
        Some(name) if !known.clone().any(|it| it == name) => Err(Error::Usage(format!(
            "no envelope and no group is named `{name}` ({}); `harness list` shows all",
            suggestion(name, known)
        ))),
        _ => Ok(()),
    }
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
