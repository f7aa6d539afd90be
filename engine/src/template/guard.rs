//! What a user wrote stays text: special tokens spelled in it are not taken for the template's own.
//!
//! Before rendering, each special token in the user's words becomes a private-use character that stands nowhere else; after
//! rendering, special tokens found in the text are the template's, and the characters turn back into words. Not here: which
//! of a template's inputs a user may write.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::error::{Error, Result};

/// First of the characters that stand in; Unicode's plane 15 is all private use.
const FIRST_MARK: u32 = 0xF_0000;
/// One past the last of them.
const END_MARK: u32 = 0xF_FFFE;

/// Stands between a user's words and special tokens.
pub struct Guard {
    finder: AhoCorasick,
    specials: Vec<String>,
    /// By special token: what stands in for it.
    marks: Vec<char>,
}

impl Guard {
    /// A guard against `specials` in any of `texts`, which are all that users wrote.
    pub fn new<'a>(specials: impl IntoIterator<Item = &'a str>, texts: &[&str]) -> Result<Self> {
        let specials: Vec<String> = specials.into_iter().map(str::to_owned).collect();
        let fresh = |mark: &char| !texts.iter().any(|text| text.contains(*mark));
        let marks: Vec<char> = (FIRST_MARK..END_MARK)
            .filter_map(char::from_u32)
            .filter(fresh)
            .take(specials.len())
            .collect();
        if marks.len() < specials.len() {
            let what = format!(
                "{} special tokens are more than can be guarded",
                specials.len()
            );
            return Err(Error::Tokenizer(what));
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&specials)
            .map_err(|error| Error::Tokenizer(format!("special tokens: {error}")))?;
        Ok(Self {
            finder,
            specials,
            marks,
        })
    }

    /// `text` with its special tokens replaced, to be rendered.
    pub fn protect(&self, text: &str) -> String {
        let mut protected = String::with_capacity(text.len());
        self.finder
            .replace_all_with(text, &mut protected, |found, _, out| {
                out.push(self.marks[found.pattern()]);
                true
            });
        protected
    }

    /// Token ids of a rendered text; `encode(text, special)` takes special tokens in the text as such or as text.
    pub fn encode(
        &self,
        rendered: &str,
        encode: impl Fn(&str, bool) -> Result<Vec<u32>>,
    ) -> Result<Vec<u32>> {
        let (mut ids, mut start) = (Vec::new(), 0);
        for found in self.finder.find_iter(rendered) {
            ids.extend(encode(
                &self.restore(&rendered[start..found.start()]),
                false,
            )?);
            ids.extend(encode(&rendered[found.range()], true)?);
            start = found.end();
        }
        ids.extend(encode(&self.restore(&rendered[start..]), false)?);
        Ok(ids)
    }

    /// A rendered text as it reads, with the user's own words back in it.
    pub fn restore<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let special = |letter: char| self.marks.iter().position(|mark| *mark == letter);
        if !text.contains(|letter| special(letter).is_some()) {
            return Cow::Borrowed(text);
        }
        let mut restored = String::with_capacity(text.len());
        for letter in text.chars() {
            match special(letter) {
                Some(index) => restored.push_str(&self.specials[index]),
                None => restored.push(letter),
            }
        }
        Cow::Owned(restored)
    }
}
