//! Other engines of a session: which program answers, refused before anything runs if there is none or no file for it.
//!
//! Not here: starting and asking it (`baselines`), playing arms in order (`stage`).

use std::net::SocketAddr;
use std::path::PathBuf;

use baselines::server::{arguments, attached_program};
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

/// How llama.cpp's server is come by.
#[derive(Debug)]
enum By {
    /// Started for every repetition.
    Program(Found),
    /// It runs already.
    Attached(SocketAddr),
}

/// The other engines of a run.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// None where no arm needs it.
    llama_server: Option<By>,
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
        let llama_server = if let Some(given) = given {
            given
        } else {
            let found = programs::llama_server(world)?;
            By::Program(found.ok_or_else(|| missing(arm, world))?)
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

    /// What an arm's process is told of them; files that a server keeps go to `scratch`.
    pub(super) fn told(&self, scratch: PathBuf) -> baselines::Servers {
        let (mut llama_server, mut attached) = (None, None);
        match &self.llama_server {
            None => {}
            Some(By::Program(found)) => llama_server = Some(found.path.clone()),
            Some(By::Attached(address)) => attached = Some(*address),
        }
        baselines::Servers {
            llama_server,
            attached,
            scratch: Some(scratch),
        }
    }

    /// What an arm's process would have said first, had it not died before; of the program nothing is known then.
    pub(super) fn begin(
        &self,
        envelope: &ResolvedEnvelope,
        arm: &str,
        rep: usize,
    ) -> Option<BeginServer> {
        let (model, model_sha256) = &self.model;
        let program = match self.llama_server.as_ref()? {
            By::Program(_) => Program {
                arguments: arguments(envelope, named(arm).ok()?, model),
                ..attached_program()
            },
            By::Attached(_) => attached_program(),
        };
        Some(BeginServer {
            schema: TRACE_SCHEMA.to_owned(),
            envelope: envelope.name.clone(),
            envelope_sha256: envelope.sha256().ok()?,
            arm: arm.to_owned(),
            rep,
            model_sha256: model_sha256.clone(),
            program,
        })
    }
}

/// The server that the command line gives; what it gives in vain is refused.
fn given(arguments: &RunArguments, is_asked: bool, world: &World) -> Result<Option<By>, Error> {
    let in_vain = |flag: &str| {
        Error::Usage(format!(
            "{flag} {LLAMA_SERVER}: no arm of this run is answered by it; add --arm fused --arm {LLAMA_SERVER}:shared"
        ))
    };
    let mut found = arguments.attach.map(By::Attached);
    if found.is_some() && !is_asked {
        return Err(in_vain("--attach"));
    }
    for (name, path) in &arguments.programs {
        let path = programs::given(name, path, world)?;
        if name != LLAMA_SERVER {
            return Err(Error::Usage(format!(
                "--bin {name} is for envelopes of kind engine; in a session other arms are those of {LLAMA_SERVER}"
            )));
        }
        if !is_asked {
            return Err(in_vain("--bin"));
        }
        found = Some(By::Program(Found::at(path, "--bin")));
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
