//! Which pages each worker has kept, for whoever sends requests where they find most.
//!
//! An announcement is as new as its time says and may name pages that are gone since. Not here: sending requests anywhere.

use engine::PageKey;

use crate::barred::NotOurs;
use crate::bytes::{Reader, Writer};
use crate::object::{Fault, Kind, Name, Store};

const MAGIC: [u8; 8] = *b"fak.work";

/// A worker's pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The worker's name.
    pub worker: String,
    /// When it said so, in milliseconds of the clock workers go by.
    pub at_ms: u64,
    /// Keys, in the order the pages were kept.
    pub pages: Vec<PageKey>,
}

impl Announced {
    /// Tells everyone, in place of what this worker said before.
    pub fn tell(&self, store: &dyn Store, root: &PageKey) -> Result<(), Fault> {
        store.put(&self.place(), &self.write(root))
    }

    fn place(&self) -> Name {
        Name::of_text(Kind::Worker, &self.worker)
    }

    fn write(&self, root: &PageKey) -> Vec<u8> {
        let mut out = Writer::new(MAGIC, root);
        out.text(&self.worker);
        out.number(self.at_ms);
        out.number(self.pages.len() as u64);
        for key in &self.pages {
            out.raw(key.bytes());
        }
        out.signed()
    }

    /// Reads one.
    pub fn read(bytes: &[u8], root: &PageKey) -> Result<Self, NotOurs> {
        let mut rest = Reader::open(bytes, MAGIC, root)?;
        let read = |rest: &mut Reader<'_>| {
            let (worker, at_ms) = (rest.text()?, rest.number()?);
            let pages: Option<Vec<_>> = (0..rest.number()?).map(|_| rest.raw()).collect();
            let pages = pages?.into_iter().map(PageKey::of).collect();
            rest.is_empty().then_some(Self {
                worker,
                at_ms,
                pages,
            })
        };
        read(&mut rest).ok_or(NotOurs::Damaged)
    }

    /// What all workers of these engines say, by name. What cannot be read is nobody's.
    pub fn all(store: &dyn Store, root: &PageKey) -> Result<Vec<Self>, Fault> {
        let mut all = Vec::new();
        for entry in store.list(Kind::Worker)? {
            let mut bytes = Vec::new();
            if store.get(&entry.name, &mut bytes)? {
                all.extend(Self::read(&bytes, root));
            }
        }
        all.sort_by(|a, b| a.worker.cmp(&b.worker));
        Ok(all)
    }

    /// How many of these pages, each after the one before, it has.
    pub fn has(&self, keys: &[PageKey]) -> usize {
        let pages: std::collections::HashSet<_> = self.pages.iter().collect();
        keys.iter().take_while(|key| pages.contains(key)).count()
    }
}
