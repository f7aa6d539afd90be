//! Who may reuse what: the arms' whole difference.
//!
//! Not here: how it is done (`cache`).

use std::str::FromStr;

/// Who may reuse what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePolicy {
    /// Nothing is kept.
    None,
    /// A session finds what itself computed.
    Session,
    /// Everyone finds what anyone in this engine computed.
    Shared,
}

impl std::fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Session => "session",
            Self::Shared => "shared",
        })
    }
}

impl FromStr for CachePolicy {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        [Self::None, Self::Session, Self::Shared]
            .into_iter()
            .find(|policy| policy.to_string() == text)
            .ok_or_else(|| format!("cache policy `{text}` is unknown; use none, session or shared"))
    }
}
