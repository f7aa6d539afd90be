//! Where a server listens, and the key it may want: kept out of every text that is written or shown.
//!
//! Clear text, to an address, with no look-up of names and no proxy: whoever asks a service elsewhere puts something in
//! between that speaks TLS, and measures that as well. Not here: connecting (`http`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hyper::header::{HeaderName, HeaderValue};

use super::protocol::Shape;
use crate::Error;

/// What stands where a key was.
const REDACTED: &str = "(key)";
/// Shorter keys would be found by chance in what servers say.
const KEY_CHARS_MIN: usize = 8;

/// A server's address, and a key for it.
#[derive(Clone)]
pub struct Endpoint {
    address: SocketAddr,
    key: Option<Key>,
}

#[derive(Clone)]
struct Key {
    secret: String,
    header: (HeaderName, HeaderValue),
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { address, key: None }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.key.as_ref().map(|_| REDACTED);
        write!(out, "Endpoint({}, {key:?})", self.address)
    }
}

impl Endpoint {
    /// Reads `http://ADDRESS:PORT`. An address that is refused is not repeated, since it may hold a password.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let refused = |why: &str| {
            let wanted = "give it as http://127.0.0.1:PORT";
            Err(Error::External(format!(
                "a server's address {why}; {wanted}"
            )))
        };
        let Some(rest) = url.strip_prefix("http://") else {
            return refused("must begin with http:// (there is no TLS here)");
        };
        if rest.contains('@') {
            return refused("must hold no user and no password: a key is given apart");
        }
        let place = rest.strip_suffix('/').unwrap_or(rest);
        if place.contains(['/', '?', '#']) {
            return refused("must hold no path and no query: the kind of server says these");
        }
        // Looked up, the name would often be tried as ::1 first, where few servers listen.
        let address = match place.strip_prefix("localhost:") {
            Some(port) => port
                .parse()
                .map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
                .ok(),
            None => place.parse().ok(),
        };
        match address {
            Some(address) => Ok(Self::from(address)),
            None => refused("must be a number and a port: names are not looked up"),
        }
    }

    /// The same with a key, in the header where this kind of server looks for it.
    pub fn keyed(self, shape: &Shape, secret: &str) -> Result<Self, Error> {
        let (name, before) = shape.key;
        let value = HeaderValue::from_str(&format!("{before}{secret}")).ok();
        // A quoted server would write other letters in another way, and the key could not be found in it.
        let plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '"' | '\\');
        let value = value.filter(|_| secret.len() >= KEY_CHARS_MIN && secret.chars().all(plain));
        let Some(mut value) = value else {
            return Err(Error::External(format!(
                "the key for {} must be at least {KEY_CHARS_MIN} letters, digits and signs without spaces and quotes",
                shape.name
            )));
        };
        value.set_sensitive(true);
        let header = (HeaderName::from_static(name), value);
        let secret = secret.to_owned();
        Ok(Self {
            key: Some(Key { secret, header }),
            ..self
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The header that carries the key.
    pub(super) fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        self.key.as_ref().map(|key| key.header.clone())
    }

    /// A text without the key: servers repeat it in their refusals. All they say comes through here before it is shortened.
    pub(super) fn redacted(&self, text: String) -> String {
        match &self.key {
            Some(key) if text.contains(&key.secret) => text.replace(&key.secret, REDACTED),
            _ => text,
        }
    }
}
