//! One request over HTTP/1.1, its answer as it arrives: when the connection stood, and each piece with its time.
//!
//! Clear text, to an address and never through a proxy. Not here: what is said (`protocol`), or for how long anyone
//! waits (`play`).

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::Error;

/// Most bytes of an answer that is read whole.
const WHOLE_BYTES_MAX: usize = 16 << 20;

/// An answer that has begun.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) connect_ns: u64,
    body: Incoming,
}

/// Sends a request over a connection of its own and waits for the head of its answer. Servers close connections they
/// promised to keep (llama.cpp's does after every stream), and a request lost that way would look like a failure of theirs.
pub(crate) async fn send(
    address: SocketAddr,
    method: Method,
    path: &str,
    body: Bytes,
    clock: &dyn Fn() -> u64,
) -> Result<Response, Error> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, address.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .header(
            header::USER_AGENT,
            concat!("fak/", env!("CARGO_PKG_VERSION")),
        )
        .body(Full::new(body))
        .map_err(|error| Error::External(format!("{path} is no path: {error}")))?;
    let start_ns = clock();
    let stream = TcpStream::connect(address).await;
    let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
    let stream =
        stream.map_err(|error| Error::External(format!("cannot connect to {address}: {error}")))?;
    let connect_ns = clock().saturating_sub(start_ns);
    let failed = |error: hyper::Error| Error::External(format!("{path}: {}", chain(&error)));
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(failed)?;
    tokio::spawn(connection); // what goes wrong with it is told to whoever waits for the answer
    let response = sender.send_request(request).await.map_err(failed)?;
    Ok(Response {
        status: response.status(),
        connect_ns,
        body: response.into_body(),
    })
}

impl Response {
    /// The next piece of the body; none at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
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

    /// The whole body as text.
    pub(crate) async fn text(&mut self) -> Result<String, Error> {
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
