//! Texts that come from another engine.
//!
//! Not here: what the engine checks before the cache is asked (`kv_import_refusals`).

use engine::Error;
use engine::kv::image::{Layout, PageCopy};
use engine::kv::{Domain, KvShape, PageImage};
use engine::schedule::CachePolicy;
use engine::tensor::{KvType, PAGE_POSITIONS};

use super::oracle::{Text, values};
use super::steps::index;
use super::world::{World, row};

/// Of the pages of every world.
const LAYOUT: Layout = Layout {
    shape: KvShape {
        layers: 1,
        kv_heads: 1,
        head_dim: 1,
    },
    element: KvType::F32,
};

/// The text's pages as an engine that has all of it would give them; keys are of no matter to a cache.
fn images(text: &Text) -> Vec<Vec<u8>> {
    let key = Domain::new(&[]).root();
    let values = values(&text.cached);
    let values = values.chunks(PAGE_POSITIONS);
    let pages = text.tokens.chunks(PAGE_POSITIONS).zip(values);
    let images = pages.map(|(ids, values)| {
        let rows = values.iter().map(|value| row(*value));
        let (keys, values): (Vec<f32>, Vec<f32>) = rows.unzip();
        let rows = [keys, values].concat();
        let copy = PageCopy::new(LAYOUT, (key, key), ids, |image| {
            image.extend(rows.iter().flat_map(|value| value.to_le_bytes()));
        });
        copy.image()
    });
    images.collect()
}

impl World {
    pub(crate) fn import(&mut self, text: u8, len: usize) {
        let Some(at) = index(&self.known, text) else {
            return;
        };
        if self.setting.policy != CachePolicy::Shared {
            return;
        }
        let known = &self.known[at];
        let text = self.text(known, &known.tokens[..len.min(known.tokens.len())]);
        let images = images(&text);
        let images = images.iter().map(|it| PageImage::read(it, LAYOUT).unwrap());
        let images: Vec<_> = images.collect();
        let (scope, spoken_for, before) = (text.who.scope(), self.spoken_for(), self.peek(&text));
        let cached = self.cache.tree().pages();
        let given = (&text.tokens[..], 0, &images[..]);
        let taken = self.cache.import(&mut self.pool, &scope, given, spoken_for);
        let barred_at = self.oracle.barred_at(&text);
        self.note("barred an import", barred_at.is_some());
        match taken {
            Ok(pages) => {
                assert_eq!(barred_at, None);
                assert_eq!(self.peek(&text), text.tokens.len());
                let missing = images.len() - before / PAGE_POSITIONS;
                let is_whole = before == text.tokens.len();
                assert_eq!(pages, if is_whole { 0 } else { missing });
                self.note("imported", pages > 0);
                self.oracle.publish(&text);
                return;
            }
            Err(Error::ImportBarred { position }) => assert_eq!(barred_at, Some(position)),
            Err(Error::PagesExhausted { .. }) => self.note("had no room for an import", true),
            Err(error) => panic!("{error}"),
        }
        let is_all_there = self.cache.tree().pages() == cached && self.peek(&text) == before;
        assert!(is_all_there, "a refusal costs nothing");
    }
}
