//! Other engines of a session: which program answers, refused before anything runs if there is none or no file for it.
//!
//! Not here: starting and asking it (`baselines`), playing arms in order (`stage`).

use std::path::{Path, PathBuf};

use baselines::server::arguments;
use workloads::arm::{is_server, named};
use workloads::envelope::ResolvedEnvelope;
use workloads::models::Label;
use workloads::trace::server::BeginServer;
use workloads::trace::{Program, TRACE_SCHEMA};

use super::find_model;
use crate::cli::RunArguments;
use crate::error::Error;
use crate::files;
use crate::models::Located;
use crate::programs::{self, Found, LLAMA_SERVER};
use crate::world::World;

/// The other engines of a run.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// None where no arm needs it.
    llama_server: Option<Found>,
    /// Name and digest of the file that is handed to it.
    model: (String, String),
}

impl Servers {
    /// Finds what the arms of `envelope` need, the command line over the environment.
    pub(super) fn find(
        envelope: &ResolvedEnvelope,
        arguments: &RunArguments,
        world: &World,
    ) -> Result<Self, Error> {
        let arm = envelope.run.arms.iter().find(|arm| is_server(arm));
        let given = given(arguments, arm.is_some(), world)?;
        let Some(arm) = arm else {
            return Ok(Self::default());
        };
        let model = find_model(&envelope.model, arguments.pull, world)?;
        let file = file_for(arm, &model, world)?;
        let llama_server = match given {
            Some(found) => found,
            None => programs::llama_server(world)?.ok_or_else(|| missing(arm, world))?,
        };
        Ok(Self {
            llama_server: Some(llama_server),
            model: (
                file.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                match &model.sha256 {
                    Some(sha256) => sha256.clone(),
                    None => files::file_sha256(&file)?,
                },
            ),
        })
    }

    /// llama.cpp's server, where an arm needs it.
    pub(super) fn llama_server(&self) -> Option<&Path> {
        self.llama_server.as_ref().map(|found| found.path.as_path())
    }

    /// What an arm's process would have said first, had it not died before; of the program nothing is known then.
    pub(super) fn begin(
        &self,
        envelope: &ResolvedEnvelope,
        arm: &str,
        rep: usize,
    ) -> Option<BeginServer> {
        self.llama_server()?;
        let (model, model_sha256) = &self.model;
        let arguments = arguments(envelope, named(arm).ok()?, model);
        Some(BeginServer {
            schema: TRACE_SCHEMA.to_owned(),
            envelope: envelope.name.clone(),
            envelope_sha256: envelope.sha256().ok()?,
            arm: arm.to_owned(),
            rep,
            model_sha256: model_sha256.clone(),
            program: Program {
                name: LLAMA_SERVER.to_owned(),
                sha256: None,
                libraries_sha256: None,
                version: None,
                arguments,
            },
        })
    }
}

/// The program that the command line gives; what it gives in vain is refused.
fn given(arguments: &RunArguments, is_asked: bool, world: &World) -> Result<Option<Found>, Error> {
    let mut found = None;
    for (name, path) in &arguments.programs {
        let path = programs::given(name, path, world)?;
        if name != LLAMA_SERVER {
            return Err(Error::Usage(format!(
                "--bin {name} is for envelopes of kind engine; in a session other arms are those of {LLAMA_SERVER}"
            )));
        }
        if !is_asked {
            return Err(Error::Usage(format!(
                "--bin {name}: no arm of this run is answered by it; add --arm fused --arm {name}:shared"
            )));
        }
        found = Some(Found::at(path, "--bin"));
    }
    Ok(found)
}

/// The file that is handed to `arm`'s program.
fn file_for(arm: &str, model: &Located, world: &World) -> Result<PathBuf, Error> {
    let what = match &model.path {
        Some(path) if path.is_file() => return Ok(path.clone()),
        Some(_) => "is a directory of other files",
        None if model.label == Label::Synthetic.word() => "is built from a seed and has no file",
        None => "has no file",
    };
    let (name, harness) = (&model.name, &world.command);
    Err(Error::Usage(format!(
        "{arm} reads a GGUF file, and the model {name} {what}; give one that is a file:\n  \
         {harness} model pull smollm2-135m && {harness} model quantize smollm2-135m --to q8_0\n  \
         and --model smollm2-135m-q8_0"
    )))
}

/// The refusal of an arm whose program is not here.
fn missing(arm: &str, world: &World) -> Error {
    Error::Unreachable(format!(
        "{arm} needs {LLAMA_SERVER}, which is not here: neither --bin {LLAMA_SERVER}=PATH nor FAK_LLAMA_SERVER names it, \
         it is not on the search path, and no Python package has it\n`{} baseline doctor {LLAMA_SERVER}` says what to type; or leave the arm out: \
         --arm NAME for each of the others",
        world.command
    ))
}
