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
    #[error("{}", refusal(.file, .source))]
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
    #[error("model {name} is not here; get it with\n\n    {command}{hint}")]
    ModelMissing {
        /// The model asked for.
        name: String,
        /// What fetches it.
        command: String,
        /// What else helps, where something does.
        hint: &'static str,
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
    /// Answers that must be equal are not.
    #[error("{0}")]
    Unequal(String),
    /// Evidence that is not what it must be.
    #[error("{0}")]
    Broken(String),
    /// The engine refused or failed.
    #[error("{0}")]
    Engine(#[from] engine::Error),
    /// A page could not be rendered.
    #[cfg(feature = "report")]
    #[error("{0}")]
    Report(Box<crate::report::ReportError>),
}

#[cfg(feature = "report")]
impl From<crate::report::ReportError> for Error {
    fn from(error: crate::report::ReportError) -> Self {
        Self::Report(Box::new(error))
    }
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

    /// 1 answers differ, 2 usage, 4 evidence broken, 5 target unreachable or nothing measured.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_)
            | Self::Envelope { .. }
            | Self::Engine(
                engine::Error::BadOption { .. }
                | engine::Error::BadParameter { .. }
                | engine::Error::EmptyPrompt
                | engine::Error::TokenOutOfRange { .. }
                | engine::Error::ContextExceeded { .. },
            ) => 2,
            Self::Unequal(_) => 1,
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

/// What is wrong with an envelope, with its file named once.
fn refusal(file: &str, source: &workloads::Error) -> String {
    let text = source.to_string();
    let rest = text.strip_prefix(file).unwrap_or_default();
    if rest.starts_with([':', ',']) {
        text
    } else {
        format!("{file}: {text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_envelope_names_its_file_once() {
        let refused = |place: &str| {
            let source = workloads::Error::Field {
                place: place.to_owned(),
                field: "reps".to_owned(),
                value: "0".to_owned(),
                wanted: "1 to 50".to_owned(),
            };
            let file = "a.toml".to_owned();
            Error::Envelope { file, source }.to_string()
        };
        let rest = "reps = 0; give 1 to 50";
        assert_eq!(refused("a.toml, line 2"), format!("a.toml, line 2: {rest}"));
        assert_eq!(refused("a.toml"), format!("a.toml: {rest}"));
        assert_eq!(
            refused("command line"),
            format!("a.toml: command line: {rest}")
        );
    }
}
