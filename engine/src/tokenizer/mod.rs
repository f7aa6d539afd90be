//! Text to token ids and back: byte-level BPE and SentencePiece, from a GGUF file or a Hugging Face directory.
//!
//! What we cannot do exactly as the file says is an error, never a guess: one wrong cut changes every id after it. Not
//! here: chat templates, BOS policy beyond what the file says.

mod gguf;
mod hugging_face;
mod library;
mod parts;
mod pieces;
mod pre;
mod stream;
mod vocabulary;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock};

pub use stream::Detokenizer;

use crate::error::Result;
use crate::weights::gguf::Gguf;
use vocabulary::{Kind, Vocabulary, excerpt, refuse};

/// A tokenizer of a model.
pub struct Tokenizer {
    encoder: Encoder,
    vocabulary: Arc<Vocabulary>,
    /// Decoding drops a space at the very start, where encoding put one.
    strip_space: bool,
    bos_id: Option<u32>,
    add_bos: bool,
    eos_ids: Vec<u32>,
    sha256: Late<[u8; 32]>,
}

/// A value made when it is first looked at.
type Late<T> = LazyLock<T, Box<dyn FnOnce() -> T + Send>>;

fn late<T>(make: impl FnOnce() -> T + Send + 'static) -> Late<T> {
    LazyLock::new(Box::new(make))
}

enum Encoder {
    Library(Box<library::Library>),
    Pieces(pieces::Pieces),
}

impl Tokenizer {
    fn new(encoder: Encoder, vocabulary: Arc<Vocabulary>, sha256: Late<[u8; 32]>) -> Self {
        Self {
            encoder,
            vocabulary,
            strip_space: false,
            bos_id: None,
            add_bos: false,
            eos_ids: Vec::new(),
            sha256,
        }
    }

    /// The tokenizer a GGUF file describes.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self> {
        gguf::read(gguf)
    }

    /// The tokenizer of a Hugging Face model directory: `tokenizer.json`, and the ids that
    /// `tokenizer_config.json` and `generation_config.json` name, where they are there.
    pub fn from_hf(directory: &Path) -> Result<Self> {
        hugging_face::read(directory)
    }

    /// Token ids of `text`, no BOS or EOS added. With `special`, control tokens in the text become
    /// their ids; without, they are text like any other, which is how a user's words must be read.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let ids = match &self.encoder {
            Encoder::Library(library) => library.encode(&self.vocabulary, text, special)?,
            Encoder::Pieces(pieces) => pieces.encode(&self.vocabulary, text, special),
        };
        // Merges of a hostile file can spell a control token out of ordinary ones.
        let token = |id: &u32| self.vocabulary.token(*id);
        let control = |id: &u32| token(id).is_some_and(|token| token.kind == Kind::Control);
        match ids
            .iter()
            .find(|id| !special && control(id))
            .and_then(token)
        {
            Some(token) => refuse(format!(
                "plain text encodes to the control token `{}`",
                excerpt(&token.text)
            )),
            None => Ok(ids),
        }
    }

    /// Text of `ids`, special tokens spelled out, U+FFFD for bytes that are not UTF-8.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let mut bytes = Vec::new();
        for (position, id) in ids.iter().enumerate() {
            self.vocabulary.spell(*id, position, &mut bytes)?;
        }
        let space = usize::from(self.strip_space && bytes.first() == Some(&b' '));
        Ok(String::from_utf8_lossy(&bytes[space..]).into_owned())
    }

    /// Decodes ids as they come; see [`Detokenizer`].
    pub fn stream(&self) -> Detokenizer {
        Detokenizer::new(Arc::clone(&self.vocabulary), self.strip_space)
    }

    /// The id to put before a prompt, where the file asks for one.
    pub fn bos(&self) -> Option<u32> {
        self.bos_id.filter(|_| self.add_bos)
    }

    /// The id of BOS, to be put before a prompt or not.
    pub fn bos_id(&self) -> Option<u32> {
        self.bos_id
    }

    /// The id of EOS; where the file names none, of what else ends an answer.
    pub fn eos_id(&self) -> Option<u32> {
        self.eos_ids.first().copied()
    }

    /// Every id that ends an answer: EOS first, then end of turn and the like.
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos_ids
    }

    fn ends_with(&mut self, id: Option<u32>) {
        self.eos_ids
            .extend(id.filter(|id| !self.eos_ids.contains(id)));
    }

    /// The text of token `id` as the vocabulary has it: `<|im_end|>`, but `Ġword` for ` word`.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.vocabulary.token(id).map(|token| token.text.as_str())
    }

    /// The id of the token with this text in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.vocabulary.id(token)
    }

    /// Texts of the tokens that only a caller who asks for them gets from text.
    pub fn special_tokens(&self) -> impl Iterator<Item = &str> {
        let special = self
            .vocabulary
            .tokens()
            .iter()
            .filter(|token| token.kind.is_special());
        special.map(|token| token.text.as_str())
    }

    /// How many tokens there are; ids are below it.
    pub fn vocab(&self) -> usize {
        self.vocabulary.len()
    }

    /// The longest run of ids that are ordinary text: neither control, user-defined nor byte tokens.
    pub fn ordinary_ids(&self) -> Range<u32> {
        let tokens = self.vocabulary.tokens();
        let (mut best, mut start) = (0..0, 0);
        for end in 0..=tokens.len() {
            if tokens
                .get(end)
                .is_none_or(|token| token.kind != Kind::Normal)
            {
                if end - start > best.len() {
                    best = start..end;
                }
                start = end + 1;
            }
        }
        best.start as u32..best.end as u32
    }

    /// SHA-256 of the tokenizer's definition.
    pub fn sha256(&self) -> [u8; 32] {
        *self.sha256
    }
}
