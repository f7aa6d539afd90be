//! One completion, from the request's first byte to the answer's last: ids and the time of each piece.
//!
//! Not here: connections (`http`), what events mean (`protocol`), whose turn it is (`play`).

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use workloads::trace::server::Sent;

use super::http::send;
use super::protocol::{self, Ask, Said, Told, llama};
use super::sse::Events;
use crate::Error;

/// How much of a refusal is quoted.
const QUOTE_CHARS: usize = 300;

/// An answer that came to its end, not yet held against what was asked.
pub(super) struct Completed {
    pub(super) connect_ns: u64,
    pub(super) status: u16,
    pub(super) ids: Vec<u32>,
    /// By the clock.
    pub(super) chunk_t_ns: Vec<u64>,
    pub(super) chunk_tokens: Vec<usize>,
    pub(super) told: Told,
}

/// A request ready to be sent.
pub(super) struct Prepared {
    pub(super) sent: Sent,
    pub(super) bytes: Bytes,
    decode: usize,
}

impl Prepared {
    pub(super) fn new(ask: &Ask<'_>) -> Result<Self, Error> {
        let body = llama::completion(ask);
        let (sent, bytes) =
            protocol::sent(llama::COMPLETION, body, ask.ids).map_err(Error::External)?;
        Ok(Self {
            sent,
            bytes: Bytes::from(bytes),
            decode: ask.decode,
        })
    }
}

/// Sends a request and reads its answer, for at most so long.
pub(super) async fn complete(
    address: SocketAddr,
    prepared: &Prepared,
    limit_s: u64,
    clock: &dyn Fn() -> u64,
) -> Result<Completed, Error> {
    within(limit_s, async {
        let (path, bytes) = (&prepared.sent.path, prepared.bytes.clone());
        let mut response = send(address, Method::POST, path, bytes, clock).await?;
        let status = response.status;
        if !status.is_success() {
            let said = quoted(&response.text().await?);
            return Err(Error::External(format!("it answered {status}: {said}")));
        }
        let mut events = Events::default();
        let mut completed = Completed {
            connect_ns: response.connect_ns,
            status: status.as_u16(),
            ids: Vec::new(),
            chunk_t_ns: Vec::new(),
            chunk_tokens: Vec::new(),
            told: Told::default(),
        };
        let mut over = false;
        while let Some(piece) = response.piece().await? {
            let t_ns = clock();
            for event in events.push(&piece).map_err(Error::External)? {
                over |= completed.take(&event, t_ns)?;
            }
        }
        if let Some(event) = events.end().map_err(Error::External)? {
            over |= completed.take(&event, clock())?;
        }
        if !over {
            let count = completed.ids.len();
            return Err(Error::External(format!(
                "the answer ended after {count} ids without saying that it was over"
            )));
        }
        completed.check(prepared.decode)?;
        Ok(completed)
    })
    .await
}

impl Completed {
    /// Takes an event; whether it was the last.
    fn take(&mut self, event: &str, t_ns: u64) -> Result<bool, Error> {
        match llama::event(event).map_err(Error::External)? {
            Said::Nothing => {}
            Said::Ids(ids) => {
                self.chunk_t_ns.push(t_ns);
                self.chunk_tokens.push(ids.len());
                self.ids.extend(ids);
            }
            Said::Over(told) => {
                self.told = told;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses another number of ids than was asked for, or than the server says it gave. Asked for none, servers count one.
    fn check(&self, decode: usize) -> Result<(), Error> {
        let (found, told) = (self.ids.len(), &self.told);
        if decode == 0 {
            return Ok(());
        }
        if found != decode || told.reason != "length" {
            let reason = &told.reason;
            return Err(Error::External(format!(
                "it answered with {found} ids of {decode} and ended with {reason:?}: is ignore_eos ignored?"
            )));
        }
        match told.answered {
            Some(answered) if answered != found => Err(Error::External(format!(
                "it says it answered with {answered} ids, and {found} came"
            ))),
            _ => Ok(()),
        }
    }
}

/// A short request whose answer is read whole; none unless it succeeds.
pub(super) async fn text(
    address: SocketAddr,
    method: Method,
    path: &str,
    body: String,
    limit_s: u64,
    clock: &dyn Fn() -> u64,
) -> Result<String, Error> {
    within(limit_s, async {
        let mut response = send(address, method, path, Bytes::from(body), clock).await?;
        let text = response.text().await?;
        if response.status.is_success() {
            return Ok(text);
        }
        let (status, said) = (response.status, quoted(&text));
        Err(Error::External(format!(
            "{path}: it answered {status}: {said}"
        )))
    })
    .await
}

async fn within<T>(limit_s: u64, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let limit = Duration::from_secs(limit_s);
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => Err(Error::External(format!(
            "no whole answer within {limit_s} s (run.request_limit_s)"
        ))),
    }
}

fn quoted(text: &str) -> String {
    let text: String = text.trim().chars().take(QUOTE_CHARS).collect();
    if text.is_empty() {
        "nothing".to_owned()
    } else {
        text
    }
}
