//! What can go wrong on the command line, and the exit code each failure has.
//!
//! Not here: the outcome of a run or an audit, which is a result and not an error.

use std::io;
use std::path::{Path, PathBuf};

/// A failure, said so that the next thing to type is plain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line or a file the user wrote asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// The envelope was refused.
    #[error("{file}: {source}")]
    Envelope {
        /// The embedded name or the file.
        file: String,
        /// What is wrong with it.
        source: workloads::Error,
    },
    /// A file could not be read or written.
    #[error("{doing} {path}: {source}", path = .path.display())]
    Io {
        /// "cannot read", "cannot write", ...
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Standard output is gone.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
    /// A needed model is not in the cache.
    #[error(
        "model {name} is not here; get it with\n\n    {command}\n\nor add --pull to this command"
    )]
    ModelMissing {
        /// The model asked for.
        name: String,
        /// What fetches it.
        command: String,
    },
    /// Something outside could not be reached or did not work.
    #[error("{0}")]
    Unreachable(String),
    /// A file is not what its digest says.
    #[error("{what} has the wrong sha256\n  expected {expected}\n  found    {found}\n{next}")]
    WrongDigest {
        /// The file, in words.
        what: String,
        /// The digest it must have.
        expected: String,
        /// The digest it has.
        found: String,
        /// What was done about it, or what to type.
        next: String,
    },
    /// Evidence that is not what it must be.
    #[error("{0}")]
    Broken(String),
    /// The engine refused or failed.
    #[error("{0}")]
    Engine(#[from] engine::Error),
    /// A page could not be rendered.
    #[cfg(feature = "report")]
    #[error("{0}")]
    Report(#[from] crate::report::ReportError),
}

impl Error {
    /// An input or output failure on `path`.
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            doing,
            path: path.to_path_buf(),
            source,
        }
    }

    /// 2 usage, 4 evidence broken, 5 target unreachable or nothing measured.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_)
            | Self::Envelope { .. }
            | Self::Engine(engine::Error::BadParameter { .. }) => 2,
            Self::WrongDigest { .. } | Self::Broken(_) => 4,
            Self::Io { .. }
            | Self::Output(_)
            | Self::ModelMissing { .. }
            | Self::Unreachable(_)
            | Self::Engine(_) => 5,
            #[cfg(feature = "report")]
            Self::Report(error) => error.exit_code(),
        }
    }
}
