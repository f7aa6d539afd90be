//! A store that fails as a script says, for tests of whoever stands on one.
//!
//! Not here: faults inside of a store's own steps (`directory`), what a fault is worth to its caller (`keeper`).

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::object::{Entry, Fault, Kind, Name, Store};

/// What a full disk says.
pub const NO_SPACE: &str = "No space left on device (os error 28)";
/// What a broken disk says.
pub const IO_ERROR: &str = "Input/output error (os error 5)";

/// One call, as the script is shown it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// `get`, `put`, `claim`, `remove` or `list`.
    pub asked: &'static str,
    /// Of which kind of names.
    pub kind: Kind,
    /// Of which name; none when listing.
    pub name: Option<Name>,
}

/// What becomes of a call.
pub enum Turn {
    /// It goes through.
    Pass,
    /// It fails, and nothing has happened.
    Before(&'static str),
    /// It fails, and has happened.
    After(&'static str),
    /// This is run first, for as long as it takes; then the call goes through.
    Hang(Box<dyn FnOnce() + Send>),
    /// The byte at this place of what is read, counted round its length, has its lowest bit turned.
    Corrupt(usize),
    /// No more than this many bytes of what is read arrive.
    Truncate(usize),
    /// It succeeds, and nothing has happened.
    Lose,
}

type Script = dyn FnMut(Call) -> Turn + Send;

/// Any store, with a script before it that decides what becomes of each call. For tests.
pub struct Faulty<S> {
    inner: S,
    script: Mutex<Box<Script>>,
}

impl<S: Store> Faulty<S> {
    /// `inner`, failing as `script` says; it is asked once per call, by one thread at a time.
    pub fn new(inner: S, script: impl FnMut(Call) -> Turn + Send + 'static) -> Self {
        let script = Mutex::new(Box::new(script) as Box<Script>);
        Self { inner, script }
    }

    /// The store behind, which never fails by script.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// One call that changes or lists: `lost` is the answer if it is to be lost.
    fn call<T>(
        &self,
        call: Call,
        lost: T,
        run: impl FnOnce(&S, Turn) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let turn = {
            let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
            script(call)
        };
        let fault = |what| match call.name {
            Some(name) => Fault::new(self.inner.kind(), call.asked, name, what),
            None => Fault::new(self.inner.kind(), call.asked, call.kind.word(), what),
        };
        match turn {
            Turn::Before(what) => Err(fault(what)),
            Turn::After(what) => run(&self.inner, Turn::Pass).and(Err(fault(what))),
            Turn::Hang(hang) => {
                hang();
                run(&self.inner, Turn::Pass)
            }
            Turn::Lose => Ok(lost),
            turn => run(&self.inner, turn),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Faulty<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faulty").field(&self.inner).finish()
    }
}

fn call(asked: &'static str, name: &Name) -> Call {
    Call {
        asked,
        kind: name.kind,
        name: Some(*name),
    }
}

impl<S: Store> Store for Faulty<S> {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn get(&self, name: &Name, into: &mut Vec<u8>) -> Result<bool, Fault> {
        let start = into.len();
        let found = self.call(call("get", name), false, |inner, turn| {
            let found = inner.get(name, into)?;
            let read = &mut into[start..];
            match turn {
                Turn::Corrupt(at) if !read.is_empty() => read[at % read.len()] ^= 1,
                Turn::Truncate(bytes) => into.truncate(start.saturating_add(bytes)),
                _ => {}
            }
            Ok(found)
        });
        if found.is_err() {
            into.truncate(start); // read before it failed
        }
        found
    }

    fn put(&self, name: &Name, bytes: &[u8]) -> Result<(), Fault> {
        self.call(call("put", name), (), |inner, _| inner.put(name, bytes))
    }

    fn claim(&self, name: &Name, bytes: &[u8]) -> Result<bool, Fault> {
        self.call(call("claim", name), true, |inner, _| {
            inner.claim(name, bytes)
        })
    }

    fn remove(&self, name: &Name) -> Result<(), Fault> {
        self.call(call("remove", name), (), |inner, _| inner.remove(name))
    }

    fn list(&self, kind: Kind) -> Result<Vec<Entry>, Fault> {
        let asked = Call {
            asked: "list",
            kind,
            name: None,
        };
        self.call(asked, Vec::new(), |inner, _| inner.list(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    fn name() -> Name {
        Name::of_text(Kind::Page, "a")
    }

    /// A store in which `old` is kept, that does one thing to every call.
    fn always(turn: impl Fn() -> Turn + Send + 'static) -> Faulty<Memory> {
        let faulty = Faulty::new(Memory::new(), move |_| turn());
        faulty.inner().put(&name(), b"old").unwrap();
        faulty
    }

    fn kept(faulty: &Faulty<Memory>) -> Vec<u8> {
        let mut bytes = Vec::new();
        faulty.inner().get(&name(), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn each_turn_does_what_it_says_to_a_write() {
        let full = always(|| Turn::Before(NO_SPACE));
        let said = full.put(&name(), b"new").unwrap_err();
        assert_eq!((said.what.as_str(), said.asked), (NO_SPACE, "put"));
        assert_eq!(kept(&full), b"old");

        let answerless = always(|| Turn::After(IO_ERROR));
        assert!(answerless.put(&name(), b"new").is_err());
        assert_eq!(kept(&answerless), b"new");

        let lossy = always(|| Turn::Lose);
        lossy.put(&name(), b"new").unwrap();
        assert!(lossy.claim(&name(), b"new").unwrap());
        assert_eq!(kept(&lossy), b"old");
    }

    #[test]
    fn each_turn_does_what_it_says_to_what_is_read() {
        let read = |faulty: &Faulty<Memory>| {
            let mut bytes = b"before ".to_vec();
            faulty.get(&name(), &mut bytes).map(|found| (found, bytes))
        };
        let corrupt = always(|| Turn::Corrupt(5));
        assert_eq!(read(&corrupt).unwrap(), (true, b"before ole".to_vec()));
        let short = always(|| Turn::Truncate(1));
        assert_eq!(read(&short).unwrap(), (true, b"before o".to_vec()));
        let lost = always(|| Turn::Lose);
        assert_eq!(read(&lost).unwrap(), (false, b"before ".to_vec()));

        let (say, heard) = std::sync::mpsc::channel();
        let slow = always(move || {
            let say = say.clone();
            Turn::Hang(Box::new(move || say.send(()).unwrap()))
        });
        assert_eq!(read(&slow).unwrap(), (true, b"before old".to_vec()));
        heard.try_recv().unwrap();
    }

    #[test]
    fn a_read_that_fails_afterwards_appends_nothing() {
        let faulty = always(|| Turn::After(IO_ERROR));
        let mut bytes = b"before".to_vec();
        assert!(faulty.get(&name(), &mut bytes).is_err());
        assert_eq!(bytes, b"before");
    }
}
