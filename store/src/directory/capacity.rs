//! How many bytes of pages a directory holds, and which go when it would hold too many.
//!
//! The index is a memory of the last listing and of what this process did since; the files are the truth, and other processes
//! write and remove them too. Not here: anything but pages.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::{Directory, unless_gone};
use crate::object::{Kind, Name};

/// For how long a listing is believed.
const LISTING_AGE_MAX: Duration = Duration::from_secs(10);
/// Whoever makes room makes this part of the whole more, so that a full directory is not listed at every write.
const SPARE_PART: u64 = 16;

/// The limit and what is known of its use.
pub(super) struct Capacity {
    bytes_max: u64,
    index: Mutex<Index>,
}

#[derive(Default)]
struct Index {
    /// Length and time of use in milliseconds, as listed or written here since.
    pages: HashMap<Name, (u64, u64)>,
    /// The sum of their lengths.
    bytes: u64,
    /// What is being written at the moment.
    bytes_pending: u64,
    listed: Option<SystemTime>,
}

/// Room for one page; given back unless it is taken.
pub(super) struct Room<'a> {
    capacity: &'a Capacity,
    name: Name,
    bytes: u64,
}

impl Index {
    fn insert(&mut self, name: Name, bytes: u64, used_ms: u64) {
        self.remove(&name);
        self.pages.insert(name, (bytes, used_ms));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn remove(&mut self, name: &Name) {
        if let Some((bytes, _)) = self.pages.remove(name) {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// How many bytes there will be once `bytes` more are written under a name.
    fn bytes_with(&self, name: &Name, bytes: u64) -> u64 {
        let replaced = self.pages.get(name).map_or(0, |(bytes, _)| *bytes);
        let others = (self.bytes - replaced).saturating_add(self.bytes_pending);
        others.saturating_add(bytes)
    }

    fn list(&mut self, directory: &Directory, now: SystemTime) -> io::Result<()> {
        let entries = directory.entries(Kind::Page)?;
        *self = Self {
            bytes_pending: self.bytes_pending,
            listed: Some(now),
            ..Self::default()
        };
        for entry in entries {
            if let Some(bytes) = entry.bytes {
                self.insert(entry.name, bytes, entry.used_ms.unwrap_or(0));
            }
        }
        Ok(())
    }

    /// Lets the pages not used for longest go, all but the one that is about to be written, until there are `bytes_max`.
    /// What another process let go first is gone as well.
    fn evict(
        &mut self,
        directory: &Directory,
        (written, bytes): (&Name, u64),
        bytes_max: u64,
    ) -> io::Result<()> {
        let mut oldest: Vec<_> = self
            .pages
            .iter()
            .map(|(name, (_, used))| (*used, *name))
            .collect();
        oldest.sort_unstable();
        let mut failed = Ok(());
        for (_, name) in oldest {
            if self.bytes_with(written, bytes) <= bytes_max {
                return Ok(());
            }
            if name == *written {
                continue;
            }
            match unless_gone(std::fs::remove_file(directory.path(&name))) {
                Ok(_) => self.remove(&name),
                Err(error) => failed = Err(error), // the next may go all the same
            }
        }
        failed
    }
}

impl Capacity {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            index: Mutex::default(),
        }
    }

    /// An index left half changed by a panic is put right by the next listing.
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for `bytes` under a name, made if need be.
    pub(super) fn make_room(
        &self,
        directory: &Directory,
        name: &Name,
        bytes: u64,
    ) -> io::Result<Room<'_>> {
        let full = || {
            let full = format!("{bytes} bytes have no room in {}", self.bytes_max);
            io::Error::new(io::ErrorKind::StorageFull, full)
        };
        if bytes > self.bytes_max {
            return Err(full()); // and nothing goes for it
        }
        let now = (directory.seams.now)();
        let mut index = self.index();
        let believed = index
            .listed
            .is_some_and(|at| matches!(now.duration_since(at), Ok(age) if age < LISTING_AGE_MAX));
        if !believed || index.bytes_with(name, bytes) > self.bytes_max {
            index.list(directory, now)?;
        }
        if index.bytes_with(name, bytes) > self.bytes_max {
            let spared = (self.bytes_max - self.bytes_max / SPARE_PART).max(bytes);
            let failed = index.evict(directory, (name, bytes), spared);
            if index.bytes_with(name, bytes) > self.bytes_max {
                return Err(failed.err().unwrap_or_else(full));
            }
        }
        index.bytes_pending += bytes;
        Ok(Room {
            capacity: self,
            name: *name,
            bytes,
        })
    }

    pub(super) fn forget(&self, name: &Name) {
        self.index().remove(name);
    }
}

impl Room<'_> {
    /// The page stands there now.
    pub(super) fn taken(self) {
        let mut index = self.capacity.index();
        // Its time is read from the file before it matters: whoever evicts lists first.
        index.insert(self.name, self.bytes, u64::MAX);
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.capacity.index().bytes_pending -= self.bytes;
    }
}
