//! Token ids to text one by one, without ever showing half a character.
//!
//! Not here: when a stream ends, and stop strings (whoever samples decides).

use std::sync::Arc;

use super::vocabulary::Vocabulary;
use crate::error::Result;

/// Text of a growing sequence of ids. What all calls gave, put together, is the text of the whole.
pub struct Detokenizer {
    vocabulary: Arc<Vocabulary>,
    /// Bytes of a character that has not arrived whole; at most 3 between calls.
    pending: Vec<u8>,
    /// The text's first byte is dropped if it is a space.
    strip_space: bool,
    /// Ids taken.
    position: usize,
}

impl Detokenizer {
    pub(super) fn new(vocabulary: Arc<Vocabulary>, strip_space: bool) -> Self {
        Self {
            vocabulary,
            pending: Vec::new(),
            strip_space,
            position: 0,
        }
    }

    /// Takes the next id; returns the text that nothing to come can change, possibly none.
    pub fn push(&mut self, id: u32) -> Result<String> {
        self.vocabulary
            .spell(id, self.position, &mut self.pending)?;
        self.position += 1;
        if self.strip_space && !self.pending.is_empty() {
            self.strip_space = false;
            if self.pending[0] == b' ' {
                self.pending.remove(0);
            }
        }
        let arriving = self.pending.split_off(certain_len(&self.pending));
        let certain = std::mem::replace(&mut self.pending, arriving);
        Ok(String::from_utf8_lossy(&certain).into_owned())
    }

    /// The rest: U+FFFD if the last character never became whole, else nothing.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// How many bytes come before the beginning of a character whose rest may still arrive.
fn certain_len(bytes: &[u8]) -> usize {
    let mut certain = 0;
    while let Err(error) = std::str::from_utf8(&bytes[certain..]) {
        certain += error.valid_up_to();
        match error.error_len() {
            Some(wrong) => certain += wrong,
            None => return certain,
        }
    }
    bytes.len()
}
