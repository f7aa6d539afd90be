//! Sessions put away: who they are, what was said, the token that has no keys and values yet.
//!
//! The object names its pages, so that they are found without an engine; they are kept as all others are, the open last one
//! under the key of the part that is filled. Not here: taking them in (`worker`).

use engine::{PageKey, SessionText};

use crate::barred::{NotOurs, read_scope, write_scope};
use crate::bytes::{Reader, Writer};
use crate::object::{Kind, Name};

const MAGIC: [u8; 8] = *b"fak.sess";

/// A session put away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its name, whatever its owner calls it.
    pub name: String,
    /// What it said.
    pub text: SessionText,
    /// Keys of the pages of its text; the last one may be of a part.
    pub pages: Vec<PageKey>,
}

impl Sealed {
    /// Where a tenant's session of this name is kept. Names of different tenants never meet, nor those of different models.
    pub fn place(root: &PageKey, tenant: &str, name: &str) -> Name {
        let mut out = Writer::new(*b"fak.name", root);
        out.text(tenant);
        out.text(name);
        Name::new(Kind::Session, blake3::hash(&out.signed()).into())
    }

    /// Its bytes, for engines whose pages have `root` before the first.
    pub fn write(&self, root: &PageKey) -> Vec<u8> {
        let mut out = Writer::new(MAGIC, root);
        out.text(&self.name);
        write_scope(&mut out, &self.text.scope);
        out.ids(&self.text.ids);
        let pending: Vec<u32> = self.text.pending.into_iter().collect();
        out.ids(&pending);
        out.number(self.pages.len() as u64);
        for key in &self.pages {
            out.raw(key.bytes());
        }
        out.signed()
    }

    /// Reads what [`Self::write`] wrote.
    pub fn read(bytes: &[u8], root: &PageKey) -> Result<Self, NotOurs> {
        let mut rest = Reader::open(bytes, MAGIC, root)?;
        let read = |rest: &mut Reader<'_>| {
            let name = rest.text()?;
            let scope = read_scope(rest)?;
            let ids = rest.ids()?;
            let pending = match rest.ids()?[..] {
                [] => None,
                [id] => Some(id),
                _ => return None,
            };
            let text = SessionText {
                scope,
                ids,
                pending,
            };
            // No more is believed than is there: each key takes its bytes.
            let pages: Option<Vec<_>> = (0..rest.number()?).map(|_| rest.raw()).collect();
            let pages = pages?.into_iter().map(PageKey::of).collect();
            rest.is_empty().then_some(Self { name, text, pages })
        };
        read(&mut rest).ok_or(NotOurs::Damaged)
    }
}
