//! A store in a directory of a file system: one file per name, `page/<digits>`, whole as soon as it is visible.
//!
//! Several processes may share one, and any of them may be killed at any moment: what it had begun lies under `tmp/`, where no
//! name points, until somebody opens the store an hour later. Not here: how a file comes to be (`write`), what is thrown
//! out when it gets full (`capacity`), whether the bytes are those once written (their reader checks a digest).

mod capacity;
mod write;

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use crate::object::{Entry, Fault, Kind, Name, Store, fits};
use capacity::Capacity;
use write::Publish;

const KIND: &str = "directory";
/// Where files stand before they have their name.
const TEMPORARY: &str = "tmp";
/// No write takes this long: what is older under `tmp/` was begun by a process that is gone.
const LEFTOVER_AGE: Duration = Duration::from_secs(3600);
/// A page's time of use is written down this often at most, so that reading stays reading.
const USE_NOTED_EVERY: Duration = Duration::from_secs(10);

/// What a directory is opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// How many bytes of pages it may hold; those not used for longest go first. Nothing but pages is counted or goes.
    /// Processes that share a directory see each other's pages after some seconds, so together they may exceed it by
    /// what the others wrote meanwhile.
    pub bytes_max: Option<u64>,
}

/// Keeps every object in a file of its own.
pub struct Directory {
    root: PathBuf,
    /// Tells this opening's temporary files from those of all others, together with `begun`.
    opening: String,
    begun: AtomicU64,
    capacity: Option<Capacity>,
    seams: Seams,
}

/// What tests take the place of.
struct Seams {
    now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    /// Called before each step of a write, which fails as this does.
    step: Box<dyn Fn(write::Step) -> io::Result<()> + Send + Sync>,
}

impl Default for Seams {
    fn default() -> Self {
        Self {
            now: Box::new(SystemTime::now),
            step: Box::new(|_| Ok(())),
        }
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Directory").field(&self.root).finish()
    }
}

impl Directory {
    /// The store in this directory, which is made, readable by its owner only, where there is none; one that exists keeps
    /// its rights. All of it must lie on one file system that has hard links.
    pub fn open(path: &Path, options: DirectoryOptions) -> Result<Self, Fault> {
        Self::open_with(path, options, Seams::default())
    }

    fn open_with(path: &Path, options: DirectoryOptions, seams: Seams) -> Result<Self, Fault> {
        let fault = |what: io::Error| Fault::new(KIND, "open", path.display(), what);
        let since = (seams.now)().duration_since(SystemTime::UNIX_EPOCH);
        let directory = Self {
            root: path.to_owned(),
            // The number of a process is unique on one machine, or in one container, only: the time tells the others apart.
            opening: format!(
                "{}-{}",
                std::process::id(),
                since.unwrap_or_default().as_nanos()
            ),
            begun: AtomicU64::new(0),
            capacity: options.bytes_max.map(Capacity::new),
            seams,
        };
        directory.make().map_err(fault)?;
        directory.sweep().map_err(fault)?;
        Ok(directory)
    }

    fn make(&self) -> io::Result<()> {
        let kinds = Kind::ALL.map(|kind| self.of_kind(kind));
        let mut made = fs::DirBuilder::new();
        made.recursive(true).mode(0o700);
        for path in kinds.iter().chain([&self.temporary()]) {
            made.create(path)?;
            if !fs::symlink_metadata(path)?.is_dir() {
                return Err(io::Error::other(format!(
                    "{} is no directory",
                    path.display()
                )));
            }
        }
        File::open(&self.root)?.sync_all() // or a file that was synced could lie in a directory that is gone
    }

    /// Removes what was begun long ago and never got a name.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.temporary())? {
            let entry = entry?;
            let Some(meta) = unless_gone(entry.metadata())? else {
                continue;
            };
            let age = (self.seams.now)().duration_since(meta.modified()?);
            if meta.is_file() && age.is_ok_and(|age| age > LEFTOVER_AGE) {
                unless_gone(fs::remove_file(entry.path()))?;
            }
        }
        Ok(())
    }

    fn temporary(&self) -> PathBuf {
        self.root.join(TEMPORARY)
    }

    fn of_kind(&self, kind: Kind) -> PathBuf {
        self.root.join(kind.word())
    }

    fn path(&self, name: &Name) -> PathBuf {
        self.of_kind(name.kind).join(name.digits())
    }

    /// Reads a file straight to where it is wanted: one allocation, no zeroes first, no copy between.
    fn read(&self, name: &Name, into: &mut Vec<u8>) -> io::Result<bool> {
        let opened = File::options()
            .read(true)
            // Neither follow a link that someone put there nor wait for whoever may write to a pipe.
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(self.path(name));
        let opened = match opened {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(io::Error::other("a symbolic link, which is not followed"));
            }
            opened => unless_gone(opened)?,
        };
        let Some(mut file) = opened else {
            return Ok(false);
        };
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::other("not a file"));
        }
        fits(meta.len()).map_err(io::Error::other)?;
        into.try_reserve(meta.len() as usize)?;
        // A named file never changes, so its length holds, and `File::read_to_end` asks for all of it in one call.
        file.read_to_end(into)?;
        if name.kind == Kind::Page {
            self.note_use(&file, &meta);
        }
        Ok(true)
    }

    /// A page that was read is worth keeping. Whoever may not write here reads all the same.
    fn note_use(&self, file: &File, meta: &Metadata) {
        let now = (self.seams.now)();
        let noted = meta
            .modified()
            .is_ok_and(|used| matches!(now.duration_since(used), Ok(age) if age < USE_NOTED_EVERY));
        if !noted {
            let _ = file.set_modified(now);
        }
    }

    fn entries(&self, kind: Kind) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.of_kind(kind))? {
            let entry = entry?;
            let digits = entry.file_name();
            let Some(name) = digits.to_str().and_then(|text| Name::parse(kind, text)) else {
                continue;
            };
            // Does not follow links; what is no file is listed without a length, and reading it says what it is.
            let Some(meta) = unless_gone(entry.metadata())? else {
                continue;
            };
            let used = meta.modified()?.duration_since(SystemTime::UNIX_EPOCH);
            entries.push(Entry {
                name,
                bytes: meta.is_file().then_some(meta.len()),
                used_ms: used.ok().map(|since| since.as_millis() as u64),
            });
        }
        Ok(entries)
    }
}

/// None if the file has gone, which with several processes it may at any moment.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

impl Store for Directory {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn get(&self, name: &Name, into: &mut Vec<u8>) -> Result<bool, Fault> {
        let start = into.len();
        self.read(name, into).map_err(|what| {
            into.truncate(start);
            Fault::new(KIND, "get", name, what)
        })
    }

    fn put(&self, name: &Name, bytes: &[u8]) -> Result<(), Fault> {
        self.write(name, bytes, Publish::Replace)
            .map(|_| ())
            .map_err(|what| Fault::new(KIND, "put", name, what))
    }

    fn claim(&self, name: &Name, bytes: &[u8]) -> Result<bool, Fault> {
        self.write(name, bytes, Publish::Claim)
            .map_err(|what| Fault::new(KIND, "claim", name, what))
    }

    fn remove(&self, name: &Name) -> Result<(), Fault> {
        self.unlink(name)
            .map_err(|what| Fault::new(KIND, "remove", name, what))
    }

    fn list(&self, kind: Kind) -> Result<Vec<Entry>, Fault> {
        self.entries(kind)
            .map_err(|what| Fault::new(KIND, "list", kind.word(), what))
    }
}

#[cfg(test)]
mod tests;
