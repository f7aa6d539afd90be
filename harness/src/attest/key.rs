//! The private key of whoever signs: ed25519 as PKCS#8 in PEM, and clear words for everything else.
//!
//! Not here: making keys. `openssl genpkey -algorithm ed25519 -out KEY.pem` does.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use ed25519_dalek::pkcs8::DecodePrivateKey;
use ed25519_dalek::{Signer, SigningKey};
use workloads::trace::sha256_hex;

use crate::error::Error;
use crate::world::World;

/// Bytes of a key file; real ones have a hundred.
const MAX_KEY_BYTES: u64 = 64 << 10;
const MAKE: &str = "`openssl genpkey -algorithm ed25519 -out KEY.pem` makes one";

/// Reads the key; everything wrong with it is a usage error.
pub(super) fn read(path: &Path, world: &World) -> Result<SigningKey, Error> {
    let shown = world.shown(path);
    let refuse = |why: String| Err(Error::Usage(format!("{shown} {why}")));
    let mut pem = String::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_KEY_BYTES + 1).read_to_string(&mut pem));
    match read {
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            return refuse(format!("is no PEM file: it is no text; {MAKE}"));
        }
        Err(error) => return refuse(format!("cannot be read: {error}; {MAKE}")),
        Ok(0) => return refuse(format!("is empty; {MAKE}")),
        Ok(length) if length as u64 > MAX_KEY_BYTES => {
            return refuse(format!(
                "is larger than the limit of {MAX_KEY_BYTES} bytes; {MAKE}"
            ));
        }
        Ok(_) => {}
    }
    let begins = |line: &'static str| pem.lines().any(|it| it.trim() == line);
    if begins("-----BEGIN ENCRYPTED PRIVATE KEY-----") {
        return refuse(format!(
            "is encrypted, and nothing asks for its password here; type `openssl pkey -in {shown} -out PLAIN.pem` and \
             give that"
        ));
    }
    if begins("-----BEGIN PUBLIC KEY-----") {
        return refuse(
            "is a public key, and only the private one can sign; the public one is for `audit DIR --key`"
                .to_owned(),
        );
    }
    if !begins("-----BEGIN PRIVATE KEY-----") {
        let found = pem.lines().find(|line| line.starts_with("-----BEGIN "));
        let found = found.map_or_else(String::new, |line| format!(": it has `{line}`"));
        return refuse(format!("is no private key in PKCS#8{found}; {MAKE}"));
    }
    SigningKey::from_pkcs8_pem(&pem).or_else(|error| {
        refuse(format!(
            "is no ed25519 private key: {error}; others cannot sign here; {MAKE}"
        ))
    })
}

/// SHA-256 of the raw public key, by which a signature names it.
pub(super) fn id(key: &SigningKey) -> String {
    sha256_hex(key.verifying_key().as_bytes())
}

/// The signature's 64 bytes.
pub(super) fn sign(key: &SigningKey, bytes: &[u8]) -> [u8; 64] {
    key.sign(bytes).to_bytes()
}
