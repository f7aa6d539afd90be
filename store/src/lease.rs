//! Who computes a page that several workers miss: one of them, as long as it lives.
//!
//! A lease is an object under the page's key that says until when its holder is believed to be alive; the holder moves that
//! time on while it works. Once it has passed, the next generation of the lease may be claimed, which one of those that ask
//! gets: so a holder that dies is replaced within the length of a lease, and by one other. Whoever has claimed a lease looks
//! for the page again, since the holder before may have kept it just then. Not here: threads and times (`keeper`).

use engine::PageKey;

use crate::bytes::{Reader, Writer};
use crate::object::{Fault, Kind, Name, Store};

const MAGIC: [u8; 8] = *b"fak.leas";
/// Holders of one page's lease that may die one after the other before the first generation is used again.
const GENERATIONS: u8 = 4;

/// A lease that one holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    key: PageKey,
    generation: u8,
    holder: String,
    /// Whether a holder before let it run out.
    pub took_over: bool,
}

/// What claiming one came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is ours.
    Ours(Lease),
    /// Another holds it, at least until then, in milliseconds.
    Held(u64),
}

fn place(key: &PageKey, generation: u8) -> Name {
    let mut out = Writer::new(MAGIC, key);
    out.number(u64::from(generation));
    Name::new(Kind::Lease, blake3::hash(&out.signed()).into())
}

fn write(key: &PageKey, holder: &str, until_ms: u64) -> Vec<u8> {
    let mut out = Writer::new(MAGIC, key);
    out.text(holder);
    out.number(until_ms);
    out.signed()
}

/// Until when the lease under this name is held; 0 if it cannot be read, none if there is none.
fn until_ms(store: &dyn Store, key: &PageKey, name: &Name) -> Result<Option<u64>, Fault> {
    let mut bytes = Vec::new();
    if !store.get(name, &mut bytes)? {
        return Ok(None);
    }
    let read = |rest: &mut Reader<'_>| rest.text().and_then(|_| rest.number());
    let opened = Reader::open(&bytes, MAGIC, key).ok();
    Ok(Some(
        opened.and_then(|mut rest| read(&mut rest)).unwrap_or(0),
    ))
}

/// Claims the lease of a page for `length_ms` from `now_ms` on.
pub fn claim(
    store: &dyn Store,
    key: PageKey,
    holder: &str,
    (now_ms, length_ms): (u64, u64),
) -> Result<Claim, Fault> {
    let mut next = 0;
    for generation in 0..GENERATIONS {
        match until_ms(store, &key, &place(&key, generation))? {
            Some(until) if until > now_ms => return Ok(Claim::Held(until)),
            Some(_) => next = generation + 1,
            None => {}
        }
    }
    let took_over = next > 0;
    if next == GENERATIONS {
        for generation in 0..GENERATIONS {
            store.remove(&place(&key, generation))?;
        }
        next = 0;
    }
    let until = now_ms.saturating_add(length_ms);
    if !store.claim(&place(&key, next), &write(&key, holder, until))? {
        return Ok(Claim::Held(until)); // another was faster
    }
    Ok(Claim::Ours(Lease {
        key,
        generation: next,
        holder: holder.to_owned(),
        took_over,
    }))
}

impl Lease {
    /// Of which page.
    pub fn key(&self) -> PageKey {
        self.key
    }

    /// Holds it until then.
    pub fn renew(&self, store: &dyn Store, until_ms: u64) -> Result<(), Fault> {
        let name = place(&self.key, self.generation);
        store.put(&name, &write(&self.key, &self.holder, until_ms))
    }

    /// Gives it up, and with it those that ran out before it.
    pub fn release(&self, store: &dyn Store) -> Result<(), Fault> {
        let mut generations = 0..=self.generation;
        generations.try_for_each(|it| store.remove(&place(&self.key, it)))
    }
}
