//! A page outside of any engine: one string of bytes that says what it is.
//!
//! `"fak.page"`; little-endian u32: version, KV type, layers, KV heads, dimensions per head, positions; the page's key and
//! that of the page before it; the token ids; the rows as the pool has them; BLAKE3 of all before. The digest tells damage,
//! not forgery: rows are believed, so images must come from where nobody writes who may not decide an engine's answers.
//! Not here: whether a text may come in (`engine::transfer`), where images are kept.

use super::key::{Domain, Namespace, PageKey, Scope};
use super::page::KvShape;
use crate::error::{Error, ImageFault, Result};
use crate::tensor::{KvType, PAGE_POSITIONS};

const MAGIC: [u8; 8] = *b"fak.page";
/// Changes with the order or the meaning of any byte.
const VERSION: u32 = 1;
/// Of a key, and of a digest.
const HASH_BYTES: usize = blake3::OUT_LEN;
const HEADER_BYTES: usize = MAGIC.len() + 6 * size_of::<u32>() + 2 * HASH_BYTES;
const ID_BYTES: usize = size_of::<u32>();

/// What the rows of an engine's pages look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Sizes.
    pub shape: KvShape,
    /// Element type.
    pub element: KvType,
}

impl Layout {
    /// Layers, KV heads, dimensions per head.
    fn sizes(self) -> [usize; 3] {
        let KvShape {
            layers,
            kv_heads,
            head_dim,
        } = self.shape;
        [layers, kv_heads, head_dim]
    }

    /// Bytes of the image of a page with so many positions.
    pub fn image_bytes(self, positions: usize) -> usize {
        let per_position = ID_BYTES + self.shape.position_bytes(self.element);
        HEADER_BYTES + positions * per_position + HASH_BYTES
    }
}

/// What an image begins with.
struct Header {
    magic: [u8; 8],
    version: u32,
    element: u32,
    sizes: [u32; 3],
    positions: u32,
    key: PageKey,
    parent: PageKey,
}

impl Header {
    fn write(&self, image: &mut Vec<u8>) {
        let [layers, kv_heads, head_dim] = self.sizes;
        image.extend(self.magic);
        for number in [
            self.version,
            self.element,
            layers,
            kv_heads,
            head_dim,
            self.positions,
        ] {
            image.extend(number.to_le_bytes());
        }
        image.extend(self.key.bytes());
        image.extend(self.parent.bytes());
    }

    /// The header, and what follows it; none if there are too few bytes.
    fn read(mut bytes: &[u8]) -> Option<(Self, &[u8])> {
        let rest = &mut bytes;
        let header = Self {
            magic: next(rest)?,
            version: number(rest)?,
            element: number(rest)?,
            sizes: [number(rest)?, number(rest)?, number(rest)?],
            positions: number(rest)?,
            key: PageKey::of(next(rest)?),
            parent: PageKey::of(next(rest)?),
        };
        Some((header, bytes))
    }

    /// That pages with this header are pages of this layout.
    fn check(&self, layout: Layout) -> std::result::Result<(), ImageFault> {
        if self.element != code(layout.element) {
            let mut known = KvType::ALL.into_iter();
            let found = known.find(|element| code(*element) == self.element);
            return Err(ImageFault::KvType {
                found: found
                    .map_or_else(|| format!("number {}", self.element), |it| it.to_string()),
                expected: layout.element.name(),
            });
        }
        let (found, expected) = (self.sizes, layout.sizes());
        if found.map(|size| size as usize) != expected {
            return Err(ImageFault::Shape { found, expected });
        }
        if !(1..=PAGE_POSITIONS as u32).contains(&self.positions) {
            return Err(ImageFault::Positions(self.positions));
        }
        Ok(())
    }
}

/// The number that stands for a type.
fn code(element: KvType) -> u32 {
    match element {
        KvType::F32 => 0,
        KvType::F16 => 1,
        KvType::Q8_0 => 2,
    }
}

/// Takes the next bytes off.
fn next<const BYTES: usize>(rest: &mut &[u8]) -> Option<[u8; BYTES]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    next(rest).map(u32::from_le_bytes)
}

/// A page's image, read: its digest and every length in it hold.
#[derive(Clone, Copy, Debug)]
pub struct PageImage<'a> {
    /// What it says it is called.
    pub key: PageKey,
    /// What it says the page before it is called.
    pub parent: PageKey,
    /// `[positions]`, little-endian.
    ids: &'a [[u8; ID_BYTES]],
    /// As [`super::PagePool::load`] takes them.
    pub rows: &'a [u8],
}

impl<'a> PageImage<'a> {
    /// Positions it has, 1 to 64.
    pub fn positions(&self) -> usize {
        self.ids.len()
    }

    /// The tokens at them.
    pub fn ids(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.ids.iter().copied().map(u32::from_le_bytes)
    }

    /// Reads what [`PageCopy::image`] made; less, more and anything else is refused. Allocates nothing.
    pub fn read(image: &'a [u8], layout: Layout) -> std::result::Result<Self, ImageFault> {
        Self::parse(image, layout, true)
    }

