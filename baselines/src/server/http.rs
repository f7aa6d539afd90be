//! One request over HTTP/1.1, its answer as it arrives: when the connection stood, and each piece with its time.
//!
//! Clear text, to an address and never through a proxy. Not here: what is said (`protocol`), or for how long anyone
//! waits (`play`).

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::header::HeaderValue;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::endpoint::Endpoint;
use crate::Error;

/// Most bytes of an answer that is read whole.
const WHOLE_BYTES_MAX: usize = 16 << 20;

/// A request.
pub(super) struct Wire<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(&'static str, &'static str)],
    pub(super) body: Bytes,
}

/// An answer that has begun.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) connect_ns: u64,
    kind: Option<HeaderValue>,
    body: Incoming,
}

/// Sends a request over a connection of its own and waits for the head of its answer. Servers close connections they
/// promised to keep (llama.cpp's did after every stream), and a request lost that way would look like a failure of theirs.
pub(super) async fn send(
    endpoint: &Endpoint,
    wire: Wire<'_>,
    clock: &dyn Fn() -> u64,
) -> Result<Response, Error> {
    let (address, path) = (endpoint.address(), wire.path);
    let mut request = Request::builder()
        .method(wire.method)
        .uri(path)
        .header(header::HOST, address.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .header(
            header::USER_AGENT,
            concat!("fak/", env!("CARGO_PKG_VERSION")),
        );
    for (name, value) in wire.headers {
        request = request.header(*name, *value);
    }
    if let Some((name, value)) = endpoint.header() {
        request = request.header(name, value);
    }
    let request = request
        .body(Full::new(wire.body))
        .map_err(|error| Error::External(format!("{path} is no path: {error}")))?;
    let start_ns = clock();
    let stream = TcpStream::connect(address).await;
    let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
    let stream = stream.map_err(|error| {
        Error::External(format!(
            "cannot connect to {address}: {error}; does the server run there?"
        ))
    })?;
    let connect_ns = clock().saturating_sub(start_ns);
    let failed = |error: hyper::Error| {
        let said = chain(&error);
        Error::External(format!("{path}: no answer: {said}"))
    };
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(failed)?;
    tokio::spawn(connection); // what goes wrong with it is told to whoever waits for the answer
    let response = sender.send_request(request).await.map_err(failed)?;
    Ok(Response {
        status: response.status(),
        connect_ns,
        kind: response.headers().get(header::CONTENT_TYPE).cloned(),
        body: response.into_body(),
    })
}

impl Response {
    /// The next piece of the body; none at its end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => {
                    let said = chain(&error);
                    return Err(Error::External(format!("the answer broke off: {said}")));
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// What the server calls the kind of its answer.
    pub(super) fn kind(&self) -> &str {
        let kind = self.kind.as_ref().and_then(|kind| kind.to_str().ok());
        kind.unwrap_or("of no content type")
    }

    /// The first bytes of the body as text, as far as they come.
    pub(super) async fn beginning(&mut self, most_bytes: usize) -> String {
        let mut bytes = Vec::new();
        while bytes.len() < most_bytes
            && let Ok(Some(piece)) = self.piece().await
        {
            bytes.extend_from_slice(&piece);
        }
        bytes.truncate(most_bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The whole body as text.
    pub(super) async fn text(&mut self) -> Result<String, Error> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece().await? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > WHOLE_BYTES_MAX {
                let most = WHOLE_BYTES_MAX;
                return Err(Error::External(format!("an answer has over {most} bytes")));
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// An error with its causes, of which HTTP errors alone say little.
fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said.push_str(": ");
        said.push_str(&error.to_string());
        cause = error.source();
    }
    said
}
