//! Texts that are refused, told to every worker.
//!
//! An object says which beginning of which scope is barred from where on, in full, since whoever has another tree must find
//! the same place in it. Not here: what barring does (`engine::quarantine`).

use engine::{PageKey, Public, Scope};

use crate::bytes::{Reader, Writer};
use crate::object::{Fault, Kind, Name, Store};

const MAGIC: [u8; 8] = *b"fak.barr";

/// A barred text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barred {
    /// Whose it is.
    pub scope: Scope,
    /// It, up to the end of the barred span.
    pub ids: Vec<u32>,
    /// Where the span begins.
    pub start: usize,
}

/// Why an object is none of this engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOurs {
    /// Of another model, mode, KV type or contract.
    #[error("it is of another model, mode, KV type or version")]
    Domain,
    /// Cut short, changed, or something else.
    #[error("it is damaged, or something else")]
    Damaged,
}

impl Barred {
    /// Its bytes, for engines whose pages have `root` before the first.
    pub fn write(&self, root: &PageKey) -> Vec<u8> {
        let mut out = Writer::new(MAGIC, root);
        write_scope(&mut out, &self.scope);
        out.number(self.start as u64);
        out.ids(&self.ids);
        out.signed()
    }

    /// Reads what [`Self::write`] wrote.
    pub fn read(bytes: &[u8], root: &PageKey) -> Result<Self, NotOurs> {
        let mut rest = Reader::open(bytes, MAGIC, root)?;
        let read = |rest: &mut Reader<'_>| {
            let scope = read_scope(rest)?;
            let start = usize::try_from(rest.number()?).ok()?;
            let ids = rest.ids()?;
            (rest.is_empty() && start < ids.len()).then_some(Self { scope, ids, start })
        };
        read(&mut rest).ok_or(NotOurs::Damaged)
    }

    /// Tells everyone; the same text twice is one object.
    pub fn tell(&self, store: &dyn Store, root: &PageKey) -> Result<(), Fault> {
        let bytes = self.write(root);
        let name = Name::new(Kind::Barred, blake3::hash(&bytes).into());
        store.put(&name, &bytes)
    }
}

/// A tenant, and a public beginning if there is one.
pub(crate) fn write_scope(out: &mut Writer, scope: &Scope) {
    out.text(&scope.tenant);
    out.number(u64::from(scope.public.is_some()));
    if let Some(public) = &scope.public {
        out.text(&public.name);
        out.number(public.positions as u64);
    }
}

/// Reads what [`write_scope`] wrote.
pub(crate) fn read_scope(rest: &mut Reader<'_>) -> Option<Scope> {
    let tenant = rest.text()?;
    let public = match rest.number()? {
        0 => None,
        1 => Some(Public {
            name: rest.text()?,
            positions: usize::try_from(rest.number()?).ok()?,
        }),
        _ => return None,
    };
    Some(Scope { tenant, public })
}
