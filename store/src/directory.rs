//! A directory as a store: a file per name, of which only whole ones are ever seen.
//!
//! `<directory>/<kind>/<64 digits>`. What is written goes to a file in `<directory>/tmp` first, is synced where it must
//! outlive a loss of power, and gets its name by one rename, or one link where the name must be new. So a process killed at
//! any moment leaves what was there or what was to be there, and at most a file in `tmp`, which whoever opens the directory
//! later removes. Not here: what the bytes say.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::NamedTempFile;

use crate::object::{Entry, Fault, Kind, Name, Store};

const KIND: &str = "directory";
const TMP: &str = "tmp";
/// A file in `tmp` so old belongs to nobody.
const LEFT_OVER: Duration = Duration::from_secs(3600);
/// When a page was found is written down only where that would change by more.
const USED_AGAIN: Duration = Duration::from_secs(5);

/// How a directory is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// Bytes that pages may take; those not found for longest go when more are kept. No limit if none is given.
    pub bytes_max: Option<u64>,
}

/// A step of keeping something, for whoever wants to see what happens when one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Making the file in `tmp`.
    Create,
    /// Writing the first half of it.
    WriteHalf,
    /// Writing the rest.
    WriteRest,
    /// Having the system keep what was written.
    Sync,
    /// Giving it its name.
    Name,
    /// Having the system keep the name.
    SyncDirectory,
}

impl Step {
    /// All, in their order.
    pub const ALL: [Self; 6] = [
        Self::Create,
        Self::WriteHalf,
        Self::WriteRest,
        Self::Sync,
        Self::Name,
        Self::SyncDirectory,
    ];
}

/// What is asked before each step.
pub type Before = Box<dyn Fn(Step) -> io::Result<()> + Send + Sync>;

/// A directory.
pub struct Directory {
    path: PathBuf,
    options: DirectoryOptions,
    /// Bytes of pages, as far as known: those of the last listing, and what was kept here since. None before the first.
    page_bytes: Mutex<Option<u64>>,
    before: Option<Before>,
}

/// Whether a kind must outlive a loss of power. Leases and announcements are worth nothing to whoever comes after it; a
/// barred text must not come back with the page it bars.
fn is_durable(kind: Kind) -> bool {
    match kind {
        Kind::Page | Kind::Session | Kind::Barred => true,
        Kind::Lease | Kind::Worker => false,
    }
}

impl Directory {
    /// Opens one, made if it is not there.
    pub fn open(path: &Path, options: DirectoryOptions) -> io::Result<Self> {
        for folder in Kind::ALL.iter().map(|kind| kind.word()).chain([TMP]) {
            fs::create_dir_all(path.join(folder))?;
        }
        let opened = Self {
            path: path.to_path_buf(),
            options,
            page_bytes: Mutex::new(None),
            before: None,
        };
        opened.sweep()?;
        Ok(opened)
    }

    /// The same, asking before each step of keeping something: for tests of what happens when one fails.
    #[must_use]
    pub fn asking(self, before: Before) -> Self {
        Self {
            before: Some(before),
            ..self
        }
    }

