//! Attestations: a good one over a committed run, every byte of one flipped, and keys that an auditor may not use.
//!
//! Not here: forged statements, each with what names it (`corpus`).
#![allow(clippy::unwrap_used)] // helpers of tests, outside any #[test]

mod fixture;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use audit::{audit_attested, audit_run};
use base64ct::{Base64, Encoding};
use ed25519_dalek::pkcs8::EncodePrivateKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use fixture::attested::{
    PAYLOAD_TYPE, Place, envelope, keyid, public_pem, signature, signer, statement, stranger,
};
use serde_json::{Value, json};

const COMMITTED: &str = "../results/smoke/2026-11-30-x86_64-avx512-2c-3";

/// A copy of a committed run below `root`.
fn copied(root: &Path) -> Place {
    let place = Place::new(root);
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(COMMITTED);
    fs::create_dir_all(place.run.join("trace")).unwrap();
    for path in fixture::paths(&from) {
        fs::copy(from.join(&path), place.run.join(&path)).unwrap();
    }
    place
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Exit code and text of an audit with the key of the place.
fn audited(place: &Place) -> (u8, String) {
    let report = audit_attested(&place.run, &place.key, None).unwrap();
    (report.exit_code(), report.render())
}

#[test]
fn a_signed_committed_run_passes_and_says_what_that_proves_and_what_not() {
    let root = tempfile::tempdir().unwrap();
    let place = copied(root.path());
    place.attest();
    let (code, text) = audited(&place);
    assert_eq!(code, 0, "{text}");
    for words in [
        &*format!("keyid {}", keyid(&signer())),
        "It proves who says so",
        "whether clocks and the machine's facts are true: an attestation says who states them",
        "29 subjects",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    assert!(!audit_run(&place.run).render().contains("attestation"));
}

#[test]
fn a_flipped_byte_of_payload_or_signature_breaks_it() {
    let root = tempfile::tempdir().unwrap();
    let place = Place::with_run(root.path());
    place.attest();
    let honest = read(&place.attestation);
    let flips = |text: &Value, step: usize| -> Vec<String> {
        let bytes = Base64::decode_vec(text.as_str().unwrap()).unwrap();
        let flipped = |at: usize| {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            Base64::encode_string(&bytes)
        };
        (0..bytes.len()).step_by(step).map(flipped).collect()
    };
    let payloads = flips(&honest["payload"], 3);
    let signatures = flips(&honest["signatures"][0]["sig"], 1);
    assert!(payloads.len() > 500 && signatures.len() == 64);
    for payload in payloads {
        let mut forged = honest.clone();
        forged["payload"] = json!(payload);
        place.write(&forged);
        let (code, text) = audited(&place);
        assert_eq!(code, 4, "{text}");
        assert!(text.contains("the signature does not verify"), "{text}");
    }
    for signature in signatures {
        let mut forged = honest.clone();
        forged["signatures"][0]["sig"] = json!(signature);
        place.write(&forged);
        assert_eq!(audited(&place).0, 4);
    }
}

#[test]
fn a_flipped_character_of_the_file_breaks_it_or_changes_nothing_that_is_signed() {
    let root = tempfile::tempdir().unwrap();
    let place = Place::with_run(root.path());
    place.attest();
    let whole = fs::read(&place.attestation).unwrap();
    let mut broken = 0;
    for at in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&place.attestation, &bytes).unwrap();
        let (code, text) = audited(&place);
        assert_eq!(code, 4, "byte {at}\n{text}");
        broken += 1;
    }
    for length in [0, 1, whole.len() / 2, whole.len() - 1] {
        fs::write(&place.attestation, &whole[..length]).unwrap();
        assert_eq!(audited(&place).0, 4, "{length} bytes");
    }
    assert!(broken > 300, "{broken}");
}

#[test]
fn other_signatures_and_carried_keys_are_ignored_and_mentioned() {
    let root = tempfile::tempdir().unwrap();
    let place = Place::with_run(root.path());
    let statement = statement(&place.run).to_string();
    let mut signed = envelope(&statement, PAYLOAD_TYPE, &signer());
    let signatures = signed["signatures"].as_array_mut().unwrap();
    signatures.insert(0, signature(&statement, PAYLOAD_TYPE, &stranger()));
    signatures[0]["cert"] = json!("a certificate");
    signed["publicKey"] = json!(public_pem(&stranger()));
    place.write(&signed);
    let (code, text) = audited(&place);
    assert_eq!(code, 0, "{text}");
    for words in [
        &*format!(
            "signatures by other keys, which were not given: [\"{}\"]",
            keyid(&stranger())
        ),
        "which nobody signed: \"publicKey\", \"signatures.cert\"",
        "only the one that was given counts",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    // A key that is carried does not help whoever signed with it.
    signed["signatures"].as_array_mut().unwrap().pop();
    place.write(&signed);
    let (code, text) = audited(&place);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("no signature is by the key that was given"));
}

#[test]
fn a_run_that_was_moved_passes_and_both_names_are_told() {
    let root = tempfile::tempdir().unwrap();
    let place = Place::with_run(root.path());
    place.attest();
    let moved = root.path().join("elsewhere");
    fs::rename(&place.run, &moved).unwrap();
    let report = audit_attested(&moved, &place.key, Some(&place.attestation)).unwrap();
    assert_eq!(report.exit_code(), 0, "{}", report.render());
    let words = "the attestation says \"run\", here it is \"elsewhere\"";
    assert!(report.render().contains(words), "{}", report.render());
}

