//! How small objects are written: a magic, the root key of the engine's pages, fields with their lengths, a hash of it all.
//!
//! Pages have a format of their own (`engine::kv::image`), since rows are many. Not here: which fields.

use engine::PageKey;

use crate::barred::NotOurs;

const HASH_BYTES: usize = blake3::OUT_LEN;
/// A magic, a root key.
const HEAD_BYTES: usize = 8 + HASH_BYTES;

/// Fields, written.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(magic: [u8; 8], root: &PageKey) -> Self {
        Self([&magic[..], root.bytes()].concat())
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
    }

    pub(crate) fn ids(&mut self, ids: &[u32]) {
        self.number(ids.len() as u64);
        self.0.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    }

    pub(crate) fn raw(&mut self, bytes: &[u8; 32]) {
        self.0.extend(bytes);
    }

    /// All of it, and its hash.
    pub(crate) fn signed(mut self) -> Vec<u8> {
        self.0.extend(blake3::hash(&self.0).as_bytes());
        self.0
    }
}

/// Fields, to be read in the order they were written. No length is believed beyond what is there.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// What follows the head, if magic, hash and root are right.
    pub(crate) fn open(bytes: &'a [u8], magic: [u8; 8], root: &PageKey) -> Result<Self, NotOurs> {
        let (signed, hash) = bytes
            .split_last_chunk::<HASH_BYTES>()
            .filter(|(signed, _)| signed.len() >= HEAD_BYTES)
            .ok_or(NotOurs::Damaged)?;
        if signed[..8] != magic || blake3::hash(signed).as_bytes() != hash {
            return Err(NotOurs::Damaged);
        }
        if signed[8..HEAD_BYTES] != root.bytes()[..] {
            return Err(NotOurs::Domain);
        }
        Ok(Self(&signed[HEAD_BYTES..]))
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let bytes = self.take(8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.number()?).ok()?;
        String::from_utf8(self.take(len)?.to_vec()).ok()
    }

    pub(crate) fn ids(&mut self) -> Option<Vec<u32>> {
        let len = usize::try_from(self.number()?).ok()?;
        let bytes = self.take(len.checked_mul(4)?)?;
        let (ids, _) = bytes.as_chunks();
        Some(ids.iter().copied().map(u32::from_le_bytes).collect())
    }

    pub(crate) fn raw(&mut self) -> Option<[u8; 32]> {
        self.take(32)?.try_into().ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
