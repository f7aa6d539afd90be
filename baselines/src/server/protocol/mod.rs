//! What is said to a server and what its answers mean: text in, text out, no sockets and no clock.
//!
//! Not here: sending it (`http`), or the order of requests (`play`).

pub(crate) mod llama;

use workloads::trace::server::Sent;
use workloads::trace::sha256_hex;

/// Where a body leaves out the ids of its prompt, so that they stand in the evidence once.
const PROMPT: &str = "\"prompt\":[]";

/// A request for the continuation of ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) ids: &'a [u32],
    /// How many ids to answer with, whatever they are.
    pub(crate) decode: usize,
    /// The server's slot, where it has such.
    pub(crate) slot: usize,
}

/// What one event of an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// More ids.
    Ids(Vec<u32>),
    /// It is over.
    Over(Told),
    /// Nothing that counts.
    Nothing,
}

/// What a server says of a request it has answered. What it does not say is none, which is not 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Why it ended: `length` where it has as many ids as were asked for.
    pub(crate) reason: String,
    /// As received.
    pub(crate) usage: String,
    /// Prompt positions it found in its cache.
    pub(crate) cached: Option<usize>,
    /// Prompt positions it computed.
    pub(crate) computed: Option<usize>,
    /// Ids it counts in its answer.
    pub(crate) answered: Option<usize>,
    /// Ids it was not free to answer with.
    pub(crate) barred: Vec<u32>,
}

/// The bytes to send and how the evidence has them. `body` has its prompt empty.
pub(crate) fn sent(path: &str, body: String, ids: &[u32]) -> Result<(Sent, String), String> {
    let mut places = body.match_indices(PROMPT);
    let (Some((place, _)), None) = (places.next(), places.next()) else {
        return Err(format!("a body must have {PROMPT} once"));
    };
    let (before, after) = body.split_at(place + PROMPT.len() - 1);
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    let bytes = format!("{before}{}{after}", ids.join(","));
    let body_sha256 = sha256_hex(bytes.as_bytes());
    let path = path.to_owned();
    Ok((
        Sent {
            path,
            body,
            body_sha256,
        },
        bytes,
    ))
}
