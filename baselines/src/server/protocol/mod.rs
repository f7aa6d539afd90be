//! What is said to a server and what its answers mean: text in, text out, no sockets and no clock.
//!
//! One implementation per kind of server; what an answer adds up to is in [`Told`], which every event may add to.
//! Not here: sending it (`http`), whether an answer is what was asked for (`answer`), or the order of requests (`play`).

pub mod anthropic;
pub mod chat;
pub mod completions;
pub mod llama;
pub mod ollama;
pub mod sglang;
mod usage;

use workloads::trace::server::Sent;
use workloads::trace::sha256_hex;

/// How much of something strange is quoted, in characters.
const QUOTE_CHARS: usize = 300;

/// A kind of server.
pub trait Protocol {
    /// What all requests to it have in common.
    fn shape(&self) -> &'static Shape;

    /// The body that asks for a continuation; the ids of the prompt are left out where [`Prompt::Ids`] says so.
    fn completion(&self, ask: &Ask<'_>) -> Result<String, String>;

    /// What an event of an answer says; what it tells of the request is added to `told`.
    fn event(&self, text: &str, told: &mut Told) -> Result<Said, String>;
}

/// What all requests to a kind of server have in common.
#[derive(Debug)]
pub struct Shape {
    /// What it is called.
    pub name: &'static str,
    /// Where it says its version, in a field of that name, if it does.
    pub version: Option<&'static str>,
    /// Where completions are asked for.
    pub path: &'static str,
    /// In what form it takes a prompt.
    pub prompt: Prompt,
    /// How the events of an answer are told apart.
    pub framing: Framing,
    /// The header that carries a key, and what stands before the key in it.
    pub key: (&'static str, &'static str),
    /// Headers it demands of every request.
    pub headers: &'static [(&'static str, &'static str)],
    /// Whether it can be asked to go on where the model would end the text.
    pub ignores_eos: bool,
}

/// The form of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Token ids, in the field of this name. In a body it is empty, so that the ids stand in the evidence once.
    Ids(&'static str),
    /// Text, which the server splits into tokens as it stands.
    Text,
    /// Text, which the server puts between words of its own; so its tokens are not those of the text.
    Message,
}

/// How events are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    #[default]
    Events,
    /// A line each.
    Lines,
}

/// A request for a continuation.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The prompt.
    pub ids: &'a [u32],
    /// The same as text, for servers that take no ids.
    pub text: Option<&'a str>,
    /// How many tokens to answer with, whatever they are.
    pub decode: usize,
    /// The server's slot, where it has such.
    pub slot: usize,
}

impl<'a> Ask<'a> {
    /// The prompt as text.
    fn text(&self, shape: &Shape) -> Result<&'a str, String> {
        self.text.ok_or_else(|| {
            let name = shape.name;
            format!("{name} takes text and no token ids; give the prompt as text")
        })
    }
}

/// What one event of an answer says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// A part of the answer.
    pub piece: Option<Piece>,
    /// Whether nothing follows.
    pub over: bool,
}

impl Said {
    /// Nothing that counts.
    const NOTHING: Self = Self {
        piece: None,
        over: false,
    };
    /// That it is over.
    const OVER: Self = Self {
        piece: None,
        over: true,
    };

    fn piece(piece: Option<Piece>) -> Self {
        Self { piece, over: false }
    }
}

/// A part of an answer, one token of it or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its tokens, where the server says them.
    pub ids: Vec<u32>,
    /// How many tokens it has; none where the server does not say.
    pub tokens: Option<usize>,
    /// Which channel it came in.
    pub channel: Channel,
}

impl Piece {
    /// Tokens that are known; none of them is no piece.
    fn of_ids(ids: Vec<u32>) -> Option<Self> {
        (!ids.is_empty()).then_some(Self {
            tokens: Some(ids.len()),
            ids,
            channel: Channel::Content,
        })
    }

    /// Text of who knows how many tokens; an empty one is no piece.
    fn of_text(content: Option<&str>, reasoning: Option<&str>) -> Option<Self> {
        let some = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
        let channel = match (some(content), some(reasoning)) {
            (true, _) => Channel::Content,
            (false, true) => Channel::Reasoning,
            (false, false) => return None,
        };
        Some(Self {
            ids: Vec::new(),
            tokens: None,
            channel,
        })
    }
}

/// Whom a piece is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Whoever asked.
    Content,
    /// The model itself, before it answers.
    Reasoning,
}

/// What a server says of a request. What it does not say, or says as null, is none, which is not 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Why it ended: `length` where it has as many tokens as were asked for.
    pub reason: String,
    /// As received.
    pub usage: String,
    /// Tokens of the prompt, those found in a cache and those written to it among them.
    pub prompt: Option<usize>,
    /// Prompt positions it found in its cache.
    pub cached: Option<usize>,
    /// Prompt positions it wrote to its cache, where it counts these.
    pub written: Option<usize>,
    /// Prompt positions it computed.
    pub computed: Option<usize>,
    /// Tokens it counts in its answer.
    pub answered: Option<usize>,
    /// How many of those it spent on reasoning.
    pub reasoning: Option<usize>,
    /// The prompt's ids as it has them.
    pub accepted: Option<Vec<u32>>,
    /// Ids it was not free to answer with.
    pub barred: Vec<u32>,
}

/// The bytes to send and how the evidence has them.
pub(crate) fn sent(shape: &Shape, body: String, ids: &[u32]) -> Result<(Sent, String), String> {
    let bytes = match shape.prompt {
        Prompt::Ids(field) => filled(&body, field, ids)?,
        Prompt::Text | Prompt::Message => body.clone(),
    };
    let sent = Sent {
        path: shape.path.to_owned(),
        body,
        body_sha256: sha256_hex(bytes.as_bytes()),
    };
    Ok((sent, bytes))
}

/// A body with the prompt's ids where it has none.
fn filled(body: &str, field: &str, ids: &[u32]) -> Result<String, String> {
    let place = format!("\"{field}\":[]");
    let mut places = body.match_indices(&place);
    let (Some((at, _)), None) = (places.next(), places.next()) else {
        return Err(format!("a body must have {place} once"));
    };
    let (before, after) = body.split_at(at + place.len() - 1);
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    Ok(format!("{before}{}{after}", ids.join(",")))
}

/// The version in an answer from where [`Shape::version`] says.
pub(crate) fn version(answer: &str) -> Result<String, String> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: String,
    }
    let version: Version = parsed(answer)?;
    Ok(quoted(&version.version))
}

/// Reads an event that is JSON.
fn parsed<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        let (event, why) = (quoted(text), quoted(&error.to_string()));
        format!("an event is no part of an answer ({why}): {event}")
    })
}

/// A text, shortened; of a field that servers fill as they like.
pub(crate) fn quoted(text: &str) -> String {
    let text: String = text.trim().chars().take(QUOTE_CHARS).collect();
    if text.is_empty() {
        "nothing".to_owned()
    } else {
        text
    }
}