    /// As `read`; whether the digest is that of the bytes need not be asked twice.
    fn parse(
        image: &'a [u8],
        layout: Layout,
        hashed: bool,
    ) -> std::result::Result<Self, ImageFault> {
        let (found, least) = (image.len(), layout.image_bytes(0));
        let short = || ImageFault::Short { found, least };
        let (signed, digest) = image.split_last_chunk().ok_or_else(short)?;
        let (header, body) = Header::read(signed).ok_or_else(short)?;
        if header.magic != MAGIC {
            return Err(ImageFault::Magic);
        }
        if header.version != VERSION {
            return Err(ImageFault::Version {
                found: header.version,
                known: VERSION,
            });
        }
        if hashed && blake3::hash(signed).as_bytes() != digest {
            return Err(ImageFault::Digest);
        }
        header.check(layout)?;
        let positions = header.positions as usize;
        let expected = layout.image_bytes(positions);
        if found != expected {
            return Err(ImageFault::Length { found, expected });
        }
        let (ids, rows) = body.split_at(positions * ID_BYTES);
        Ok(Self {
            key: header.key,
            parent: header.parent,
            ids: ids.as_chunks().0,
            rows,
        })
    }
}

/// An image with its bytes, whose digest and lengths hold: what is left to ask is whether it is the page one wants.
#[derive(Debug)]
pub struct CheckedPage {
    bytes: Vec<u8>,
}

impl CheckedPage {
    /// Hashes and checks an image of a page of this layout; needs no engine, so that another thread can do it.
    pub fn read(bytes: Vec<u8>, layout: Layout) -> std::result::Result<Self, ImageFault> {
        PageImage::read(&bytes, layout)?;
        Ok(Self { bytes })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its bytes, to be used again.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// What it says, if it is the page that holds `ids` in a text, with these keys of its own and of the page before.
    pub fn holds(
        &self,
        layout: Layout,
        (key, parent): (PageKey, PageKey),
        ids: &[u32],
    ) -> std::result::Result<PageImage<'_>, ImageFault> {
        let page = PageImage::parse(&self.bytes, layout, false)?;
        if page.key != key {
            return Err(ImageFault::Key);
        }
        // Hashes can collide, by chance or design; ids cannot.
        if !page.ids().eq(ids.iter().copied()) {
            return Err(ImageFault::Ids);
        }
        if page.parent != parent {
            return Err(ImageFault::Parent);
        }
        Ok(page)
    }
}

/// A page copied out of a cache: its image but for the digest, which whoever has the time adds.
#[derive(Clone, Debug)]
pub struct PageCopy {
    key: PageKey,
    unsigned: Vec<u8>,
}

impl PageCopy {
    /// A copy of a page that has `ids`, between 1 and 64 of them; `save` appends their rows.
    pub fn new(
        layout: Layout,
        (key, parent): (PageKey, PageKey),
        ids: &[u32],
        save: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            element: code(layout.element),
            sizes: layout.sizes().map(|size| size as u32),
            positions: ids.len() as u32,
            key,
            parent,
        };
        let mut unsigned = Vec::with_capacity(layout.image_bytes(ids.len()));
        header.write(&mut unsigned);
        unsigned.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        save(&mut unsigned);
        debug_assert_eq!(unsigned.len() + HASH_BYTES, layout.image_bytes(ids.len()));
        Self { key, unsigned }
    }

    /// What the page is called.
    pub fn key(&self) -> PageKey {
        self.key
    }

    /// Bytes its image will have.
    pub fn bytes(&self) -> usize {
        self.unsigned.len() + HASH_BYTES
    }

    /// The image.
    pub fn image(self) -> Vec<u8> {
        let mut image = self.unsigned;
        image.extend(blake3::hash(&image).as_bytes());
        image
    }
}

/// Reads the images of a text's pages from its beginning on: each follows the one before, and is called what its ids are
/// called in this domain and scope.
pub fn read_text<'a>(
    images: impl IntoIterator<Item = &'a [u8]>,
    layout: Layout,
    domain: &Domain,
    scope: &Scope,
) -> Result<Vec<PageImage<'a>>> {
    let mut pages: Vec<PageImage<'a>> = Vec::new();
    for (index, image) in images.into_iter().enumerate() {
        let page = PageImage::read(image, layout)
            .and_then(|page| follows(page, pages.last(), domain, scope.at(index)))
            .map_err(|fault| Error::PageImage { index, fault })?;
        pages.push(page);
    }
    Ok(pages)
}

/// The page, if it belongs after `before`, or at the beginning of a text.
fn follows<'a>(
    page: PageImage<'a>,
    before: Option<&PageImage<'_>>,
    domain: &Domain,
    under: Namespace<'_>,
) -> std::result::Result<PageImage<'a>, ImageFault> {
    match before {
        None if page.parent != domain.root() => return Err(ImageFault::Root),
        Some(before) if before.positions() < PAGE_POSITIONS => return Err(ImageFault::AfterPart),
        Some(before) if page.parent != before.key => return Err(ImageFault::Parent),
        _ => {}
    }
    let ids: Vec<u32> = page.ids().collect();
    if domain.page(&page.parent, under, &ids) != page.key {
        return Err(ImageFault::Key);
    }
    Ok(page)
}
