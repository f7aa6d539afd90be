//! One completion, from the request's first byte to the answer's last; and short questions.
//!
//! Not here: connections (`http`), what events mean (`protocol`), what they add up to (`answer`), whose turn it is (`play`).

use std::future::Future;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use workloads::trace::server::Sent;

use super::answer::{Answer, Completed};
use super::endpoint::Endpoint;
use super::http::{Response, Wire, send};
use super::protocol::{self, Ask, Protocol, Shape, quoted};
use super::sse::Events;
use crate::Error;

/// Bytes of a refusal that are read, of which some are quoted.
const REFUSAL_BYTES: usize = 4096;

/// A request ready to be sent.
pub struct Prepared {
    /// As the evidence has it.
    pub sent: Sent,
    pub(super) bytes: Bytes,
    pub(super) ids: Vec<u32>,
    pub(super) decode: usize,
}

impl Prepared {
    /// Writes down what to send.
    pub fn new(protocol: &dyn Protocol, ask: &Ask<'_>) -> Result<Self, Error> {
        let body = protocol.completion(ask);
        let sent = body.and_then(|body| protocol::sent(protocol.shape(), body, ask.ids));
        let (sent, bytes) = sent.map_err(Error::External)?;
        Ok(Self {
            sent,
            bytes: Bytes::from(bytes),
            ids: ask.ids.to_vec(),
            decode: ask.decode,
        })
    }
}

/// Sends a request and reads its answer, for at most so long. What it returns is what was asked for.
pub async fn complete(
    endpoint: &Endpoint,
    protocol: &dyn Protocol,
    prepared: &Prepared,
    limit_s: u64,
    clock: &dyn Fn() -> u64,
) -> Result<Completed, Error> {
    let shape = protocol.shape();
    let wire = Wire {
        method: Method::POST,
        path: shape.path,
        headers: shape.headers,
        body: prepared.bytes.clone(),
    };
    within(limit_s, async {
        let mut response = send(endpoint, wire, clock).await?;
        let status = response.status;
        if !status.is_success() {
            return Err(refusal(endpoint, shape.path, &mut response).await);
        }
        let mut answer = Answer::default();
        let mut events = Events::of(shape.framing);
        let decode = prepared.decode;
        loop {
            let piece = response.piece().await.map_err(|error| {
                let progress = answer.progress();
                Error::External(format!("{progress}, {error}"))
            })?;
            let t_ns = clock();
            let whole = match &piece {
                Some(piece) => events.push(piece),
                None => events.end().map(Vec::from_iter),
            };
            for event in whole.map_err(Error::External)? {
                let said = protocol.event(&endpoint.redacted(event), &mut answer.told);
                answer.take(said.map_err(Error::External)?, t_ns, decode)?;
            }
            if piece.is_none() {
                break;
            }
        }
        if !answer.over {
            let (progress, kind) = (answer.progress(), response.kind());
            return Err(Error::External(format!(
                "the answer ({kind}) ended {progress} and did not say that it was over"
            )));
        }
        answer.completed(response.connect_ns, status.as_u16(), prepared, shape)
    })
    .await
}

/// The version of a server as it says it itself; none where its kind does not.
pub async fn version(
    endpoint: &Endpoint,
    shape: &Shape,
    limit_s: u64,
    clock: &dyn Fn() -> u64,
) -> Result<Option<String>, Error> {
    let Some(path) = shape.version else {
        return Ok(None);
    };
    let body = String::new();
    let answer = text(endpoint, Method::GET, path, body, limit_s, clock).await?;
    let version = protocol::version(&answer);
    version
        .map(Some)
        .map_err(|problem| Error::External(format!("{path}: {problem}")))
}

/// A short request whose answer is read whole; none unless it succeeds.
pub(super) async fn text(
    endpoint: &Endpoint,
    method: Method,
    path: &str,
    body: String,
    limit_s: u64,
    clock: &dyn Fn() -> u64,
) -> Result<String, Error> {
    let wire = Wire {
        method,
        path,
        headers: &[],
        body: Bytes::from(body),
    };
    within(limit_s, async {
        let mut response = send(endpoint, wire, clock).await?;
        if response.status.is_success() {
            return Ok(endpoint.redacted(response.text().await?));
        }
        Err(refusal(endpoint, path, &mut response).await)
    })
    .await
}

/// A refusal in its own words, as far as they come, and what may help.
async fn refusal(endpoint: &Endpoint, path: &str, response: &mut Response) -> Error {
    // Before it is shortened: half a key would not be found.
    let words = endpoint.redacted(response.beginning(REFUSAL_BYTES).await);
    let (status, words) = (response.status, quoted(&words));
    let help = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; does it want a key?",
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            "; is it this kind of server, and does it know the model's name?"
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            "; it is still loading, or has too much to do"
        }
        _ => "",
    };
    Error::External(format!("{path}: it answered {status}: {words}{help}"))
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
