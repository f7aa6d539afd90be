//! Encoding by the `tokenizers` crate, with the guards it lacks: nothing is lost or cut wrong in silence.
//!
//! Not here: where its definition comes from (`gguf`, `hugging_face`); decoding, which `vocabulary` and `stream` do.

use std::sync::{Arc, OnceLock};

use super::Late;
use super::vocabulary::{Vocabulary, excerpt, refuse};
use crate::error::{Error, Result};

/// The crate's pattern matcher gives up within longer white space, and then leaves the rest uncut.
const WHITE_SPACE_RUN_MAX: usize = 100_000;

/// The crate's encoders of one definition, built when text is first encoded: that takes longer than all else of loading a
/// small model, and a run whose prompts are ids needs none.
pub(super) struct Library {
    definition: Arc<Late<String>>,
    built: OnceLock<std::result::Result<Encoders, String>>,
    /// Tokens spell the text itself, not a normalised one.
    verbatim: bool,
}

struct Encoders {
    /// Takes special tokens in the text as such.
    special: tokenizers::Tokenizer,
    /// Takes them as plain text.
    plain: tokenizers::Tokenizer,
}

impl Library {
    /// From the text of a `tokenizer.json` whose parts were checked.
    pub(super) fn new(definition: Arc<Late<String>>, verbatim: bool) -> Self {
        Self {
            definition,
            built: OnceLock::new(),
            verbatim,
        }
    }

    /// Builds the encoders, if none are built; `vocabulary` must be of the same file.
    pub(super) fn build(&self, vocabulary: &Vocabulary) -> Result<()> {
        self.encoders(vocabulary).map(|_| ())
    }

    fn encoders(&self, vocabulary: &Vocabulary) -> Result<&Encoders> {
        let build = || Encoders::new(&self.definition, vocabulary);
        let built = self.built.get_or_init(build).as_ref();
        built.map_err(|what| Error::Tokenizer(what.clone()))
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
        let encoders = self.encoders(vocabulary)?;
        let encoder = if special {
            &encoders.special
        } else {
            &encoders.plain
        };
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

impl Encoders {
    fn new(definition: &str, vocabulary: &Vocabulary) -> std::result::Result<Self, String> {
        let special = tokenizers::Tokenizer::from_bytes(definition)
            .map_err(|error| format!("the definition builds none: {error}"))?;
        // The crate numbers added tokens by itself where it does not like the file's numbers.
        for (id, token) in (0..).zip(vocabulary.tokens()) {
            if token.kind.is_added() && special.token_to_id(&token.text) != Some(id) {
                let token = excerpt(&token.text);
                return Err(format!("added token `{token}` cannot have id {id}"));
            }
        }
        let mut plain = special.clone();
        plain.set_encode_special_tokens(true);
        Ok(Self { special, plain })
    }
}

fn longest_white_space(text: &str) -> usize {
    text.split(|letter: char| !letter.is_whitespace())
        .map(|run| run.chars().count())
        .max()
        .unwrap_or(0)
}
