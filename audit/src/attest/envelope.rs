//! The envelope around a statement: DSSE, the type and bytes that were signed and by whom.
//!
//! Not here: what the payload says (`statement`), or whose key counts (`key`).

use std::collections::BTreeMap;
use std::path::Path;

use base64ct::{Base64, Encoding};
use serde::Deserialize;
use serde_json::Value;

use super::unique::Unique;
use crate::format;
use crate::notebook::{Layer, Notebook, quote};

const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// An envelope as it was read.
pub(crate) struct Envelope {
    payload_type: String,
    /// The statement's bytes.
    pub(crate) payload: Vec<u8>,
    pub(crate) signatures: Vec<Signature>,
    /// Fields that are not the format's, which no signature covers.
    pub(crate) ignored: Vec<String>,
}

/// One signature, by whom it says.
pub(crate) struct Signature {
    pub(crate) keyid: Option<String>,
    /// Empty where it is no base64.
    pub(crate) signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Written {
    #[serde(rename = "payloadType")]
    payload_type: String,
    payload: String,
    signatures: Vec<WrittenSignature>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct WrittenSignature {
    keyid: Option<String>,
    sig: String,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Reads the envelope at `path`, or notes why it cannot be read.
pub(crate) fn read(path: &Path, name: &str, notes: &mut Notebook) -> Option<Envelope> {
    if !path.exists() {
        let message = "there is no attestation: whoever made the run types `harness attest DIR --key KEY.pem`; give \
                       --attestation FILE for one that lies elsewhere";
        notes.broken(Layer::Attestation, message);
        return None;
    }
    let folder = path.parent().unwrap_or(path);
    let text = format::text(folder, name, notes)?;
    let written = serde_json::from_str(&text)
        .and_then(|Unique(value)| serde_json::from_value::<Written>(value));
    let written = match written {
        Ok(written) => written,
        Err(error) => {
            let line = error.line() as u64;
            notes.turn_to((line > 0).then_some(line));
            notes.broken(Layer::Attestation, format!("is no DSSE envelope: {error}"));
            notes.turn_to(None);
            return None;
        }
    };
    notes.same(
        Layer::Attestation,
        "payloadType",
        &*written.payload_type,
        PAYLOAD_TYPE,
    );
    let Ok(payload) = Base64::decode_vec(&written.payload) else {
        let start = written.payload.get(..16).unwrap_or(&written.payload);
        let message = format!("payload is no base64: it begins {}", quote(start));
        notes.broken(Layer::Attestation, message);
        return None;
    };
    let of_signatures = written
        .signatures
        .iter()
        .flat_map(|it| it.others.keys().map(|key| format!("signatures.{key}")));
    let ignored = written.others.keys().cloned().chain(of_signatures);
    let ignored = ignored.map(|name| quote(&name)).collect();
    let signatures = written.signatures.into_iter().map(|it| Signature {
        keyid: it.keyid,
        signature: Base64::decode_vec(&it.sig).unwrap_or_default(),
    });
    Some(Envelope {
        payload_type: written.payload_type,
        payload,
        signatures: signatures.collect(),
        ignored,
    })
}

impl Envelope {
    /// What a signature is over: type and payload with their lengths, so that neither can be read as part of the other.
    pub(crate) fn signed_bytes(&self) -> Vec<u8> {
        let (kind, payload) = (&self.payload_type, &self.payload);
        let head = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len());
        [head.as_bytes(), payload].concat()
    }
}
