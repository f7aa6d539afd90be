//! The seam to whatever keeps bytes: a few methods, each of which either has happened or has not.
//!
//! Not here: what is kept (`pages`, `sealed`, `barred`), for how long anyone waits for it (`keeper`).

use std::fmt;

/// No object is longer; who keeps pages of a large model needs a tenth of it. Whoever claims to hold more is not believed.
pub const OBJECT_BYTES_MAX: u64 = 256 << 20;

/// What a store can be asked. It may be asked by several threads and processes at once.
///
/// Whoever reads finds all of what was last written under a name or nothing, never a part of it, whatever became of the
/// writer. A fault leaves open whether what was asked has happened: a server may have done it before its answer was lost.
pub trait Store: Send + Sync {
    /// Its kind, in one word, as traces say it.
    fn kind(&self) -> &'static str;
    /// Appends to `into` what is kept under a name; false, and nothing appended, if nothing is.
    fn get(&self, name: &Name, into: &mut Vec<u8>) -> Result<bool, Fault>;
    /// Keeps `bytes` under a name, in place of what is kept there.
    fn put(&self, name: &Name, bytes: &[u8]) -> Result<(), Fault>;
    /// Keeps `bytes` under a name under which nothing is kept; false, and nothing changed, if something is. Of several who
    /// ask at once one gets true.
    fn claim(&self, name: &Name, bytes: &[u8]) -> Result<bool, Fault>;
    /// Keeps nothing under a name any more; nothing there is no fault.
    fn remove(&self, name: &Name) -> Result<(), Fault>;
    /// What is kept under names of a kind, in any order.
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, Fault>;
}

/// What a name is the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A page, by its key.
    Page,
    /// A session that was put away.
    Session,
    /// A text that is refused.
    Barred,
    /// Who computes a page.
    Lease,
    /// Which pages a worker has.
    Worker,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Page,
        Self::Session,
        Self::Barred,
        Self::Lease,
        Self::Worker,
    ];

    /// The word names begin with.
    pub fn word(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Session => "session",
            Self::Barred => "barred",
            Self::Lease => "lease",
            Self::Worker => "worker",
        }
    }
}

/// A name: its kind and 32 bytes, so that no name is a path, and none is another's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// What it is the name of.
    pub kind: Kind,
    /// Which one.
    pub bytes: [u8; 32],
}

impl Name {
    /// A name of this kind.
    pub fn new(kind: Kind, bytes: [u8; 32]) -> Self {
        Self { kind, bytes }
    }

    /// The name that a text of any length and content stands for.
    pub fn of_text(kind: Kind, text: &str) -> Self {
        Self::new(kind, blake3::hash(text.as_bytes()).into())
    }

    /// The 64 digits after its kind.
    pub fn digits(&self) -> String {
        blake3::Hash::from_bytes(self.bytes).to_hex().to_string()
    }

    /// The name that `kind` and these digits make, as [`Self::digits`] writes them; none for any other text.
    pub fn parse(kind: Kind, digits: &str) -> Option<Self> {
        let bytes = blake3::Hash::from_hex(digits).ok()?;
        let name = Self::new(kind, bytes.into());
        (name.digits() == digits).then_some(name)
    }
}

impl fmt::Display for Name {
    /// `page/0123...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.word(), self.digits())
    }
}

/// Something kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// How long it is; none where asking would mean fetching it.
    pub bytes: Option<u64>,
    /// When it was last written or found, in milliseconds of the store's clock; none where nobody keeps count.
    pub used_ms: Option<u64>,
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{store}: {asked} {name}: {what}")]
pub struct Fault {
    /// The store's kind.
    pub store: &'static str,
    /// What was asked of it.
    pub asked: &'static str,
    /// Of which name, or kind of names.
    pub name: String,
    /// What it said.
    pub what: String,
}

impl Fault {
    /// What store `store` said when it was asked to `asked` this name.
    pub fn new(
        store: &'static str,
        asked: &'static str,
        name: impl fmt::Display,
        what: impl fmt::Display,
    ) -> Self {
        Self {
            store,
            asked,
            name: name.to_string(),
            what: what.to_string(),
        }
    }
}

/// Refuses what is longer than any object.
pub(crate) fn fits(bytes: u64) -> Result<(), String> {
    if bytes <= OBJECT_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "{bytes} bytes, more than the {OBJECT_BYTES_MAX} of any object"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_from_its_digits_and_from_nothing_else() {
        let name = Name::of_text(Kind::Session, "../../etc/passwd\0");
        assert_eq!(Name::parse(Kind::Session, &name.digits()), Some(name));
        assert_eq!(name.to_string().len(), "session/".len() + 64);
        let upper = name.digits().to_uppercase();
        for other in [&upper, "", "..", &name.digits()[1..], "page"] {
            assert_eq!(Name::parse(Kind::Session, other), None, "{other}");
        }
    }
}
