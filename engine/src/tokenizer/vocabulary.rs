//! The tokens of a model: text, kind, and the bytes each stands for.
//!
//! Not here: how text becomes tokens (`library`, `pieces`), where the list comes from (`gguf`, `hugging_face`).

use std::collections::HashMap;

use crate::error::{Error, Result};

/// More tokens than any published model has; ids above are not believed.
const TOKENS_MAX: usize = 1 << 22;
/// Stands for a space in a SentencePiece token.
pub(super) const SPACE_MARK: char = '\u{2581}';

/// What a token is for; the numbers are GGUF's `token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Normal,
        Self::Unknown,
        Self::Control,
        Self::UserDefined,
        Self::Unused,
        Self::Byte,
    ];

    pub(super) fn from_number(number: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as usize == number)
    }

    /// Whether only a caller who asks for special tokens may get it from text.
    pub(super) fn is_special(self) -> bool {
        matches!(self, Self::Control | Self::Unknown)
    }

    /// Whether it is found in the text as a whole, before anything is split.
    pub(super) fn is_added(self) -> bool {
        self.is_special() || self == Self::UserDefined
    }
}

/// How an ordinary token spells bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// Each character is one byte, by GPT-2's table.
    ByteLevel,
    /// Text with a mark for a space, and `<0xNN>` for a byte.
    Pieces,
}

/// One token.
pub(super) struct Token {
    pub(super) text: String,
    pub(super) kind: Kind,
}

/// All tokens of a model; a token's index is its id.
pub(super) struct Vocabulary {
    tokens: Vec<Token>,
    ids: HashMap<String, u32>,
    alphabet: Alphabet,
}

impl Vocabulary {
    /// Checks that texts are neither empty nor equal, and that byte tokens spell a byte.
    pub(super) fn new(tokens: Vec<Token>, alphabet: Alphabet) -> Result<Self> {
        if tokens.is_empty() || tokens.len() > TOKENS_MAX {
            let count = tokens.len();
            return refuse(format!("{count} tokens; there must be 1 to {TOKENS_MAX}"));
        }
        let mut ids = HashMap::with_capacity(tokens.len());
        for (id, token) in tokens.iter().enumerate() {
            let text = excerpt(&token.text);
            if text.is_empty() {
                return refuse(format!("token {id} is empty"));
            }
            if token.kind == Kind::Byte && byte_token(&token.text).is_none() {
                return refuse(format!(
                    "byte token {id} `{text}` is not of the form <0xNN>"
                ));
            }
            if let Some(first) = ids.insert(token.text.clone(), id as u32) {
                return refuse(format!(
                    "token `{text}` occurs twice, as {first} and as {id}"
                ));
            }
        }
        Ok(Self {
            tokens,
            ids,
            alphabet,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn token(&self, id: u32) -> Option<&Token> {
        self.tokens.get(id as usize)
    }

    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Appends the bytes that token `id`, the `position`-th of a sequence, stands for.
    pub(super) fn spell(&self, id: u32, position: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let token = self.token(id).ok_or(Error::TokenOutOfRange {
            id,
            position,
            vocab: self.len(),
        })?;
        let start = bytes.len();
        match (token.kind, self.alphabet) {
            (Kind::Unknown | Kind::Control | Kind::UserDefined, _) => {
                bytes.extend_from_slice(token.text.as_bytes());
            }
            (Kind::Byte, _) => bytes.extend(byte_token(&token.text)),
            (_, Alphabet::Pieces) => {
                bytes.extend_from_slice(token.text.replace(SPACE_MARK, " ").as_bytes());
            }
            (_, Alphabet::ByteLevel) => {
                for letter in token.text.chars() {
                    let Some(byte) = byte_letter(letter) else {
                        // A token outside the alphabet, such as padding, is its own text.
                        bytes.truncate(start);
                        bytes.extend_from_slice(token.text.as_bytes());
                        break;
                    };
                    bytes.push(byte);
                }
            }
        }
        Ok(())
    }

    /// How many bytes `ids` stand for together.
    pub(super) fn spelled_len(&self, ids: &[u32]) -> Result<usize> {
        let (mut bytes, mut sum) = (Vec::new(), 0);
        for (position, id) in ids.iter().enumerate() {
            bytes.clear();
            self.spell(*id, position, &mut bytes)?;
            sum += bytes.len();
        }
        Ok(sum)
    }
}

/// The byte `<0xNN>` names.
fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let hexadecimal = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    hexadecimal.then(|| u8::from_str_radix(digits, 16).ok())?
}

/// The byte a character stands for in byte-level BPE: itself where Latin-1 prints it, else the next
/// free one from U+0100 on, in byte order (`bytes_to_unicode` of GPT-2's encoder).
fn byte_letter(letter: char) -> Option<u8> {
    let code = letter as u32;
    let byte = match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7f,
        0x143 => 0xad,
        _ => return None,
    };
    Some(byte as u8)
}

/// At most the first 40 characters of a file's text, for a message.
pub(super) fn excerpt(text: &str) -> &str {
    let end = text.char_indices().nth(40).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

pub(super) fn refuse<T>(what: String) -> Result<T> {
    Err(Error::Tokenizer(what))
}