#[test]
fn of_a_run_that_is_broken_nothing_is_attested() {
    let root = tempfile::tempdir().unwrap();
    let place = Place::with_run(root.path());
    place.attest();
    fs::write(place.run.join("notes.txt"), "").unwrap();
    let (code, text) = audited(&place);
    assert_eq!(code, 4);
    assert!(
        text.contains("does not hold by the key that was given"),
        "{text}"
    );
    assert!(text.contains("the run's seal does not hold"), "{text}");
}

/// Where a key is, and why it is refused.
type Refused = (&'static str, &'static str, fn(&Place, &Path) -> PathBuf);

fn put(path: PathBuf, text: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

const REFUSED: [Refused; 15] = [
    ("within the run", "lies in the run directory", |place, _| {
        put(place.run.join("key.pem"), &public_pem(&signer()))
    }),
    (
        "deep within the run",
        "lies in the run directory",
        |place, _| put(place.run.join("trace/key.pem"), &public_pem(&signer())),
    ),
    (
        "beside the attestation",
        "lies beside the attestation",
        |place, _| put(place.run.with_file_name("key.pem"), &public_pem(&signer())),
    ),
    (
        "the attestation itself",
        "lies beside the attestation",
        |place, _| place.attestation.clone(),
    ),
    (
        "below the results' root",
        "is published with",
        |place, root| {
            put(root.join("results/INDEX"), "");
            put(place.run.join("../../docs/key.pem"), &public_pem(&signer()))
        },
    ),
    #[cfg(unix)]
    (
        "a link into the run",
        "lies in the run directory",
        |place, root| {
            put(place.run.join("key.pem"), &public_pem(&signer()));
            std::os::unix::fs::symlink(place.run.join("key.pem"), root.join("keys/link.pem"))
                .unwrap();
            root.join("keys/link.pem")
        },
    ),
    #[cfg(unix)]
    (
        "a link out of the run",
        "lies in the run directory",
        |place, _| {
            std::os::unix::fs::symlink(&place.key, place.run.join("key.pem")).unwrap();
            place.run.join("key.pem")
        },
    ),
    (
        "a private key",
        "is a private key, which only whoever signs may have",
        |_, root| {
            let pem = signer().to_pkcs8_pem(LineEnding::LF).unwrap();
            put(root.join("keys/private.pem"), &pem)
        },
    ),
    ("both keys in one file", "is a private key", |_, root| {
        let pem = signer().to_pkcs8_pem(LineEnding::LF).unwrap();
        put(root.join("keys/both.pem"), &(public_pem(&signer()) + &pem))
    }),
    ("two public keys", "give one PUBLIC KEY", |_, root| {
        let two = public_pem(&signer()) + &public_pem(&stranger());
        put(root.join("keys/two.pem"), &two)
    }),
    (
        "another kind of key",
        "is no ed25519 public key",
        |_, root| {
            // The same bytes, said to be of x25519.
            let pem = public_pem(&signer()).replace("MCowBQYDK2Vw", "MCowBQYDK2Vu");
            put(root.join("keys/other.pem"), &pem)
        },
    ),
    ("no PEM", "is no PEM file: it has no line", |_, root| {
        put(root.join("keys/key.txt"), "00ff\n")
    }),
    ("an empty file", "is empty", |_, root| {
        put(root.join("keys/empty.pem"), "")
    }),
    ("no file", "cannot be read", |_, root| {
        root.join("keys/none.pem")
    }),
    ("a file without end", "larger than the limit", |_, root| {
        put(root.join("keys/large.pem"), &"x".repeat((64 << 10) + 1))
    }),
];

#[test]
fn keys_that_came_with_the_evidence_and_what_is_no_public_key_are_refused_with_the_reason() {
    for (name, why, make) in REFUSED {
        let root = tempfile::tempdir().unwrap();
        let place = Place::with_run(root.path());
        place.attest();
        let key = make(&place, root.path());
        let refused = audit_attested(&place.run, &key, None);
        let refused = refused.map(|it| it.render()).unwrap_err().to_string();
        assert!(refused.contains(why), "{name}: {refused}");
    }
}

#[test]
fn a_weak_key_that_signs_everything_is_refused() {
    // The neutral element: 1, little-endian.
    let der = [&hex("302a300506032b6570032100")[..], &[1], &[0; 31]].concat();
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        Base64::encode_string(&der)
    );
    let root = tempfile::tempdir().unwrap();
    let place = Place::with_run(root.path());
    let key = put(root.path().join("keys/weak.pem"), &pem);
    let refused = audit_attested(&place.run, &key, None);
    let refused = refused.map(|it| it.render()).unwrap_err().to_string();
    assert!(refused.contains("is no ed25519 public key"), "{refused}");
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

fn program(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_audit"))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn the_program_takes_a_key_and_an_attestation_and_says_how() {
    let root = tempfile::tempdir().unwrap();
    let place = Place::with_run(root.path());
    place.attest();
    let (run, key) = (place.run.to_str().unwrap(), place.key.to_str().unwrap());
    let file = place.attestation.to_str().unwrap();
    let (code, text, _) = program(&[run, "--key", key]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("attestation  ") && text.contains("who says so"),
        "{text}"
    );
    let (code, text, _) = program(&[run, "--json", "--attestation", file, "--key", key]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, &report["attestation"]["holds"]),
        (Some(0), &json!(true))
    );
    fs::remove_file(file).unwrap();
    let (code, text, _) = program(&[run, "--key", key]);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("harness attest DIR --key KEY.pem"), "{text}");
    for (arguments, words) in [
        (&[run, "--key"][..], "--key needs a value: --key PUBLIC.pem"),
        (&[run, "--key", key, "--key", key], "--key was given twice"),
        (
            &[run, "--attestation", file],
            "needs the key to hold it against",
        ),
        (&["--all", run, "--key", key], "--key is for one run"),
        (&[run, "--key", file], "lies beside the attestation"),
    ] {
        let (code, _, error) = program(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
}
