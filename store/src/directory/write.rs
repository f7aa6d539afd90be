//! How a file comes to stand under its name: written elsewhere, synced where its kind asks for it, then named in one step.
//!
//! Until that step nothing is visible; after it all is. Not here: reading (`directory`), making room (`capacity`).

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::{Directory, unless_gone};
use crate::object::{Kind, Name, fits};

/// At most this much goes to the file at once.
const CHUNK: usize = 1 << 20;

/// What can fail, or be the last thing a process does, while it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The temporary file is made.
    Create,
    /// A part of the bytes is written.
    Write,
    /// The bytes are on the disk.
    Sync,
    /// The file gets its name.
    Publish,
    /// A claimed file loses its temporary name.
    Forget,
    /// The name is on the disk.
    SyncDirectory,
}

/// How a file gets its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Publish {
    /// In place of what has it.
    Replace,
    /// If nothing has it.
    Claim,
}

/// What is waited for before a write is said to be done. `kill -9` loses nothing in either case, since what a process wrote
/// is the kernel's; this is for when the machine loses power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Nothing: whoever held a lease or was a worker is gone as well, and a reader takes one that is empty as expired.
    Nothing,
    /// The bytes, so that the name never stands over others. That the name itself is lost costs one page computed again.
    Bytes,
    /// The bytes and the name: nobody can compute a session again, and a text must not come back because its bar is lost.
    BytesAndName,
}

fn waits(kind: Kind) -> Waits {
    match kind {
        Kind::Page => Waits::Bytes,
        Kind::Session | Kind::Barred => Waits::BytesAndName,
        Kind::Lease | Kind::Worker => Waits::Nothing,
    }
}

/// A file under `tmp/` that goes when this does.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // else it goes with the leftovers
    }
}

impl Directory {
    /// Whether the bytes now stand under the name. A fault at the last step, when the directory is synced, leaves the new
    /// bytes there, since those before are gone: they may not outlive a loss of power.
    pub(super) fn write(&self, name: &Name, bytes: &[u8], how: Publish) -> io::Result<bool> {
        fits(bytes.len() as u64).map_err(io::Error::other)?;
        let path = self.path(name);
        if how == Publish::Claim && fs::symlink_metadata(&path).is_ok() {
            return Ok(false); // the usual answer, without writing first; the link decides
        }
        let page = name.kind == Kind::Page;
        let room = match &self.capacity {
            Some(capacity) if page => Some(capacity.make_room(self, name, bytes.len() as u64)?),
            _ => None,
        };
        let done = self.write_temporary(name, bytes).and_then(|temporary| {
            (self.seams.step)(Step::Publish)?;
            match how {
                Publish::Replace => fs::rename(&temporary.0, &path).map(|()| true),
                Publish::Claim => self.link(&temporary, &path),
            }
        })?;
        if let Some(room) = room.filter(|_| done) {
            room.taken();
        }
        if done && waits(name.kind) == Waits::BytesAndName {
            self.sync_directory(name.kind)?;
        }
        Ok(done)
    }

    fn write_temporary(&self, name: &Name, bytes: &[u8]) -> io::Result<Temporary> {
        let step = &self.seams.step;
        step(Step::Create)?;
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let path = self.temporary().join(format!("{}-{number}", self.opening));
        let mut file = File::options().write(true).create_new(true).open(&path)?;
        let temporary = Temporary(path); // only now: it is ours
        for chunk in bytes.chunks(CHUNK) {
            step(Step::Write)?;
            file.write_all(chunk)?;
        }
        if name.kind == Kind::Page {
            file.set_modified((self.seams.now)())?;
        }
        if waits(name.kind) != Waits::Nothing {
            step(Step::Sync)?;
            file.sync_data()?;
        }
        Ok(temporary)
    }

    /// A second name for the file, if nothing has that name yet.
    fn link(&self, temporary: &Temporary, path: &Path) -> io::Result<bool> {
        match fs::hard_link(&temporary.0, path) {
            Ok(()) => {}
            // Over a network the answer to a link that was made may get lost, and the second try finds the first.
            Err(_) if fs::symlink_metadata(&temporary.0).is_ok_and(|meta| meta.nlink() == 2) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error),
        }
        (self.seams.step)(Step::Forget)?;
        Ok(true)
    }

    fn sync_directory(&self, kind: Kind) -> io::Result<()> {
        (self.seams.step)(Step::SyncDirectory)?;
        File::open(self.of_kind(kind))?.sync_all()
    }

    /// Takes a name away.
    pub(super) fn unlink(&self, name: &Name) -> io::Result<()> {
        let there = unless_gone(fs::remove_file(self.path(name)))?.is_some();
        if let Some(capacity) = self.capacity.as_ref().filter(|_| name.kind == Kind::Page) {
            capacity.forget(name);
        }
        if there && waits(name.kind) == Waits::BytesAndName {
            self.sync_directory(name.kind)?;
        }
        Ok(())
    }
}