    /// Removes what writers that are gone left.
    fn sweep(&self) -> io::Result<()> {
        for file in fs::read_dir(self.path.join(TMP))? {
            let file = file?;
            let age = file.metadata().and_then(|it| it.modified());
            let age = age.ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age >= LEFT_OVER) {
                gone_is_fine(fs::remove_file(file.path()))?;
            }
        }
        Ok(())
    }

    fn file(&self, name: &Name) -> PathBuf {
        self.path.join(name.kind.word()).join(name.digits())
    }

    fn before(&self, step: Step) -> io::Result<()> {
        self.before.as_ref().map_or(Ok(()), |before| before(step))
    }

    /// Writes `bytes` to a file of their own, and has `give` name it; whatever fails, no more is left of it.
    fn keep(
        &self,
        name: &Name,
        bytes: &[u8],
        give: impl FnOnce(NamedTempFile, &Path) -> io::Result<bool>,
    ) -> io::Result<bool> {
        let file = self.write(name.kind, bytes)?;
        self.before(Step::Name)?;
        let given = give(file, &self.file(name))?;
        if given && is_durable(name.kind) {
            self.before(Step::SyncDirectory)?;
            File::open(self.path.join(name.kind.word()))?.sync_all()?;
        }
        Ok(given)
    }

    fn write(&self, kind: Kind, bytes: &[u8]) -> io::Result<NamedTempFile> {
        self.before(Step::Create)?;
        let mut file = NamedTempFile::new_in(self.path.join(TMP))?;
        let (half, rest) = bytes.split_at(bytes.len() / 2);
        self.before(Step::WriteHalf)?;
        file.write_all(half)?;
        self.before(Step::WriteRest)?;
        file.write_all(rest)?;
        if is_durable(kind) {
            self.before(Step::Sync)?;
            file.as_file().sync_data()?;
        }
        Ok(file)
    }

    fn read(&self, name: &Name, into: &mut Vec<u8>) -> io::Result<bool> {
        let path = self.file(name);
        let there = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            there => there?,
        };
        if !there.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        let had = into.len();
        if let Err(error) = file.read_to_end(into) {
            into.truncate(had);
            return Err(error);
        }
        let now = SystemTime::now();
        let unused = (there.modified().ok()).and_then(|at| now.duration_since(at).ok());
        if name.kind == Kind::Page && unused.is_some_and(|unused| unused > USED_AGAIN) {
            let _ = file.set_modified(now); // then it counts as used when it was written
        }
        Ok(true)
    }

    fn entries(&self, kind: Kind) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for file in fs::read_dir(self.path.join(kind.word()))? {
            let file = file?;
            let digits = file.file_name();
            let Some(name) = digits.to_str().and_then(|it| Name::parse(kind, it)) else {
                continue;
            };
            match file.metadata() {
                Ok(there) if there.is_file() => entries.push(Entry {
                    name,
                    bytes: Some(there.len()),
                    used_ms: used_ms(&there),
                }),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    /// Makes room for a page of so many bytes among those there may be.
    fn make_room(&self, name: &Name, bytes: u64) -> io::Result<()> {
        let Some(most) = self.options.bytes_max.filter(|_| name.kind == Kind::Page) else {
            return Ok(());
        };
        if bytes > most {
            let why = format!("a page of {bytes} bytes, and all pages may take {most}");
            return Err(io::Error::other(why));
        }
        let mut known = self
            .page_bytes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = known.as_mut().filter(|kept| **kept + bytes <= most) {
            *kept += bytes;
            return Ok(());
        }
        // Others write and remove too: what is there is what counts.
        let mut pages = self.entries(Kind::Page)?;
        pages.retain(|page| page.name != *name);
        pages.sort_by_key(|page| page.used_ms);
        let mut kept: u64 = pages.iter().filter_map(|page| page.bytes).sum();
        for page in &pages {
            if kept + bytes <= most {
                break;
            }
            gone_is_fine(fs::remove_file(self.file(&page.name)))?;
            kept -= page.bytes.unwrap_or(0);
        }
        *known = Some(kept + bytes);
        Ok(())
    }
}

/// When a file was last written or found, in milliseconds since 1970.
fn used_ms(there: &Metadata) -> Option<u64> {
    let at = there.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(at.as_millis()).ok()
}

fn gone_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn fault<T>(
    asked: &'static str,
    name: &dyn std::fmt::Display,
    done: io::Result<T>,
) -> Result<T, Fault> {
    done.map_err(|error| Fault {
        store: KIND,
        asked,
        name: name.to_string(),
        what: error.to_string(),
    })
}

impl Store for Directory {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn get(&self, name: &Name, into: &mut Vec<u8>) -> Result<bool, Fault> {
        fault("get", name, self.read(name, into))
    }

    fn put(&self, name: &Name, bytes: &[u8]) -> Result<(), Fault> {
        let put = self.make_room(name, bytes.len() as u64).and_then(|()| {
            self.keep(name, bytes, |file, path| {
                file.persist(path).map_err(|refused| refused.error)?;
                Ok(true)
            })
        });
        fault("put", name, put.map(|_| ()))
    }

    fn claim(&self, name: &Name, bytes: &[u8]) -> Result<bool, Fault> {
        let claimed = self.keep(name, bytes, |file, path| {
            match file.persist_noclobber(path) {
                Ok(_) => Ok(true),
                Err(refused) if refused.error.kind() == ErrorKind::AlreadyExists => Ok(false),
                Err(refused) => Err(refused.error),
            }
        });
        fault("claim", name, claimed)
    }

    fn remove(&self, name: &Name) -> Result<(), Fault> {
        fault(
            "remove",
            name,
            gone_is_fine(fs::remove_file(self.file(name))),
        )
    }

    fn list(&self, kind: Kind) -> Result<Vec<Entry>, Fault> {
        fault("list", &kind.word(), self.entries(kind))
    }
}
