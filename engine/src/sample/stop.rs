//! Stop strings in streamed text: passes on what is certain, holds back only what may become a stop.
//!
//! The first stop to be complete counts; of those complete at one place, the longest. That does not depend on how the
//! text was cut into pieces. Not here: making text of ids (`tokenizer`), or ending the request (the caller cancels it).

use crate::error::{Error, Result};

/// Watches one text for stop strings.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    stops: Vec<String>,
    /// The end of the text so far, as far as it is the beginning of a stop.
    held: String,
    stopped: bool,
}

/// What a piece of text made certain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Text that belongs to the answer.
    pub text: String,
    /// A stop is complete, now or before; it and what follows it are no part of the answer.
    pub stopped: bool,
}

impl StopMatcher {
    /// A matcher for `stops`, none of them empty.
    pub fn new(stops: Vec<String>) -> Result<Self> {
        if stops.iter().any(String::is_empty) {
            return Err(Error::BadParameter {
                parameter: "stop",
                value: "an empty string".to_owned(),
                range: "one character or more".to_owned(),
            });
        }
        Ok(Self {
            stops,
            held: String::new(),
            stopped: false,
        })
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &str) -> Passed {
        let mut text = std::mem::take(&mut self.held) + piece;
        let found = |stop: &String| text.find(stop).map(|start| (start + stop.len(), start));
        let stop = self.stops.iter().filter_map(found).min();
        let certain = match stop {
            _ if self.stopped => 0,
            Some((_, start)) => start,
            None => text.len() - self.pending(&text),
        };
        self.stopped |= stop.is_some();
        let held = text.split_off(certain);
        if !self.stopped {
            self.held = held;
        }
        Passed {
            text,
            stopped: self.stopped,
        }
    }

    /// What was held back when the text ended without a stop.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Bytes at the end of `text` that begin a stop, the most there are.
    fn pending(&self, text: &str) -> usize {
        let begun = |stop: &String| {
            let lengths = stop.char_indices().map(|(length, _)| length).rev();
            lengths
                .into_iter()
                .find(|length| text.ends_with(&stop[..*length]))
        };
        self.stops.iter().filter_map(begun).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(stops: &[&str]) -> StopMatcher {
        StopMatcher::new(stops.iter().map(|&stop| stop.to_owned()).collect()).unwrap()
    }

    /// The answer and whether it was stopped, for pieces in a row.
    fn answer<'a>(stops: &[&str], pieces: impl IntoIterator<Item = &'a str>) -> (String, bool) {
        let (mut matcher, mut text) = (matcher(stops), String::new());
        for piece in pieces {
            let passed = matcher.push(piece);
            text += &passed.text;
            if passed.stopped {
                return (text, true);
            }
        }
        (text + &matcher.finish(), false)
    }

    #[test]
    fn every_way_to_cut_a_text_in_three_gives_the_answer_of_the_whole() {
        let cases: [(&[&str], &str, &str, bool); 8] = [
            (&["</s>"], "good</s>bad", "good", true),
            (&["</s>"], "good</s", "good</s", false),
            (&["aab"], "aaaab!", "aa", true),
            (&["abcd", "bc"], "xabcd", "xa", true),
            (&["bc", "abc"], "xabcd", "x", true),
            (
                &["é\u{1F600}", "日本"],
                "caf\u{e9}日é\u{1F600}日本",
                "café日",
                true,
            ),
            (&["\n\n"], "one\ntwo\n\nthree", "one\ntwo", true),
            (&[], "all of it", "all of it", false),
        ];
        for (stops, text, expected, stopped) in cases {
            let cuts: Vec<usize> = (0..=text.len())
                .filter(|i| text.is_char_boundary(*i))
                .collect();
            for &first in &cuts {
                for &second in cuts.iter().filter(|cut| **cut >= first) {
                    let pieces = [&text[..first], &text[first..second], &text[second..]];
                    let found = answer(stops, pieces);
                    assert_eq!(
                        found,
                        (expected.to_owned(), stopped),
                        "{stops:?} {pieces:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn only_the_beginning_of_a_stop_is_held_back() {
        let mut matcher = matcher(&["STOP", "TOP!"]);
        let certain = |matcher: &mut StopMatcher, piece| matcher.push(piece).text;
        assert_eq!(certain(&mut matcher, "no S"), "no ");
        assert_eq!(certain(&mut matcher, "TO"), "");
        assert_eq!(certain(&mut matcher, "RE"), "STORE");
        assert_eq!(certain(&mut matcher, "STO"), "");
        assert_eq!(matcher.finish(), "STO");
    }

    #[test]
    fn nothing_passes_after_a_stop() {
        let mut matcher = matcher(&["end"]);
        assert!(matcher.push("the end of").stopped);
        let after = matcher.push(" more e");
        assert_eq!((after.text.as_str(), after.stopped), ("", true));
        assert_eq!(matcher.finish(), "");
    }

    #[test]
    fn an_empty_stop_is_refused() {
        let error = StopMatcher::new(vec![String::new()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "stop is an empty string; it must be one character or more"
        );
    }
}
