//! Encoding by the `tokenizers` crate, with the guards it lacks: nothing is lost or cut wrong in silence.
//!
//! Not here: where its definition comes from (`gguf`, `hugging_face`); decoding, which `vocabulary` and `stream` do.

use super::vocabulary::{Vocabulary, excerpt, refuse};
use crate::error::{Error, Result};

/// The crate's pattern matcher gives up within longer white space, and then leaves the rest uncut.
const WHITE_SPACE_RUN_MAX: usize = 100_000;

/// The crate's encoder of one definition.
pub(super) struct Library {
    /// Takes special tokens in the text as such.
    special: tokenizers::Tokenizer,
    /// Takes them as plain text.
    plain: tokenizers::Tokenizer,
    /// Tokens spell the text itself, not a normalised one.
    verbatim: bool,
}

impl Library {
    /// From the text of a `tokenizer.json` whose parts were checked; `vocabulary` must be of the same file.
    pub(super) fn new(definition: &str, vocabulary: &Vocabulary, verbatim: bool) -> Result<Self> {
        let special = tokenizers::Tokenizer::from_bytes(definition)
            .map_err(|error| Error::Tokenizer(format!("the definition builds none: {error}")))?;
        // The crate numbers added tokens by itself where it does not like the file's numbers.
        for (id, token) in (0..).zip(vocabulary.tokens()) {
            if token.kind.is_added() && special.token_to_id(&token.text) != Some(id) {
                return refuse(format!(
                    "added token `{}` cannot have id {id}",
                    excerpt(&token.text)
                ));
            }
        }
        let mut plain = special.clone();
        plain.set_encode_special_tokens(true);
        Ok(Self {
            special,
            plain,
            verbatim,
        })
    }

    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        special: bool,
    ) -> Result<Vec<u32>> {
        let run = longest_white_space(text);
        if run > WHITE_SPACE_RUN_MAX {
            return refuse(format!(
                "{run} white space characters in a row; at most {WHITE_SPACE_RUN_MAX}"
            ));
        }
        let encoder = if special { &self.special } else { &self.plain };
        let ids = encoder
            .encode_fast(text, false)
            .map_err(|error| Error::Tokenizer(format!("cannot encode: {error}")))?
            .get_ids()
            .to_vec();
        if self.verbatim {
            let (spelled, all) = (vocabulary.spelled_len(&ids)?, text.len());
            if spelled != all {
                return refuse(format!(
                    "the vocabulary spells {spelled} of the text's {all} bytes"
                ));
            }
        }
        Ok(ids)
    }
}

fn longest_white_space(text: &str) -> usize {
    text.split(|letter: char| !letter.is_whitespace())
        .map(|run| run.chars().count())
        .max()
        .unwrap_or(0)
}
