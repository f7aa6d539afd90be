//! A store in memory, for tests and for the workers of one process.
//!
//! Not here: a capacity (`directory`); it holds all it is given until it is dropped.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::object::{Entry, Fault, Kind, Name, Store, fits};

const KIND: &str = "memory";

/// Keeps everything in one map.
#[derive(Debug, Default)]
pub struct Memory {
    kept: Mutex<BTreeMap<Name, Vec<u8>>>,
}

impl Memory {
    /// One in which nothing is kept.
    pub fn new() -> Self {
        Self::default()
    }

    /// The map is whole whoever panicked while holding it: each method changes it in one step.
    fn kept(&self) -> MutexGuard<'_, BTreeMap<Name, Vec<u8>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Memory {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn get(&self, name: &Name, into: &mut Vec<u8>) -> Result<bool, Fault> {
        let kept = self.kept();
        let Some(bytes) = kept.get(name) else {
            return Ok(false);
        };
        into.extend_from_slice(bytes);
        Ok(true)
    }

    fn put(&self, name: &Name, bytes: &[u8]) -> Result<(), Fault> {
        fits(bytes.len() as u64).map_err(|what| Fault::new(KIND, "put", name, what))?;
        let bytes = bytes.to_vec(); // copied before anyone has to wait
        self.kept().insert(*name, bytes);
        Ok(())
    }

    fn claim(&self, name: &Name, bytes: &[u8]) -> Result<bool, Fault> {
        fits(bytes.len() as u64).map_err(|what| Fault::new(KIND, "claim", name, what))?;
        let mut kept = self.kept();
        if kept.contains_key(name) {
            return Ok(false);
        }
        kept.insert(*name, bytes.to_vec());
        Ok(true)
    }

    fn remove(&self, name: &Name) -> Result<(), Fault> {
        self.kept().remove(name);
        Ok(())
    }

    fn list(&self, kind: Kind) -> Result<Vec<Entry>, Fault> {
        let of_kind = Name::new(kind, [0; 32])..=Name::new(kind, [u8::MAX; 32]);
        let entry = |(name, bytes): (&Name, &Vec<u8>)| Entry {
            name: *name,
            bytes: Some(bytes.len() as u64),
            used_ms: None,
        };
        Ok(self.kept().range(of_kind).map(entry).collect())
    }
}
