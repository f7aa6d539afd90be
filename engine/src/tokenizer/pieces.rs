//! SentencePiece BPE: characters are joined pair by pair, best score first; what is no token becomes bytes.
//!
//! The greedy merge llama.cpp runs for `tokenizer.ggml.model` = `llama`, in O(n log n). Not here: unigram models, whose
//! best segmentation is another one; normalisation.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use aho_corasick::{AhoCorasick, MatchKind};

use super::vocabulary::{Kind, SPACE_MARK, Vocabulary, refuse};
use crate::error::{Error, Result};

/// The encoder of a SentencePiece vocabulary.
pub(super) struct Pieces {
    /// By id; the higher, the earlier joined.
    scores: Vec<f32>,
    /// The id of each byte.
    bytes: Vec<u32>,
    /// A space is put before text at the start and after an added token.
    space_prefix: bool,
    special: Added,
    plain: Added,
}

impl Pieces {
    pub(super) fn new(
        vocabulary: &Vocabulary,
        scores: Vec<f32>,
        space_prefix: bool,
    ) -> Result<Self> {
        if scores.len() != vocabulary.len() {
            let (scores, tokens) = (scores.len(), vocabulary.len());
            return refuse(format!("{scores} scores for {tokens} tokens"));
        }
        if let Some(id) = scores.iter().position(|score| !score.is_finite()) {
            return refuse(format!("the score of token {id} is {}", scores[id]));
        }
        let byte = |byte: u8| {
            let text = format!("<0x{byte:02X}>");
            match vocabulary.id(&text) {
                Some(id) if is(vocabulary, id, Kind::Byte) => Ok(id),
                _ => refuse(format!("there is no byte token `{text}`")),
            }
        };
        Ok(Self {
            scores,
            bytes: (0..=u8::MAX).map(byte).collect::<Result<_>>()?,
            space_prefix,
            special: Added::new(vocabulary, Kind::is_added)?,
            plain: Added::new(vocabulary, |kind| kind == Kind::UserDefined)?,
        })
    }

    /// Token ids of `text`; control tokens in it are found only with `special`.
    pub(super) fn encode(&self, vocabulary: &Vocabulary, text: &str, special: bool) -> Vec<u32> {
        let added = if special { &self.special } else { &self.plain };
        let (mut ids, mut start, mut prefix) = (Vec::new(), 0, self.space_prefix);
        for found in added.matcher.find_iter(text) {
            self.encode_plain(vocabulary, &text[start..found.start()], prefix, &mut ids);
            ids.push(added.ids[found.pattern()]);
            (start, prefix) = (found.end(), self.space_prefix);
        }
        self.encode_plain(vocabulary, &text[start..], prefix, &mut ids);
        ids
    }

    fn encode_plain(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        space_prefix: bool,
        ids: &mut Vec<u32>,
    ) {
        if text.is_empty() {
            return;
        }
        let mut marked = text.replace(' ', SPACE_MARK.encode_utf8(&mut [0; 4]));
        if space_prefix {
            marked.insert(0, SPACE_MARK);
        }
        for piece in self.merge(vocabulary, &marked) {
            match mergeable(vocabulary, piece) {
                Some(id) => ids.push(id),
                None => ids.extend(piece.bytes().map(|byte| self.bytes[byte as usize])),
            }
        }
    }

    /// The pieces left when no neighbours join to a token any more; each is a token or one character.
    fn merge<'a>(&self, vocabulary: &Vocabulary, text: &'a str) -> Vec<&'a str> {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(index, (start, letter))| Symbol {
                start,
                end: start + letter.len_utf8(),
                previous: index.checked_sub(1),
                next: Some(index + 1).filter(|_| start + letter.len_utf8() < text.len()),
            })
            .collect();
        let join = |symbols: &[Symbol], left: Option<usize>, right: Option<usize>| {
            let (left, right) = (left?, right?);
            let (start, end) = (symbols[left].start, symbols[right].end);
            let id = mergeable(vocabulary, &text[start..end])?;
            let score = self.scores[id as usize];
            Some(Join {
                score,
                left,
                right,
                len: end - start,
            })
        };
        let mut joins: BinaryHeap<Join> = (1..symbols.len())
            .filter_map(|right| join(&symbols, Some(right - 1), Some(right)))
            .collect();
        while let Some(Join {
            left, right, len, ..
        }) = joins.pop()
        {
            // Either side may have been joined to another since; then the lengths no longer add up.
            let (from, to) = (symbols[left], symbols[right]);
            if from.is_gone() || to.is_gone() || from.len() + to.len() != len {
                continue;
            }
            symbols[left] = Symbol {
                end: to.end,
                next: to.next,
                ..from
            };
            symbols[right].end = to.start;
            if let Some(next) = to.next {
                symbols[next].previous = Some(left);
            }
            joins.extend(join(&symbols, from.previous, Some(left)));
            joins.extend(join(&symbols, Some(left), to.next));
        }
        symbols
            .iter()
            .filter(|symbol| !symbol.is_gone())
            .map(|symbol| &text[symbol.start..symbol.end])
            .collect()
    }
}

/// A stretch of the text in a list of neighbours; empty once joined to the one before it.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    end: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

impl Symbol {
    fn len(&self) -> usize {
        self.end - self.start
    }

    fn is_gone(&self) -> bool {
        self.len() == 0
    }
}

/// Two neighbours that make a token together. The greatest is the best score, then the leftmost.
struct Join {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both when this was found.
    len: usize,
}

impl Ord for Join {
    fn cmp(&self, other: &Self) -> Ordering {
        // Scores are finite, and 0 equals -0.
        let score = self
            .score
            .partial_cmp(&other.score)
            .unwrap_or(Ordering::Equal);
        score.then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Join {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Join {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Join {}

/// Finds added tokens, the leftmost first and the longest of those.
struct Added {
    matcher: AhoCorasick,
    /// By the matcher's pattern number.
    ids: Vec<u32>,
}

impl Added {
    fn new(vocabulary: &Vocabulary, wanted: impl Fn(Kind) -> bool) -> Result<Self> {
        let tokens = (0..).zip(vocabulary.tokens());
        let (ids, texts): (Vec<u32>, Vec<&str>) = tokens
            .filter(|(_, token)| wanted(token.kind))
            .map(|(id, token)| (id, token.text.as_str()))
            .unzip();
        let matcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts)
            .map_err(|error| Error::Tokenizer(format!("added tokens: {error}")))?;
        Ok(Self { matcher, ids })
    }
}

fn is(vocabulary: &Vocabulary, id: u32, kind: Kind) -> bool {
    vocabulary.token(id).is_some_and(|token| token.kind == kind)
}

/// The id of an ordinary token. Control and byte tokens are spelled in text like any other text.
fn mergeable(vocabulary: &Vocabulary, text: &str) -> Option<u32> {
    let id = vocabulary.id(text)?;
    is(vocabulary, id, Kind::Normal).then_some(id)
}
